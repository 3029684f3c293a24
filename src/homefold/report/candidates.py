"""Of the candidates of a selection rule the one that it chooses, which stands in the tables for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from homefold.evaluation.selection import Choice, choices, choose, settings_of

if TYPE_CHECKING:
    from homefold.report.runs import Run

__all__ = ["settled"]


def settled(runs: Sequence[Run], missing: Sequence[Run]) -> tuple[list[Run], list[Run], list[Choice[Run]]]:
    """Runs and missing ones with a single candidate in each place, the one that the selection rule chooses, and what
    each rule chooses.

    Where none can be chosen yet, one failed or missing candidate a seed stands for all.
    """
    places: dict[Hashable, list[Run]] = {}
    for run in (*runs, *missing):
        if settings_of(run) is not None:
            places.setdefault(run.place, []).append(run)
    left, chosen = [run for run in (*runs, *missing) if settings_of(run) is None], []
    for tried in places.values():
        choice = choose(tried, tried[0].selection)
        standing = choice.records if choice else {run.seed: run for run in tried if not run.ok}.values()
        changes = f"{tried[0].changes} best of {len({settings_of(run) for run in tried})}".strip()
        left += [replace(run, changes=changes) for run in standing]
        chosen += choices(tried)
    return [run for run in left if run.recorded], [run for run in left if not run.recorded], chosen
