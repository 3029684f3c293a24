"""What was asked for, kept beside the records: a report tells from it which runs are still missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from homefold.errors import DataError, ModelFileError
from homefold.evaluation.record_lines import misfit
from homefold.store.files import plain_json, read_json, write_json
from homefold.store.locking import locked_beside

if TYPE_CHECKING:
    from homefold.evaluation.planning import Plan, Planner

__all__ = ["NO_SIGNAL", "plan_path", "read_plan", "write_plan"]

NO_SIGNAL = "no_signal"
"""The fact of a run that is not done since its method would train as Deep All under another name: why."""
_FORMAT = 1


def plan_path(out: Path | str) -> Path:
    """Where the plan of a folder of runs lies."""
    return Path(out) / "plan.json"


def read_plan(out: Path | str) -> list[dict[str, Any]]:
    """Every run that was asked for in this folder, in the order in which it was; none where there is no plan."""
    path = plan_path(out)
    if not path.exists():
        return []
    try:
        runs = read_json(path)["runs"]
        if not all(isinstance(run, dict) and isinstance(run.get("run"), str) for run in runs):
            raise ValueError("a run has no id")
        if wrong := next(filter(None, map(misfit, runs)), ""):
            raise ValueError(wrong)
    except (ModelFileError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a plan that homefold bench wrote ({error}); remove or repair it.") from None
    return list(runs)


def write_plan(planner: Planner, plan: Plan) -> None:
    """Add the runs of a plan to those that were asked for before, whole or not at all.

    Two benchmarks that share a folder may do so at once: each sees what the other wrote.
    """
    path = plan_path(planner.options.out)
    with locked_beside(path):
        before = {run["run"]: run for run in read_plan(planner.options.out)}
        asked = {run.id: plain_json(planner.described(run)) for run in (*plan.runs, *plan.refused)}
        # What was asked for last stands last where code may change: a report tells from it which code counts.
        again = {name: run for name, run in before.items() if name in asked and "code" in (run.get("facts") or {})}
        kept = {name: run for name, run in before.items() if name not in again}
        merged = {**kept, **{name: run for name, run in asked.items() if name not in kept}}
        if list(merged.items()) != list(before.items()):
            write_json(path, {"format": _FORMAT, "runs": list(merged.values())})
