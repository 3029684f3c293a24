"""A-distances: between the sources and each target, and among the sources."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from homefold.report.artifacts import Artifact
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import AFTER, BEFORE, canvas, grouped_bars
from homefold.report.names import FULL
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import kept, one_per_target, whole_sources

__all__ = [
    "a_distance",
    "mean_pairwise_a_distance",
    "runs_with_features",
    "source_distances",
    "target_distances",
]

_SAMPLES, _FOLDS = 500, 5

_COLOURS = {"Deep All": "#999999", "f_θ, not projected": BEFORE, "f_θ, projected": AFTER, "f_θ": AFTER}


@figure("A-distance between sources and target", family="Feature space", needs="features kept as artifacts", place=8)
def target_distances(folder: RunFolder) -> Iterator[Figure]:
    """A-distance between the sources and each target: Deep All, and f before and after the projection."""

    def to(features: str) -> Callable[[Artifact], float | None]:
        def distance(artifact: Artifact) -> float | None:
            source, target = artifact["source_features"], artifact[features]
            return a_distance(source, target) if min(len(source), len(target)) >= _FOLDS else None

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
        f"most {_SAMPLES} samples a side) for {between}; n = {len(targets)} targets, lowest seed of each. 2: told "
        "apart without error; 0: by guessing."
    )
    return drawn.named(name, title, caption, f"Bars of A-distance; means: {means}.")


def a_distance(first: np.ndarray, second: np.ndarray, *, samples: int = _SAMPLES, seed: int = 0) -> float:
    """The proxy A-distance 2(1 − 2·error) of two sets of features.

    The error is that of a linear SVM (C = 1) on standardised features under 5-fold cross validation: 2 where it
    always tells the sets apart, about 0 where it can only guess (below 0 where guessing went badly).

    Args:
        first: `(n, d)` features of one domain.
        second: `(m, d)` features of the other.
        samples: how many of each are used at most; both sets give equally many, so that guessing errs in one half.
        seed: of the choice of samples and of the folds.
    """
    count = min(len(first), len(second), samples)
    if count < _FOLDS:
        raise ValueError(f"an A-distance needs {_FOLDS} features of each domain; got {len(first)} and {len(second)}.")
    random = np.random.default_rng(seed)
    chosen = [z[np.sort(random.permutation(len(z))[:count])].astype(np.float64) for z in (first, second)]
    features, domains = np.concatenate(chosen), np.repeat([0, 1], count)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    judge = make_pipeline(StandardScaler(), SVC(kernel="linear", C=1.0, max_iter=100_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        accuracy = cross_val_score(judge, features, domains, cv=folds).mean()
    return float(2 * (1 - 2 * (1 - accuracy)))


def mean_pairwise_a_distance(features: np.ndarray, domains: np.ndarray) -> float | None:
    """The mean A-distance over all pairs of domains; None when fewer than two have enough features."""
    usable = [features[domains == domain] for domain in np.unique(domains)]
    usable = [rows for rows in usable if len(rows) >= _FOLDS]
    pairs = [(a, b) for i, a in enumerate(usable) for b in usable[i + 1 :]]
    return float(np.mean([a_distance(a, b) for a, b in pairs])) if pairs else None
