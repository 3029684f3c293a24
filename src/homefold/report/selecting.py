"""Which runs a table or a picture is made of, and in which shape."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from homefold.report.artifacts import Artifact
from homefold.report.names import FULL, full_method, in_order, short_name
from homefold.report.runs import SETTINGS, Run, RunFolder, Setup, setups

__all__ = [
    "SUITES",
    "Found",
    "full_runs",
    "kept",
    "kind_of",
    "number_of",
    "of_kind",
    "once",
    "one_per_target",
    "own_methods",
    "setting_of",
    "shown_by_target",
    "shown_runs",
    "whole_sources",
    "whose",
]

SUITES = {
    **dict.fromkeys(("pacs", "vlcs", "office-home", "digits-dg", "digits-mini"), "targets"),
    "samplers": "samplers",
    "ablation": "targets",
    "few-shot": "few-shot",
    "single-source": "single-source",
    "leave-two-out": "single-source",
    "scarce": "scarce",
    "cifar10-c": "severity",
    "beta": "beta",
    "stopping": "stopping",
}
"""Suites in the order of their tables, and the shape of each."""

_KIND_BY_SETTING = {
    "severity": "severity",
    "shots": "few-shot",
    "fraction": "scarce",
    "beta": "beta",
    "epsilon": "stopping",
    "source": "single-source",
}

Found = list[tuple[Run, Artifact]]


def kind_of(suite: str, runs: Sequence[Run]) -> str:
    """The shape of a suite's table; an unknown suite's is told by which setting varies."""
    varied = (kind for name, kind in _KIND_BY_SETTING.items() if len({str(run.facts.get(name)) for run in runs}) > 1)
    return SUITES.get(suite) or next(varied, "targets")


def setting_of(run: Run, name: str, default: str) -> str:
    """A setting of a run's protocol as text, the same for 1 and 1.0."""
    value = run.facts.get(name)
    return default if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def number_of(run: Run, name: str, default: float = 0) -> float:
    """A setting of a run's protocol as a number; 0 where it is none."""
    try:
        return float(run.facts.get(name, default))
    except (TypeError, ValueError):
        return 0.0


def of_kind(folder: RunFolder, *kinds: str) -> list[tuple[Setup, list[Run]]]:
    """The runs of suites of these shapes, by what makes them comparable."""
    suites: dict[str, list[Run]] = {}
    for run in folder.runs:
        suites.setdefault(run.suite, []).append(run)
    wanted = [run for suite, runs in suites.items() if kind_of(suite, runs) in kinds for run in runs]
    return list(setups(wanted).items())


def whole_sources(folder: RunFolder) -> list[tuple[Setup, list[Run]]]:
    """Runs trained on all of several sources, one target left out; where there are none, all runs.

    One run that two suites share stands there once.
    """
    found = of_kind(folder, "targets", "samplers") or list(setups(folder.runs).items())
    return [(setup, list({(run.method, run.target, run.seed): run for run in runs}.values())) for setup, runs in found]


def once(runs: Sequence[Run]) -> list[Run]:
    """Each run once, though two suites of the same protocol may both have it; a success before a failure."""
    found: dict[Hashable, Run] = {}
    for run in runs:
        settings = tuple(str(run.facts.get(name)) for name in SETTINGS)
        place = (run.protocol, run.method, run.target, run.seed, settings)
        if place not in found or run.ok:
            found[place] = run
    return list(found.values())


def kept(folder: RunFolder, runs: Sequence[Run], *arrays: str) -> Iterator[tuple[Run, Artifact]]:
    """Runs that kept all these arrays, lowest seed first."""
    for run in sorted(runs, key=lambda run: run.seed):
        artifact = folder.artifact(run)
        if artifact is not None and artifact.has(*arrays):
            yield run, artifact


def full_runs(folder: RunFolder, runs: Sequence[Run], *arrays: str) -> tuple[str, Found]:
    """The runs of the full method that kept these arrays, and which method that is."""
    usable = [(run, artifact) for run, artifact in kept(folder, runs, *arrays) if run.method in FULL]
    method = full_method(run.method for run, _ in usable)
    return method or "", [(run, artifact) for run, artifact in usable if run.method == method]


def own_methods(runs: Sequence[Run]) -> list[str]:
    """Methods of plugins, which stand in every figure beside ours."""
    return in_order(run.method for run in runs if run.ok and run.facts.get("titles"))


def shown_runs(folder: RunFolder, runs: Sequence[Run], *arrays: str) -> list[tuple[str, Found]]:
    """The runs that kept these arrays of the full method, then of each method of a plugin."""
    found = [full_runs(folder, runs, *arrays)]
    found += [
        (name, list(kept(folder, [run for run in runs if run.method == name], *arrays))) for name in own_methods(runs)
    ]
    return [(method, pairs) for method, pairs in found if pairs]


def by_target(found: Found) -> dict[str, Found]:
    """By target, targets by name."""
    grouped: dict[str, Found] = {}
    for run, artifact in sorted(found, key=lambda pair: (pair[0].target, pair[0].seed)):
        grouped.setdefault(run.target, []).append((run, artifact))
    return grouped


def shown_by_target(folder: RunFolder, *arrays: str) -> Iterator[tuple[Setup, str, str, Found]]:
    """For each setup, target and method of `shown_runs`: setup, method, target, runs by seed."""
    for setup, runs in whole_sources(folder):
        for method, found in shown_runs(folder, runs, *arrays):
            for target, pairs in by_target(found).items():
                yield setup, method, target, pairs


def whose(method: str) -> tuple[str, str]:
    """What a method that is not the full one adds to the name and to the title of a figure."""
    return ("", "") if method in FULL else (f"-{method}", f": {short_name(method)}")


def one_per_target(found: Found) -> dict[str, tuple[Run, Artifact]]:
    """The lowest seed's run of each target."""
    return {target: pairs[0] for target, pairs in by_target(found).items()}
