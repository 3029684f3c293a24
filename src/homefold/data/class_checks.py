"""Whether the classes of several domains make a dataset: two at least, and the same ones everywhere."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from homefold.errors import DataError
from homefold.runtime.text import some

__all__ = ["check_classes", "class_warnings"]

_some = partial(some, most=10)


def check_classes(
    root: Path,
    classes_of: Mapping[str, Collection[str]],
    class_names: Sequence[str],
    allow_one_class: bool,
    *,
    add: str,
    same: str,
) -> None:
    """Stop at a single class, and at a domain that shares none with the others.

    Args:
        root: where they lie.
        classes_of: the classes of each domain.
        class_names: all of them.
        allow_one_class: accept a single class.
        add: what to do about a single class, a sentence.
        same: what to do about classes that nobody shares, after a colon.
    """
    if len(class_names) == 1 and not allow_one_class:
        raise DataError(f"{root} has one class only ({class_names[0]}), so there is nothing to tell apart. {add}")
    for domain, classes in classes_of.items():
        own = set(classes)
        others = {name for other in classes_of if other != domain for name in classes_of[other]}
        if others and not own & others:
            raise DataError(
                f"The domain {domain} in {root} has no class in common with the others: "
                f"it has {_some(sorted(own))}, they have {_some(sorted(others))}. "
                f"Labels must mean the same in every domain: {same}"
            )


def class_warnings(
    classes_of: Mapping[str, Collection[str]], class_names: Sequence[str], one_name: str
) -> Iterator[str]:
    """Sentences on classes that some domains lack, and on names that look alike; `one_name` says what to do then."""
    for name in class_names:
        missing = [domain for domain in classes_of if name not in classes_of[domain]]
        if missing:
            present = [domain for domain in classes_of if domain not in missing]
            yield (
                f"The class {name} has no images in {_some(missing)} (only in {_some(present)}); "
                "what it looks like there can only be guessed from the other domains."
            )
    alike: dict[str, list[str]] = {}
    for name in class_names:
        alike.setdefault(unicodedata.normalize("NFKC", name).casefold(), []).append(repr(name))
    for names in alike.values():
        if len(names) > 1:
            yield (
                f"The classes {' and '.join(names)} can be told apart only by upper and lower case or by how "
                f"their letters are coded; if they are one class, {one_name}"
            )
