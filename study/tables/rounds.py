"""Runs that several tables read: the final runs of the preset, and the rounds that judged projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from writing import markdown

from tables.reading import Case, gain, held_out, on_target, read

F = "without-projection"
"""The method that every gain of a projection is measured against."""
STYLED = "style.manifold=domains,style.weight=0.5"
"""Half the way to the styles of each domain."""

_RENAMED = {
    "vae": "vae:style.blocks=[]",
    "nearest": "nearest:style.blocks=[]",
    "vae:style.blocks=layer1/layer2,style.manifold=mean,style.weight=0.5": "vae",
    "vae:style.blocks=layer1/layer2,style.manifold=domains,style.weight=0.5": "vae:style.manifold=domains",
    "vae:style.blocks=layer1/layer2,style.manifold=domains,style.weight=0.5,projection.views=8": (
        "vae:style.manifold=domains,projection.views=8"
    ),
    "without-projection:style.blocks=layer1/layer2,style.manifold=domains,style.weight=0.5": (
        "without-projection:style.blocks=early,style.manifold=domains,style.weight=0.5"
    ),
}
"""What the first three seeds of the preset were called, before their settings were the preset."""


def preset_runs() -> dict[str, dict[Case, float]]:
    """The preset on the targets of PACS, six seeds, under the names of today."""
    found = read("pacs-more-seeds")
    for name, values in read("pacs").items():
        found[_RENAMED.get(name, name)].update(values)
    return found


def first_pacs() -> dict[str, dict[Case, float]]:
    """The projections of the first round on PACS."""
    return read("pacs-pairs", keep=lambda run: held_out(run) and "cross_entropy_weight" in run.changes)


class Place(NamedTuple):
    """Where the seventh round judged: its accuracies, and what more views and styles are called there."""

    name: str
    found: Mapping[str, Mapping[Case, float]]
    views: str
    styles: str


def seventh_round() -> list[Place]:
    """Held-out sources and targets of both datasets."""
    pacs = ("projection.views=8", "style.blocks=early,style.manifold=domains")
    digits = ("projection.textures=4", "style.blocks=early")
    return [
        Place("PACS, held-out", read("pacs-pairs-7"), *pacs),
        Place("PACS, targets", read("pacs-projections-7"), *pacs),
        Place("Digits-DG, held-out", read("digits-dg-projections-7_2core", keep=held_out), *digits),
        Place("Digits-DG, targets", read("digits-dg-projections-7", keep=on_target), *digits),
    ]


def across(heading: str, rows: Mapping[str, Callable[[Place], tuple[str, str]]]) -> str:
    """The gain of one method over another in every place of the seventh round, both named for the place."""
    places = seventh_round()
    lines = []
    for name, pair in rows.items():
        line = [name]
        for place in places:
            method, control = pair(place)
            line.append(gain(place.found[method], place.found[control]))
        lines.append(line)
    return markdown([heading, *(place.name for place in places)], lines)
