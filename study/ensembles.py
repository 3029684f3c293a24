"""What more networks would give: the mean of several trainings' probabilities beside the mean of their accuracies.

    homefold bench pacs --backbone resnet18 --data PACS --methods vae without-projection --seeds 3 --out RUNS
    python study/ensembles.py RUNS --out study/computed/ensembles.json

The runs of one method and target in a folder, which must differ by their seed alone, are taken together; where several
folders are named, with those of the others, whatever their settings. Homefold answers with one network; this says how
much of what is missing the luck of a training is.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from writing import print_table, write_result

from homefold.report.runs import read_runs


@dataclass(frozen=True, eq=False)
class Answered:
    """What one run said.

    Args:
        accuracy: in percent.
        labels: `(n,)`.
        probabilities: `(n, k)`.
    """

    accuracy: float
    labels: np.ndarray
    probabilities: np.ndarray


Answers = dict[tuple[str, str], list[Answered]]
"""By method and target."""


def answers_of(folders: Sequence[Path]) -> Answers:
    """What the artifacts of all finished runs hold; in one folder a method must have been run in one way."""
    found: Answers = defaultdict(list)
    for path in folders:
        folder = read_runs(path)
        ways: dict[tuple[str, str], tuple[str, ...]] = {}
        for run in folder.runs:
            artifact = folder.artifact(run)
            if artifact is None or not artifact.has("labels", "probabilities"):
                continue
            assert run.accuracy is not None
            key, sources = (run.method, run.target), " and ".join(sorted(run.facts.get("sources", ())))
            way = (run.suite, run.preset, run.backbone, run.selection, run.changes, sources)
            if ways.setdefault(key, way) != way:
                raise SystemExit(
                    f"{path} has {run.method} on {run.target} in several ways ({'; '.join(filter(None, way))}, and "
                    f"another); networks are only put together where all but the seed is equal: a folder for each."
                )
            probabilities = artifact["probabilities"].astype(np.float32)
            found[key].append(Answered(100 * run.accuracy, artifact["labels"], probabilities))
    return found


def accuracies(runs: Sequence[Answered]) -> tuple[float, float]:
    """In percent: the mean of the runs' accuracies, and that of their mean probabilities."""
    labels = runs[0].labels
    if any(not np.array_equal(labels, run.labels) for run in runs):
        raise SystemExit("the runs of one target were asked about different images; take those with equal --data.")
    together = np.sum([run.probabilities for run in runs], axis=0).argmax(1)
    return mean(run.accuracy for run in runs), 100 * float((together == labels).mean())


def ensemble_rows(answers: Answers) -> list[dict[str, Any]]:
    """One row a method: on each target, and in the mean of those that it has, single networks and all together."""
    rows = []
    targets = sorted({target for _, target in answers})
    for method in sorted({method for method, _ in answers}):
        found = {target: answers[method, target] for target in targets if (method, target) in answers}
        figures = {target: accuracies(runs) for target, runs in found.items()}
        counts = sorted({len(runs) for runs in found.values()})
        row: dict[str, Any] = {
            "method": method,
            "networks": " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))),
        }
        for target in targets:
            single, together = figures.get(target, (None, None))
            row |= {target: single, f"{target}_together": together}
        row["mean"] = mean(single for single, _ in figures.values())
        row["mean_together"] = mean(together for _, together in figures.values())
        rows.append(row)
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders that homefold bench wrote, with their artifacts")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(argv)
    rows = ensemble_rows(answers_of(arguments.runs))
    if not rows:
        raise SystemExit("no finished run here kept its answers: name the folder that homefold bench wrote.")
    print_table("Single networks, and their answers averaged", rows)
    write_result(arguments.out, rows)


if __name__ == "__main__":
    main()
