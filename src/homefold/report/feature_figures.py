"""Pictures of feature spaces: A-distances, t-SNE, and how the loss falls as a sample is brought home."""

from __future__ import annotations

import math

import numpy as np
from sklearn.manifold import TSNE

from homefold.data.stratified import stratified_rows
from homefold.report.artifacts import Artifact
from homefold.report.divergence import FOLDS, SAMPLES, a_distance, mean_pairwise_a_distance
from homefold.report.drawing import AFTER, BEFORE, COLOURS, WRONG, Figure, canvas, grouped_bars, legend_below, to_svg
from homefold.report.names import FULL, short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import full_runs, kept, one_per_target, whole_sources

__all__ = ["loss_curves", "source_distances", "target_distances", "tsne_maps"]

_DEEP_ALL_COLOUR = "#999999"
_MOST_POINTS = 900
_MOST_CURVES = 4
_MARKERS = "os^DvPX*"
_LONGEST_LEGEND = 16

Bars = dict[str, dict[str, float]]
"""Heights by name of the series, by target."""


def target_distances(folder: RunFolder) -> list[Figure]:
    """A-distance between the sources and each target: Deep All, and f before and after the projection."""
    figures = []
    for setup, runs in whole_sources(folder):
        bars: Bars = {}
        for method, features, series in (
            ("deep-all", "target_features", "Deep All"),
            ("f", "target_features", "f_θ, not projected"),
            ("f", "target_projected", "f_θ, projected"),
        ):
            for target, (_, artifact) in _of(folder, runs, method, "source_features", features).items():
                if min(len(artifact["source_features"]), len(artifact[features])) >= FOLDS:
                    distance = a_distance(artifact["source_features"], artifact[features])
                    bars.setdefault(series, {})[target] = distance
        if bars:
            figures.append(_distance_figure("a-distance-target", "A-distance: sources to target", setup, bars))
    return figures


def source_distances(folder: RunFolder) -> list[Figure]:
    """Mean A-distance between the source domains: Deep All against f."""
    figures = []
    for setup, runs in whole_sources(folder):
        bars: Bars = {}
        for method, series in (("deep-all", "Deep All"), ("f", "f_θ")):
            for target, (_, artifact) in _of(folder, runs, method, "source_features", "source_domains").items():
                distance = mean_pairwise_a_distance(artifact["source_features"], artifact["source_domains"])
                if distance is not None:
                    bars.setdefault(series, {})[target] = distance
        if bars:
            figures.append(_distance_figure("a-distance-source", "A-distance: source to source", setup, bars))
    return figures


def _of(folder: RunFolder, runs: list[Run], method: str, *arrays: str) -> dict[str, tuple[Run, Artifact]]:
    """One run a target: Deep All's, or one with the features of f."""
    methods = ("deep-all",) if method == "deep-all" else (*FULL, "without-projection")
    found: dict[str, tuple[Run, Artifact]] = {}
    for name in methods:
        chosen = [run for run in runs if run.method == name]
        found = {**one_per_target(list(kept(folder, chosen, *arrays))), **found}
    return found


def _distance_figure(name: str, title: str, setup: Setup, bars: Bars) -> Figure:
    targets = sorted({target for heights in bars.values() for target in heights})
    colours = {"Deep All": _DEEP_ALL_COLOUR, "f_θ, not projected": BEFORE, "f_θ, projected": AFTER, "f_θ": AFTER}
    nothing = [math.nan] * len(targets)
    series = [
        (key, colours[key], [heights.get(target, math.nan) for target in targets], nothing)
        for key, heights in bars.items()
    ]
    with canvas() as (figure, axis):
        grouped_bars(axis, targets, series)
        axis.set_ylabel("A-distance (lower: more alike)")
        axis.set_ylim(min(0, *(height for heights in bars.values() for height in heights.values())), 2.08)
        legend_below(figure, axis)
        data = to_svg(figure)
    means = ", ".join(f"{key} {np.mean(list(heights.values())):.2f}" for key, heights in bars.items())
    between_sources = "all pairs of source domains, by the target that was left out"
    what = between_sources if name.endswith("source") else "the pooled sources and each target"
    caption = (
        f"{setup.title}. 2(1 − 2·error) of a linear SVM (C = 1, 5-fold cross validation, standardised features, at "
        f"most {SAMPLES} samples a side) for {what}; n = {len(targets)} targets, lowest seed of each. 2: told apart "
        "without error; 0: by guessing."
    )
    return Figure(f"{name}-{setup.slug}", title, caption, f"Bars of A-distance; means: {means}.", "svg", data)


def tsne_maps(folder: RunFolder) -> list[Figure]:
    """Features of the sources and the target in the plane, by class and by domain, for Deep All and for f."""
    figures = []
    arrays = ("source_features", "source_labels", "source_domains")
    for setup, runs in whole_sources(folder):
        for method, title in (("deep-all", "Deep All"), ("f", "f_θ")):
            found = _of(folder, runs, method, *arrays)
            if found:
                target = sorted(found)[0]
                figures += _maps(setup, title, target, *found[target])
    return figures


def _maps(setup: Setup, title: str, target: str, run: Run, artifact: Artifact) -> list[Figure]:
    features, labels, domains = (artifact[name] for name in ("source_features", "source_labels", "source_domains"))
    names = [artifact.source_name(int(domain)) for domain in domains]
    if artifact.has("target_features", "target_index", "labels"):
        features = np.concatenate([features, artifact["target_features"]])
        labels = np.concatenate([labels, artifact.target_feature_labels()])
        names += [f"{target} (unseen)"] * len(artifact["target_features"])
    if len(features) < 10:
        return []
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
    figures = []
    for by, groups in (("class", classes), ("domain", names)):
        data = _scatter(places, groups)
        key = "deep-all" if title == "Deep All" else "f"
        figures.append(
            Figure(
                f"tsne-{key}-{by}-{setup.slug}",
                f"{title} features by {by}",
                caption,
                f"Scatter of {count} features, coloured by {by} ({len(set(groups))}).",
                "svg",
                data,
            )
        )
    return figures


def _scatter(places: np.ndarray, groups: list[str]) -> bytes:
    groups_array = np.array(groups)
    names = sorted(set(groups), key=lambda name: ("(unseen)" in name, name))
    with canvas(height=4.6 if len(names) <= _LONGEST_LEGEND else 4.0) as (figure, axis):
        for position, name in enumerate(names):
            chosen = places[groups_array == name]
            colour = COLOURS[position % len(COLOURS)]
            marker = _MARKERS[position // len(COLOURS) % len(_MARKERS)]
            axis.scatter(*chosen.T, s=13, color=colour, marker=marker, alpha=0.75, linewidths=0, label=name)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(visible=False)
        axis.set_aspect("equal", adjustable="datalim")
        if len(names) <= _LONGEST_LEGEND:
            legend_below(figure, axis, columns=4, marker_scale=2)
        return to_svg(figure)


def loss_curves(folder: RunFolder) -> list[Figure]:
    """How L_S falls with the steps for single samples, with the elbow marked."""
    figures = []
    for setup, runs in whole_sources(folder):
        _, found = full_runs(folder, runs, "curve_loss", "curve_elbow")
        for target, (run, artifact) in one_per_target(found).items():
            figures.append(_loss_figure(setup, target, run, artifact))
    return figures


def _loss_figure(setup: Setup, target: str, run: Run, artifact: Artifact) -> Figure:
    curves = artifact["curve_loss"][:_MOST_CURVES].astype(np.float64)
    elbows = artifact["curve_elbow"][: len(curves)].astype(int).clip(0, curves.shape[1] - 1)
    with canvas() as (figure, axis):
        for position, (curve, elbow) in enumerate(zip(curves, elbows, strict=True)):
            colour = COLOURS[position]
            axis.plot(curve, color=colour, linewidth=1.4, label=f"sample {position + 1}: n* = {elbow}")
            axis.plot(elbow, curve[elbow], "o", color=WRONG, markeredgecolor="black", markersize=7, zorder=3)
        axis.set_xlabel("step")
        axis.set_ylabel("L_S = 1 − cos")
        legend_below(figure, axis, columns=2)
        data = to_svg(figure)
    caption = (
        f"{setup.title}, target {target}, {short_name(run.method)}, seed {run.seed}. L_S = 1 − cos against the step "
        f"for n = {len(curves)} samples; dots mark the elbow n*."
    )
    alt = f"Falling curves of the loss; elbows at {', '.join(map(str, elbows))}."
    return Figure(f"loss-{target}-{setup.slug}", f"Loss against step on {target}", caption, alt, "svg", data)
