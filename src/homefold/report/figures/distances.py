"""A-distances: between the sources and each target, and among the sources."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from homefold.report.artifacts import Artifact
from homefold.report.divergence import FOLDS, SAMPLES, a_distance, mean_pairwise_a_distance
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import AFTER, BEFORE, canvas, grouped_bars
from homefold.report.names import FULL
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import kept, one_per_target, whole_sources

__all__ = ["runs_with_features", "source_distances", "target_distances"]

_COLOURS = {"Deep All": "#999999", "f_θ, not projected": BEFORE, "f_θ, projected": AFTER, "f_θ": AFTER}


@figure("A-distance between sources and target", family="Feature space", needs="features kept as artifacts", place=8)
def target_distances(folder: RunFolder) -> Iterator[Figure]:
    """A-distance between the sources and each target: Deep All, and f before and after the projection."""

    def to(features: str) -> Callable[[Artifact], float | None]:
        def distance(artifact: Artifact) -> float | None:
            source, target = artifact["source_features"], artifact[features]
            return a_distance(source, target) if min(len(source), len(target)) >= FOLDS else None

        return distance

    series = {
        "Deep All": ("deep-all", ("source_features", "target_features"), to("target_features")),
        "f_θ, not projected": ("f", ("source_features", "target_features"), to("target_features")),
        "f_θ, projected": ("f", ("source_features", "target_projected"), to("target_projected")),
    }
    between = "the pooled sources and each target"
    yield from _distances(folder, "a-distance-target", "A-distance: sources to target", series, between)


@figure(
    "A-distance between sources",
    family="Feature space",
    needs="features of two source domains kept as artifacts",
    place=9,
)
def source_distances(folder: RunFolder) -> Iterator[Figure]:
    """Mean A-distance between the source domains: Deep All against f."""

    def distance(artifact: Artifact) -> float | None:
        return mean_pairwise_a_distance(artifact["source_features"], artifact["source_domains"])

    arrays = ("source_features", "source_domains")
    series = {"Deep All": ("deep-all", arrays, distance), "f_θ": ("f", arrays, distance)}
    between = "all pairs of source domains, by the target that was left out"
    yield from _distances(folder, "a-distance-source", "A-distance: source to source", series, between)


Series = Mapping[str, tuple[str, tuple[str, ...], Callable[[Artifact], float | None]]]
"""By name: whose runs, the arrays that they must have kept, and the distance of one."""


def _distances(folder: RunFolder, name: str, title: str, series: Series, between: str) -> Iterator[Figure]:
    for setup, runs in whole_sources(folder):
        bars: dict[str, dict[str, float]] = {}
        for key, (method, arrays, distance) in series.items():
            for target, (_, artifact) in runs_with_features(folder, runs, method, *arrays).items():
                if (found := distance(artifact)) is not None:
                    bars.setdefault(key, {})[target] = found
        if bars:
            yield _bars(f"{name}-{setup.slug}", title, setup, bars, between)


def runs_with_features(
    folder: RunFolder, runs: list[Run], method: str, *arrays: str
) -> dict[str, tuple[Run, Artifact]]:
    """One run a target that kept these arrays: Deep All's, or one with the features of f."""
    found: dict[str, tuple[Run, Artifact]] = {}
    for name in ("deep-all",) if method == "deep-all" else (*FULL, "without-projection"):
        chosen = [run for run in runs if run.method == name]
        found = {**one_per_target(list(kept(folder, chosen, *arrays))), **found}
    return found


def _bars(name: str, title: str, setup: Setup, bars: dict[str, dict[str, float]], between: str) -> Figure:
    targets = sorted({target for heights in bars.values() for target in heights})
    nothing = [math.nan] * len(targets)
    series = [
        (key, _COLOURS[key], [heights.get(target, math.nan) for target in targets], nothing)
        for key, heights in bars.items()
    ]
    with canvas() as drawn:
        grouped_bars(drawn.axes, targets, series)
        drawn.axes.set_ylabel("A-distance (lower: more alike)")
        drawn.axes.set_ylim(min(0, *(height for heights in bars.values() for height in heights.values())), 2.08)
        drawn.legend()
    means = ", ".join(f"{key} {np.mean(list(heights.values())):.2f}" for key, heights in bars.items())
    caption = (
        f"{setup.title}. 2(1 − 2·error) of a linear SVM (C = 1, 5-fold cross validation, standardised features, at "
        f"most {SAMPLES} samples a side) for {between}; n = {len(targets)} targets, lowest seed of each. 2: told apart "
        "without error; 0: by guessing."
    )
    return drawn.named(name, title, caption, f"Bars of A-distance; means: {means}.")
