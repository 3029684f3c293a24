"""Image folders `root/domain/class/image`: found, checked and decoded; every problem gets a sentence."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from homefold.data.dataset import DomainDataset
from homefold.data.decoding import decode_all, map_images
from homefold.data.images import IMAGE_EXTENSIONS, MAX_MEGAPIXELS, Resize, is_image_name
from homefold.data.index import ImageIndex
from homefold.data.loading import decode_index
from homefold.data.sources import FileImage
from homefold.errors import DataError
from homefold.progress import ProgressReporter, SilentReporter

__all__ = ["FolderIndex", "find_images", "index_folder", "load_folder", "load_images", "map_images", "scan_folder"]

_NAMED_AT_MOST = 10
_ARCHIVERS_FOLDERS = ("__MACOSX",)  # holds shadows of the images, made by macOS


@dataclass(frozen=True, eq=False)
class FolderIndex:
    """The images of a folder before any is decoded, sorted by domain, class and path.

    Args:
        root: the folder, as it was given.
        paths: where each image lies.
        labels: `(n,)` integers that index `class_names`.
        domains: `(n,)` integers that index `domain_names`.
        class_names: sorted names of the class folders that hold images.
        domain_names: names of the domain folders that hold images.
        ignored: how many hidden files and files that are no images were passed over.
        warnings: sentences about what can be used but may not be meant.
    """

    root: Path
    paths: tuple[Path, ...]
    labels: np.ndarray
    domains: np.ndarray
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    ignored: int = 0
    warnings: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.paths)

    def counts(self) -> np.ndarray:
        """`(domains, classes)`: how many images each cell has."""
        counts = np.zeros((len(self.domain_names), len(self.class_names)), dtype=np.int64)
        np.add.at(counts, (self.domains, self.labels), 1)
        return counts


def scan_folder(
    root: str | Path, *, domains: Sequence[str] | None = None, allow_one_class: bool = False
) -> FolderIndex:
    """Find the images of `root/domain/class/…/image` and check that they make a dataset.

    Args:
        root: the folder of domains.
        domains: only these, in this order; by default all, sorted. Class names come from these alone.
        allow_one_class: accept a single class, which can be predicted but not learned.
    """
    root = Path(root).expanduser()
    _check_root(root)
    tree = _read_tree(root)
    _check_layout(root, tree)
    chosen = _choose_domains(root, tree, domains)
    class_names = tuple(sorted({name for domain in chosen for name in tree.classes[domain]}))
    _check_classes(root, tree, chosen, class_names, allow_one_class)
    cells = [
        (d, c, path)
        for d, domain in enumerate(chosen)
        for c, name in enumerate(class_names)
        for path in tree.classes[domain].get(name, [])
    ]
    return FolderIndex(
        root=root,
        paths=tuple(path for _, _, path in cells),
        labels=np.array([c for _, c, _ in cells], dtype=np.int64),
        domains=np.array([d for d, _, _ in cells], dtype=np.int64),
        class_names=class_names,
        domain_names=chosen,
        ignored=tree.ignored,
        warnings=tuple(_warnings(root, tree, chosen, class_names)),
    )


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
        workers: threads that decode; by default as many as there are cores.
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
        name=name or found.root.resolve().name,
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


@dataclass
class _Tree:
    """What a walk through the folder found: images at each level, folders without any, and how much else."""

    in_root: list[Path] = field(default_factory=list)
    in_domain: dict[str, list[Path]] = field(default_factory=dict)
    classes: dict[str, dict[str, list[Path]]] = field(default_factory=dict)
    empty: list[Path] = field(default_factory=list)
    ignored: int = 0


def _check_root(root: Path) -> None:
    expected = f"Expected a folder of domains: {_layout(root)}."
    if root.is_dir():
        return
    if root.exists():
        raise DataError(f"{root} is a file, not a folder. {expected} If it is an archive, unpack it first.")
    raise DataError(f"There is no folder {root}. {expected}")


def _layout(root: Path) -> str:
    return f"{root}/<domain>/<class>/<image>"


def _read_tree(root: Path) -> _Tree:
    tree = _Tree()
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


def _list(folder: Path, tree: _Tree | None) -> tuple[list[Path], list[Path]]:
    """Sorted subfolders and images of a folder, without hidden ones; other files are counted in `tree`."""
    folders, images, ignored = [], [], 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                path = folder / entry.name
                if os.path.isdir(path) if entry.is_symlink() else entry.is_dir():
                    if not entry.name.startswith(".") and entry.name not in _ARCHIVERS_FOLDERS:
                        folders.append(path)
                # A link that leads nowhere is kept, so that it is reported as a bad image.
                elif is_image_name(entry.name) and (os.path.isfile(path) or not os.path.exists(path)):
                    images.append(path)
                else:
                    ignored += 1
    except PermissionError:
        raise DataError(
            f"The folder {folder} may not be read; make it readable (chmod u+rx) or move it away."
        ) from None
    if tree is not None:
        tree.ignored += ignored
    return sorted(folders), sorted(images)


def _images_below(folder: Path, tree: _Tree | None = None) -> list[Path]:
    """Every image below a folder; a folder that links lead to again is entered once, so loops end."""
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        status = current.stat()
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        folders, images = _list(current, tree)
        found.extend(images)
        waiting.extend(folders)
    return sorted(found)


def _check_layout(root: Path, tree: _Tree) -> None:
    if tree.in_domain and not tree.classes and not tree.in_root:
        names = sorted(tree.in_domain)
        raise DataError(
            f"{root} holds images directly in its folders ({_some(names)}): it has classes but no domains. "
            f"Expected {_layout(root)}. Put these folders below one that names where the images come from, "
            f"such as {root / 'camera1' / names[0]}."
        )
    loose = [*tree.in_root, *(path for files in tree.in_domain.values() for path in files)]
    if loose:
        verb, pronoun = ("is", "it") if len(loose) == 1 else ("are", "them")
        raise DataError(
            f"{_count(len(loose), 'image')} in {root} {verb} in no class folder: {_some(map(str, loose))}. "
            f"Expected {_layout(root)}. Move {pronoun} to the domain and class meant."
        )
    if not tree.classes:
        passed = f" ({_count(tree.ignored, 'other file')} passed over)" if tree.ignored else ""
        raise DataError(
            f"There are no images in {root}{passed}. "
            f"Expected {_layout(root)}, an image being one of {', '.join(IMAGE_EXTENSIONS)}."
        )


def _choose_domains(root: Path, tree: _Tree, wanted: Sequence[str] | None) -> tuple[str, ...]:
    if wanted is None:
        return tuple(tree.classes)
    if not wanted or len(set(wanted)) < len(wanted):
        raise DataError(f"The domains to load must be at least one, each named once; got {list(wanted)}.")
    for name in wanted:
        if name not in tree.classes:
            close = difflib.get_close_matches(name, tree.classes, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise DataError(f"There is no domain {name!r} in {root}; it has {', '.join(tree.classes)}.{hint}")
    return tuple(wanted)


def _check_classes(
    root: Path, tree: _Tree, chosen: Sequence[str], class_names: Sequence[str], allow_one_class: bool
) -> None:
    if len(class_names) == 1 and not allow_one_class:
        raise DataError(
            f"{root} has one class only ({class_names[0]}), so there is nothing to tell apart. "
            f"Add a second class folder to each domain: {_layout(root)}."
        )
    for domain in chosen:
        own = set(tree.classes[domain])
        others = {name for other in chosen if other != domain for name in tree.classes[other]}
        if others and not own & others:
            raise DataError(
                f"The domain {domain} in {root} has no class in common with the others: "
                f"it has {_some(sorted(own))}, they have {_some(sorted(others))}. "
                "Labels must mean the same in every domain: give a class the same folder name everywhere."
            )


def _warnings(root: Path, tree: _Tree, chosen: Sequence[str], class_names: Sequence[str]) -> Iterator[str]:
    if tree.empty:
        yield f"These folders have no images and were passed over: {_some(map(str, tree.empty))}."
    for name in class_names:
        missing = [domain for domain in chosen if name not in tree.classes[domain]]
        if missing:
            present = [domain for domain in chosen if domain not in missing]
            yield (
                f"The class {name} has no images in {_some(missing)} (only in {_some(present)}); "
                "what it looks like there can only be guessed from the other domains."
            )
    if len(tree.classes) == 1:
        yield (
            f"{root} has one domain ({chosen[0]}). A model fitted to it is single-source: no image shows it "
            "what changes from one domain to the next, so expect it to hold up less well on an unseen one."
        )


def _matches(argument: str | Path) -> list[Path]:
    path = Path(argument).expanduser()
    if path.is_dir():
        return _images_below(path)
    if path.exists():
        return [path]
    hits = (Path(hit) for hit in glob.glob(str(path), recursive=True))
    return [
        found
        for hit in hits
        for found in (_images_below(hit) if hit.is_dir() else [hit] if is_image_name(hit.name) else [])
    ]


def _why_nothing(argument: str | Path) -> str:
    if Path(argument).expanduser().is_dir():
        return f"There are no images in the folder {argument} (looked for {', '.join(IMAGE_EXTENSIONS)})."
    if glob.has_magic(str(argument)):
        return f"No image matches the pattern {argument}."
    return f"There is no file or folder {argument}."


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    rest = len(listed) - _NAMED_AT_MOST
    return ", ".join(listed[:_NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
