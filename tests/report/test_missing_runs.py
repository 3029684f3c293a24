"""Runs that were planned and have no record are shown as missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import record, write_runs

from homefold.errors import DataError
from homefold.report.document import build_report
from homefold.report.render import report_html, report_markdown
from homefold.report.runs import read_runs


def planned(**changes: Any) -> dict[str, Any]:
    """A line of a plan: a record without what only a finished run has."""
    kept = ("run", "suite", "dataset", "target", "method", "seed", "backbone", "protocol", "selection", "preset")
    values = record(**changes)
    return {name: values[name] for name in (*kept, "facts", "command")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two methods on two targets with two seeds were asked for, one run was done and one failed."""
    records = [record(method="deep-all", target="sketch"), record(method="deep-all", target="photo", status="failed")]
    runs = [
        planned(method=method, target=target, seed=seed)
        for seed in (0, 1)
        for method in ("deep-all", "vae")
        for target in ("sketch", "photo")
    ]
    write_runs(tmp_path, records)
    (tmp_path / "plan.json").write_text(json.dumps({"format": 1, "runs": runs}))
    return tmp_path


def test_the_table_has_every_planned_row_and_seed(folder: Path) -> None:
    table = build_report(read_runs(folder), figures=False).tables[0]
    assert {row.label: [cell.main for cell in row.cells] for row in table.rows if not row.published} == {
        "Deep All": ["80.00", "failed (1 of 2), missing (1 of 2)", "failed (1 of 2), missing (1 of 2)"],
        "Full method, VAE": ["missing (2 of 2)", "missing (2 of 2)", "missing (2 of 2)"],
    }
    assert table.rows[0].cells[0].gaps == "missing (1 of 2)"
    assert "1 runs finished, 1 failed, 6 planned but not run, 7 of 8 figures without a value." in table.caption


def test_the_report_says_what_is_left_to_do(folder: Path) -> None:
    report = build_report(read_runs(folder), figures=False)
    assert report.facts["Runs"] == "1 finished, 1 failed, 6 planned but not run"
    assert report.missing == (
        "pacs, pacs · resnet18 · quick, Full method, VAE: 4 runs (targets sketch, photo; seeds 0, 1)",
        "pacs, pacs · resnet18 · quick, Deep All: 2 runs (targets sketch, photo; seeds 1)",
    )
    assert '<section id="missing">' in report_html(report)
    assert "## Planned but not run" in report_markdown(report)
    assert report.as_dict()["missing_runs"] == list(report.missing)


def test_a_finished_run_is_not_missing_whatever_its_id(folder: Path) -> None:
    """An id changes with the code; what was asked for is done all the same."""
    write_runs(folder, [record(method=m, target=t, seed=s, run="new") for m in ("deep-all", "vae")
                        for t in ("sketch", "photo") for s in (0, 1)])  # fmt: skip
    assert read_runs(folder).missing == ()


def test_a_plan_without_any_record_is_no_wrong_folder(folder: Path) -> None:
    (folder / "records.jsonl").unlink()
    with pytest.raises(DataError, match="holds a plan of 8 runs, and none of them has ended yet"):
        read_runs(folder)


@pytest.mark.parametrize(
    "text", ["[]", "3", '{"runs": 3}', '{"runs": [3]}', '{"runs": [{"run": []}]}', "[" * 100_000, "9" * 5000, "\xff"]
)
def test_a_plan_that_is_none_is_told(folder: Path, text: str) -> None:
    (folder / "plan.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=r"plan\.json is not a plan that homefold bench wrote"):
        read_runs(folder)
