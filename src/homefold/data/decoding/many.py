"""Decoding many images at once, in threads or processes, in an order that does not depend on their number."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from homefold.data.archives import ArchiveImage, FileImage
from homefold.data.decoding.image import MAX_MEGAPIXELS, BadImageError, Resize
from homefold.data.decoding.pool import borrowed_decoders
from homefold.data.index import Decodable, LoadRequest
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.text import some

__all__ = ["check_bad", "compact", "decode_all", "decode_into", "load_images", "map_images", "one_ahead"]

_NAMED_AT_MOST = 10
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_images(
    function: Callable[[_Item], _Result], items: Sequence[_Item], description: str, request: LoadRequest
) -> Iterator[_Result | BadImageError]:
    """`function` of every item in order, computed in threads; a `BadImageError` raised stands in its place.

    The request says how many threads, and who is told the progress, with the description.
    """

    def attempt(item: _Item) -> _Result | BadImageError:
        try:
            return function(item)
        except BadImageError as error:
            # Its traceback would keep the arrays alive that the function works on.
            return error.with_traceback(None)

    executor = ThreadPoolExecutor(max_workers=request.workers or os.cpu_count() or 1)
    try:
        with request.progress.task(description, total=len(items)) as task:
            for result in executor.map(attempt, items):
                yield result
                task.advance()
    finally:
        # After Ctrl-C nobody waits for the images that are still queued.
        executor.shutdown(cancel_futures=True)


def one_ahead(
    function: Callable[[_Item], _Result], items: Iterable[_Item], *, enabled: bool = True
) -> Iterator[_Result]:
    """`function` of every item in order, the next one computed while the caller uses the last.

    What it raises is raised when its turn comes. Not `enabled`, each is computed when it is asked for: where caller
    and function would only share the same cores.
    """
    if not enabled:
        yield from map(function, items)
        return
    executor = ThreadPoolExecutor(max_workers=1)
    try:
        pending: deque[Future[_Result]] = deque()
        for item in items:
            pending.append(executor.submit(function, item))
            if len(pending) > 1:
                yield pending.popleft().result()
        for last in pending:
            yield last.result()
    finally:
        executor.shutdown(cancel_futures=True)


def decode_into(
    images: np.ndarray, sources: Sequence[Decodable], rows: Sequence[int], request: LoadRequest
) -> dict[int, BadImageError]:
    """Decode each source into its row of `images`; returns what is wrong with those that could not be, by row.

    Without a number of workers decoder processes do it where they pay (`borrowed_decoders`). The pixels are the same.
    """
    left: Sequence[int] = range(len(rows))
    # Another process finds by its name what is a file or a member of an archive, and nothing else.
    if request.workers is None and all(type(source) in (FileImage, ArchiveImage) for source in sources):
        with borrowed_decoders(len(sources)) as decoders:
            if decoders is not None:
                with request.progress.task("decoding images", total=len(rows)) as task:
                    left = decoders.decode_into(images, sources, rows, request, task)
                if not left:
                    return {}
    height, width = images.shape[1:3]

    def decode(i: int) -> None:
        images[rows[i]] = sources[i].pixels(
            size=(height, width), resize=request.resize, max_megapixels=request.max_megapixels
        )

    results = map_images(decode, left, "decoding images", request)
    return {rows[i]: result for i, result in zip(left, results, strict=True) if isinstance(result, BadImageError)}


def decode_all(
    sources: Sequence[Decodable], size: tuple[int, int], request: LoadRequest
) -> tuple[np.ndarray, np.ndarray, list[tuple[str, str]]]:
    """Decode into memory: the images, their positions in `sources`, and `(path, reason)` of those left out."""
    n = len(sources)
    try:
        images = np.empty((n, *size, 3), dtype=np.uint8)
    except MemoryError:
        gigabytes = n * size[0] * size[1] * 3 / 1e9
        raise DataError(
            f"{n} images of {size[0]} × {size[1]} px need {gigabytes:.0f} GB of memory, more than there is; "
            "choose a smaller size."
        ) from None
    bad = decode_into(images, sources, range(n), request)
    check_bad(list(bad.values()), n, request.skip_bad)
    kept = compact(images, bad)
    return images[: len(kept)], kept, [(error.name, error.reason) for error in bad.values()]


def load_images(
    paths: Sequence[str | Path],
    *,
    size: tuple[int, int] = (224, 224),
    resize: Resize = "squash",
    skip_bad: bool = False,
    workers: int | None = None,
    reporter: ProgressReporter | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
) -> tuple[np.ndarray, list[Path], list[tuple[str, str]]]:
    """Decode images that need no labels.

    Args:
        paths: image files, as from `find_images`.
        size, resize, skip_bad, workers, reporter, max_megapixels: as in `LoadRequest`.

    Returns:
        The images, `(n, height, width, 3)` uint8; the path of each; `(path, reason)` of those left out.
    """
    files = [Path(path) for path in paths]
    request = LoadRequest(
        resize=resize, skip_bad=skip_bad, workers=workers, reporter=reporter, max_megapixels=max_megapixels
    )
    images, kept, skipped = decode_all([FileImage(file) for file in files], size, request)
    return images, [files[i] for i in kept], skipped


def check_bad(bad: Sequence[BadImageError], total: int, skip_bad: bool) -> None:
    """Stop at bad images that may not be skipped, and where nothing else is left."""
    told = [f"{error.name} {error.reason}" for error in bad]
    if bad and not skip_bad:
        if len(bad) == 1:
            raise bad[0]
        listed = some(told, _NAMED_AT_MOST, "\n  ")
        advice = "Replace them, or leave them out with skip_bad."
        raise DataError(f"{len(bad)} of {total} images cannot be used:\n  {listed}\n{advice}")
    if bad and len(bad) == total:
        raise DataError(f"No image could be decoded: {some(told, _NAMED_AT_MOST)}.")


def compact(images: np.ndarray, bad: dict[int, BadImageError]) -> np.ndarray:
    """Move the good rows together at the front, in place (a second array may not fit); returns their old positions."""
    kept = np.setdiff1d(np.arange(len(images)), list(bad))
    for position, old in enumerate(kept):
        if position != old:
            images[position] = images[old]
    return kept
