"""The plan beside the records: whole, merged over invocations, and what a report finds missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from homefold.evaluation.bench import run_bench
from homefold.evaluation.execution import failed_record
from homefold.evaluation.plan_file import plan_path, read_plan, write_plan
from homefold.evaluation.planning import Planner, make_plan, records_path
from homefold.evaluation.records import append_record
from homefold.report.document import build_report
from homefold.report.runs import read_runs
from homefold.report.tables import build_tables


class Stopped(Exception):
    """Stands in for a kill."""


def stop(run, record):
    raise Stopped


@pytest.mark.slow
def test_a_benchmark_that_was_stopped_leaves_its_whole_plan_and_the_rest_is_missing(tiny, tiny_digits):
    options = replace(tiny(methods=("nearest", "without-projection"), seeds=2), command="homefold bench digits-mini")
    with pytest.raises(Stopped):
        run_bench(options, dataset=tiny_digits, on_run=stop)
    planned = read_plan(options.out)
    assert [(run["method"], run["seed"]) for run in planned] == [
        ("nearest", 0), ("without-projection", 0), ("nearest", 1), ("without-projection", 1),
    ]  # fmt: skip
    assert {(run["target"], run["command"]) for run in planned} == {("street", "homefold bench digits-mini")}
    folder = read_runs(options.out)
    assert [(run.method, run.seed, run.command) for run in folder.runs] == [
        ("nearest", 0, "homefold bench digits-mini")
    ]
    assert [(run.method, run.seed) for run in folder.missing] == [
        ("without-projection", 0), ("nearest", 1), ("without-projection", 1),
    ]  # fmt: skip
    run_bench(options, dataset=tiny_digits)
    assert read_runs(options.out).missing == ()
    assert len(read_plan(options.out)) == 4


def test_what_has_no_signal_is_planned_as_left_out_and_stands_in_the_report_as_a_dash(tiny, tiny_digits):
    options = tiny("few-shot", methods=("deep-all", "ccsa"), sources=("scan",))
    planner = Planner(options, tiny_digits)
    plan = make_plan(planner)
    reason = "ccsa compares source domains, and there is 1 here: nothing would be left of it but Deep All"
    assert plan.summary()["left_out"] == {reason: 1}
    assert [run.split.facts["shots"] for run in plan.refused] == [0]
    assert not set(plan.refused) & set(plan.runs)
    write_plan(planner, plan)
    # One run is done, so that there is something to report.
    run = plan.runs[0]
    done = replace(failed_record(planner, run, "", torch.device("cpu")), status="finished", accuracy=0.5)
    append_record(records_path(options.out), done)
    folder = read_runs(options.out)
    assert [run.no_signal for run in folder.missing if run.no_signal] == [f"{reason}."]
    table, *_ = build_tables(folder)
    (row,) = [row for row in table.rows if row.label == "CCSA, 0 per class"]
    assert [cell.main for cell in row.cells] == ["–"]
    assert f"–: {reason}." in table.caption
    report = build_report(folder, figures=False)
    assert report.failures == ()
    (missing,) = [line for line in report.missing if "CCSA" in line]
    assert "CCSA: 2 runs" in missing  # with 7 and 10 samples


def test_plans_of_several_invocations_add_up(tiny, tiny_digits):
    def ask(*suite, **changes):
        planner = Planner(tiny(*suite, **changes), tiny_digits)
        plan = make_plan(planner)
        write_plan(planner, plan)
        return [run.id for run in plan.runs]

    first = ask(methods=("vae",))
    written = plan_path(tiny().out).read_bytes()
    assert ask(methods=("vae",)) == first
    assert plan_path(tiny().out).read_bytes() == written, "asking for the same again changes nothing"
    second = ask("few-shot", methods=("deep-all",), sources=("scan",))
    planned = read_plan(tiny().out)
    assert [run["run"] for run in planned] == [*first, *second]
    assert [run["facts"].get("shots") for run in planned] == [None, 0, 7, 10]
    assert [run["suite"] for run in planned] == ["digits-mini", "few-shot", "few-shot", "few-shot"]


def test_changed_settings_stand_in_the_plan_and_in_the_record(tiny, tiny_digits):
    options = tiny(methods=("without-projection",), images_per_class=10)
    (record,) = run_bench(options, dataset=tiny_digits)
    assert record.changes == " ".join([*options.settings, "images_per_class=10"])
    assert read_plan(options.out)[0]["changes"] == record.changes


def test_fewer_source_images_leave_the_target_whole(tiny, tiny_digits):
    (record,) = run_bench(tiny(methods=("without-projection",), source_images_per_class=4), dataset=tiny_digits)
    classes, sources = len(tiny_digits.class_names), len(tiny_digits.domain_names) - 1
    assert record.facts["source_images"] == 4 * classes * sources
    assert record.facts["source_images_per_class"] == 4
    assert record.images == len(tiny_digits.only(record.target))
    assert record.changes.endswith("source_images_per_class=4")
