"""Image folders `root/domain/class/image`: found, checked and decoded; every problem gets a sentence."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from homefold.data.archives import is_archive, is_compressed_tar
from homefold.data.dataset import DomainDataset
from homefold.data.decoding import decode_all, map_images
from homefold.data.domain_tree import DomainTree, FolderIndex, expected_layout, index_tree
from homefold.data.images import IMAGE_EXTENSIONS, MAX_MEGAPIXELS, Resize, is_image_name
from homefold.data.index import ImageIndex
from homefold.data.loading import decode_index
from homefold.data.names import written
from homefold.data.paths import given_path, special_kind, walking
from homefold.data.sources import FileImage
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter, SilentReporter

__all__ = ["FolderIndex", "find_images", "index_folder", "load_folder", "load_images", "map_images", "scan_folder"]

_ARCHIVERS_FOLDERS = ("__MACOSX",)  # holds shadows of the images, made by macOS


def scan_folder(
    root: str | Path, *, domains: Sequence[str] | None = None, allow_one_class: bool = False
) -> FolderIndex:
    """Find the images of `root/domain/class/…/image` and check that they make a dataset.

    Args:
        root: the folder of domains.
        domains: only these, in this order; by default all, sorted. Class names come from these alone.
        allow_one_class: accept a single class, which can be predicted but not learned.
    """
    root = given_path(root)
    _check_root(root)
    return index_tree(root, _read_tree(root), domains, allow_one_class)


def load_folder(
    root: str | Path,
    *,
    size: tuple[int, int] = (224, 224),
    resize: Resize = "squash",
    skip_bad: bool = False,
    domains: Sequence[str] | None = None,
    workers: int | None = None,
    reporter: ProgressReporter | None = None,
    name: str | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
    allow_one_class: bool = False,
) -> DomainDataset:
    """Decode every image of `root/domain/class/…/image`, in an order that does not depend on `workers`.

    Args:
        root: the folder of domains.
        size: `(height, width)` of every image.
        resize: `"squash"` or `"crop"`, as in `decode_image`.
        skip_bad: leave images out that cannot be decoded, and list them in the dataset's `skipped`.
        domains: only these, in this order; by default all, sorted.
        workers: threads that decode; by default as many as there are cores, or decoder processes where they pay
            (HOMEFOLD_DECODERS, docs/speed.md).
        reporter: is told the progress and the warnings.
        name: what the dataset is called in records; by default the folder's name.
        max_megapixels: larger images count as bad.
        allow_one_class: accept a single class, which can be predicted but not learned.
    """
    index = index_folder(root, domains=domains, allow_one_class=allow_one_class, name=name)
    return decode_index(
        index,
        size=size,
        resize=resize,
        skip_bad=skip_bad,
        workers=workers,
        reporter=reporter,
        max_megapixels=max_megapixels,
    )


def index_folder(
    root: str | Path,
    *,
    domains: Sequence[str] | None = None,
    allow_one_class: bool = False,
    name: str | None = None,
) -> ImageIndex:
    """`scan_folder` in the form that is decoded, cached and verified.

    Args:
        root, domains, allow_one_class: as in `scan_folder`.
        name: what the dataset is called in records; by default the folder's name.
    """
    found = scan_folder(root, domains=domains, allow_one_class=allow_one_class)
    return ImageIndex(
        name=name or written(found.root.resolve().name),
        root=found.root,
        sources=[FileImage(path) for path in found.paths],
        labels=found.labels,
        domains=found.domains,
        class_names=found.class_names,
        domain_names=found.domain_names,
        ignored=found.ignored,
        warnings=found.warnings,
    )


def find_images(paths: Sequence[str | Path] | str | Path) -> list[Path]:
    """The image files that the arguments name, sorted, each once.

    Args:
        paths: files (taken whatever they are called), folders (searched to the bottom) and glob patterns.
    """
    arguments = [paths] if isinstance(paths, str | Path) else list(paths)
    if not arguments:
        raise DataError("No image was given: name files, folders or patterns such as 'photos/*.jpg'.")
    found: dict[str, Path] = {}
    fruitless = []
    for argument in arguments:
        matches = _matches(argument)
        if not matches:
            fruitless.append(_why_nothing(argument))
        for path in matches:
            found.setdefault(os.path.abspath(path), path)
    if fruitless:
        raise DataError(" ".join(fruitless))
    return sorted(found.values())


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
        size, resize, skip_bad, workers, reporter, max_megapixels: as in `load_folder`.

    Returns:
        The images, `(n, height, width, 3)` uint8; the path of each; `(path, reason)` of those left out.
    """
    files = [Path(path) for path in paths]
    images, kept, skipped = decode_all(
        [FileImage(file) for file in files],
        size,
        resize=resize,
        skip_bad=skip_bad,
        max_megapixels=max_megapixels,
        workers=workers,
        reporter=reporter or SilentReporter(),
    )
    return images, [files[i] for i in kept], skipped


def _check_root(root: Path) -> None:
    expected = f"Expected a folder of domains: {expected_layout(root)}."
    if os.path.isdir(root):
        return
    if kind := special_kind(root):
        raise DataError(f"{root} is {kind}, not a folder. {expected}")
    if os.path.exists(root):
        advice = "load_dataset reads it packed." if is_archive(root) else "If it is an archive, unpack it first."
        raise DataError(f"{root} is a file, not a folder. {expected} {advice}")
    raise DataError(f"There is no folder {root}. {expected}")


def _read_tree(root: Path) -> DomainTree:
    tree = DomainTree()
    domain_folders, tree.in_root = _list(root, tree)
    for domain in domain_folders:
        class_folders, loose = _list(domain, tree)
        found = {folder.name: _images_below(folder, tree) for folder in class_folders}
        classes = {name: images for name, images in found.items() if images}
        if loose:
            tree.in_domain[domain.name] = loose
        if classes:
            tree.classes[domain.name] = classes
            tree.empty += [domain / name for name, images in found.items() if not images]
        elif not loose:
            tree.empty.append(domain)
    return tree


def _list(folder: Path, tree: DomainTree | None) -> tuple[list[Path], list[Path]]:
    """Sorted subfolders and images of a folder, without hidden ones; other files are counted in `tree`."""
    folders, images, ignored = [], [], 0
    with walking(folder), os.scandir(folder) as entries:
        for entry in entries:
            path = folder / entry.name
            if os.path.isdir(path) if entry.is_symlink() else entry.is_dir():
                if not entry.name.startswith(".") and entry.name not in _ARCHIVERS_FOLDERS:
                    folders.append(path)
            elif _is_image(path):
                images.append(path)
            else:
                ignored += 1
    if tree is not None:
        tree.ignored += ignored
    return sorted(folders), sorted(images)


def _is_image(path: Path) -> bool:
    """Whether a search takes this for an image: no pipe, but a link that leads nowhere, to be told of as a bad one."""
    return is_image_name(path.name) and not special_kind(path)


def _images_below(folder: Path, tree: DomainTree | None = None) -> list[Path]:
    """Every image below a folder."""
    return sorted(image for _, images in _walk([folder], tree) for image in images)


def _walk(start: Sequence[Path], tree: DomainTree | None = None) -> Iterator[tuple[Path, list[Path]]]:
    """Folders and all below them, each with its images; one that links lead to again is entered once, so loops end."""
    seen: set[tuple[int, int]] = set()
    waiting = list(start)
    while waiting:
        current = waiting.pop()
        with walking(current):
            status = current.stat()
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        folders, images = _list(current, tree)
        yield current, images
        waiting.extend(folders)


def _matches(argument: str | Path) -> list[Path]:
    path = given_path(argument)
    if os.path.isdir(path):
        return _images_below(path)
    if os.path.exists(path):
        if is_archive(path) or is_compressed_tar(path):
            raise DataError(
                f"{path} is an archive, and single images are not read from one: unpack it first. "
                "(homefold fit and evaluate read <domain>/<class>/<image> in a tar or zip as it is.)"
            )
        return [path]
    if "\0" in str(path):  # no name has one, and `glob` stumbles over it
        return []
    hits = _expanded(path)
    return [
        found for hit in hits for found in (_images_below(hit) if hit.is_dir() else [hit] if _is_image(hit) else [])
    ]


def _expanded(pattern: Path) -> list[Path]:
    """What a pattern matches; unlike `glob`'s, its `**` does not follow links round in circles."""
    parts, places = list(pattern.parts), [Path()]
    while parts and parts[-1] == "**":  # a folder stands for all in it
        parts.pop()
    while "**" in parts:
        at = parts.index("**")
        folders = [place for place in _matching(places, parts[:at]) if place.is_dir()]
        places, parts = [folder for folder, _ in _walk(folders)], parts[at + 1 :]
    return _matching(places, parts)


def _matching(places: Sequence[Path], parts: Sequence[str]) -> list[Path]:
    """What lies in the places under names that match, one part of a path after the other."""
    if not parts:
        return list(places)
    return [Path(hit) for place in places for hit in glob.glob(os.path.join(glob.escape(str(place)), *parts))]


def _why_nothing(argument: str | Path) -> str:
    if os.path.isdir(given_path(argument)):
        return f"There are no images in the folder {argument} (looked for {', '.join(IMAGE_EXTENSIONS)})."
    if glob.has_magic(str(argument)):
        return f"No image matches the pattern {argument}."
    return f"There is no file or folder {argument}."
