"""Few labelled samples of the target: ways to adapt to them, and where that leads."""

from __future__ import annotations

from statistics import mean

from writing import markdown

from tables.reading import computed, plain, records
from tables.registry import table
from tables.rounds import F

_CHOSEN_ON = {"mnist->usps": "MNIST to USPS", "usps->svhn": "USPS to SVHN", "svhn->usps": "SVHN to USPS"}
_IMAGES = {
    "none": "nothing",
    "samples": "samples alone",
    "together": "source and samples",
    "together, anew": "source and samples, from scratch",
}
_OF_THE_SUITE = {"usps->mnist": "USPS to MNIST", "mnist->svhn": "MNIST to SVHN", "svhn->mnist": "SVHN to MNIST"}
_PAPER = {0: (74.52, 42.96, 64.12), 7: (93.81, 58.92, 92.02), 10: (96.10, 60.07, 95.33)}


@table("few-shot-ways")
def ways() -> str:
    """What f goes on with, ten samples a class, on directions that are none of the suite's."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for row in computed("few-shot-ways")["rows"]:
        pace = f"{row['steps']} at {row['rate']:g}" + (", constant" if row["schedule"] == "constant" else "")
        found.setdefault((_IMAGES[row["images"]], pace if row["steps"] else "0"), {})[row["direction"]] = row
    lines = []
    for way, rows in found.items():
        cells = [plain(rows[pair]["both"]) if pair in rows else "" for pair in _CHOSEN_ON]
        means = [plain(mean(row[c] for row in rows.values())) for c in ("both", "samples", "source")]
        lines.append([*way, *cells, *(means if len(rows) == len(_CHOSEN_ON) else [""] * 3)])
    head = ["f goes on with", "steps at share of the rate", *_CHOSEN_ON.values(), "mean", "C of samples", "C of source"]
    return markdown(head, lines)


@table("few-shot")
def few_shot() -> str:
    """The suite's directions: the paper, before, and now."""
    names = {"deep-all": "Deep All", F: "f, no projection", "vae": "full method"}
    lines = []
    for shots, paper in _PAPER.items():
        for file, when in (("before-few-shot", "before"), ("few-shot_2core", "now")):
            for method, name in names.items():
                here = {
                    run.facts["split"].partition(",")[0]: 100 * run.accuracy
                    for run in records(file)
                    if run.method == method and run.facts["shots"] == shots and run.accuracy is not None
                }
                if here:
                    cells = [plain(here[pair]) if pair in here else "" for pair in _OF_THE_SUITE]
                    whole = plain(mean(here.values())) if len(here) == len(_OF_THE_SUITE) else ""
                    lines.append([f"{shots} a class", f"{name}, {when}", *cells, whole])
        lines.append([f"{shots} a class", "the paper's method", *map(plain, paper), plain(mean(paper))])
    return markdown(["samples", "", *_OF_THE_SUITE.values(), "mean"], lines)
