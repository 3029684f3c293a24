"""Recognising a dataset in whatever way people keep it: which folder names a domain, a split, a class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from homefold.data.archives import archive_images, is_archive, is_compressed_tar
from homefold.data.images import is_image_name
from homefold.data.index import ImageIndex
from homefold.data.paths import special_kind, walking
from homefold.data.sources import FileImage, ImageSource
from homefold.errors import DataError

__all__ = ["Layout", "find_images_of"]

_SPLITS = {
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "crossval": "val",
    "test": "test",
    "full": "full",
}
_NAMED_AT_MOST = 5


@dataclass(frozen=True)
class Layout:
    """How to recognise a dataset's images by the folders (or the archive) they lie in.

    Images lie as `…/domain/class/image` or `…/domain/split/class/image`. Names are compared without regard to case
    and to anything but letters and digits; the dataset's name may stand before a domain's (`pacs_sketch.tar`).

    Args:
        name: the dataset's name.
        domains: the other names each domain goes by.
        classes: the other names each class goes by, in label order.
        overlapping_splits: whether a split may repeat images of another; each image is then taken once, for
            validation before training before testing, so that none is trained on and selected with.
    """

    name: str
    domains: Mapping[str, tuple[str, ...]]
    classes: Mapping[str, tuple[str, ...]]
    overlapping_splits: bool = False

    def __post_init__(self) -> None:
        prefix = _plain(self.name)
        domains = {}
        for domain, others in self.domains.items():
            for alias in map(_plain, (domain, *others)):
                domains[alias] = domains[prefix + alias] = domain
        classes = {_plain(alias): name for name, others in self.classes.items() for alias in (name, *others)}
        object.__setattr__(self, "_domain_of", domains)
        object.__setattr__(self, "_class_of", classes)

    def domain_of(self, folder: str) -> str | None:
        """The domain that a folder or archive of this name holds."""
        found: str | None = self._domain_of.get(_plain(folder))  # type: ignore[attr-defined]
        return found

    def class_of(self, folder: str) -> str | None:
        """The class that a folder of this name holds."""
        found: str | None = self._class_of.get(_plain(folder))  # type: ignore[attr-defined]
        return found


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


@dataclass(frozen=True)
class _Found:
    """An image with the folders it lies in; an archive counts as a folder of its name."""

    folders: tuple[str, ...]
    source: ImageSource
    in_archive: bool


@dataclass(frozen=True)
class _Placed:
    """An image whose place in the dataset is known."""

    domain: str
    label: str
    split: str | None
    source: ImageSource
    in_archive: bool
    below: str
    """Everything above the domain's folder, itself included: two different ones are two copies."""


@dataclass(frozen=True)
class _Stranger:
    """An image in a folder that is called like a domain, but in no class."""

    domain: str
    below: str
    path: str


@dataclass
class _Sorted:
    placed: list[_Placed] = field(default_factory=list)
    strangers: list[_Stranger] = field(default_factory=list)
    ignored: int = 0

    def set_others_aside(self) -> None:
        """Pass over a folder like `office_home/Art` beside `PACS/art_painting`: no class of ours, and not needed."""
        places = {image.below for image in self.placed}
        domains = {image.domain for image in self.placed}
        ours = [stranger for stranger in self.strangers if stranger.below in places or stranger.domain not in domains]
        self.ignored += len(self.strangers) - len(ours)
        self.strangers = ours


def find_images_of(layout: Layout, root: Path, *, domains: Sequence[str] | None = None) -> ImageIndex:
    """Find a dataset's images in a folder, in the tars and zips in it, or in one archive.

    Unpacked images are preferred to archives of the same domain. Domains that are not there are warned of.

    Args:
        layout: how to recognise them.
        root: a folder or an archive.
        domains: only these, in this order; by default all that are there, in the layout's order.
    """
    if not os.path.exists(root):
        raise DataError(f"There is no folder or archive {root} to look for {layout.name} in.")
    for domain in domains or ():
        if domain not in layout.domains:
            raise DataError(f"There is no domain {domain!r} in {layout.name}; it has {', '.join(layout.domains)}.")
    found = _sort(layout, _all_images(root, layout))
    found.set_others_aside()
    wanted = tuple(layout.domains) if domains is None else tuple(domains)
    copies = _one_copy_each(layout, found.placed)
    _check_found(layout, root, found, copies, wanted, must_have=domains is not None)
    warnings = []
    missing = [domain for domain in wanted if domain not in copies]
    if missing:
        warnings.append(f"{layout.name} in {root} has no images of the domain {', '.join(missing)}.")
    present = tuple(domain for domain in wanted if domain in copies)
    chosen = {domain: _settle_splits(layout, domain, copies[domain]) for domain in present}
    warnings += _missing_classes(layout, root, chosen)
    return _index(layout, root, present, chosen, found.ignored, warnings)


def _all_images(root: Path, layout: Layout) -> Iterator[_Found]:
    """Loose images first, then those in archives, which are opened only for domains that are not there loose."""
    if root.is_file():
        if not is_archive(root):
            raise DataError(f"{root} is neither a folder nor an uncompressed tar or a zip. {_unpack(root)}")
        yield from _in_archive(root, ())
        return
    if kind := special_kind(root):
        raise DataError(f"{root} is {kind}, not a folder. {_unpack(root)}")
    loose, archives, compressed = _walk(root)
    yield from loose
    there = {placed.domain for placed in _sort(layout, loose).placed}
    if there >= set(layout.domains):
        return
    for path in archives:
        if layout.domain_of(path.stem) not in there:
            yield from _in_archive(path, path.relative_to(root).parent.parts)
    if not there and not archives and compressed:
        raise DataError(f"There are no images of {layout.name} in {root}. {_unpack(compressed[0])}")


def _unpack(path: Path) -> str:
    if is_compressed_tar(path):
        return f"{path.name} is compressed as a whole, so that no image can be reached alone: unpack it first."
    return "Give the dataset's folder, or its tar or zip."


def _walk(root: Path) -> tuple[list[_Found], list[Path], list[Path]]:
    """Loose images, archives and compressed tars below a folder; links are followed, but never in a circle."""
    loose, archives, compressed = [], [], []
    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(root, followlinks=True, onerror=_refuse_unreadable):
        with walking(folder):
            status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__MACOSX")
        here = Path(folder)
        parts = here.relative_to(root).parts
        for name in sorted(files):
            path = here / name
            if special_kind(path):
                continue
            if is_image_name(name):
                loose.append(_Found((root.resolve().name, *parts), FileImage(path), in_archive=False))
            elif is_archive(path):
                archives.append(path)
            elif is_compressed_tar(path):
                compressed.append(path)
    return loose, archives, compressed


def _refuse_unreadable(error: OSError) -> None:
    with walking(error.filename):
        raise error


def _in_archive(path: Path, above: tuple[str, ...]) -> Iterator[_Found]:
    for member, image in archive_images(path):
        folders = tuple(part for part in member.parent.parts if part != ".")
        yield _Found((*above, path.stem, *folders), image, in_archive=True)


def _sort(layout: Layout, images: Iterator[_Found] | Sequence[_Found]) -> _Sorted:
    result = _Sorted()
    for image in images:
        *above, last = ("", *image.folders)
        split = _SPLITS.get(above[-1].casefold()) if above else None
        if split is not None:
            above.pop()
        domain = layout.domain_of(above[-1]) if above else None
        if domain is None:
            result.ignored += 1
            continue
        label = layout.class_of(last)
        place = "/".join(above)
        if label is None:
            result.strangers.append(_Stranger(domain, place, image.source.path))
            continue
        result.placed.append(_Placed(domain, label, split, image.source, image.in_archive, place))
    return result


def _one_copy_each(layout: Layout, placed: Sequence[_Placed]) -> dict[str, list[_Placed]]:
    """The images of each domain from one place: loose ones if there are any."""
    copies: dict[str, dict[str, list[_Placed]]] = {}
    for image in placed:
        copies.setdefault(image.domain, {}).setdefault(image.below, []).append(image)
    result = {}
    for domain, places in copies.items():
        loose = {place: images for place, images in places.items() if not images[0].in_archive}
        candidates = list((loose or places).values())
        if len(candidates) > 1:
            raise DataError(
                f"The domain {domain} of {layout.name} is there more than once: {candidates[0][0].source.path} and "
                f"{candidates[1][0].source.path} lie in different copies of it. Give the folder of the one you mean."
            )
        result[domain] = candidates[0]
    return result


def _check_found(
    layout: Layout,
    root: Path,
    found: _Sorted,
    copies: Mapping[str, Sequence[_Placed]],
    wanted: Sequence[str],
    *,
    must_have: bool,
) -> None:
    if found.strangers:
        paths = [stranger.path for stranger in found.strangers]
        raise DataError(
            f"{_images(len(paths))} in {root} lie in no class of {layout.name}: {_some(paths)}. "
            f"Its classes are {', '.join(layout.classes)}. Rename the folder to the class meant, or move it away."
        )
    expected = f"Expected …/<domain>/<class>/<image>, the domains being {', '.join(layout.domains)}."
    if not copies:
        raise DataError(f"There are no images of {layout.name} in {root}. {expected}")
    absent = [domain for domain in wanted if domain not in copies]
    if absent and must_have:
        raise DataError(f"There are no images of the domain {absent[0]} of {layout.name} in {root}. {expected}")


def _missing_classes(layout: Layout, root: Path, chosen: Mapping[str, Sequence[_Placed]]) -> Iterator[str]:
    for domain, images in chosen.items():
        missing = [name for name in layout.classes if name not in {image.label for image in images}]
        if missing:
            yield f"{domain} of {layout.name} in {root} has no images of {_some(missing)}."


def _settle_splits(layout: Layout, domain: str, images: list[_Placed]) -> list[_Placed]:
    """The images once each, with their splits where folders give them."""
    splits = {image.split for image in images}
    if None in splits and len(splits) > 1:
        beside = next(image for image in images if image.split is None)
        raise DataError(
            f"The domain {domain} of {layout.name} has images in folders of splits and beside them, such as "
            f"{beside.source.path}; keep one of the two."
        )
    if "full" in splits and "train" in splits:
        # `full` repeats what is for training and validation.
        images = [image for image in images if image.split != "full"]
    elif "full" in splits and len(splits) > 1:
        images = [replace(image, split="train") if image.split == "full" else image for image in images]
    return _each_once(images) if layout.overlapping_splits else images


def _each_once(images: list[_Placed]) -> list[_Placed]:
    """Without the copies that a later split has of an earlier one's files: same class, name and bytes."""
    by_name: dict[tuple[str, str], list[_Placed]] = {}
    for split in ("val", "train", "test", "full", None):
        for image in images:
            if image.split == split:
                by_name.setdefault((image.label, Path(image.source.path).name), []).append(image)
    kept = []
    for same_name in by_name.values():
        digests = [image.source.digest() for image in same_name] if len(same_name) > 1 else [""]
        kept += [image for i, image in enumerate(same_name) if digests[i] not in digests[:i] or not digests[i]]
    return kept


def _index(
    layout: Layout,
    root: Path,
    domains: tuple[str, ...],
    chosen: Mapping[str, list[_Placed]],
    ignored: int,
    warnings: list[str],
) -> ImageIndex:
    class_names = tuple(layout.classes)
    ordered = [
        (d, class_names.index(image.label), image)
        for d, domain in enumerate(domains)
        for image in sorted(chosen[domain], key=lambda image: (class_names.index(image.label), image.source.path))
    ]
    splits = [image.split for _, _, image in ordered]
    official = all(split in ("train", "val", "test") for split in splits)
    if not official and any(split in ("train", "val", "test") for split in splits):
        warnings.append(f"Only some domains of {layout.name} in {root} have official splits; they are not used.")
    return ImageIndex(
        name=layout.name,
        root=root,
        sources=[image.source for _, _, image in ordered],
        labels=np.array([label for _, label, _ in ordered], dtype=np.int64),
        domains=np.array([d for d, _, _ in ordered], dtype=np.int64),
        class_names=class_names,
        domain_names=domains,
        splits=tuple(str(split) for split in splits) if official else (),
        ignored=ignored,
        warnings=tuple(warnings),
    )


def _some(paths: Sequence[str]) -> str:
    rest = len(paths) - _NAMED_AT_MOST
    return ", ".join(paths[:_NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")


def _images(n: int) -> str:
    return "1 image" if n == 1 else f"{n} images"
