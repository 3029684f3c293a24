"""The figures that the paper printed, to stand beside ours."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from homefold.report.names import plain_key

__all__ = ["PublishedFigure", "PublishedTable", "place_of", "plain_target", "published_mean_stops", "published_table"]


@dataclass(frozen=True)
class PublishedFigure:
    """One printed figure, in the table's unit, and the deviation printed beside it if any."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class PublishedTable:
    """One of the paper's tables; its backbone is empty where the paper names none."""

    backbone: str
    figures: dict[tuple[str, str, str], PublishedFigure]
    """By method as the paper calls it, setting and plain target."""

    @property
    def methods(self) -> list[tuple[str, str]]:
        """Every (method, setting) in the paper's order."""
        return list(dict.fromkeys((method, setting) for method, setting, _ in self.figures))

    @property
    def targets(self) -> list[str]:
        """Plain targets in the paper's order."""
        return list(dict.fromkeys(target for _, _, target in self.figures))

    def find(self, method: str, setting: str, target: str) -> PublishedFigure | None:
        """The figure of a method as we call it; None where the paper has none."""
        printed = self.printed_method(method)
        return None if printed is None else self.figures.get((printed, setting, plain_target(target)))

    def printed_method(self, method: str) -> str | None:
        """What the paper calls one of our methods in this table; None if it is not there."""
        if method.partition("+")[0] in _NOT_PRINTED:
            return None
        printed = {name for name, _ in self.methods}
        candidates = _PRINTED.get(method, ())
        by_spelling = {plain_key(name): name for name in printed if not name.startswith("Ours")}
        return next((name for name in candidates if name in printed), by_spelling.get(plain_key(method)))


_PRINTED = {
    "deep-all": ("Deep All", "ERM"),
    "without-projection": (r"Ours (w/o G_\phi)",),
    "without-features": (r"Ours (w/o f_\theta)",),
    "nearest": ("1-NN",),
    "gan": (r"Ours (G_\phi = GAN)",),
    "vae": ("Ours", r"Ours (G_\phi = VAE)", r"Ours (f_\theta + G_\phi)"),
}
# Methods that are compared and that the paper has no figures of: none must be found by a likeness of names.
_NOT_PRINTED = ("class-means", "t3a", "tent", "ttt", "shot-im", "memo")

# Other names of the same domain: as DomainBed, the original archives and the paper spell them.
_ALIASES = {
    "art": "artpainting",
    "caltech101": "caltech",
    "voc2007": "pascal",
    "voc": "pascal",
    "pascalvoc": "pascal",
    "sun09": "sun",
    "real": "realworld",
    "synth": "syn",
    "syndigits": "syn",
}

_TABLES = {
    "pacs": "pacs",
    "vlcs": "vlcs",
    "officehome": "officehome",
    "digitsdg": "digitsDG",
    "cifar10c": "robust_cifar10C",
}


def plain_target(name: str) -> str:
    """A target's name reduced to what its spellings share; `a->b` keeps its arrow."""
    parts = [plain_key(part) for part in re.split(r"->|→", name)]
    return "->".join(_ALIASES.get(part, part) for part in parts)


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = files("homefold.report.tables").joinpath("paper_results.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def place_of(table: PublishedTable | None) -> Callable[[str], int]:
    """Where a target stands in the paper's order; others stand behind."""
    places = {target: place for place, target in enumerate(table.targets)} if table else {}
    return lambda target: places.get(plain_target(target), len(places))


def published_table(
    kind: str, dataset: str = "", backbone: str = "", *, source: str | None = None
) -> PublishedTable | None:
    """The paper's table of a kind, as far as it has one for these data.

    Args:
        kind: `targets` (leave-one-domain-out), `samplers`, `single-source`, `few-shot`, `severity`, `beta` or `cost`.
        backbone: decides where the paper has a table for each.
        source: the only source domain, for `single-source`.
    """
    data = plain_key(dataset)
    table = {
        "targets": _TABLES.get(data),
        "samplers": "vlcs_gans" if data == "vlcs" else _TABLES.get(data),
        "single-source": "single_source_ablation" if data == "pacs" and source == "sketch" else None,
        "few-shot": "digitsDA",
        "severity": "robust_cifar10C" if data == "cifar10c" else None,
        "beta": "beta" if data == "pacs" else None,
        "cost": "parameters" if plain_key(backbone) == "resnet18" else None,
    }[kind]
    rows = [row for row in _rows() if row["table"] == table]
    backbones = list(dict.fromkeys(row["backbone"] for row in rows))
    if len(backbones) > 1:
        rows = [row for row in rows if plain_key(row["backbone"]) == plain_key(backbone)]
    if not rows:
        return None
    return PublishedTable(rows[0]["backbone"], dict(_figure(row) for row in rows))


def _figure(row: dict[str, str]) -> tuple[tuple[str, str, str], PublishedFigure]:
    key = (row["method"], _setting(row["setting"]), plain_target(row["target"]))
    return key, PublishedFigure(float(row["accuracy"]), float(row["std"]) if row["std"] else None)


def _setting(text: str) -> str:
    """The number that tells apart rows of one method: samples a class, or the iteration rate."""
    found = re.search(r"(\d+) per class|iteration rate ([\d.]+)", text)
    return next(group for group in found.groups() if group) if found else ""


@cache
def published_mean_stops() -> dict[str, float]:
    """The paper's mean n* by iteration rate."""
    found = (re.search(r"iteration rate ([\d.]+), mean n\* (\d+)", row["setting"]) for row in _rows())
    return {match[1]: float(match[2]) for match in found if match}
