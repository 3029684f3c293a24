"""Several trainings from one start, averaged: of what, with which statistics, and over a stop."""

from __future__ import annotations

import weakref
from dataclasses import replace

import pytest
import torch

from homefold.config import AugmentationConfig
from homefold.data.splits import holdout_split
from homefold.errors import ConfigError, FeatureCollapseError
from homefold.features import FeatureConfig, build_feature_net, train_features
from homefold.features.averaging import FinishedRuns
from homefold.features.batches import ImageStore, to_pixels
from homefold.features.loop import TrainingRun
from homefold.features.objective import Objective
from homefold.features.schedule import epoch_batches
from homefold.runtime.progress import SilentReporter
from homefold.runtime.seeding import derive_seed, generator, isolated_seed
from homefold.stages.features import fine_tuning_config

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
STILL = AugmentationConfig(crop_min_area=1, flip_probability=0, jitter_probability=0, grey_probability=0)


@pytest.fixture(scope="module")
def config(quick_config) -> FeatureConfig:
    return replace(quick_config.features, epochs=2, runs=2, augmentation=STILL)


def start(config: FeatureConfig, dataset, seed: int = 0, **settings):
    train, held_out = holdout_split(dataset.labels, dataset.domains, config.held_out, 0)
    net = build_feature_net(config, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    return train_features(config, net, dataset, train, held_out, seed=seed, device=CPU, **settings)


@pytest.fixture(scope="module")
def together(config, few_digits):
    return start(config, few_digits)


def test_the_weights_are_the_mean_of_runs_in_other_orders_from_the_same_start(config, few_digits, together):
    single = replace(config, runs=1)
    with isolated_seed(0, "objective"):
        objective = Objective(
            together.net.feature_dim,
            len(few_digits.class_names),
            metric_weight=config.metric_weight,
            cross_entropy_weight=config.cross_entropy_weight,
            temperature=config.temperature,
        )
    first = start(single, few_digits, objective_state=objective.state_dict())
    second = start(single, few_digits, derive_seed(0, "run", 1), objective_state=objective.state_dict())
    names = [name for name, _ in together.net.named_parameters()]
    found, one, other = (trained.net.state_dict() for trained in (together, first, second))
    assert any(not torch.equal(one[name], other[name]) for name in names)
    for name in names:
        torch.testing.assert_close(found[name], (one[name] + other[name]) / 2, rtol=1e-5, atol=1e-7)
    found, one, other = (trained.objective.state_dict() for trained in (together, first, second))
    for name in found:
        torch.testing.assert_close(found[name], (one[name] + other[name]) / 2, rtol=1e-5, atol=1e-7)
    expected = [{**entry, "run": 1.0} for entry in first.report.history]
    expected += [{**entry, "run": 2.0} for entry in second.report.history]
    assert list(together.report.history) == expected


def test_batch_norm_statistics_are_those_of_the_mean(config, few_digits, together):
    train, _ = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
    labels, domains = (torch.from_numpy(item[train]) for item in (few_digits.labels, few_digits.domains))
    last_seed = derive_seed(0, "run", 1)
    order = epoch_batches(labels, domains, config.batch_size, config.sampling, generator(last_seed, "order", 2))
    images = to_pixels(torch.from_numpy(few_digits.images[train]))
    layer = together.net.backbone[2]
    seen = []
    handle = layer.register_forward_hook(lambda layer, inputs, output: seen.append(inputs[0].detach()))
    with torch.no_grad():
        for rows in order:
            together.net(images[rows])
    handle.remove()
    assert len(seen) == len(order) > 1
    mean = torch.stack([maps.mean((0, 2, 3)) for maps in seen]).mean(0)
    variance = torch.stack([maps.var((0, 2, 3)) for maps in seen]).mean(0)
    torch.testing.assert_close(layer.running_mean, mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(layer.running_var, variance, rtol=1e-4, atol=1e-5)
    assert layer.momentum is not None


def test_the_report_is_of_the_mean(config, few_digits, together):
    _, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
    with torch.no_grad():
        z = together.net(to_pixels(torch.from_numpy(few_digits.images[held_out])))
    criterion = together.objective.criterion(z, torch.from_numpy(few_digits.labels[held_out]))
    assert together.report.held_out_loss == pytest.approx(float(criterion), rel=1e-4)
    assert not together.net.training


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_killed_run_goes_on_to_the_same_bytes(config, few_digits, together, tmp_path, after):
    config = replace(config, checkpoint_seconds=0)
    epochs = []

    def kill(figures):
        epochs.append(figures["epoch"])
        # An epoch's state is written after it was told of: what is lost is the last one.
        if len(epochs) == after + 1:
            raise Killed

    checkpoint = tmp_path / "features.safetensors"
    with pytest.raises(Killed):
        start(config, few_digits, checkpoint=checkpoint, on_epoch=kill)
    again = []
    resumed = start(config, few_digits, checkpoint=checkpoint, on_epoch=lambda figures: again.append(figures["epoch"]))
    assert again == [1.0, 2.0, 1.0, 2.0][after:]
    left, right = together.net.state_dict(), resumed.net.state_dict()
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert together.report == resumed.report


def test_a_run_makes_room_for_the_next(config, few_digits, monkeypatch):
    alive, seen = weakref.WeakSet(), []
    begin = ImageStore.__init__

    def counted(store, *inputs, **settings):
        seen.append(len(alive))
        alive.add(store)
        begin(store, *inputs, **settings)

    monkeypatch.setattr(ImageStore, "__init__", counted)
    start(replace(config, epochs=1, runs=3), few_digits)
    assert seen == [0, 0, 0]


@pytest.mark.parametrize(("before", "after", "words"), [(1, 2, "one run"), (2, 1, "several runs")])
def test_a_checkpoint_of_another_number_of_runs_is_refused(config, few_digits, tmp_path, before, after, words):
    checkpoint = tmp_path / "features.safetensors"
    start(replace(config, epochs=1, runs=before), few_digits, checkpoint=checkpoint)
    with pytest.raises(ConfigError, match=f"of a training with {words}, and runs is now {after}; go on with"):
        start(replace(config, epochs=1, runs=after), few_digits, checkpoint=checkpoint)


def test_a_network_without_statistics_is_averaged(config, few_digits):
    without = start(replace(config, epochs=1, backbone="digits"), few_digits)
    assert "backbone.2.running_mean" not in without.net.state_dict()
    assert len(without.report.history) == 2


class Listener(SilentReporter):
    def __init__(self):
        self.messages = []

    def message(self, text):
        self.messages.append(text)


def test_a_mean_that_is_worse_than_every_run_is_told(config, few_digits, monkeypatch):
    values = iter([0.5, 0.6, 0.7])
    monkeypatch.setattr(TrainingRun, "held_out_value", lambda self, state, checkpoint=None: next(values))
    listener = Listener()
    start(replace(config, epochs=1), few_digits, reporter=listener)
    assert listener.messages == [
        "The mean of 2 runs has a held-out loss of 0.7000, each run at most 0.6000; one run (features.runs=1) may be "
        "better here."
    ]


def test_a_mean_that_has_collapsed_names_the_runs(config, few_digits, monkeypatch):
    monkeypatch.setattr(FinishedRuns, "put_back", lambda self: torch.nn.init.zeros_(self._net.module.head.weight))
    with pytest.raises(FeatureCollapseError, match=r"mean of 2 runs' weights tells nothing apart .*features\.runs=1"):
        start(replace(config, epochs=1), few_digits)


def test_adapting_to_a_few_images_is_one_run(config):
    assert fine_tuning_config(config).runs == 1


def test_no_run_at_all_is_refused():
    with pytest.raises(ConfigError, match=r"features\.runs must be at least 1; got 0"):
        FeatureConfig(runs=0)
