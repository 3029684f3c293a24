"""Which runs a picture is made of."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from homefold.report.artifacts import Artifact
from homefold.report.names import FULL, full_method
from homefold.report.runs import SETTINGS, Run, RunFolder, Setup, setups
from homefold.report.table_kinds import kind_of

__all__ = ["by_target", "full_runs", "kept", "of_kind", "once", "one_per_target", "whole_sources"]


def of_kind(folder: RunFolder, *kinds: str) -> list[tuple[Setup, list[Run]]]:
    """The runs of suites of these shapes, by what makes them comparable."""
    wanted = []
    for suite in dict.fromkeys(run.suite for run in folder.runs):
        runs = [run for run in folder.runs if run.suite == suite]
        if kind_of(suite, runs) in kinds:
            wanted += runs
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


def full_runs(folder: RunFolder, runs: Sequence[Run], *arrays: str) -> tuple[str, list[tuple[Run, Artifact]]]:
    """The runs of the full method that kept these arrays, and which method that is."""
    usable = [(run, artifact) for run, artifact in kept(folder, runs, *arrays) if run.method in FULL]
    method = full_method(run.method for run, _ in usable)
    return method or "", [(run, artifact) for run, artifact in usable if run.method == method]


def by_target(found: Sequence[tuple[Run, Artifact]]) -> dict[str, list[tuple[Run, Artifact]]]:
    """By target, targets by name."""
    grouped: dict[str, list[tuple[Run, Artifact]]] = {}
    for run, artifact in sorted(found, key=lambda pair: (pair[0].target, pair[0].seed)):
        grouped.setdefault(run.target, []).append((run, artifact))
    return grouped


def one_per_target(found: Sequence[tuple[Run, Artifact]]) -> dict[str, tuple[Run, Artifact]]:
    """The lowest seed's run of each target."""
    return {target: pairs[0] for target, pairs in by_target(found).items()}
