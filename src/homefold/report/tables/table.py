"""A table as plain data: what stands in each cell, before anybody decides how it looks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from homefold.report.statistics import Comparison, Summary
from homefold.report.tables.published import PublishedFigure

__all__ = ["Cell", "Lead", "Row", "Table"]

MINUS = "−"


@dataclass(frozen=True)
class Cell:
    """One figure and what stands beside it.

    Args:
        summary: over the seeds that have a value; None when none has.
        expected: how many seeds there should be.
        failed: how many ended in an error.
        comparison: with the row's control.
        best: whether the seeds support that it is ahead of every other row in this column.
        text: stands instead of a figure.
    """

    summary: Summary | None = None
    expected: int = 0
    failed: int = 0
    published: PublishedFigure | None = None
    comparison: Comparison | None = None
    best: bool = False
    text: str = ""
    decimals: int = 2

    @property
    def missing(self) -> int:
        """How many seeds are neither there nor failed."""
        return max(0, self.expected - self.failed - (self.summary.n if self.summary else 0))

    @property
    def main(self) -> str:
        """The figure, or the words that stand for it; never empty."""
        if self.summary:
            return self._figure(self.summary.mean, self.summary.std)
        if self.text:
            return self.text
        if self.expected == 0 and self.published:
            return self._printed(self.published)
        return self.gaps or "not run"

    @property
    def gaps(self) -> str:
        """What is not there, in words; empty when all is."""
        counts = (("failed", self.failed), ("missing", self.missing))
        return ", ".join(f"{word} ({count} of {self.expected})" for word, count in counts if count)

    @property
    def interval(self) -> str:
        """The confidence interval, in brackets."""
        if self.summary is None or self.summary.low is None or self.summary.high is None:
            return ""
        return f"[{self.number(self.summary.low)}, {self.number(self.summary.high)}]"

    @property
    def against_control(self) -> str:
        """The difference to the row's control, and how surely it is one."""
        if self.comparison is None:
            return ""
        p = self.comparison.p
        sure = "" if p is None else ", p < 0.001" if p < 0.001 else f", p = {p:.3f}"
        return f"Δ {self.signed(self.comparison.difference)}{sure}"

    @property
    def against_paper(self) -> str:
        """The paper's figure, and ours minus it."""
        if self.published is None or self.expected == 0:
            return ""
        printed = f"paper {self.number(self.published.mean)}"
        return f"{printed} ({self.signed(self.to_paper)})" if self.to_paper is not None else printed

    @property
    def to_paper(self) -> float | None:
        """Ours minus the paper's."""
        return self.summary.mean - self.published.mean if self.summary and self.published else None

    @property
    def notes(self) -> list[tuple[str, str]]:
        """What stands below the figure: kind and text of each note."""
        notes = [
            ("gaps", self.gaps if self.summary else ""),
            ("interval", self.interval),
            ("control", self.against_control),
            ("paper", self.against_paper),
        ]
        return [(kind, text) for kind, text in notes if text]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        summary, comparison, published = self.summary, self.comparison, self.published
        return {
            "text": self.main,
            "mean": summary.mean if summary else None,
            "std": summary.std if summary else None,
            "ci_low": summary.low if summary else None,
            "ci_high": summary.high if summary else None,
            "runs": summary.n if summary else 0,
            "expected": self.expected,
            "failed": self.failed,
            "missing": self.missing,
            "difference_to_control": comparison.difference if comparison else None,
            "p": comparison.p if comparison else None,
            "paper": published.mean if published else None,
            "paper_std": published.std if published else None,
            "difference_to_paper": self.to_paper,
            "best": self.best,
        }

    def _figure(self, mean: float, std: float | None) -> str:
        return self.number(mean) + ("" if std is None else f" ± {self.number(std)}")

    def _printed(self, figure: PublishedFigure) -> str:
        return self.number(figure.mean) + ("" if figure.std is None else f" ± {figure.std:.1f}")

    def number(self, value: float) -> str:
        """A value with the decimals of this cell."""
        return f"{value:.{self.decimals}f}".replace("-", MINUS)

    def signed(self, value: float | None) -> str:
        """A difference with its sign."""
        rounded = round(value or 0.0, self.decimals)
        sign = MINUS if rounded < 0 else "+" if rounded > 0 else "±"
        return f"{sign}{math.fabs(rounded):.{self.decimals}f}"


@dataclass(frozen=True)
class Row:
    """One row, a cell for each column.

    Args:
        published: it was not run here: all its figures are the paper's.
        control: the name of the row that the differences are to; empty when there is none.
    """

    label: str
    cells: tuple[Cell, ...]
    published: bool = False
    control: str = ""


@dataclass(frozen=True)
class Lead:
    """Who leads the last column of a table, among rows under one setting.

    Args:
        first: the row's name.
        cell: its figure.
        ahead: names of rows it is compared with, the next one and Deep All, and how far it is ahead of each.
        supported: whether the seeds support that it is ahead of every other row.
        fewer: names of rows with too few seeds to compete.
        paper: the printed figure of the paper's own method.
    """

    first: str
    cell: Cell
    ahead: tuple[tuple[str, Comparison | None], ...]
    supported: bool
    fewer: tuple[str, ...]
    paper: PublishedFigure | None


@dataclass(frozen=True)
class Table:
    """A table with its title and all that must be known to read it.

    Args:
        name: of its files.
        caption: protocol, selection, preset, number of runs, and what the signs mean.
        stub: heads the column of labels.
        oracle: models were selected on the target.
        leads: who leads it, under each setting.
    """

    name: str
    title: str
    caption: str
    stub: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    oracle: bool = False
    suite: str = ""
    leads: tuple[Lead, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "suite": self.suite,
            "title": self.title,
            "caption": self.caption,
            "oracle": self.oracle,
            "columns": list(self.columns),
            "rows": [
                {
                    "label": row.label,
                    "control": row.control or None,
                    "published": row.published,
                    "cells": {column: cell.as_dict() for column, cell in zip(self.columns, row.cells, strict=True)},
                }
                for row in self.rows
            ],
        }
