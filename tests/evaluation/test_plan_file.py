"""The plan beside the records: whole, merged over invocations, and what a report finds missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homefold.evaluation.bench import run_bench
from homefold.evaluation.plan_file import plan_path, read_plan, write_plan
from homefold.evaluation.planning import Planner, make_plan
from homefold.report.runs import read_runs


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
