"""Which images should be brought home? Rules tried on what `study/familiar_dump.py` wrote.

    python study/familiar_rules.py FOLDER --out study/computed/familiar-images.json

A rule says which images get the projected answer; the others keep the answer without projection. Thresholds are
quantiles over the held-out source images of the same run: nothing of the unseen domain is used. Figures are differences
to no projection in points of accuracy, means over the runs of one method.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import numpy as np

Rows = dict[str, np.ndarray]
Rule = Callable[[Rows], np.ndarray]


def style_distance(rows: Rows) -> np.ndarray:
    """The image's distance to the nearest source domain's styles, at the block where it is largest."""
    blocks = [rows[name][:, :-1].min(axis=1) for name in rows if name.startswith("style_")]
    return np.max(blocks, axis=0)


def farther(score: Callable[[Rows], np.ndarray], quantile: float) -> Rule:
    """Images whose score lies above this quantile of the held-out source images'."""

    def rule(rows: Rows) -> np.ndarray:
        values = score(rows)
        return values > np.quantile(values[rows["domain"] >= 0], quantile)

    return rule


RULES: dict[str, Rule] = {
    "all images": lambda rows: np.ones(len(rows["label"]), dtype=bool),
    "style distance above 50 %": farther(style_distance, 0.5),
    "style distance above 75 %": farther(style_distance, 0.75),
    "style distance above 90 %": farther(style_distance, 0.9),
    "manifold distance above 75 %": farther(lambda rows: -rows["similarity_plain"], 0.75),
    "manifold distance above 90 %": farther(lambda rows: -rows["similarity_plain"], 0.9),
    "distance to source features above 90 %": farther(lambda rows: -rows["nearest_5"].mean(axis=1), 0.9),
    "confidence below 0.9": lambda rows: rows["plain"].max(axis=1) < 0.9,
    "where projection is more confident": lambda rows: rows["home"].max(axis=1) > rows["plain"].max(axis=1),
}


def outcome(rows: Rows, rule: Rule) -> dict[str, float]:
    """What the rule gains on held-out source images and on the unseen domain, and how many images it moves."""
    unseen, used = rows["domain"] < 0, rule(rows)
    plain, home = (rows[name].argmax(axis=1) == rows["label"] for name in ("plain", "home"))
    chosen = np.where(used, home, plain)
    gain = 100 * (chosen.astype(float) - plain)
    return {
        "familiar": float(gain[~unseen].mean()),
        "unseen": float(gain[unseen].mean()),
        "familiar_moved": 100 * float(used[~unseen].mean()),
        "unseen_moved": 100 * float(used[unseen].mean()),
    }


def main() -> None:
    """Try every rule on every run, and write the means by method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found: dict[str, dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(options.folder.glob("*.npz")):
        rows = {name: value for name, value in np.load(path).items() if name != "about"}
        rows = {name: value.astype(float) if value.dtype == np.float16 else value for name, value in rows.items()}
        method = str(np.load(path)["about"]).split()[0]
        for name, rule in RULES.items():
            found[method][name].append(outcome(rows, rule))
    summary = [
        {
            "method": method,
            "rule": name,
            "runs": len(runs),
            "worst_familiar": round(min(run["familiar"] for run in runs), 2),
            **{key: round(mean(run[key] for run in runs), 2) for key in runs[0]},
        }
        for method, by_rule in sorted(found.items())
        for name, runs in by_rule.items()
    ]
    options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
