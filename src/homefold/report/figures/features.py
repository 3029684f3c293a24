"""The space of features in the plane: of the sources and the target, by class and by domain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.manifold import TSNE

from homefold.data.splits import stratified_rows
from homefold.report.artifacts import Artifact
from homefold.report.figures import Figure, figure
from homefold.report.figures.distances import runs_with_features
from homefold.report.figures.drawing import COLOURS, Canvas, canvas
from homefold.report.names import short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import own_methods, whole_sources

__all__ = ["tsne_maps"]

_MOST_POINTS = 900
_MARKERS = "os^DvPX*"
_LONGEST_LEGEND = 16


@figure("t-SNE by class and domain", family="Feature space", needs="features kept as artifacts", place=10)
def tsne_maps(folder: RunFolder) -> Iterator[Figure]:
    """Features of the sources and the target in the plane, by class and by domain, for Deep All and for f."""
    arrays = ("source_features", "source_labels", "source_domains")
    for setup, runs in whole_sources(folder):
        own = [(method, short_name(method)) for method in own_methods(runs)]
        for method, title in (("deep-all", "Deep All"), ("f", "f_θ"), *own):
            found = runs_with_features(folder, runs, method, *arrays)
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
