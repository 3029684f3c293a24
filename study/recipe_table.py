"""What each recipe gives on left-out source domains: the mean over all cases, and the difference to one of them.

    homefold bench leave-two-out --data PACS --methods RECIPE … --seeds 1 --out PAIRS
    python study/recipe_table.py PAIRS --against without-projection --out study/computed/recipes.json

A case is a pair of source domains and one domain that is judged. Recipes are compared on the cases that both have, so
that one which lacks some is not helped or hurt by them. The error is that of the mean difference over trainings: the
cases of one network, which are judged together, count as one. Recipes under different settings of `--set` have tables
of their own, but for those that say how a training is computed and not what: whether it is compiled, say. Failures are
counted.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from writing import print_table, write_result

from homefold.report.runs import Run, read_runs

Case = tuple[tuple[str, ...], str, int]
"""The sources, the judged domain and the seed."""
Accuracies = dict[str, dict[Case, float]]
"""In percent, by recipe and case."""


COMPUTED = re.compile(r"(?<!\S)features\.(?:compile|cuda_graph|checkpoint_seconds)=\S+\s*")
"""Settings under which the same recipe is trained, equal but for rounding."""


def recipe_settings(run: Run) -> str:
    """What was set for all recipes of a run."""
    return COMPUTED.sub("", run.changes).strip()


def by_case(runs: Iterable[Run]) -> tuple[Accuracies, dict[str, int]]:
    """Accuracies of what finished, and how often each recipe failed and did not finish later."""
    found: Accuracies = defaultdict(dict)
    failed: dict[str, set[Case]] = defaultdict(set)
    for run in runs:
        case = (tuple(sorted(run.facts["sources"])), run.target, run.seed)
        if run.accuracy is None:
            failed[run.method].add(case)
        else:
            found[run.method][case] = 100 * run.accuracy
    return found, {recipe: len(cases - found[recipe].keys()) for recipe, cases in failed.items()}


def recipe_rows(accuracies: Accuracies, failed: Mapping[str, int], against: str) -> list[dict[str, Any]]:
    """One row a recipe, the best difference first."""
    reference = accuracies[against]
    domains = sorted({domain for _, domain, _ in reference})
    rows = []
    for recipe, own in accuracies.items():
        shared = [case for case in reference if case in own]
        if not shared:
            continue
        differences = {case: own[case] - reference[case] for case in shared}
        row: dict[str, Any] = {
            "recipe": recipe,
            "cases": len(shared),
            "failed": failed.get(recipe, 0),
            "mean": mean(own[case] for case in shared),
            "difference": mean(differences.values()),
            "error": error_over_trainings(differences),
            "least": min(differences.values()),
            "most": max(differences.values()),
        }
        for domain in domains:
            here = [value for case, value in differences.items() if case[1] == domain]
            row[domain] = mean(here) if here else None
        rows.append(row)
    return sorted(rows, key=lambda row: -row["difference"])


def error_over_trainings(differences: Mapping[Case, float]) -> float | None:
    """The standard error of the mean difference; None where there is one training only."""
    trainings: dict[tuple[tuple[str, ...], int], list[float]] = defaultdict(list)
    for (sources, _, seed), value in differences.items():
        trainings[sources, seed].append(value)
    each = [mean(values) for values in trainings.values()]
    return stdev(each) / len(each) ** 0.5 if len(each) > 1 else None


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="+", help="records of the suite leave-two-out")
    parser.add_argument("--against", default="without-projection", help="the recipe that others are compared with")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(argv)
    runs = [run for path in arguments.pairs for run in read_runs(path).runs if run.protocol == "leave-two-domains-out"]
    if not runs:
        raise SystemExit("there are no runs of the suite leave-two-out in these records; homefold bench makes them.")
    tables = []
    for changes in sorted({recipe_settings(run) for run in runs}):
        accuracies, failed = by_case(run for run in runs if recipe_settings(run) == changes)
        if arguments.against not in accuracies:
            continue
        rows = recipe_rows(accuracies, failed, arguments.against)
        print_table(changes or "settings of the preset", rows)
        tables += [{"settings": changes, **row} for row in rows]
    if not tables:
        raise SystemExit(f"no run of {arguments.against!r} finished in these records; name another with --against.")
    write_result(arguments.out, tables)


if __name__ == "__main__":
    main()
