"""Images sorted by domain and class folders, in a directory or an archive, and whether they make a dataset."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from homefold.data.images import IMAGE_EXTENSIONS
from homefold.errors import DataError

__all__ = ["DomainTree", "FolderIndex", "expected_layout", "index_tree"]

_NAMED_AT_MOST = 10


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


@dataclass
class DomainTree:
    """What a walk through a folder or an archive found.

    Args:
        in_root: images in no folder.
        in_domain: images in a domain's folder but in no class, by domain.
        classes: the images of each class, by domain.
        empty: folders without any image.
        ignored: how many other files there are.
    """

    in_root: list[Path] = field(default_factory=list)
    in_domain: dict[str, list[Path]] = field(default_factory=dict)
    classes: dict[str, dict[str, list[Path]]] = field(default_factory=dict)
    empty: list[Path] = field(default_factory=list)
    ignored: int = 0


def index_tree(root: Path, tree: DomainTree, domains: Sequence[str] | None, allow_one_class: bool) -> FolderIndex:
    """Check that what was found makes a dataset, and put it in order.

    Args:
        root: the folder or archive, for messages.
        tree: what was found in it.
        domains: only these, in this order; by default all. Class names come from these alone.
        allow_one_class: accept a single class, which can be predicted but not learned.
    """
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


def expected_layout(root: Path) -> str:
    """How the images below `root` must lie, for messages."""
    return f"{root}/<domain>/<class>/<image>"


def _check_layout(root: Path, tree: DomainTree) -> None:
    if tree.in_domain and not tree.classes and not tree.in_root:
        names = sorted(tree.in_domain)
        raise DataError(
            f"{root} holds images directly in its folders ({_some(names)}): it has classes but no domains. "
            f"Expected {expected_layout(root)}. Put these folders below one that names where the images come from, "
            f"such as {root / 'camera1' / names[0]}."
        )
    loose = [*tree.in_root, *(path for files in tree.in_domain.values() for path in files)]
    if loose:
        verb, pronoun = ("is", "it") if len(loose) == 1 else ("are", "them")
        raise DataError(
            f"{_count(len(loose), 'image')} in {root} {verb} in no class folder: {_some(map(str, loose))}. "
            f"Expected {expected_layout(root)}. Move {pronoun} to the domain and class meant."
        )
    if not tree.classes:
        passed = f" ({_count(tree.ignored, 'other file')} passed over)" if tree.ignored else ""
        raise DataError(
            f"There are no images in {root}{passed}. "
            f"Expected {expected_layout(root)}, an image being one of {', '.join(IMAGE_EXTENSIONS)}."
        )


def _choose_domains(root: Path, tree: DomainTree, wanted: Sequence[str] | None) -> tuple[str, ...]:
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
    root: Path, tree: DomainTree, chosen: Sequence[str], class_names: Sequence[str], allow_one_class: bool
) -> None:
    if len(class_names) == 1 and not allow_one_class:
        raise DataError(
            f"{root} has one class only ({class_names[0]}), so there is nothing to tell apart. "
            f"Add a second class folder to each domain: {expected_layout(root)}."
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


def _warnings(root: Path, tree: DomainTree, chosen: Sequence[str], class_names: Sequence[str]) -> Iterator[str]:
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
    for alike in _alike(class_names):
        yield (
            f"The classes {' and '.join(map(repr, alike))} can be told apart only by upper and lower case or by how "
            "their letters are coded; if they are one class, give its folders one name."
        )
    if len(tree.classes) == 1:
        yield (
            f"{root} has one domain ({chosen[0]}). A model fitted to it is single-source: no image shows it "
            "what changes from one domain to the next, so expect it to hold up less well on an unseen one."
        )


def _alike(names: Iterable[str]) -> list[list[str]]:
    """Names that look the same to people, together."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(unicodedata.normalize("NFKC", name).casefold(), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    rest = len(listed) - _NAMED_AT_MOST
    return ", ".join(listed[:_NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
