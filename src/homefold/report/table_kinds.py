"""Which shape a suite's table has."""

from __future__ import annotations

from collections.abc import Sequence

from homefold.report.runs import Run

__all__ = ["SUITES", "kind_of"]

SUITES = {
    "pacs": "targets",
    "vlcs": "targets",
    "office-home": "targets",
    "digits-dg": "targets",
    "digits-mini": "targets",
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


def kind_of(suite: str, runs: Sequence[Run]) -> str:
    """The shape of a suite's table; an unknown suite's is told by which setting varies."""
    if suite in SUITES:
        return SUITES[suite]
    for setting, kind in _KIND_BY_SETTING.items():
        if len({str(run.facts.get(setting)) for run in runs}) > 1:
            return kind
    return "targets"
