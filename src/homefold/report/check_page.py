"""What `homefold check` found as one HTML page that needs nothing beside it: no network, no other file, no script."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from homefold.report.figures import Figure
from homefold.report.figures.drawing import AFTER, BEFORE, COLOURS, Bars, canvas, grouped_bars
from homefold.report.render import check_html
from homefold.stages.check_words import HOW_WRONG, estimates_of, facts_of, headline, percent

if TYPE_CHECKING:
    from homefold.stages.check import DomainCheck

__all__ = ["CheckPage", "Thumbnail", "check_page"]

_THUMBNAIL_PX = 160
_CLASSES_DRAWN = 30
_BINS = 30
_NEW = "new images"


@dataclass(frozen=True)
class Thumbnail:
    """A small picture with its words."""

    data: bytes
    title: str
    caption: str


@dataclass(frozen=True)
class CheckPage:
    """All that the page says.

    Args:
        title: its heading.
        headline: what matters most, in a sentence.
        advice: what to do next.
        facts: figures by name.
        estimates: name and value of each estimate.
        figures: distributions and classes.
        unusual: the most unusual images.
        duplicates: a line for each copy of a training image.
        unknown: what could not be told.
    """

    title: str
    headline: str
    advice: tuple[str, ...]
    facts: dict[str, str]
    estimates: tuple[tuple[str, str], ...]
    figures: tuple[Figure, ...]
    unusual: tuple[Thumbnail, ...]
    duplicates: tuple[str, ...]
    unknown: tuple[str, ...]
    honest: str = HOW_WRONG

    @property
    def lists(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Anchor, heading and entries of each list that has any."""
        lists = [
            ("duplicates", "Copies of training images", self.duplicates),
            ("unknown", "Not told", self.unknown),
        ]
        return [listed for listed in lists if listed[2]]


def check_page(found: DomainCheck, facts: Mapping[str, str], *, pictures: bool = True) -> str:
    """The page as HTML.

    Args:
        found: what was found.
        facts: what to name at its head beside it: the model, the images.
        pictures: whether the most unusual images are on it.
    """
    page = CheckPage(
        title="Will it hold up there?",
        headline=headline(found),
        advice=found.advice,
        facts={**facts, **facts_of(found)},
        estimates=estimates_of(found),
        figures=tuple(_figures(found)),
        unusual=tuple(_thumbnails(found)) if pictures else (),
        duplicates=_duplicates(found),
        unknown=found.unknown,
    )
    return check_html(page)


def _figures(found: DomainCheck) -> list[Figure]:
    drawn = [
        _distributions(
            "off-manifold",
            "Distance from the source manifold",
            "off-manifold score",
            found.off_manifold,
            "Right of 1 is farther than 95 % of held-out source images.",
        )
    ]
    if found.style:
        text = "How far the style of an image is from that of the nearest source domain."
        drawn.append(_distributions("style", "Distance from the source styles", "style distance", found.style, text))
    drawn.append(_class_balance(found))
    return drawn


def _distributions(name: str, title: str, label: str, groups: Mapping[str, np.ndarray], caption: str) -> Figure:
    """The new images and the held-out ones of each source domain, one above the other on one axis."""
    order = ["", *(group for group in groups if group and len(groups[group]))]
    highest = max(float(np.quantile(groups[group], 0.99)) for group in order)
    edges = np.linspace(0, max(highest, 1e-6), _BINS + 1)
    with canvas(5.2, 0.7 + 0.75 * len(order), nrows=len(order), sharex=True, squeeze=False) as drawn:
        for place, (axis, group) in enumerate(zip(drawn.axes[:, 0], order, strict=True)):
            colour = "#D55E00" if not group else COLOURS[(place - 1) % len(COLOURS)]
            values = np.minimum(groups[group], edges[-1])
            axis.hist(values, edges, weights=np.full(len(values), 1 / len(values)), color=colour)
            axis.axvline(float(np.median(values)), color="#222222", linewidth=1)
            axis.set_ylabel(group or _NEW, rotation=0, ha="right", va="center")
            axis.set_yticks([])
        drawn.axes[-1, 0].set_xlabel(label)
    medians = ", ".join(f"{group or _NEW} {float(np.median(groups[group])):.2f}" for group in order)
    return drawn.named(name, title, f"{caption} Lines are medians.", f"Histograms; medians: {medians}.")


def _class_balance(found: DomainCheck) -> Figure:
    """How often each class is expected, beside the sources; the most frequent where there are many."""
    ranked = sorted(found.classes, key=lambda name: -found.classes[name].expected)[:_CLASSES_DRAWN]
    names = [name for name in found.classes if name in ranked]
    expected = [100 * found.classes[name].expected for name in names]
    shares = [found.classes[name].sources for name in names]
    series = [Bars(_NEW, AFTER, [[value] for value in expected])]
    if None not in shares:
        series.append(Bars("sources", BEFORE, [[100 * (share or 0)] for share in shares]))
    with canvas(max(5.2, 0.4 * len(names))) as drawn:
        grouped_bars(drawn.axes, names, series)
        drawn.axes.set_ylabel("% of images")
        drawn.legend()
    told = ", ".join(f"{name} {value:.0f} %" for name, value in zip(names, expected, strict=True))
    return drawn.named(
        "classes", "Expected class balance", "The mean probability of each class.", told, wide=len(names) > 12
    )


def _thumbnails(found: DomainCheck) -> list[Thumbnail]:
    made = []
    for each in found.unusual:
        picture = Image.fromarray(each.pixels)
        picture.thumbnail((_THUMBNAIL_PX, _THUMBNAIL_PX))
        stream = io.BytesIO()
        picture.save(stream, format="png")
        caption = f"{each.how_far} · {each.path or f'image {each.image}'}"
        made.append(Thumbnail(stream.getvalue(), f"{each.label} ({percent(each.confidence)})", caption))
    return made


def _duplicates(found: DomainCheck) -> tuple[str, ...]:
    paths = found.predictions.paths
    return tuple(
        f"{paths[each.image] if paths else f'image {each.image}'} {'is' if each.exact else 'is nearly'} {each.source}"
        for each in found.duplicates or ()
    )
