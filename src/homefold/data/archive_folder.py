"""A folder `domain/class/image` that was packed into one tar or zip, read without unpacking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from homefold.data.archives import archive_images
from homefold.data.domain_tree import DomainTree, index_tree
from homefold.data.index import ImageIndex
from homefold.data.names import written

__all__ = ["index_archive"]


def index_archive(
    path: Path, *, domains: Sequence[str] | None = None, allow_one_class: bool = False, name: str | None = None
) -> ImageIndex:
    """Find the images of `domain/class/…/image` in an archive; one folder around all domains is passed over.

    Args:
        path: the tar or zip.
        domains: only these, in this order; by default all, sorted. Class names come from these alone.
        allow_one_class: accept a single class, which can be predicted but not learned.
        name: what the dataset is called in records; by default the archive's.
    """
    # Of members with the same name the last counts, as it does when the archive is unpacked.
    images = {tuple(part for part in member.parts if part != "."): image for member, image in archive_images(path)}
    wrapped = all(len(parts) >= 4 for parts in images) and len({parts[0] for parts in images}) == 1
    places = {path.joinpath(*parts): image for parts, image in images.items()}
    found = index_tree(path, _tree(path, images, 1 if wrapped else 0), domains, allow_one_class)
    return ImageIndex(
        name=name or written(path.stem),
        root=path,
        sources=[places[place] for place in found.paths],
        labels=found.labels,
        domains=found.domains,
        class_names=found.class_names,
        domain_names=found.domain_names,
        warnings=found.warnings,
    )


def _tree(path: Path, members: Iterable[tuple[str, ...]], above: int) -> DomainTree:
    """The members by domain and class, `above` folders left out of their paths."""
    tree = DomainTree()
    for parts in sorted(members):
        place, folders = path.joinpath(*parts), parts[above:-1]
        if not folders:
            tree.in_root.append(place)
        elif len(folders) == 1:
            tree.in_domain.setdefault(folders[0], []).append(place)
        else:
            tree.classes.setdefault(folders[0], {}).setdefault(folders[1], []).append(place)
    return tree
