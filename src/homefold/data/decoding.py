"""Decoding many images at once, in threads or processes, in an order that does not depend on their number."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from homefold.data.decoder_choice import borrowed_decoders, in_files
from homefold.data.images import BadImageError, Resize
from homefold.data.sources import ImageSource
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter, SilentReporter

__all__ = ["check_bad", "compact", "decode_all", "decode_into", "map_images", "one_ahead"]

_NAMED_AT_MOST = 10
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_images(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    *,
    description: str,
    workers: int | None = None,
    reporter: ProgressReporter | None = None,
) -> Iterator[_Result | BadImageError]:
    """`function` of every item in order, computed in threads; a `BadImageError` raised stands in its place.

    Args:
        function: decodes one image, and so leaves Python's lock to the others most of the time.
        items: what `function` takes, such as paths.
        description: what the progress bar says.
        workers: threads; by default as many as there are cores.
        reporter: is told the progress.
    """

    def attempt(item: _Item) -> _Result | BadImageError:
        try:
            return function(item)
        except BadImageError as error:
            # Its traceback would keep the arrays alive that the function works on.
            return error.with_traceback(None)

    executor = ThreadPoolExecutor(max_workers=workers or os.cpu_count() or 1)
    try:
        with (reporter or SilentReporter()).task(description, total=len(items)) as task:
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

    Args:
        function: such as one that decodes a chunk of images; what it raises is raised when its turn comes.
        items: what it takes.
        enabled: False computes each when it is asked for, where caller and function would only share the same cores.
    """
    if not enabled:
        yield from map(function, items)
        return
    executor = ThreadPoolExecutor(max_workers=1)
    try:
        pending: Future[_Result] | None = None
        for item in items:
            following = executor.submit(function, item)
            if pending is not None:
                yield pending.result()
            pending = following
        if pending is not None:
            yield pending.result()
    finally:
        executor.shutdown(cancel_futures=True)


def decode_into(
    images: np.ndarray,
    sources: Sequence[ImageSource],
    rows: Sequence[int],
    *,
    resize: Resize,
    max_megapixels: float,
    workers: int | None,
    reporter: ProgressReporter,
) -> dict[int, BadImageError]:
    """Decode each source into its row of `images`.

    Args:
        images: `(n, height, width, 3)` uint8, written to.
        sources: what to decode.
        rows: the row of each source.
        resize, max_megapixels: as in `decode_image`.
        workers: threads; None for as many as there are cores, or decoder processes where they pay
            (`decoder_choice.borrowed_decoders`). The pixels are the same.
        reporter: is told the progress.

    Returns:
        What is wrong with the images that could not be decoded, by row.
    """
    left: Sequence[int] = range(len(rows))
    if workers is None and in_files(sources):
        with borrowed_decoders(len(sources)) as decoders:
            if decoders is not None:
                with reporter.task("decoding images", total=len(rows)) as task:
                    left = decoders.decode_into(
                        images, sources, rows, resize=resize, max_megapixels=max_megapixels, task=task
                    )
                if not left:
                    return {}
    size = (int(images.shape[1]), int(images.shape[2]))

    def decode(i: int) -> None:
        images[rows[i]] = sources[i].pixels(size=size, resize=resize, max_megapixels=max_megapixels)

    results = map_images(decode, left, description="decoding images", workers=workers, reporter=reporter)
    return {rows[i]: result for i, result in zip(left, results, strict=True) if isinstance(result, BadImageError)}


def decode_all(
    sources: Sequence[ImageSource],
    size: tuple[int, int],
    *,
    resize: Resize,
    skip_bad: bool,
    max_megapixels: float,
    workers: int | None,
    reporter: ProgressReporter,
) -> tuple[np.ndarray, np.ndarray, list[tuple[str, str]]]:
    """Decode into memory: the images, their positions in `sources`, and `(path, reason)` of those left out."""
    images = _allocate(len(sources), size)
    bad = decode_into(
        images,
        sources,
        range(len(sources)),
        resize=resize,
        max_megapixels=max_megapixels,
        workers=workers,
        reporter=reporter,
    )
    check_bad(list(bad.values()), len(sources), skip_bad)
    kept = compact(images, bad)
    return images[: len(kept)], kept, [(error.name, error.reason) for error in bad.values()]


def check_bad(bad: Sequence[BadImageError], total: int, skip_bad: bool) -> None:
    """Stop at bad images that may not be skipped, and where nothing else is left."""
    if bad and not skip_bad:
        raise DataError(_tell_bad(bad, total))
    if bad and len(bad) == total:
        named = ", ".join(_tell(error) for error in bad[:_NAMED_AT_MOST])
        rest = f" and {total - _NAMED_AT_MOST} more" if total > _NAMED_AT_MOST else ""
        raise DataError(f"No image could be decoded: {named}{rest}.")


def compact(images: np.ndarray, bad: dict[int, BadImageError]) -> np.ndarray:
    """Move the good rows together at the front, in place: a second array of all images may not fit.

    Returns:
        `(n,)` the old positions of the good rows.
    """
    kept = np.setdiff1d(np.arange(len(images)), list(bad))
    for position, old in enumerate(kept):
        if position != old:
            images[position] = images[old]
    return kept


def _allocate(n: int, size: tuple[int, int]) -> np.ndarray:
    try:
        return np.empty((n, *size, 3), dtype=np.uint8)
    except MemoryError:
        gigabytes = n * size[0] * size[1] * 3 / 1e9
        raise DataError(
            f"{n} images of {size[0]} × {size[1]} px need {gigabytes:.0f} GB of memory, more than there is; "
            "choose a smaller size."
        ) from None


def _tell(error: BadImageError) -> str:
    return f"{error.name} {error.reason}"


def _tell_bad(bad: Sequence[BadImageError], total: int) -> str:
    if len(bad) == 1:
        return str(bad[0])
    listed = "".join(f"\n  {_tell(error)}" for error in bad[:_NAMED_AT_MOST])
    rest = f"\n  and {len(bad) - _NAMED_AT_MOST} more" if len(bad) > _NAMED_AT_MOST else ""
    advice = "Replace them, or leave them out with --skip-bad."
    return f"{len(bad)} of {total} images cannot be used:{listed}{rest}\n{advice}"
