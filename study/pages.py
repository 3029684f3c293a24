"""Writes the tables of the study's pages from its records: python study/pages.py, or --check to compare only.

A table stands in a page between `<!-- table NAME -->` and `<!-- end -->`; NAME is a function here.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev

from homefold.evaluation.records import RunRecord, read_records

STUDY = Path(__file__).parent
DOMAINS = {"photo": "photo", "art_painting": "art", "cartoon": "cartoon", "sketch": "sketch"}
Case = tuple[str, tuple[str, ...], int]
"""Target, sources, seed."""


def records(name: str) -> list[RunRecord]:
    """The runs of a file of records, the failed ones among them."""
    return read_records(STUDY / "records" / f"{name}.jsonl.xz")


def accuracies(runs: Iterable[RunRecord]) -> dict[str, dict[Case, float]]:
    """Percent by method and case."""
    found: dict[str, dict[Case, float]] = defaultdict(dict)
    for run in runs:
        if run.accuracy is not None:
            case = (run.target, tuple(run.facts["sources"]), run.seed)
            found[run.method][case] = 100 * run.accuracy
    return found


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def signed(value: float) -> str:
    """A difference in points."""
    return "0.0" if round(value, 1) == 0 else f"{value:+.1f}".replace("-", "−")


def by_target(values: dict[Case, float]) -> list[str]:
    """The mean on each target."""
    return [f"{mean(value for case, value in values.items() if case[0] == target):.1f}" for target in DOMAINS]


def share() -> str:
    """How much of the starting weights to keep, all images, held-out source domains."""
    found, rows = accuracies(records("pacs-pairs-keep")), []
    for kept in ("", 0.1, 0.2, 0.3, 0.5):
        changed = f":features.keep_pretrained={kept}" if kept else ""
        row = [f"{kept or 0}"]
        for method in ("without-projection", "vae"):
            values, control = found[method + changed], found[method]
            gains: dict[tuple[str, tuple[str, ...]], list[float]] = defaultdict(list)
            for case, value in values.items():
                gains[case[:2]].append(value - control[case])
            pairs = [mean(gain) for gain in gains.values()]
            error = f"{signed(mean(pairs))} ± {stdev(pairs) / math.sqrt(len(pairs)):.1f}" if kept else ""
            row += [f"{mean(values.values()):.1f}", error]
        rows.append([*row, *by_target(found["vae" + changed])])
    return markdown(["share kept", "f, no projection", "gain", "full method", "gain", *DOMAINS.values()], rows)


def frozen() -> str:
    """A frozen backbone on the targets."""
    rows = []
    for method, values in accuracies(records("pacs-freeze")).items():
        seeds = sorted({case[2] for case in values})
        means = [mean(value for case, value in values.items() if case[2] == seed) for seed in seeds]
        name = "full method" if method.startswith("vae") else "f, no projection"
        rows.append([name, *by_target(values), f"{mean(means):.1f} ± {stdev(means):.1f}"])
    return markdown(["frozen backbone", *DOMAINS.values(), "mean"], rows)


def _recipe(method: str) -> tuple[str, dict[str, str]]:
    kind, _, settings = method.partition(":")
    words = (word.partition("=") for word in settings.split(",") if word)
    return kind, {name.removeprefix("features."): value for name, _, value in words}


def _small(name: str) -> str:
    runs = records(name)
    cases = len({(run.target, tuple(run.facts["sources"]), run.seed) for run in runs if run.accuracy is not None})
    found, rows = accuracies(runs), []
    for method, values in found.items():
        kind, settings = _recipe(method)
        label = {"vae": "full method", "without-projection": "f", "deep-all": "Deep All"}[kind]
        frozen_too = "frozen" if settings.get("freeze") else settings.get("keep_pretrained", "0")
        row = [label, settings.get("epochs", "30"), settings.get("learning_rate", "0.1"), frozen_too]
        rows.append([*row, f"{mean(values.values()):.1f}", str(cases - len(values))])
    rows.sort(key=lambda row: (int(row[-1]) > 0, -float(row[-2])))
    return markdown(["", "epochs", "rate", "share kept", "accuracy", f"failed of {cases}"], rows)


def small_10() -> str:
    """Recipes for ten images a class and domain."""
    return _small("pacs-pairs-small-10")


def small_40() -> str:
    """Recipes for forty images a class and domain."""
    return _small("pacs-pairs-small-40")


def small_pairs() -> str:
    """Recipes for 5, 20 and 100 images a class and domain, held-out source domains."""
    runs, rows = records("pacs-pairs-small"), []
    for size in (5, 20, 100):
        found = accuracies(run for run in runs if run.facts["source_images_per_class"] == size)
        for method, values in sorted(found.items(), key=lambda item: (len(item[1]) < 12, -mean(item[1].values()))):
            kind, settings = _recipe(method)
            if kind != "vae":
                continue
            row = [str(size), settings.get("epochs", "30"), settings.get("learning_rate", "0.1")]
            plain = found.get(method.replace("vae", "without-projection"), {})
            alone = f"{mean(plain.values()):.1f}" if len(plain) == 12 else ""
            complete = f"{mean(values.values()):.1f}" if len(values) == 12 else f"{len(values)} of 12 ran"
            rows.append([*row, settings.get("keep_pretrained", "0"), complete, alone])
    return markdown(["images", "epochs", "rate", "share kept", "full method", "f"], rows)


def small_targets() -> str:
    """The chosen recipe of each size beside the controls, on the targets."""
    runs, rows = records("pacs-small-targets"), []
    names = {"linear-probe": "linear probe", "deep-all": "Deep All", "without-projection": "f", "vae": "full method"}
    for size in (5, 10, 20, 40, 100):
        for method, values in accuracies(run for run in runs if run.facts["source_images_per_class"] == size).items():
            kind, settings = _recipe(method)
            label = f"{names[kind]}, recipe for {size}" if settings else names[kind]
            average = f"{mean(values.values()):.1f}" if len(values) == 4 else ""
            each = {case[0]: f"{value:.1f}" for case, value in values.items()}
            rows.append([str(size), label, *(each.get(target, "collapsed") for target in DOMAINS), average])
    return markdown(["images", "", *DOMAINS.values(), "mean"], rows)


def _old_and_new(new: str, old: str, names: dict[str, str]) -> str:
    now, before, rows = accuracies(records(new)), accuracies(records(old)), []
    for method, label in names.items():
        values, control = now[method], now["without-projection"]
        older = before.get(method, {})
        gain = mean(value - control[case] for case, value in values.items())
        was = f"{mean(older[case] for case in values):.1f}" if values.keys() <= older.keys() else ""
        rows.append([label, f"{mean(values.values()):.1f}", signed(gain), was])
    return markdown(["", "mean of the targets", "to no projection", "older T3A"], rows)


def _t3a_names(views: str, styles: str) -> dict[str, str]:
    t3a = "t3a+without-projection"
    return {
        "without-projection": "f, no projection",
        t3a: "T3A",
        f"vae:{styles}": "full method",
        f"{t3a}:{styles}": "T3A on styles",
        f"without-projection:{views}": "f, more views",
        f"{t3a}:{views}": "T3A, more views",
        f"vae:{styles},{views}": "full method, more views",
        f"{t3a}:{styles},{views}": "T3A on styles, more views",
    }


def t3a_pacs() -> str:
    """T3A with unit-length prototypes on PACS."""
    names = _t3a_names("projection.views=8", "style.blocks=early,style.manifold=domains")
    return _old_and_new("pacs-t3a", "pacs-projections-7", names)


def t3a_digits() -> str:
    """T3A with unit-length prototypes on Digits-DG."""
    names = _t3a_names("projection.textures=4", "style.blocks=early")
    return _old_and_new("digits-dg-t3a", "digits-dg-projections-7", names)


def familiar() -> str:
    """Rules that say which images are projected."""
    found = json.loads((STUDY / "computed" / "familiar-images.json").read_text(encoding="utf-8"))
    rows = [
        [
            row["rule"],
            signed(row["familiar"]),
            signed(row["worst_familiar"]),
            signed(row["unseen"]),
            f"{row['familiar_moved']:.0f} %",
            f"{row['unseen_moved']:.0f} %",
        ]
        for row in found
        if row["method"] == "vae"
    ]
    head = ["projected", "familiar", "worst of 12", "unseen", "familiar moved", "unseen moved"]
    return markdown(head, rows)


TABLES: dict[str, Callable[[], str]] = {
    "share": share,
    "frozen": frozen,
    "small-10": small_10,
    "small-40": small_40,
    "small-pairs": small_pairs,
    "small-targets": small_targets,
    "t3a-pacs": t3a_pacs,
    "t3a-digits": t3a_digits,
    "familiar": familiar,
}
_BLOCK = re.compile(r"(<!-- table ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def rewritten(text: str) -> str:
    """A page with its tables as the records have them."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{TABLES[block[2]]()}\n\n{block[4]}", text)


def main(arguments: Sequence[str]) -> int:
    """Rewrite all pages; with --check say which differ, and change nothing."""
    differ = []
    for page in sorted(STUDY.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        new = rewritten(text)
        if new != text:
            differ.append(page.name)
            if "--check" not in arguments:
                page.write_text(new, encoding="utf-8")
    if differ and "--check" in arguments:
        print(f"pages that differ from the records: {', '.join(differ)}; python study/pages.py rewrites them")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
