"""The space of features: A-distances between sources and targets, and the features in the plane."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import TSNE
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from homefold.data.splits import stratified_rows
from homefold.report.artifacts import Artifact
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import AFTER, BEFORE, COLOURS, Canvas, canvas, grouped_bars
from homefold.report.names import FULL
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import kept, one_per_target, whole_sources

__all__ = ["a_distance", "mean_pairwise_a_distance", "source_distances", "target_distances", "tsne_maps"]

_SAMPLES, _FOLDS = 500, 5
_MOST_POINTS = 900
_MARKERS = "os^DvPX*"
_LONGEST_LEGEND = 16

_COLOURS = {"Deep All": "#999999", "f_θ, not projected": BEFORE, "f_θ, projected": AFTER, "f_θ": AFTER}


@figure("A-distance between sources and target", family="Feature space", needs="features kept as artifacts", place=8)
def target_distances(folder: RunFolder) -> Iterator[Figure]:
    """A-distance between the sources and each target: Deep All, and f before and after the projection."""

    def distance(source: np.ndarray, target: np.ndarray) -> float | None:
        return a_distance(source, target) if min(len(source), len(target)) >= _FOLDS else None

    series = {
        "Deep All": ("deep-all", "source_features", "target_features"),
        "f_θ, not projected": ("f", "source_features", "target_features"),
        "f_θ, projected": ("f", "source_features", "target_projected"),
    }
    between = "the pooled sources and each target"
    yield from _distances(folder, "a-distance-target", "A-distance: sources to target", distance, series, between)


@figure(
    "A-distance between sources",
    family="Feature space",
    needs="features of two source domains kept as artifacts",
    place=9,
)
def source_distances(folder: RunFolder) -> Iterator[Figure]:
    """Mean A-distance between the source domains: Deep All against f."""
    arrays = ("source_features", "source_domains")
    series = {"Deep All": ("deep-all", *arrays), "f_θ": ("f", *arrays)}
    title, between = "A-distance: source to source", "all pairs of source domains, by the target that was left out"
    yield from _distances(folder, "a-distance-source", title, mean_pairwise_a_distance, series, between)


def _distances(
    folder: RunFolder,
    name: str,
    title: str,
    distance: Callable[[np.ndarray, np.ndarray], float | None],
    series: Mapping[str, tuple[str, str, str]],
    between: str,
) -> Iterator[Figure]:
    """Bars of a distance of two arrays; `series` says by name whose runs it is of, and which arrays of theirs."""
    for setup, runs in whole_sources(folder):
        bars: dict[str, dict[str, float]] = {}
        for key, (method, *arrays) in series.items():
            for target, (_, artifact) in _runs_with_features(folder, runs, method, *arrays).items():
                if (found := distance(*(artifact[array] for array in arrays))) is not None:
                    bars.setdefault(key, {})[target] = found
        if bars:
            yield _bars(f"{name}-{setup.slug}", title, setup, bars, between)


def _runs_with_features(
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


@figure("t-SNE by class and domain", family="Feature space", needs="features kept as artifacts", place=10)
def tsne_maps(folder: RunFolder) -> Iterator[Figure]:
    """Features of the sources and the target in the plane, by class and by domain, for Deep All and for f."""
    arrays = ("source_features", "source_labels", "source_domains")
    for setup, runs in whole_sources(folder):
        for method, title in (("deep-all", "Deep All"), ("f", "f_θ")):
            found = _runs_with_features(folder, runs, method, *arrays)
            if found:
                target = sorted(found)[0]
                yield from _maps(setup, method, title, target, *found[target])


def _maps(setup: Setup, method: str, title: str, target: str, run: Run, artifact: Artifact) -> Iterator[Figure]:
    features, labels, domains = (artifact[name] for name in ("source_features", "source_labels", "source_domains"))
    names = [artifact.source_name(int(domain)) for domain in domains]
    if artifact.has("target_features", "target_index", "labels"):
        features = np.concatenate([features, artifact["target_features"]])
        labels = np.concatenate([labels, artifact["labels"][artifact["target_index"].astype(int)]])
        names += [f"{target} (unseen)"] * len(artifact["target_features"])
    if len(features) < 10:
        return
    of = np.stack([labels.astype(np.int64), np.unique(names, return_inverse=True)[1]], axis=1)
    rows = stratified_rows(of, _MOST_POINTS, seed=0)
    count = f"{len(rows)} of {len(features)}"
    features, labels, names = features[rows].astype(np.float32), labels[rows], [names[row] for row in rows]
    perplexity = min(30.0, (len(features) - 1) / 3)
    places = TSNE(init="pca", perplexity=perplexity, random_state=0, max_iter=750).fit_transform(features)
    classes = [artifact.class_name(int(label)) for label in labels]
    caption = (
        f"{setup.title}, target {target}, seed {run.seed}. t-SNE of {count} features, each class and domain with its "
        "share; nearness within a clump means something, the distance between clumps does not."
    )
    for by, groups in (("class", classes), ("domain", names)):
        alt = f"Scatter of {count} features, coloured by {by} ({len(set(groups))})."
        name = f"tsne-{method}-{by}-{setup.slug}"
        yield _scatter(places, np.array(groups)).named(name, f"{title} features by {by}", caption, alt)


def _scatter(places: np.ndarray, groups: np.ndarray) -> Canvas:
    names = sorted(set(groups.tolist()), key=lambda name: ("(unseen)" in name, name))
    with canvas(height=4.6 if len(names) <= _LONGEST_LEGEND else 4.0) as drawn:
        axis = drawn.axes
        for position, name in enumerate(names):
            colour = COLOURS[position % len(COLOURS)]
            marker = _MARKERS[position // len(COLOURS) % len(_MARKERS)]
            look = {"color": colour, "marker": marker, "alpha": 0.75, "linewidths": 0, "label": name}
            axis.scatter(*places[groups == name].T, s=13, **look)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(visible=False)
        axis.set_aspect("equal", adjustable="datalim")
        if len(names) <= _LONGEST_LEGEND:
            drawn.legend(columns=4, marker_scale=2)
    return drawn
