"""Giving the backbone back a share of its starting weights, after training and before all that is fitted on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold import Homefold
from homefold.config import HomefoldConfig, replace_settings
from homefold.data.dataset import DatasetKeys
from homefold.errors import ConfigError
from homefold.features.averaging import interpolate_back
from homefold.stages.features import FeatureStage, build_task_net, features_ids, train_feature_stage
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import MemoryStages

CPU = torch.device("cpu")


def share_of(config: HomefoldConfig, share: float) -> HomefoldConfig:
    return replace_settings(config, {"features.keep_pretrained": share})


@pytest.fixture(scope="module")
def stages() -> MemoryStages:
    return MemoryStages()


@pytest.fixture(scope="module")
def task(quick_config, few_digits, stages):
    def of(share: float, adapt: bool = False) -> TrainingTask:
        every = np.arange(len(few_digits))
        keys = DatasetKeys(few_digits)
        key = TaskKey(keys.of_labelled(every), share_of(quick_config, share), keys.of_labelled(every[:20]) * adapt)
        samples = few_digits.subset(every[:20]) if adapt else None
        return TrainingTask(key, few_digits, CPU, stages, adapt=samples)

    return of


@pytest.fixture(scope="module")
def kept(task):
    return {share: train_feature_stage(task(share)) for share in (0.0, 0.25, 1.0)}


def state_of(stage: FeatureStage) -> dict[str, torch.Tensor]:
    return stage.net.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_backbone_lies_the_share_of_the_way_back_and_the_head_stays(task, kept, share):
    start = build_task_net(task(share), pretrained=True).state_dict()
    trained, moved = state_of(kept[0.0]), state_of(kept[share])
    compared = set()
    for name, value in moved.items():
        if not name.startswith("backbone.") or not value.is_floating_point():
            assert torch.equal(value, trained[name]), name
            continue
        expected = (1 - share) * trained[name].double() + share * start[name].double()
        torch.testing.assert_close(value.double(), expected, rtol=0, atol=1e-6)
        if not torch.equal(trained[name], start[name]):
            compared.add(name.rpartition(".")[2])
    assert compared >= {"weight", "running_mean", "running_var"}


@pytest.mark.slow
def test_training_is_done_once_for_all_shares(kept):
    first = {stage.stages[0].id.digest for stage in kept.values()}
    assert len(first) == 1
    assert len({stage.stage.id.digest for stage in kept.values()}) == len(kept)


def test_no_share_is_the_stage_that_there_was_before_the_setting(task):
    (only,) = features_ids(task(0.0).key)
    assert "keep_pretrained" not in str(only.identity)


@pytest.mark.slow
def test_adaptation_goes_on_from_the_interpolated_network(task):
    names = [stage.id.digest for stage in train_feature_stage(task(0.25, adapt=True)).stages]
    assert names == [one.digest for one in features_ids(task(0.25, adapt=True).key)]
    assert names[:2] == [one.digest for one in features_ids(task(0.25).key)]
    assert len(names) == 3


@pytest.mark.slow
def test_a_saved_model_answers_as_it_did(quick_config, few_digits, tmp_path):
    quick_config = replace_settings(quick_config, {"features.epochs": 3, "manifold.epochs": 60})
    config = replace_settings(quick_config, {"features.weights": "auto", "features.keep_pretrained": 0.25})
    model = Homefold(config, device="cpu").fit(few_digits)
    model.save(tmp_path / "model")
    plain = Homefold(quick_config, device="cpu").fit(few_digits)
    answers = model.predict_proba(few_digits)
    assert np.array_equal(Homefold.load(tmp_path / "model", device="cpu").predict_proba(few_digits), answers)
    assert not np.array_equal(plain.predict_proba(few_digits), answers)


def test_counts_of_batches_are_left_alone():
    net, start = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    net.num_batches_tracked += 7
    interpolate_back(net, start, 0.5)
    assert net.num_batches_tracked == 7


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"features.keep_pretrained": 1.5}, "keep_pretrained must be 0 to 1; got 1.5"),
        ({"features.keep_pretrained": 0.2, "features.weights": "none"}, "with features.weights=none they are random"),
        ({"features.freeze": "backbone", "features.keep_pretrained": 0.2}, "there is nothing to give back"),
    ],
)
def test_what_makes_no_sense_is_refused(quick_config, settings, said):
    config = replace(quick_config, features=replace(quick_config.features, weights="auto"))
    with pytest.raises(ConfigError, match=said):
        replace_settings(config, settings).require_consistent()
