"""Predictions written one by one: JSON lines, CSV, or a table whose columns are fixed before the first row."""

from __future__ import annotations

import csv
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.cells import cell_len

from homefold.cli.output import json_line
from homefold.stages.predictions import Prediction

__all__ = ["ADAPTED", "AnswerWriter", "CsvWriter", "JsonLinesWriter", "TableWriter"]

ADAPTED = "Each answer depends on the images before it (--adapt), in an order that is the same every time."
"""What is said of answers that a memory gave."""


_FIGURES = (
    "label",
    "confidence",
    "off_manifold",
    "similarity_before",
    "similarity_after",
    "iterations",
    "start",
    "projected",
    "label_without_projection",
)

_SHORTEST_PATH = 16
_OTHER_COLUMNS = 10 + 12 + 3 * 2  # confidence, off-manifold and what stands between


class AnswerWriter(ABC):
    """Where the answers go.

    Args:
        stream: what they are written to.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    @abstractmethod
    def answer(self, path: Path, prediction: Prediction, abstained: bool) -> None:
        """One image's answer."""

    @abstractmethod
    def failure(self, path: Path, reason: str) -> None:
        """One image that could not be read, and why."""


class JsonLinesWriter(AnswerWriter):
    """One JSON object a line: `{"path", "label", …}`, or `{"path", "error"}` for an image that could not be read."""

    def answer(self, path: Path, prediction: Prediction, abstained: bool) -> None:
        self._write({"path": str(path), **prediction.as_dict(), "abstained": abstained})

    def failure(self, path: Path, reason: str) -> None:
        self._write({"path": str(path), "error": reason})

    def _write(self, value: dict[str, object]) -> None:
        self.stream.write(json_line(value) + "\n")


class CsvWriter(AnswerWriter):
    """A header and one row an image; figures that an image does not have stay empty.

    Args:
        stream: where to.
        class_names: all labels that can come.
        adapted: whether a memory answers, which then stands in a column.
    """

    def __init__(self, stream: TextIO, class_names: Sequence[str], *, adapted: bool = False) -> None:
        super().__init__(stream)
        self._class_names = class_names
        self._figures = (*_FIGURES, *(("adapted",) if adapted else ()))
        self._csv = csv.writer(stream, lineterminator="\n")
        probabilities = [f"probability.{name}" for name in class_names]
        self._csv.writerow(["path", *self._figures, "abstained", "error", *probabilities])

    def answer(self, path: Path, prediction: Prediction, abstained: bool) -> None:
        figures = [_as_text(getattr(prediction, name)) for name in self._figures]
        probabilities = [prediction.probabilities[name] for name in self._class_names]
        self._csv.writerow([path, *figures, _as_text(abstained), "", *probabilities])

    def failure(self, path: Path, reason: str) -> None:
        self._csv.writerow([path, *[""] * (len(self._figures) + 1), reason, *[""] * len(self._class_names)])


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if isinstance(value, float) and math.isnan(value) else value


class TableWriter(AnswerWriter):
    """Aligned columns, printed as the answers come.

    Args:
        stream: where to; on a terminal long paths are shortened at their front to fit.
        paths: all that will come, for the width of their column.
        class_names: all labels that can come.
        abstains: whether a label can be marked as abstained from.
    """

    def __init__(self, stream: TextIO, paths: Sequence[Path], class_names: Sequence[str], *, abstains: bool) -> None:
        super().__init__(stream)
        labels = [_marked(name) if abstains else name for name in class_names]
        self._label_width = max(len("label"), *map(cell_len, labels))
        widest = max((cell_len(str(path)) for path in paths), default=0)
        self._path_width = max(len("file"), min(widest, self._room()))
        self._header_due = True

    def _room(self) -> int:
        """Cells that the path may take."""
        if not self.stream.isatty():
            return 10**6
        columns = os.get_terminal_size(self.stream.fileno()).columns
        return max(_SHORTEST_PATH, columns - self._label_width - _OTHER_COLUMNS)

    def answer(self, path: Path, prediction: Prediction, abstained: bool) -> None:
        label = _marked(prediction.label) if abstained else prediction.label
        off = "–" if math.isnan(prediction.off_manifold) else f"{prediction.off_manifold:.2f}"
        plain = prediction.label_without_projection
        remark = f"  without projection: {plain}" if plain not in ("", prediction.label) else ""
        self._row(path, label, f"{100 * prediction.confidence:.1f} %", off, remark)

    def failure(self, path: Path, reason: str) -> None:
        self._row(path, "–", "–", "–")

    def _row(self, path: Path | str, label: str, confidence: str, off: str, remark: str = "") -> None:
        if self._header_due:
            self._header_due = False
            self._row("file", "label", "confidence", "off-manifold")
        start = _fit(str(path), self._path_width)
        self.stream.write(f"{start}  {_fit(label, self._label_width)}  {confidence:>10}  {off:>12}{remark}\n")


def _marked(label: str) -> str:
    return f"abstain ({label})"


def _fit(text: str, width: int) -> str:
    """`text` filled up to `width` cells, or shortened at its front, where paths are alike."""
    if cell_len(text) <= width:
        return text + " " * (width - cell_len(text))
    while cell_len(text) > width - 1:
        text = text[1:]
    return "…" + text + " " * (width - 1 - cell_len(text))
