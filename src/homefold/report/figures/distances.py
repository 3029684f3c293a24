"""A-distances: how surely a linear classifier tells the target from each source, and the sources from each other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from homefold.report.artifacts import Artifact
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import AFTER, BEFORE, Bars, canvas, grouped_bars, method_colour
from homefold.report.names import FULL, short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import kept, one_per_target, own_methods, whole_sources

__all__ = ["a_distance", "mean_pairwise_a_distance", "runs_with_features", "source_distances", "target_distances"]

_SAMPLES, _FOLDS = 500, 5
_SOURCES = ("source_features", "source_domains")
_HOW = (
    f"2(1 − 2·error) of a linear SVM (C = 1, {_FOLDS}-fold cross validation, standardised features, at most {_SAMPLES} "
    "samples a side)"
)
_SCALE = "2: told apart without error; 0: by guessing."


@figure("A-distance between each source and the target", family="Feature space", needs="features kept as artifacts",
        place=8)  # fmt: skip
def target_distances(folder: RunFolder) -> Iterator[Figure]:
    """A-distance from each target to each of its sources: Deep All, f before and after the projection, plugins."""
    for setup, runs in whole_sources(folder):
        panels: dict[str, dict[str, dict[str, float]]] = {}
        for name, method, array in _series(runs):
            for target, (_, artifact) in runs_with_features(folder, runs, method, *_SOURCES, array).items():
                panels.setdefault(target, {})[name] = _to_each_source(artifact, artifact[array])
        if any(found for of_target in panels.values() for found in of_target.values()):
            yield _target_figure(setup, dict(sorted(panels.items())), _colours(runs))


def _series(runs: Sequence[Run]) -> list[tuple[str, str, str]]:
    """Name, method and array of what is compared with the sources."""
    return [
        ("Deep All", "deep-all", "target_features"),
        ("f_θ, not projected", "f", "target_features"),
        ("f_θ, projected", "f", "target_projected"),
        *((short_name(method), method, "target_features") for method in own_methods(runs)),
    ]


def _colours(runs: Sequence[Run]) -> dict[str, str]:
    own = own_methods(runs)
    known = {"Deep All": "#999999", "f_θ, not projected": BEFORE, "f_θ, projected": AFTER, "f_θ": AFTER}
    return known | {short_name(method): method_colour(method, own) for method in own}


def _to_each_source(artifact: Artifact, target: np.ndarray) -> dict[str, float]:
    """The distance to each source domain with enough features, by its name."""
    features, domains = artifact["source_features"], artifact["source_domains"]
    parts = {artifact.source_name(int(domain)): features[domains == domain] for domain in np.unique(domains)}
    usable = {name: part for name, part in parts.items() if min(len(part), len(target)) >= _FOLDS}
    return {name: a_distance(part, target) for name, part in usable.items()}


def _target_figure(setup: Setup, panels: dict[str, dict[str, dict[str, float]]], colours: dict[str, str]) -> Figure:
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    words = []
    width, height = (6.4 if columns > 1 else 5.2), 0.6 + 1.9 * rows
    with canvas(width, height, nrows=rows, ncols=columns, squeeze=False, sharey=True) as drawn:
        for axis in drawn.axes.flat[len(panels) :]:
            axis.axis("off")
        for axis, (target, series) in zip(drawn.axes.flat, panels.items(), strict=False):
            sources = sorted({source for found in series.values() for source in found})
            bars = [
                Bars(name, colours[name], [[found[source]] if source in found else [] for source in sources])
                for name, found in series.items()
            ]
            grouped_bars(axis, sources, bars)
            axis.set_title(f"target {target}", fontsize=10)
            axis.set_ylim(top=2.08)
            found = "; ".join(f"{bar.name} {', '.join(f'{height:.2f}' for height in bar.means)}" for bar in bars)
            words.append(f"{target} from {', '.join(sources)}: {found}")
        for axis in drawn.axes[:, 0]:
            axis.set_ylabel("A-distance")
        drawn.legend(drawn.axes.flat[0])
    caption = (
        f"{setup.title}. {_HOW} between each source and the target, lower being more alike; n = {len(panels)} targets, "
        f"lowest seed of each. {_SCALE}"
    )
    title = "A-distance: each source to the target"
    alt = f"Bars of A-distance. {'. '.join(words)}."
    return drawn.named(f"a-distance-target-{setup.slug}", title, caption, alt)


@figure("A-distance between sources", family="Feature space", needs="features of two source domains kept as artifacts",
        place=9)  # fmt: skip
def source_distances(folder: RunFolder) -> Iterator[Figure]:
    """Mean A-distance between the source domains, by the target that was left out: Deep All, f, plugins."""
    for setup, runs in whole_sources(folder):
        bars: dict[str, dict[str, float]] = {}
        series = {"Deep All": "deep-all", "f_θ": "f", **{short_name(method): method for method in own_methods(runs)}}
        for name, method in series.items():
            for target, (_, artifact) in runs_with_features(folder, runs, method, *_SOURCES).items():
                if (found := mean_pairwise_a_distance(*(artifact[array] for array in _SOURCES))) is not None:
                    bars.setdefault(name, {})[target] = found
        if bars:
            yield _source_figure(setup, bars, _colours(runs))


def _source_figure(setup: Setup, found: dict[str, dict[str, float]], colours: dict[str, str]) -> Figure:
    targets = sorted({target for heights in found.values() for target in heights})
    bars = [
        Bars(name, colours[name], [[heights[target]] if target in heights else [] for target in targets])
        for name, heights in found.items()
    ]
    with canvas() as drawn:
        grouped_bars(drawn.axes, targets, bars)
        drawn.axes.set_ylabel("A-distance (lower: more alike)")
        drawn.axes.set_ylim(min(0, *(height for heights in found.values() for height in heights.values())), 2.08)
        drawn.legend()
    means = ", ".join(f"{name} {np.mean(list(heights.values())):.2f}" for name, heights in found.items())
    caption = (
        f"{setup.title}. {_HOW}, mean over all pairs of source domains, by the target that was left out; "
        f"n = {len(targets)} targets, lowest seed of each. {_SCALE}"
    )
    title = "A-distance: source to source"
    return drawn.named(f"a-distance-source-{setup.slug}", title, caption, f"Bars of A-distance; means: {means}.")


def runs_with_features(
    folder: RunFolder, runs: Sequence[Run], method: str, *arrays: str
) -> dict[str, tuple[Run, Artifact]]:
    """One run a target that kept these arrays: of a method, or of any that has the features of f (`f`)."""
    found: dict[str, tuple[Run, Artifact]] = {}
    for name in (*FULL, "without-projection") if method == "f" else (method,):
        chosen = [run for run in runs if run.method == name]
        found = {**one_per_target(list(kept(folder, chosen, *arrays))), **found}
    return found


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
