"""Final figures from records of several runs of a study, whatever each was called: what has equal settings is one row.

    python study/final_table.py study/records/pacs.jsonl.xz study/records/pacs-more-seeds.jsonl.xz

A method's name says what was changed from a preset, and presets change: the same method has other names before and
after. Here runs belong together that have one kind of method and one configuration, with settings that did not exist
yet, or no longer do, at their defaults. A row has the name that was given last; mean ± standard deviation of the seeds,
the mean over targets by those that all of them have, and the difference to a control on the seeds that both have.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from writing import print_table, write_result

from homefold.config import HomefoldConfig, config_to_dict
from homefold.config.migration import REMOVED_SETTINGS, RENAMED
from homefold.report.runs import Run, read_runs


@dataclass
class Row:
    """One method with one configuration.

    Args:
        name: that it was given last.
        accuracies: in percent, by target and seed.
    """

    name: str
    accuracies: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def seeds(self, targets: Sequence[str]) -> list[int]:
        """Those that all targets have."""
        return sorted(set.intersection(*(set(self.accuracies.get(target, ())) for target in targets)))

    def by_seed(self, targets: Sequence[str]) -> dict[int, float]:
        """The mean over the targets, for each seed that all of them have."""
        return {seed: mean(self.accuracies[target][seed] for target in targets) for seed in self.seeds(targets)}


def kind_of(method: str) -> str:
    """A method's name without its settings.

    >>> kind_of("t3a:batch_size=8+vae:look.views=8,style.blocks=[]")
    't3a+vae'
    """
    return re.sub(r":[^+]*", "", method)


def flat(settings: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Settings by dotted name, lists as tuples.

    >>> flat({"seed": 0, "features": {"milestones": [0.5]}})
    {'seed': 0, 'features.milestones': (0.5,)}
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{within}{name}.")
        else:
            found[within + name] = tuple(value) if isinstance(value, list) else value
    return found


DEFAULTS = {**REMOVED_SETTINGS, **flat(config_to_dict(HomefoldConfig()))}


def settings_of(run: Run) -> frozenset[tuple[str, Any]]:
    """The configuration, but for the seed and for how styles would be moved where none are."""
    given = {RENAMED.get(name, name): value for name, value in flat(run.config).items()}
    settings = {**DEFAULTS, **given, "seed": 0}
    moved = bool(settings["style.blocks"])
    return frozenset(item for item in settings.items() if moved or not item[0].startswith("style."))


def rows_of(runs: Iterable[Run]) -> list[Row]:
    """One for each kind of method and configuration, in the order of their last names."""
    found: dict[tuple[str, str, frozenset[tuple[str, Any]]], Row] = {}
    for run in runs:
        if run.accuracy is None:
            continue
        key = (run.dataset, kind_of(run.method), settings_of(run))
        row = found.setdefault(key, Row(run.method))
        row.name = run.method
        row.accuracies[run.target].setdefault(run.seed, 100 * run.accuracy)
    return list(found.values())


def table_of(rows: Sequence[Row], against: str) -> list[dict[str, Any]]:
    """What is printed, the best mean first."""
    targets = sorted({target for row in rows for target in row.accuracies})
    control = next((row for row in rows if row.name == against), None)
    table = []
    for row in rows:
        means = row.by_seed(targets)
        if not means:
            continue
        beside = {} if control is None else control.by_seed(targets)
        differences = [value - beside[seed] for seed, value in means.items() if seed in beside]
        line: dict[str, Any] = {"method": row.name, "seeds": " ".join(map(str, means))}
        for target in targets:
            line[target] = show([row.accuracies[target][seed] for seed in means])
        line |= {"mean": mean(means.values()), "deviation": stdev(means.values()) if len(means) > 1 else None}
        line["difference"] = mean(differences) if differences else None
        table.append(line)
    return sorted(table, key=lambda line: -line["mean"])


def show(values: Sequence[float]) -> str:
    """Mean ± standard deviation, in words."""
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="+", help="folders that homefold bench wrote, or files of records")
    parser.add_argument("--against", default="without-projection", help="the method that others are compared with")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(argv)
    runs = [run for path in arguments.records for run in read_runs(path).runs]
    runs = [run for run in runs if run.protocol == "leave-one-domain-out"]
    table = table_of(rows_of(runs), arguments.against)
    if not table:
        raise SystemExit("no method has a seed that finished on all targets in these leave-one-domain-out records.")
    print_table("mean ± standard deviation over seeds, %", table)
    write_result(arguments.out, table)


if __name__ == "__main__":
    main()
