"""Kinds of figure, each registered by a decorator in its own file, and the figures that runs give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from homefold.report.runs import RunFolder, numbered, slug
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.registry import Registry

__all__ = ["FIGURES", "Draw", "Figure", "FigureKind", "build_figures", "figure"]


@dataclass(frozen=True)
class Figure:
    """A picture and the words that go with it.

    Args:
        name: of its file, without the ending.
        caption: what is shown, of what, and how many.
        alt: what a reader who cannot see it should know.
        format: `svg` or `png`.
        data: the file's bytes.
        wide: it needs the whole width of a page.
    """

    name: str
    title: str
    caption: str
    alt: str
    format: str
    data: bytes
    wide: bool = False


Draw = Callable[[RunFolder], Iterable[Figure]]
"""Draws figures of one kind, one for each setup and target that has it; nothing where the runs do not hold it."""


@dataclass(frozen=True)
class FigureKind:
    """A section of the report.

    Args:
        family: of kinds that stand together.
        needs: what runs must hold for it to be there.
        draw: makes its figures.
        place: among all kinds.
        figures: as they were drawn from runs; none where these do not hold what it needs.
    """

    family: str
    title: str
    needs: str
    draw: Draw
    place: float
    figures: tuple[Figure, ...] = ()


FIGURES: Registry[FigureKind] = Registry("figure", __name__, order=lambda kind: (kind.place, kind.title))
"""Every kind by title. Files that draw are imported, and matplotlib with them, when the first is asked for."""


def figure(title: str, *, family: str, needs: str, place: float = 1000) -> Callable[[Draw], Draw]:
    """Register the decorated function as what draws a kind of figure; the arguments are those of `FigureKind`."""

    def keep(draw: Draw) -> Draw:
        FIGURES.add(title, FigureKind(family, title, needs, draw, place), by=draw)
        return draw

    return keep


def build_figures(folder: RunFolder, reporter: ProgressReporter | None = None) -> list[FigureKind]:
    """Draw everything there is data for; a section without data comes back without figures."""
    sections: list[FigureKind] = []
    seen: Counter[str] = Counter()
    with (reporter or SilentReporter()).task("Figures", len(FIGURES)) as task:
        for kind in FIGURES.values():
            figures = tuple(replace(drawn, name=numbered(slug(drawn.name), seen)) for drawn in kind.draw(folder))
            sections.append(replace(kind, figures=figures))
            task.advance()
    return sections
