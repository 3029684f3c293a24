"""The example of docs/adding-a-method.md is a whole method: it runs through the benchmark as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from forgetting import forgetting
from homefold.evaluation.bench import run_bench
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner, make_plan
from homefold.methods import LearnerMethod, find_method, list_methods
from homefold.methods.settings import method_settings
from homefold.runtime.plugins import load_plugin

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-method.md").read_text(encoding="utf-8")
EXAMPLE, BENCH = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TINY = ("preprocessing.image_size=16", "features.epochs=1", "features.batch_size=32", "features.feature_dim=16")


@pytest.fixture
def blend(tmp_path):
    (tmp_path / "blend.py").write_text(EXAMPLE, encoding="utf-8")
    with forgetting():
        load_plugin(tmp_path / "blend.py")
        yield find_method("blend")


def test_the_example_is_short():
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 32


@pytest.mark.slow
def test_the_example_runs_in_the_benchmark_as_it_is_shown(blend, few_digits, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shown = {}

    def small(options: BenchOptions):
        options = BenchOptions(**{**vars(options), "settings": TINY, "device": "cpu"})
        shown["records"] = run_bench(options, dataset=few_digits)
        return shown["records"]

    monkeypatch.setattr("homefold.evaluation.bench.run_bench", small)
    exec(compile(BENCH, "adding-a-method.md", "exec", dont_inherit=True), {"__name__": "example"})
    deep_all, record = shown["records"]
    assert [item.status for item in (deep_all, record)] == ["finished"] * 2, record.error
    assert (deep_all.method, record.method) == ("deep-all", "blend")
    assert record.facts["method"] == {"strength": 0.5}
    assert record.facts["features"]["criterion"] == "cross entropy"


def test_the_example_keeps_its_own_rules(blend, build, batch):
    null = build(type(blend)(**blend.null))
    losses = []
    for loss in (null.loss, super(type(null), null).loss):
        torch.manual_seed(0)
        losses.append(loss(batch).item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert [setting.name for setting in method_settings(blend)] == ["strength"]


@pytest.mark.slow
def test_the_benchmark_runs_adapts_and_resumes_every_training_time_method_that_has_a_signal(few_digits, tmp_path):
    known = map(find_method, (info.name for info in list_methods()))
    learners = [method for method in known if isinstance(method, LearnerMethod)]
    methods = tuple(method.info.name for method in learners if not method.without_signal(1, 10))
    options = BenchOptions(
        "few-shot",
        tmp_path,
        preset="quick",
        seeds=1,
        sources=("photo",),
        targets=("scan",),
        device="cpu",
        methods=methods,
        settings=TINY,
    )
    older = {"ccsa", "jigen", "rsc", "mmld", "rotation", "mixup"}
    baselines = {"dson", "eisnet", "fada", "m-ada"}
    assert older | baselines | {"sagnet", "sam", "swad", "erm-plus-plus"} == set(methods)
    plan = make_plan(Planner(options, few_digits)).summary()
    records = run_bench(options, dataset=few_digits)
    assert {record.status for record in records} == {"finished"}, [record.error for record in records]
    assert len(records) == 3 * len(methods) - 2, "without samples CCSA and FADA have nothing to compare"
    assert plan["trainings"] == {"learner": {"needed": 3 * len(methods), "done": 0}}
    again = make_plan(Planner(options, few_digits)).summary()
    assert (again["to_do"], again["trainings_to_do"]) == (0, 0)
    by_method = {record.method: record for record in records if record.facts["shots"] == 10}
    for name in methods:
        assert by_method[name].facts["method"] == json.loads(json.dumps(find_method(name).settings()))
        assert by_method[name].seconds["training"] > 0
