"""Where projecting helps and where it hurts: by domain, by distance from the manifold, by confidence.

    homefold bench leave-two-out --data PACS --methods vae … --seeds 1 --out PAIRS
    python study/where_it_helps.py PAIRS --out study/computed/where.json

Every answer of a run is set beside the answer that the same model gives without projecting (no style moved, no search;
the same views), as the runs' artifacts hold them: how many were corrected, how many spoiled. The last rows ask
whether to trust the projection only where a score is low would win: the gain for each threshold, every image with
a higher score being answered without projection.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from writing import print_table, write_result

from homefold.report.runs import read_runs

NEEDED = ("labels", "predicted", "predicted_before", "probabilities_before", "off_manifold")
SCORES = (0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, np.inf)
CONFIDENCES = (0.0, 0.5, 0.7, 0.9, 0.99, 1.0)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What became of every target image, all arrays `(n,)`.

    Args:
        domain: the target domain of each.
        before: whether it was answered rightly without projecting.
        after: whether it was answered rightly with it.
        changed: whether the answer changed at all.
        off_manifold: its off-manifold score.
        confidence: of the answer without projecting.
    """

    domain: np.ndarray
    before: np.ndarray
    after: np.ndarray
    changed: np.ndarray
    off_manifold: np.ndarray
    confidence: np.ndarray

    def row(self, chosen: np.ndarray) -> dict[str, Any]:
        """Counts and accuracies, in percent, of the chosen images."""
        before, after = self.before[chosen], self.after[chosen]
        return {
            "images": int(chosen.sum()),
            "changed": int(self.changed[chosen].sum()),
            "corrected": int((~before & after).sum()),
            "spoiled": int((before & ~after).sum()),
            "accuracy_before": 100 * float(before.mean()),
            "gain": 100 * float(after.mean() - before.mean()),
        }

    def trusted_below(self, score: np.ndarray, threshold: float) -> dict[str, Any]:
        """What it gains to project only where a score is below the threshold."""
        trusted = score < threshold
        after = np.where(trusted, self.after, self.before)
        return {
            "images": int(trusted.sum()),
            "changed": int((self.changed & trusted).sum()),
            "corrected": int((~self.before & after).sum()),
            "spoiled": int((self.before & ~after).sum()),
            "accuracy_before": 100 * float(self.before.mean()),
            "gain": 100 * float(after.mean() - self.before.mean()),
        }


def outcomes_by_method(folders: Sequence[Path]) -> dict[str, Outcomes]:
    """The images of all runs together, by method; runs that did not project have none."""
    found: dict[str, list[dict[str, np.ndarray]]] = defaultdict(list)
    protocols: set[str] = set()
    for path in folders:
        folder = read_runs(path)
        for run in folder.runs:
            artifact = folder.artifact(run)
            if artifact is None or not artifact.has(*NEEDED):
                continue
            protocols.add(run.protocol)
            if len(protocols) > 1:
                raise SystemExit(
                    f"these runs have several protocols ({', '.join(sorted(protocols))}), and left-out sources are no "
                    f"targets: name folders of one suite."
                )
            labels = artifact["labels"]
            before, after = artifact["predicted_before"], artifact["predicted"]
            found[run.method].append(
                {
                    "domain": np.full(len(labels), run.target),
                    "before": before == labels,
                    "after": after == labels,
                    "changed": before != after,
                    "off_manifold": artifact["off_manifold"].astype(np.float64),
                    "confidence": artifact["probabilities_before"].astype(np.float64).max(axis=1),
                }
            )
    return {
        method: Outcomes(**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        for method, parts in found.items()
    }


def rows_of(method: str, seen: Outcomes) -> list[dict[str, Any]]:
    """All rows of a method: together, by domain, by score, by confidence, and by what is trusted."""
    everything = np.ones(len(seen.before), dtype=bool)
    groups: list[tuple[str, str, np.ndarray]] = [("all", "", everything)]
    groups += [("domain", str(name), seen.domain == name) for name in np.unique(seen.domain)]
    for low, high in pairwise(SCORES):
        chosen = (seen.off_manifold >= low) & (seen.off_manifold < high)
        groups.append(("off-manifold", f"{low:g} to {high:g}", chosen))
    for low, high in pairwise(CONFIDENCES):
        # The last bin holds certainty itself.
        chosen = (seen.confidence >= low) & ((seen.confidence < high) | (high == CONFIDENCES[-1]))
        groups.append(("confidence", f"{low:g} to {high:g}", chosen))
    rows = [
        {"method": method, "by": by, "where": where, **seen.row(chosen)} for by, where, chosen in groups if chosen.any()
    ]
    for by, score, thresholds in (
        ("trusted below off-manifold", seen.off_manifold, SCORES[1:-1]),
        ("trusted below confidence", seen.confidence, CONFIDENCES[1:-1]),
    ):
        rows += [
            {"method": method, "by": by, "where": f"{value:g}", **seen.trusted_below(score, value)}
            for value in thresholds
        ]
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders that homefold bench wrote, with their artifacts")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(argv)
    tables = []
    for method, seen in outcomes_by_method(arguments.runs).items():
        rows = rows_of(method, seen)
        print_table(method, [{name: value for name, value in row.items() if name != "method"} for row in rows])
        tables += rows
    if not tables:
        raise SystemExit(
            "no run here projected and kept what it answered without: run a projecting method, such as vae, with "
            "homefold bench, and name the folder that it wrote."
        )
    write_result(arguments.out, tables)


if __name__ == "__main__":
    main()
