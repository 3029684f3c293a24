"""Images that a file lists one by one with label and domain, whatever the file is."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from homefold.data.archives import FileImage
from homefold.data.class_checks import check_classes, class_warnings
from homefold.data.index import ImageIndex, ImageSource, LoadRequest, check_domains
from homefold.data.path_pattern import PathPattern
from homefold.errors import DataError
from homefold.runtime.text import as_text, counted, some

__all__ = ["SPLITS", "Row", "Table", "cell_text", "index_rows"]

SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val", "test": "test"}
"""The official split that people mean by a name."""

_some = partial(some, most=10, separator="; ")


class Row(NamedTuple):
    """One image.

    Args:
        source: where it lies.
        where: the place that lists it, such as `"line 7"`.
        label, domain, split: their names; empty where the file tells none.
        name: its path or key, as the file has it, which a pattern is compared with.
        fault: what is wrong with the row, such as `"label is empty"`; empty if nothing is known to be.
    """

    source: ImageSource
    where: str
    label: str = ""
    domain: str = ""
    split: str = ""
    name: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Table:
    """Images one after the other.

    Args:
        name, root: what the dataset is called in records, and the file or folder that lists it.
        rows: one an image.
        expected: a sentence that says how the file should be.
        has_domains, has_labels: whether it tells them; one without domains is one domain, called like itself.
        any_order: whether the order of the rows means nothing, so that images of a domain are sorted by class and path.
        ignored, warnings: as in `ImageIndex`.
    """

    name: str
    root: Path
    rows: Sequence[Row]
    expected: str
    has_domains: bool = True
    has_labels: bool = True
    any_order: bool = False
    ignored: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def sources(self) -> list[ImageSource]:
        """The images, for an answer that needs no labels; a row that is wrong is an error here too."""
        _raise(self, [f"{row.where}: {row.fault}" for row in self.rows if row.fault])
        return [row.source for row in self.rows]

    @property
    def domain_names(self) -> tuple[str, ...]:
        """Its domains, sorted; a row that tells none is an error."""
        if not self.rows:
            raise DataError(f"There are no images in {self.root}. {self.expected}")
        faulty = [row for row in self.rows if row.fault or not row.domain]
        _raise(self, [f"{row.where}: {row.fault or 'domain is empty'}" for row in faulty])
        return tuple(sorted({row.domain for row in self.rows}))

    def named_by(self, pattern: str) -> Table:
        """With the domains (and labels and splits) that a pattern finds in the names of images, where one is given.

        Where the table tells no domains otherwise, all images are of one that is called like the table.
        """
        if not pattern and self.has_domains:
            return self
        if not pattern:
            return replace(self, rows=[row._replace(domain=self.name) for row in self.rows], has_domains=True)
        compiled = PathPattern(pattern)

        def renamed(row: Row) -> Row:
            if row.fault:
                return row
            found = compiled.names(row.name)
            if found is None:
                return row._replace(fault=f"{as_text(row.name)!r} does not match the pattern {pattern}")
            return row._replace(
                domain=found["domain"], label=found.get("label", row.label), split=found.get("split", row.split)
            )

        labelled = self.has_labels or "label" in compiled.given
        return replace(self, rows=[renamed(row) for row in self.rows], has_domains=True, has_labels=labelled)


def cell_text(value: Any) -> str:
    """What a cell says as text, empty where it says nothing; a whole number has no decimals.

    >>> cell_text(3.0), cell_text(" dog "), cell_text(float("nan")), cell_text(None)
    ('3', 'dog', '', '')
    """
    if value is None or value != value:  # NaN is not itself
        return ""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    return str(value).strip()


def index_rows(table: Table, request: LoadRequest) -> ImageIndex:
    """The images of the domains asked for; what is wrong with their rows is told all at once.

    Of the other domains nothing is looked at but their names.
    """
    table = table.named_by(request.domain_from)
    known = table.domain_names
    if not table.has_labels:
        raise DataError(f"{table.root} does not say what its images show: it has no labels. {table.expected}")
    chosen = known if request.domains is None else request.domains
    check_domains(chosen, known, table.root)
    wanted = set(chosen)
    rows = [row for row in table.rows if row.domain in wanted]
    _raise(table, list(_faults(rows, missing_too=not request.skip_bad)))
    class_names = tuple(sorted({row.label for row in rows}))
    classes_of = {domain: {row.label for row in rows if row.domain == domain} for domain in chosen}
    check_classes(
        table.root,
        classes_of,
        class_names,
        request.allow_one_class,
        add="Add images of a second class to each domain.",
        same="give a class the same label everywhere.",
    )
    position = {name: i for i, name in enumerate(chosen)}
    number = {name: i for i, name in enumerate(class_names)}
    if table.any_order:
        rows = sorted(rows, key=lambda row: (row.label, row.source.path))
    rows = sorted(rows, key=lambda row: position[row.domain])  # what is equal keeps its order
    splits, of_splits = _splits(table, rows)
    return ImageIndex(
        name=table.name,
        root=table.root,
        sources=[row.source for row in rows],
        labels=np.array([number[row.label] for row in rows], np.int64),
        domains=np.array([position[row.domain] for row in rows], np.int64),
        class_names=class_names,
        domain_names=tuple(chosen),
        splits=splits,
        ignored=table.ignored,
        warnings=(*table.warnings, *of_splits, *class_warnings(classes_of, class_names, "write it in one way.")),
    )


def _raise(table: Table, faults: Sequence[str]) -> None:
    if faults:
        raise DataError(
            f"{counted(len(faults), 'row')} of {table.root} cannot be used: {_some(faults)}. {table.expected}"
        )


def _faults(rows: Sequence[Row], *, missing_too: bool) -> Iterator[str]:
    """What is wrong with rows that are to be used; a missing file unless such are to be left out."""
    first: dict[str, str] = {}
    for row in rows:
        if not row.label:
            yield f"{row.where}: label is empty"
        if row.split and row.split not in SPLITS:
            yield f"{row.where}: split is {row.split!r}, expected train, val or test"
        path = row.source.path
        if first.setdefault(path, row.where) != row.where:
            yield f"{row.where}: {as_text(path)} stands in {first[path]} already, and each image may stand there once"
        if missing_too and isinstance(row.source, FileImage) and (reason := _no_file(row.source.file)):
            yield f"{row.where}: {reason}"


def _no_file(path: Path) -> str:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return f"there is no file {as_text(str(path))}"
    return f"{as_text(str(path))} is a folder, not an image" if stat.S_ISDIR(mode) else ""


def _splits(table: Table, rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The official split of each row where all have one, and a warning where only some do."""
    if all(row.split for row in rows):
        return tuple(SPLITS[row.split] for row in rows), ()
    some_have = any(row.split for row in rows)
    return (), (f"Only some images of {table.root} have an official split; none is used.",) if some_have else ()
