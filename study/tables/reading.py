"""From records to cells: accuracies by case, differences with their errors, and how both are written."""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from homefold.evaluation.records import RunRecord, read_records

STUDY = Path(__file__).parents[1]
PACS = {"photo": "photo", "art_painting": "art", "cartoon": "cartoon", "sketch": "sketch"}
DIGITS = {"mnist": "MNIST", "mnist_m": "MNIST-M", "svhn": "SVHN", "syn": "SYN"}


class Case(NamedTuple):
    """One figure: a network, told apart by its sources and seed, on one domain."""

    target: str
    sources: tuple[str, ...]
    seed: int


Accuracies = Mapping[Case, float]
"""In percent."""


@cache
def records(name: str) -> tuple[RunRecord, ...]:
    """The runs of a file of records, the failed ones among them."""
    return tuple(read_records(STUDY / "records" / f"{name}.jsonl.xz"))


@cache
def default_searches() -> dict[tuple[str, str], dict[tuple[str, ...], float]]:
    """The choice of the default search: percent by manifold and search, then by sources and judged domain."""
    found: dict[tuple[str, str], dict[tuple[str, ...], float]] = defaultdict(dict)
    with lzma.open(STUDY / "records" / "projection-defaults.jsonl.xz", "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            if "accuracy" in row:
                found[row["manifold"], row["search"]][(*row["sources"], row["judged"])] = row["accuracy"]
    return found


def computed(name: str) -> Any:
    """What a script computed from files that are too large to keep."""
    return json.loads((STUDY / "computed" / f"{name}.json").read_text(encoding="utf-8"))


def case_of(run: RunRecord) -> Case:
    """Where a run's accuracy belongs."""
    return Case(run.target, tuple(sorted(run.facts["sources"])), run.seed)


def accuracies(runs: Iterable[RunRecord]) -> dict[str, dict[Case, float]]:
    """Of what finished, by method and case."""
    found: dict[str, dict[Case, float]] = defaultdict(dict)
    for run in runs:
        if run.accuracy is not None:
            found[run.method][case_of(run)] = 100 * run.accuracy
    return found


def read(*names: str, keep: Callable[[RunRecord], bool] = lambda _: True) -> dict[str, dict[Case, float]]:
    """The accuracies of several files together."""
    return accuracies(run for name in names for run in records(name) if keep(run))


def held_out(run: RunRecord) -> bool:
    """Whether a run was judged on a source domain that was left out beside the target."""
    return run.protocol == "leave-two-domains-out"


def on_target(run: RunRecord) -> bool:
    """Whether a run was judged on the domain that it is about."""
    return run.protocol == "leave-one-domain-out"


def differences(values: Accuracies, control: Accuracies) -> dict[Case, float]:
    """On the cases that both have."""
    return {case: value - control[case] for case, value in values.items() if case in control}


def average(values: Accuracies) -> float:
    """The mean over targets of the mean over what each has."""
    return mean(each(values, target) for target in dict.fromkeys(case.target for case in values))


def each(values: Accuracies, target: str) -> float:
    """The mean on one target."""
    return mean(value for case, value in values.items() if case.target == target)


def error(values: Accuracies) -> float | None:
    """The standard error of a mean over trainings: what one network says of several domains counts once."""
    trainings: dict[tuple[tuple[str, ...], int], list[float]] = defaultdict(list)
    for case, value in values.items():
        trainings[case.sources, case.seed].append(value)
    means = [mean(found) for found in trainings.values()]
    return stdev(means) / len(means) ** 0.5 if len(means) > 1 else None


def by_seed(values: Accuracies) -> list[float]:
    """The mean over targets for each seed that all targets have."""
    seeds = {target: {case.seed for case in values if case.target == target} for target in {c.target for c in values}}
    shared = sorted(set.intersection(*seeds.values())) if seeds else []
    return [average({case: value for case, value in values.items() if case.seed == seed}) for seed in shared]


def signed(value: float) -> str:
    """A difference in points.

    >>> signed(-0.26), signed(0.04)
    ('−0.3', '0.0')
    """
    return "0.0" if round(value, 1) == 0 else f"{value:+.1f}".replace("-", "−")


def plain(value: float) -> str:
    """A figure to a tenth."""
    return f"{value:.1f}"


def spread(values: list[float]) -> str:
    """Mean ± standard deviation of seeds."""
    return plain(mean(values)) + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def gain(values: Accuracies, control: Accuracies) -> str:
    """The mean difference ± its standard error over trainings; nothing where no case is shared."""
    found = differences(values, control)
    if not found:
        return ""
    around = error(found)
    return signed(mean(found.values())) + ("" if around is None else f" ± {around:.1f}")


def gain_on(values: Accuracies, control: Accuracies, targets: Iterable[str]) -> list[str]:
    """The mean difference on each target; nothing where a target has no case."""
    found = differences(values, control)
    have = {case.target for case in found}
    return [signed(each(found, target)) if target in have else "" for target in targets]


def extremes(values: Accuracies, control: Accuracies) -> list[str]:
    """The least and the greatest difference of a case."""
    found = differences(values, control).values()
    return [signed(min(found)), signed(max(found))]
