"""One look for every picture: size, type, colours that colour-blind readers can tell apart, and bytes that repeat."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from homefold.report.figures import Figure
from homefold.report.names import OURS, in_order
from homefold.report.runs import Run
from homefold.report.statistics import NOTHING, summarise

__all__ = [
    "AFTER",
    "BEFORE",
    "COLOURS",
    "DOTS",
    "RIGHT",
    "WRONG",
    "Bars",
    "Canvas",
    "canvas",
    "counted_runs",
    "grouped_bars",
    "grouped_bars_down",
    "method_colour",
    "percent",
    "seed_dots",
]

# The palette of Okabe and Ito.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
RIGHT, WRONG = "#0072B2", "#D55E00"
BEFORE, AFTER = "#E69F00", "#0072B2"
_METHOD_COLOURS = {
    "deep-all": "#999999",
    "without-projection": "#E69F00",
    "without-features": "#CC79A7",
    "nearest": "#56B4E9",
    "gan": "#009E73",
    "vae": "#0072B2",
}
_OTHER_COLOURS = ("#D55E00", "#F0E442", "#000000", "#882255", "#117733", "#332288", "#AA8844")
_DOTS_PER_INCH = 150
DOTS: dict[str, Any] = {
    "linestyle": "",
    "marker": "o",
    "markersize": 3,
    "color": "#fefefe",
    "markeredgecolor": "#222222",
    "markeredgewidth": 0.7,
    "zorder": 3,
}
"""How the dot of a seed looks."""

_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "axes.edgecolor": "#555555",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.parse_math": False,  # a name may hold any sign
    "svg.fonttype": "path",
    "svg.hashsalt": "homefold",
}


@dataclass
class Canvas:
    """What is drawn on, and the picture once its block has ended."""

    figure: Any
    axes: Any
    format: str
    data: bytes = b""

    def named(self, name: str, title: str, caption: str, alt: str, *, wide: bool = False) -> Figure:
        """The picture with its words; see `Figure`."""
        return Figure(name, title, caption, alt, self.format, self.data, wide)

    def legend(self, axis: Any = None, columns: int = 3, marker_scale: float = 1.0) -> None:
        """The legend under the picture, where it covers nothing."""
        handles, labels = (axis or self.axes).get_legend_handles_labels()
        wanted = min(columns, max(1, len(labels)))
        self.figure.legend(handles, labels, loc="outside lower center", ncols=wanted, markerscale=marker_scale)

    def lay_bars_down(self, names: Sequence[str], label: str) -> None:
        """Name horizontal bars, the first at the top, and what their lengths measure."""
        self.axes.grid(axis="x")
        self.axes.grid(visible=False, axis="y")
        self.axes.set_yticks(range(len(names)), names)
        self.axes.invert_yaxis()
        self.axes.set_xlabel(label)


@contextmanager
def canvas(width: float = 5.2, height: float = 3.4, *, format: str = "svg", **options: Any) -> Iterator[Canvas]:
    """A figure with axes as `pyplot.subplots` gives them, in the house style; the same picture has the same bytes."""
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(width, height), layout="constrained", **options)
        drawn = Canvas(figure, axes, format)
        try:
            yield drawn
            drawn.data = _to_bytes(figure, format)
        finally:
            plt.close(figure)


# Paper, lines and type turn round on a dark screen; the colours that carry meaning stay.
_DARK = b"""
@media screen and (prefers-color-scheme: dark) {
  [style*="fill: #ffffff"] { fill: #161b21 !important }
  [style*="fill: #000000"], g[id^="text_"] { fill: #e6eaee !important }
  [style*="stroke: #555555"], [style*="stroke: #000000"] { stroke: #9aa5b1 !important }
  [style*="stroke: #dddddd"] { stroke: #2c343d !important }
  [style*="stroke: #222222"] { stroke: #e6eaee !important }
}
"""


def _to_bytes(figure: Any, format: str) -> bytes:
    """A file without a date; an SVG that follows a dark screen."""
    stream = io.BytesIO()
    if format == "png":
        figure.savefig(stream, format=format, dpi=_DOTS_PER_INCH, metadata={"Software": None})
        return stream.getvalue()
    figure.savefig(stream, format=format, metadata={"Date": None, "Creator": None})
    return stream.getvalue().replace(b"</style>", _DARK + b"</style>", 1)


def method_colour(method: str, methods: Sequence[str]) -> str:
    """A known method has one colour everywhere; the others share what is left."""
    if method in _METHOD_COLOURS:
        return _METHOD_COLOURS[method]
    others = [name for name in in_order(methods) if name not in OURS]
    return _OTHER_COLOURS[others.index(method) % len(_OTHER_COLOURS)]


@dataclass(frozen=True)
class Bars:
    """One bar in each group.

    Args:
        values: of each group, one a seed; the bar is their mean, and a dot stands for each where there are several.
    """

    name: str
    colour: str
    values: Sequence[Collection[float]]

    @property
    def means(self) -> list[float]:
        """The heights; NaN where there are no values."""
        return [(summarise(values) or NOTHING).mean for values in self.values]

    @property
    def spreads(self) -> list[float]:
        """Standard deviations; NaN where there are fewer than two values."""
        found = [(summarise(values) or NOTHING).std for values in self.values]
        return [math.nan if spread is None else spread for spread in found]


def grouped_bars(axis: Any, groups: Sequence[str], series: Sequence[Bars]) -> None:
    """Bars side by side in each group, their spread, and a dot for each seed where there are several."""
    width = 0.82 / len(series)
    for position, bars in enumerate(series):
        places = [i - 0.41 + width * (position + 0.5) for i in range(len(groups))]
        axis.bar(places, bars.means, width * 0.94, label=bars.name, color=bars.colour)
        axis.errorbar(places, bars.means, yerr=bars.spreads, fmt="none", ecolor="#222222", elinewidth=1, capsize=2)
        for place, values in zip(places, bars.values, strict=True):
            axis.plot(*seed_dots(place, values, width), **DOTS)
    axis.set_xticks(range(len(groups)), [_wrapped(group) for group in groups])
    axis.tick_params(axis="x", length=0)


def grouped_bars_down(axis: Any, groups: int, series: Sequence[Bars]) -> None:
    """The same lying down, without spreads, for many groups with long names."""
    thickness = 0.8 / len(series)
    for position, bars in enumerate(series):
        places = [i - 0.4 + thickness * (position + 0.5) for i in range(groups)]
        axis.barh(places, bars.means, thickness * 0.94, label=bars.name, color=bars.colour)
        for place, values in zip(places, bars.values, strict=True):
            axis.plot(*reversed(seed_dots(place, values, thickness)), **DOTS)


def seed_dots(place: float, values: Collection[float], width: float) -> tuple[list[float], list[float]]:
    """Where the dots of seeds stand: spread over half of `width` around `place`, and none for a single value."""
    if len(values) < 2:
        return [], []
    return [place + width * (i / (len(values) - 1) - 0.5) / 2 for i in range(len(values))], list(values)


def counted_runs(runs: Sequence[Run]) -> str:
    """How many finished, and how many did not."""
    done = sum(run.ok for run in runs)
    return f"{done} runs" if done == len(runs) else f"{done} runs ({len(runs) - done} failed)"


def percent(value: float) -> str:
    """A figure in words."""
    return "no value" if math.isnan(value) else f"{value:.1f} %"


def _wrapped(name: str) -> str:
    """A name broken into short lines where that is possible."""
    return "\n".join(textwrap.wrap(name.replace("_", " "), 12, break_long_words=False)) or name
