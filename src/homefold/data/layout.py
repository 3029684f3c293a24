"""Recognising a dataset in whatever way people keep it: which folder names a domain, a split, a class."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from homefold.data.archives import ArchiveImage, FileImage, archive_images, is_archive, is_compressed_tar, walk
from homefold.data.index import ImageIndex, ImageSource, LoadRequest, check_domains
from homefold.data.paths import special_kind
from homefold.errors import DataError
from homefold.runtime.text import counted, some

__all__ = ["Layout", "find_images_of"]

_SPLITS = {name: name for name in ("train", "val", "test", "full")} | dict.fromkeys(
    ("valid", "validation", "crossval"), "val"
)


@dataclass(frozen=True)
class Layout:
    """How to recognise a dataset's images by the folders (or the archive) they lie in.

    Images lie as `…/domain/class/image` or `…/domain/split/class/image`. Names are compared without regard to case
    and to anything but letters and digits; the dataset's name may stand before a domain's (`pacs_sketch.tar`).

    Args:
        name: the dataset's name.
        domains, classes: the other names each goes by; classes in label order.
        overlapping_splits: whether a split may repeat images of another; each image is then taken once, for
            validation before training before testing, so that none is trained on and selected with.
    """

    name: str
    domains: Mapping[str, tuple[str, ...]]
    classes: Mapping[str, tuple[str, ...]]
    overlapping_splits: bool = False

    @cached_property
    def _domain_of(self) -> dict[str, str]:
        names = [(_plain(alias), domain) for domain, others in self.domains.items() for alias in (domain, *others)]
        return {prefix + alias: domain for prefix in ("", _plain(self.name)) for alias, domain in names}

    @cached_property
    def _class_of(self) -> dict[str, str]:
        return {_plain(alias): name for name, others in self.classes.items() for alias in (name, *others)}

    def domain_of(self, folder: str) -> str | None:
        """The domain that a folder or archive of this name holds."""
        return self._domain_of.get(_plain(folder))

    def class_of(self, folder: str) -> str | None:
        """The class that a folder of this name holds."""
        return self._class_of.get(_plain(folder))


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


@dataclass(frozen=True)
class _Placed:
    """An image in a folder that is called like a domain; without a label where that folder is no class."""

    domain: str
    label: str | None
    split: str | None
    source: ImageSource
    below: str
    """Everything above the domain's folder, itself included: two different ones are two copies."""


def find_images_of(layout: Layout, request: LoadRequest) -> ImageIndex:
    """Find a dataset's images in a folder, in the tars and zips in it, or in one archive.

    Unpacked images are preferred to archives of the same domain. Domains that are not there are warned of.
    """
    root = request.folder
    if not os.path.exists(root):
        raise DataError(f"There is no folder or archive {root} to look for {layout.name} in.")
    wanted = tuple(layout.domains) if request.domains is None else request.domains
    check_domains(wanted, tuple(layout.domains), layout.name)
    found, ignored = _all_images(root, layout)
    placed = [image for image in found if image.label is not None]
    places, domains = {image.below for image in placed}, {image.domain for image in placed}
    without = [image for image in found if image.label is None]
    # But for those in a folder like `office_home/Art` beside `PACS/art_painting`: not needed.
    strangers = [image.source.path for image in without if image.below in places or image.domain not in domains]
    ignored += len(without) - len(strangers)
    if strangers:
        raise DataError(
            f"{counted(len(strangers), 'image')} in {root} lie in no class of {layout.name}: {some(strangers)}. "
            f"Its classes are {', '.join(layout.classes)}. Rename the folder to the class meant, or move it away."
        )
    copies = _one_copy_each(layout, placed)
    missing = [domain for domain in wanted if domain not in copies]
    if not copies or (missing and request.domains is not None):
        which = f"the domain {missing[0]} of {layout.name}" if copies else layout.name
        raise DataError(
            f"There are no images of {which} in {root}. Expected …/<domain>/<class>/<image>, the domains being "
            f"{', '.join(layout.domains)}."
        )
    warnings = [f"{layout.name} in {root} has no images of the domain {', '.join(missing)}."] if missing else []
    chosen = {domain: _settle_splits(layout, domain, copies[domain]) for domain in wanted if domain in copies}
    return _index(layout, root, chosen, ignored, warnings)


def _all_images(root: Path, layout: Layout) -> tuple[list[_Placed], int]:
    """Loose images, then those in archives, which are opened only for domains that are not there loose.

    And how many other images there are.
    """
    if root.is_file():
        if not is_archive(root):
            raise DataError(f"{root} is neither a folder nor an uncompressed tar or a zip. {_unpack(root)}")
        return _placed(layout, _in_archive(root, ()))
    if kind := special_kind(root):
        raise DataError(f"{root} is {kind}, not a folder. {_unpack(root)}")
    loose: list[tuple[tuple[str, ...], ImageSource]] = []
    archives: list[Path] = []
    compressed: list[Path] = []
    for folder, images, others in walk([root]):
        parts = (root.resolve().name, *folder.relative_to(root).parts)
        loose += [(parts, FileImage(image)) for image in images]
        files = [path for path in others if not special_kind(path)]
        archives += filter(is_archive, files)
        compressed += filter(is_compressed_tar, files)
    placed, ignored = _placed(layout, loose)
    there = {image.domain for image in placed if image.label is not None}
    if there >= set(layout.domains):
        archives = []
    elif not there and not archives and compressed:
        raise DataError(f"There are no images of {layout.name} in {root}. {_unpack(compressed[0])}")
    for path in archives:
        if layout.domain_of(path.stem) not in there:
            packed, ignored_too = _placed(layout, _in_archive(path, path.relative_to(root).parent.parts))
            placed, ignored = placed + packed, ignored + ignored_too
    return placed, ignored


def _unpack(path: Path) -> str:
    if is_compressed_tar(path):
        return f"{path.name} is compressed as a whole, so that no image can be reached alone: unpack it first."
    return "Give the dataset's folder, or its tar or zip."


def _in_archive(path: Path, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ImageSource]]:
    """The images of an archive, which counts as a folder of its name, with the folders they lie in."""
    for member, image in archive_images(path):
        yield (*above, path.stem, *(part for part in member.parent.parts if part != ".")), image


def _placed(layout: Layout, images: Iterable[tuple[tuple[str, ...], ImageSource]]) -> tuple[list[_Placed], int]:
    """The images that lie in a domain, and how many do not."""
    placed, ignored = [], 0
    for folders, source in images:
        *above, last = ("", *folders)
        split = _SPLITS.get(above[-1].casefold()) if above else None
        if split is not None:
            above.pop()
        domain = layout.domain_of(above[-1]) if above else None
        if domain is None:
            ignored += 1
        else:
            placed.append(_Placed(domain, layout.class_of(last), split, source, "/".join(above)))
    return placed, ignored


def _one_copy_each(layout: Layout, placed: Sequence[_Placed]) -> dict[str, list[_Placed]]:
    """The images of each domain from one place: loose ones if there are any."""
    copies: dict[str, dict[str, list[_Placed]]] = {}
    for image in placed:
        copies.setdefault(image.domain, {}).setdefault(image.below, []).append(image)
    result = {}
    for domain, places in copies.items():
        loose = [images for images in places.values() if not isinstance(images[0].source, ArchiveImage)]
        first, *others = loose or places.values()
        if others:
            raise DataError(
                f"The domain {domain} of {layout.name} is there more than once: {first[0].source.path} and "
                f"{others[0][0].source.path} lie in different copies of it. Give the folder of the one you mean."
            )
        result[domain] = first
    return result


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
    by_name: dict[tuple[str | None, str], list[_Placed]] = {}
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
    layout: Layout, root: Path, chosen: Mapping[str, list[_Placed]], ignored: int, warnings: list[str]
) -> ImageIndex:
    class_names = list(layout.classes)
    cells = [
        (d, class_names.index(str(image.label)), image) for d, domain in enumerate(chosen) for image in chosen[domain]
    ]
    cells.sort(key=lambda cell: (cell[0], cell[1], cell[2].source.path))
    for d, domain in enumerate(chosen):
        lacking = set(class_names) - {class_names[c] for own, c, _ in cells if own == d}
        if lacking:
            names = some(sorted(lacking, key=class_names.index))
            warnings.append(f"{domain} of {layout.name} in {root} has no images of {names}.")
    splits = {image.split in ("train", "val", "test") for _, _, image in cells}
    if splits == {True, False}:
        warnings.append(f"Only some domains of {layout.name} in {root} have official splits; they are not used.")
    return ImageIndex(
        name=layout.name,
        root=root,
        sources=[image.source for _, _, image in cells],
        labels=np.array([c for _, c, _ in cells], np.int64),
        domains=np.array([d for d, _, _ in cells], np.int64),
        class_names=tuple(class_names),
        domain_names=tuple(chosen),
        splits=tuple(str(image.split) for _, _, image in cells) if splits == {True} else (),
        ignored=ignored,
        warnings=tuple(warnings),
    )
