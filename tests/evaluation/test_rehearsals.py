"""Rehearsal in the benchmark: its networks are the stages of runs on fewer domains, found again either way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import TINY

from homefold.errors import ConfigError
from homefold.evaluation.bench import run_bench
from homefold.evaluation.execution import Executor
from homefold.evaluation.planning import Planner, make_plan
from homefold.methods import feature_stage, home_stages
from homefold.methods.base import TrainingTask
from homefold.methods.feature_stage import features_id, train_feature_stage
from homefold.methods.home_stages import manifold_id
from homefold.methods.rehearsal_stage import rehearsal_stages, rehearsed_stage_features

REHEARSING = (*TINY, "manifold.rehearse=0.5")
SOURCES = ("scan", "photo", "print")


def feature_digests(options, dataset) -> set[str]:
    return {stage.digest for stage in make_plan(Planner(options, dataset)).stages if stage.kind == "features"}


def test_the_planned_networks_are_those_of_runs_on_the_other_domains(tiny, tiny_digits):
    plain = feature_digests(tiny(methods=("vae",)), tiny_digits)
    rehearsing = feature_digests(tiny(methods=("vae",), settings=REHEARSING), tiny_digits)
    pairs = feature_digests(tiny("leave-two-out", methods=("vae",)), tiny_digits)
    assert len(plain) == 1
    assert len(pairs) == 3, "street and one more left out"
    assert rehearsing == plain | pairs
    without_g = feature_digests(tiny(methods=("without-projection", "gan"), settings=REHEARSING), tiny_digits)
    assert without_g == plain, "nothing that does not rehearse plans more"


def test_leaving_two_domains_out_trains_no_features_again(tiny, tiny_digits, monkeypatch):
    trainings, seen = [], {}
    train, fit = feature_stage.train_features, home_stages.fit_manifold
    monkeypatch.setattr(
        feature_stage, "train_features", lambda *a, **k: (trainings.append(a[2].domain_names), train(*a, **k))[1]
    )

    def watched(config, *arguments, **named):
        seen[config.kind] = (config.rehearse, named["rehearsed"])
        return fit(config, *arguments, **named)

    monkeypatch.setattr(home_stages, "fit_manifold", watched)
    options = tiny(methods=("vae", "nearest"), settings=REHEARSING)
    plan = make_plan(Planner(options, tiny_digits))
    records = run_bench(options, dataset=tiny_digits)
    assert [record.status for record in records] == ["finished"] * 2, [record.error for record in records]
    assert trainings == [SOURCES, *(tuple(name for name in SOURCES if name != left) for left in SOURCES)]
    assert {kind: share for kind, (share, _) in seen.items()} == {"vae": 0.5, "nearest": 0.0}
    assert seen["nearest"][1] is None
    vae = records[0]
    assert vae.facts["manifold"]["rehearsed_home_cosine"] > vae.facts["manifold"]["rehearsed_cosine"]
    assert sorted(name.split("-")[0] for name in vae.facts["stages"]) == [
        "classifier", *["features"] * 4, "manifold", "style",
    ]  # fmt: skip
    assert set(vae.facts["stages"]) <= {stage.name for stage in plan.stages}
    again = run_bench(tiny("leave-two-out", methods=("without-projection",)), dataset=tiny_digits)
    assert [record.status for record in again] == ["finished"] * 3
    assert len(trainings) == 4, "the features of every pair were there"


@pytest.fixture
def task(tiny, tiny_digits) -> TrainingTask:
    """The training of f on three domains, with rehearsal."""
    planner = Planner(tiny(methods=("vae",), settings=REHEARSING), tiny_digits)
    run = planner.units()[0].runs[0]
    return Executor(planner)._task(run, planner.data(run.config), run.config)


def test_rehearsed_features_are_those_of_the_network_without_the_domain(task):
    features, stages = train_feature_stage(task), rehearsal_stages(task)
    found = rehearsed_stage_features(task, features, stages)
    changed = rehearsed_stage_features(task, features, (stages[0], stages[0], stages[2]))
    rows = np.flatnonzero((found.train != changed.train).any(dim=1).numpy())
    train, _ = home_stages.selection_split(task.source, task.config.features.held_out, task.config.seed)
    assert set(task.source.domains[train][rows]) == {1}
    assert found.train.shape == (len(train), 16)
    torch.testing.assert_close(found.train.norm(dim=1), torch.full((len(train),), 4.0))


def test_the_manifold_stands_on_all_networks_that_rehearse(task):
    key = task.key
    assert len(key.without) == 3
    for domain in range(3):
        without = tuple("other" if i == domain else name for i, name in enumerate(key.without))
        assert manifold_id(replace(key, without=without)).digest != manifold_id(key).digest
    assert features_id(replace(key, without=())).digest == features_id(key).digest


def test_settings_that_do_not_rehearse_leave_a_manifold_what_it_was(tiny, tiny_digits):
    planner = Planner(tiny(methods=("vae",)), tiny_digits)
    run = planner.units()[0].runs[0]
    key = planner.data(run.config).task_key(run.split.source, run.config)
    assert key.without == ()
    assert "rehearse" not in manifold_id(key).identity["manifold"]


@pytest.mark.parametrize("suite", ["single-source", "few-shot"])
def test_a_single_source_domain_is_refused_before_any_work(tiny, tiny_digits, suite):
    options = tiny(suite, methods=("vae",), settings=REHEARSING, sources=("scan",))
    with pytest.raises(ConfigError, match="needs two source domains or more"):
        make_plan(Planner(options, tiny_digits))


def test_samples_to_adapt_to_are_refused(task):
    with pytest.raises(ConfigError, match=r"few-shot adaptation cannot rehearse.*set manifold\.rehearse to 0"):
        manifold_id(replace(task.key, adapt="few"))
