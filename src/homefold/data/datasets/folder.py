"""Images laid out as `root/domain/class/image` or, for one domain, `root/class/image`, in a folder, a tar or a zip."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from homefold.data.archives import FileImage, archive_images, is_archive, list_folder, walk
from homefold.data.class_checks import check_classes, class_warnings
from homefold.data.decoding.image import IMAGE_EXTENSIONS
from homefold.data.index import ImageIndex, ImageSource, LoadRequest, check_domains
from homefold.data.paths import special_kind
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.errors import DataError
from homefold.runtime.text import as_text, counted, some

__all__ = ["find_folder"]

_some = partial(some, most=10)


@dataclass
class _Tree:
    """What was found in a folder or an archive: images in no folder, in no class (by domain), and in each class.

    Also folders without any image, and how many other files there are.
    """

    in_root: list[Path] = field(default_factory=list)
    in_domain: dict[str, list[ImageSource]] = field(default_factory=dict)
    classes: dict[str, dict[str, list[ImageSource]]] = field(default_factory=dict)
    empty: list[Path] = field(default_factory=list)
    ignored: int = 0


@register_dataset(
    DatasetEntry(
        name="folder",
        description="Any folder of images, one folder a domain and in it one folder a class.",
        source="your own images",
        licence="your own",
        layout="<folder>/<domain>/<class>/<image>",
    )
)
def find_folder(request: LoadRequest) -> ImageIndex:
    """Find the images of `root/domain/class/…/image` and check that they make a dataset.

    Where all images lie in `root/class/`, they are one domain that is called like the root. Of an archive a single
    folder around all domains is passed over. Class names come from the chosen domains alone.
    """
    root = request.folder
    packed = is_archive(root) and os.path.isfile(root)
    tree = _read_archive(root) if packed else _read_folder(root)
    name = as_text(root.stem if packed else root.resolve().name)
    _take_as_one_domain(tree, name)
    _check_layout(root, tree)
    chosen = tuple(tree.classes) if request.domains is None else request.domains
    check_domains(chosen, tuple(tree.classes), root)
    class_names = tuple(sorted({name for domain in chosen for name in tree.classes[domain]}))
    check_classes(
        root,
        {domain: tree.classes[domain] for domain in chosen},
        class_names,
        request.allow_one_class,
        add=f"Add a second class folder to each domain: {_expected(root)}.",
        same="give a class the same folder name everywhere.",
    )
    cells = [
        (d, class_names.index(name), source)
        for d, domain in enumerate(chosen)
        for name in sorted(tree.classes[domain])
        for source in tree.classes[domain][name]
    ]
    return ImageIndex(
        name=name,
        root=root,
        sources=[source for _, _, source in cells],
        labels=np.array([c for _, c, _ in cells], np.int64),
        domains=np.array([d for d, _, _ in cells], np.int64),
        class_names=class_names,
        domain_names=chosen,
        ignored=tree.ignored,
        warnings=tuple(_warnings(tree, chosen, class_names)),
    )


def _read_folder(root: Path) -> _Tree:
    _check_root(root)
    domains, in_root, others = list_folder(root)
    tree = _Tree(in_root, ignored=len(others))
    for domain in domains:
        folders, loose, others = list_folder(domain)
        tree.ignored += len(others)
        classes: dict[str, list[ImageSource]] = {}
        for folder in folders:
            found = list(walk([folder]))
            tree.ignored += sum(len(others) for _, _, others in found)
            images = sorted(image for _, images, _ in found for image in images)
            if images:
                classes[folder.name] = [FileImage(image) for image in images]
        if loose:
            tree.in_domain[domain.name] = [FileImage(image) for image in sorted(loose)]
        if classes:
            tree.classes[domain.name] = classes
            tree.empty += [folder for folder in folders if folder.name not in classes]
        elif not loose:
            tree.empty.append(domain)
    return tree


def _check_root(root: Path) -> None:
    expected = f"Expected a folder of domains: {_expected(root)}."
    if os.path.isdir(root):
        return
    if kind := special_kind(root):
        raise DataError(f"{root} is {kind}, not a folder. {expected}")
    if os.path.exists(root):
        raise DataError(f"{root} is a file, not a folder. {expected} If it is an archive, unpack it first.")
    raise DataError(f"There is no folder {root}. {expected}")


def _read_archive(root: Path) -> _Tree:
    # Of members with the same name the last counts, as it does when the archive is unpacked.
    images = {tuple(part for part in member.parts if part != "."): image for member, image in archive_images(root)}
    wrapped = all(len(parts) >= 4 for parts in images) and len({parts[0] for parts in images}) == 1
    tree = _Tree()
    for parts in sorted(images):
        folders = parts[1:-1] if wrapped else parts[:-1]
        if not folders:
            tree.in_root.append(root.joinpath(*parts))
        elif len(folders) == 1:
            tree.in_domain.setdefault(folders[0], []).append(images[parts])
        else:
            tree.classes.setdefault(folders[0], {}).setdefault(folders[1], []).append(images[parts])
    return tree


def _expected(root: Path) -> str:
    return f"{root}/<domain>/<class>/<image>"


def _take_as_one_domain(tree: _Tree, name: str) -> None:
    """Where images lie directly in the folders of the root, and nowhere else, these are classes of one domain."""
    if tree.in_domain and name and not tree.classes and not tree.in_root:
        tree.classes, tree.in_domain = {name: tree.in_domain}, {}


def _check_layout(root: Path, tree: _Tree) -> None:
    loose = [*tree.in_root, *(image.path for images in tree.in_domain.values() for image in images)]
    if loose:
        verb, pronoun = ("is", "it") if len(loose) == 1 else ("are", "them")
        raise DataError(
            f"{counted(len(loose), 'image')} in {root} {verb} in no class folder: {_some(map(str, loose))}. "
            f"Expected {_expected(root)}. Move {pronoun} to the domain and class meant."
        )
    if not tree.classes:
        passed = f" ({counted(tree.ignored, 'other file')} passed over)" if tree.ignored else ""
        raise DataError(
            f"There are no images in {root}{passed}. "
            f"Expected {_expected(root)}, an image being one of {', '.join(IMAGE_EXTENSIONS)}."
        )


def _warnings(tree: _Tree, chosen: Sequence[str], class_names: Sequence[str]) -> Iterator[str]:
    if tree.empty:
        yield f"These folders have no images and were passed over: {_some(map(str, tree.empty))}."
    classes_of = {domain: tree.classes[domain] for domain in chosen}
    yield from class_warnings(classes_of, class_names, "give its folders one name.")
