"""How well leave-one-source-out selection, or source validation, foretells which recipe does best on an unseen domain.

    homefold bench leave-two-out --data PACS --methods RECIPE … --seeds 1 --out PAIRS
    homefold bench pacs --backbone resnet18 --data PACS --methods RECIPE … --seeds 1 --out RUNS
    python benchmarks/selection_study.py PAIRS RUNS --out results/selection.json

A recipe is a method with its settings (`without-projection:features.learning_rate=0.1`). For a target t its score is
the mean accuracy on each source s after training without s and t: nothing of t is looked at. Beside it stands the
accuracy on held-out source images. What each chooses, and its rank correlation with the accuracy on t, is printed.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from measuring import print_table, surroundings, write_result
from scipy.stats import spearmanr

from homefold.report.runs import Run, read_runs

Scores = dict[str, dict[str, float]]


def left_out_scores(pairs: list[Run]) -> Scores:
    """By target and recipe: the mean accuracy on each source of what was trained without it and the target."""
    domains = {run.target for run in pairs}
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in pairs:
        if run.accuracy is None:
            continue
        (other,) = domains - set(run.facts["sources"]) - {run.target}
        found[other][run.method].append(run.accuracy)
    judges = len(domains) - 1
    return {
        target: {recipe: mean(values) for recipe, values in rows.items() if len(values) % judges == 0}
        for target, rows in found.items()
    }


def by_target(runs: list[Run], value: Any) -> Scores:
    """By target and recipe the mean of a value over seeds."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.accuracy is not None and value(run) is not None:
            found[run.target][run.method].append(value(run))
    return {target: {recipe: mean(values) for recipe, values in rows.items()} for target, rows in found.items()}


def held_out_accuracy(run: Run) -> float | None:
    """On held-out source images, as the run recorded it."""
    classifier = run.facts.get("classifier")
    return classifier.get("held_out_accuracy") if isinstance(classifier, Mapping) else None


def study(target: str, truth: Mapping[str, float], score: Mapping[str, float], name: str) -> dict[str, Any]:
    """What a score chooses for a target, what the best choice would have been, and how the ranks agree."""
    recipes = [recipe for recipe in truth if recipe in score]
    chosen = max(recipes, key=lambda recipe: score[recipe])
    best = max(recipes, key=lambda recipe: truth[recipe])
    agreement = spearmanr([truth[r] for r in recipes], [score[r] for r in recipes]).statistic
    return {
        "target": target,
        "selection": name,
        "recipes": len(recipes),
        "rank_correlation": float(agreement),
        "chosen": chosen,
        "accuracy_of_chosen": truth[chosen],
        "best": best,
        "accuracy_of_best": truth[best],
        "mean_accuracy": mean(truth[r] for r in recipes),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help="records of the suite leave-two-out")
    parser.add_argument("runs", type=Path, help="records of leave-one-domain-out")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(argv)
    pairs = [run for run in read_runs(arguments.pairs).runs if run.protocol == "leave-two-domains-out"]
    runs = [run for run in read_runs(arguments.runs).runs if run.protocol == "leave-one-domain-out"]
    truth = by_target(runs, lambda run: run.accuracy)
    scores = {
        "leave-one-source-out": left_out_scores(pairs),
        "source-validation": by_target(runs, held_out_accuracy),
    }
    rows = [
        study(target, truth[target], found[target], name)
        for name, found in scores.items()
        for target in truth
        if len(set(found.get(target, {})) & set(truth[target])) > 1
    ]
    if not rows:
        raise SystemExit("no recipe stands in both records; run the same methods in both.")
    print_table("Which recipe is chosen", rows)
    facts = surroundings(torch.device("cpu"))
    write_result(arguments.out, facts, rows, accuracy=truth, scores=scores)


if __name__ == "__main__":
    main()
