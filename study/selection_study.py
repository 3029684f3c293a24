"""How well leave-one-source-out selection, or source validation, foretells which recipe does best on an unseen domain.

    homefold bench leave-two-out --data PACS --methods RECIPE … --seeds 1 --out PAIRS
    homefold bench pacs --backbone resnet18 --data PACS --methods RECIPE … --seeds 1 --out RUNS
    python study/selection_study.py PAIRS RUNS --out study/computed/selection.json

A recipe is a method with its settings (`without-projection:features.learning_rate=0.1`). For a target t its score is
the mean accuracy on each source s after training without s and t: nothing of t is looked at. Beside it stands the
accuracy on held-out source images. What each chooses, and its rank correlation with the accuracy on t, is printed, for
every backbone, preset, selection rule and seed by itself; then the mean over targets, and what one recipe for all of
them gives, chosen by its mean score. `--common` looks at recipes alone that both rules have a score for, and
`--alike OLD NEW` takes records with the changes OLD for records with NEW, where a preset was changed in between.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from scipy.stats import spearmanr
from writing import print_table, write_result

from homefold.report.runs import Run, read_runs

_SHOWN = ("target", "selection", "recipes", "rank_correlation")
_SHOWN_IN_PERCENT = ("accuracy_of_chosen", "accuracy_of_best", "mean_accuracy")

Scores = dict[str, dict[str, dict[str, float]]]
"""By what the runs have in common (see `under`), by target and by recipe."""


def under(run: Run) -> str:
    """What runs must share for one to foretell another: data, network, settings, selection rule and seed."""
    parts = (run.dataset, run.backbone, run.preset, run.changes, run.selection, f"seed {run.seed}")
    return ", ".join(part for part in parts if part)


def left_out_scores(pairs: Sequence[Run]) -> Scores:
    """The mean accuracy on each source of what was trained without it and the target, where every source has judged."""
    domains: dict[str, set[str]] = defaultdict(set)
    for run in pairs:
        domains[run.dataset] |= {run.target, *run.facts["sources"]}
    judged: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    wanted: dict[tuple[str, str, str], set[str]] = {}
    for run in pairs:
        others = domains[run.dataset] - {run.target, *run.facts["sources"]}
        # None or several where the records name fewer domains than the dataset has, or train without more than two.
        if run.accuracy is None or len(others) != 1:
            continue
        key = (under(run), *others, run.method)
        judged[key][run.target] = run.accuracy
        wanted[key] = domains[run.dataset] - others
    found: Scores = defaultdict(lambda: defaultdict(dict))
    for (setting, target, recipe), by_judge in judged.items():
        if by_judge.keys() == wanted[setting, target, recipe]:
            found[setting][target][recipe] = mean(by_judge.values())
    return found


def by_target(runs: Sequence[Run], value: Callable[[Run], float | None]) -> Scores:
    """A value of each run that ended well."""
    found: Scores = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        if run.accuracy is not None and (measured := value(run)) is not None:
            found[under(run)][run.target][run.method] = measured
    return found


def read_of(path: Path, protocol: str, alike: Sequence[str] | None) -> list[Run]:
    """The runs of a protocol, those with the changes `alike[0]` as if they had `alike[1]`."""
    runs = [run for run in read_runs(path).runs if run.protocol == protocol]
    if not alike:
        return runs
    if {run.changes for run in runs} >= set(alike):
        raise SystemExit(f"{path} holds runs with the changes {alike[0]!r} and {alike[1]!r}; which of them count?")
    return [replace(run, changes=alike[1]) if run.changes == alike[0] else run for run in runs]


def held_out_accuracy(run: Run) -> float | None:
    """On held-out source images, as the run recorded it."""
    classifier = run.facts.get("classifier")
    return classifier.get("held_out_accuracy") if isinstance(classifier, Mapping) else None


def common(truth: Scores, scores: Iterable[Scores]) -> Scores:
    """Accuracies of the recipes for which every rule has a score."""
    rules = list(scores)
    return {
        setting: {
            target: {
                recipe: accuracy
                for recipe, accuracy in accuracies.items()
                if all(recipe in rule.get(setting, {}).get(target, {}) for rule in rules)
            }
            for target, accuracies in targets.items()
        }
        for setting, targets in truth.items()
    }


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


def summary(
    truth: Mapping[str, Mapping[str, float]], score: Mapping[str, Mapping[str, float]], name: str
) -> list[dict[str, Any]]:
    """What a score gives over all targets: a choice for each, then one for all; nothing where it lacks a target."""
    if len(truth) < 2 or any(len(truth[target].keys() & score.get(target, {}).keys()) < 2 for target in truth):
        return []
    each = [study(target, accuracies, score[target], name) for target, accuracies in truth.items()]
    row = {
        "target": "each target by itself",
        "selection": name,
        "recipes": max(one["recipes"] for one in each),
        "chosen": "",
        "best": "",
    }
    row |= {key: mean(one[key] for one in each) for key in ("rank_correlation", *_SHOWN_IN_PERCENT)}
    shared = [r for r in next(iter(truth.values())) if all(r in truth[t] and r in score[t] for t in truth)]
    if len(shared) < 2:
        return [row]
    accuracy, scored = ({r: mean(values[t][r] for t in truth) for r in shared} for values in (truth, score))
    return [row, study("one recipe for all", accuracy, scored, name)]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help="records of the suite leave-two-out")
    parser.add_argument("runs", type=Path, help="records of leave-one-domain-out")
    parser.add_argument("--common", action="store_true", help="recipes alone that both rules have a score for")
    parser.add_argument(
        "--alike",
        nargs=2,
        metavar=("OLD", "NEW"),
        help="changes (--set) that meant the same, before and after a preset's",
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(argv)
    pairs = read_of(arguments.pairs, "leave-two-domains-out", arguments.alike)
    runs = read_of(arguments.runs, "leave-one-domain-out", arguments.alike)
    truth = by_target(runs, lambda run: run.accuracy)
    scores = {
        "leave-one-source-out": left_out_scores(pairs),
        "source-validation": by_target(runs, held_out_accuracy),
    }
    if arguments.common:
        truth = common(truth, scores.values())
    rows = [
        {**study(target, accuracies, found[setting][target], name), "under": setting}
        for name, found in scores.items()
        for setting, targets in truth.items()
        for target, accuracies in targets.items()
        if len(found.get(setting, {}).get(target, {}).keys() & accuracies.keys()) > 1
    ]
    if not rows:
        raise SystemExit(
            "no two recipes stand in both records under the same settings and seed, judged by every source; run the "
            "same methods in both, leave-two-out without --targets."
        )
    together = [
        {**row, "under": setting}
        for name, found in scores.items()
        for setting, targets in truth.items()
        for row in summary(targets, found.get(setting, {}), name)
    ]
    for setting in dict.fromkeys(row["under"] for row in rows):
        told = [row for row in (*rows, *together) if row["under"] == setting]
        print_table(setting, [_shown(row) for row in told])
        for row in told:
            if row["chosen"]:  # a mean over choices has none of its own
                print(f"{row['target']}, by {row['selection']}: {row['chosen']}; best would have been {row['best']}")
    if all(row["selection"] != "leave-one-source-out" for row in rows):
        print("Left-out sources say nothing: no two recipes stand in both records under the same settings and seed.")
    write_result(arguments.out, rows, summary=together, accuracy=truth, scores=scores)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is printed of a row: accuracies in percent, where the file has shares."""
    plain = {name: row[name] for name in _SHOWN}
    return plain | {f"{name}, %": 100 * row[name] for name in _SHOWN_IN_PERCENT}


if __name__ == "__main__":
    main()
