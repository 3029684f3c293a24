"""Proposition 2 on real features: the error after the projection, and the two terms that bound it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from homefold.report.artifacts import Artifact
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import AFTER, BEFORE, DOTS, canvas
from homefold.report.names import short_name
from homefold.report.runs import RunFolder, Setup
from homefold.report.selecting import Found, by_target, shown_runs, whole_sources, whose

__all__ = ["BoundTerms", "bound_terms", "neighbour_labels", "projection_bound"]

_NEIGHBOURS = 5
_ARRAYS = ("labels", "target_index", "source_features", "source_labels")
_SIDES = {
    "not projected": ("target_features", "predicted_before", BEFORE),
    "projected": ("target_projected", "predicted", AFTER),
}


class BoundTerms(NamedTuple):
    """Shares of target images.

    Args:
        error: whose answer is not their class.
        classifier: term (i), whose answer is not the label of their feature.
        label: term (ii), whose class is not the label of their feature.
    """

    error: float
    classifier: float
    label: float


def neighbour_labels(z: np.ndarray, features: np.ndarray, labels: np.ndarray, count: int = _NEIGHBOURS) -> np.ndarray:
    """g̃(z) of `z: (n, d)`: the class with most of the `count` nearest of `features: (m, d)`, votes by cosine.

    >>> neighbour_labels(np.array([[1.0, 0.1]]), np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([3, 5]), count=1)
    array([3])
    """
    rows, bank = (x.astype(np.float64) for x in (z, features))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    bank /= np.maximum(np.linalg.norm(bank, axis=1, keepdims=True), 1e-12)
    similarity = rows @ bank.T
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :count]
    # From 0 to 2, so that a vote never counts against its class.
    votes = np.zeros((len(rows), int(labels.max()) + 1))
    place = np.arange(len(rows))[:, None]
    np.add.at(votes, (place, labels[nearest]), 1 + similarity[place, nearest])
    found: np.ndarray = votes.argmax(axis=1)
    return found


def bound_terms(artifact: Artifact, z: str, answered: str) -> BoundTerms:
    """The terms on the kept features of a run, under the names of arrays."""
    rows = artifact["target_index"].astype(int)
    truth, answers = artifact["labels"][rows], artifact[answered][rows]
    label = neighbour_labels(artifact[z], artifact["source_features"], artifact["source_labels"])
    return BoundTerms(*(float((a != b).mean()) for a, b in ((truth, answers), (label, answers), (truth, label))))


@figure(
    "Bound of Proposition 2",
    family="Feature space",
    needs="features before and after projection kept as artifacts",
    place=11.5,
)
def projection_bound(folder: RunFolder) -> Iterator[Figure]:
    """E|g̃(z) − h(z*)| ≤ E|g̃(z*) − h(z*)| + E|g̃(z) − g̃(z*)|, each estimated on every target."""
    arrays = (*_ARRAYS, *(array for z, answered, _ in _SIDES.values() for array in (z, answered)))
    for setup, runs in whole_sources(folder):
        for method, found in shown_runs(folder, runs, *arrays):
            yield _bound(setup, method, found)


def _bound(setup: Setup, method: str, found: Found) -> Figure:
    targets = by_target(found)
    words: list[str] = []
    with canvas() as drawn:
        axis, width = drawn.axes, 0.38
        for shift, (side, (z, answered, colour)) in zip((-0.2, 0.2), _SIDES.items(), strict=True):
            places = [place + shift for place in range(len(targets))]
            error, first, second = _percentages(targets, z, answered)
            axis.bar(places, first, width, color=colour, label=f"(i) {side}")
            look = {"color": colour, "alpha": 0.45, "hatch": "///", "edgecolor": "#fefefe", "label": f"(ii) {side}"}
            axis.bar(places, second, width, bottom=first, **look)
            axis.plot(places, error, **{**DOTS, "markersize": 7}, label="_" if words else "wrong answers")
            words.append(f"{side} {error.mean():.1f} % wrong, (i) {first.mean():.1f}, (ii) {second.mean():.1f}")
        axis.set_xticks(range(len(targets)), list(targets))
        axis.set_ylabel("% of target images")
        drawn.legend()
    images = sum(len(artifact["target_index"]) for _, artifact in found)
    caption = (
        f"{setup.title}, {short_name(method)}. Dots: wrong answers, the left side of Proposition 2. Bars: the two "
        "terms that bound it. (i): the answer is not g̃ of the classified feature; (ii): the image’s class is not. g̃, a "
        "feature’s true class, is not known for projected ones; its estimate is the class of the "
        f"{_NEIGHBOURS} nearest source features kept (cosine). n = {images} features of {len(found)} runs."
    )
    name, title = whose(method)
    alt = f"Stacked bars of two terms and dots of the error they bound; means over targets: {'; '.join(words)}."
    return drawn.named(f"bound{name}-{setup.slug}", f"Bound of Proposition 2{title}", caption, alt)


def _percentages(targets: Mapping[str, Found], z: str, answered: str) -> np.ndarray:
    """The terms `(3, targets)` in %, each a mean over runs."""
    means = [
        np.mean([bound_terms(artifact, z, answered) for _, artifact in pairs], axis=0) for pairs in targets.values()
    ]
    return 100 * np.array(means).T
