"""Weights averaged within epochs: when, of what, and over a stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from homefold.data.splits import holdout_split
from homefold.errors import ConfigError
from homefold.features import FeatureConfig, build_feature_net, train_features
from homefold.features.averaging import average_is_due
from homefold.features.gradient_step import GradientStep
from homefold.stages.features import fine_tuning_config

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def config(quick_config) -> FeatureConfig:
    return replace(quick_config.features, epochs=3, average_from=0.5, average_every=3, select="last")


def start(config: FeatureConfig, dataset, **settings):
    train, held_out = holdout_split(dataset.labels, dataset.domains, config.held_out, 0)
    net = build_feature_net(config, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    return train_features(config, net, dataset, train, held_out, seed=0, device=CPU, **settings)


@pytest.mark.slow
@given(steps=st.integers(1, 60), start=st.floats(0, 1), every=st.integers(1, 12))
def test_averages_are_evenly_spaced_and_all_lie_behind_the_start(steps, start, every):
    due = [step for step in range(1, steps + 1) if average_is_due(step, steps, start, every)]
    even = [step for step in range(every, steps + 1, every) if step > start * steps]
    assert due == (even or ([steps] if start < 1 else []))
    assert not any(average_is_due(step, steps, start, 0) for step in range(1, steps + 1))


@pytest.mark.slow
def test_the_result_is_the_mean_of_the_states_after_those_steps(config, few_digits, monkeypatch):
    net = build_feature_net(config, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
    states = []
    plain = GradientStep.__call__

    def watched(step, *inputs, **settings):
        loss = plain(step, *inputs, **settings)
        states.append({name: value.double().clone() for name, value in net.state_dict().items()})
        return loss

    monkeypatch.setattr(GradientStep, "__call__", watched)
    train, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
    trained = train_features(config, net, few_digits, train, held_out, seed=0, device=CPU)
    steps = 3 * (len(train) // config.batch_size)
    assert len(states) == steps
    chosen = [states[step - 1] for step in range(3, steps + 1, 3) if step > steps / 2]
    assert len(chosen) >= 3
    found = trained.net.state_dict()
    floating = [name for name, value in found.items() if value.is_floating_point()]
    assert "backbone.2.running_mean" in floating
    for name in floating:
        mean = torch.stack([state[name] for state in chosen]).mean(0)
        torch.testing.assert_close(found[name].double(), mean, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_once_an_epoch_is_as_many_steps_as_an_epoch_has(config, few_digits):
    train, _ = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
    dense = replace(config, average_every=len(train) // config.batch_size)
    left, right = (start(one, few_digits).net.state_dict() for one in (dense, replace(config, average_every=0)))
    assert all(torch.equal(left[name], right[name]) for name in left)


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [2, 3])
def test_a_killed_run_goes_on_to_the_same_bytes(config, few_digits, tmp_path, epoch):
    config = replace(config, epochs=4, select="best")

    def kill(figures):
        if figures["epoch"] == epoch:
            raise Killed

    whole = start(config, few_digits)
    checkpoint = tmp_path / "features.safetensors"
    with pytest.raises(Killed):
        start(config, few_digits, checkpoint=checkpoint, on_epoch=kill)
    resumed = start(config, few_digits, checkpoint=checkpoint)
    left, right = whole.net.state_dict(), resumed.net.state_dict()
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert whole.report == resumed.report


@pytest.mark.slow
def test_raw_and_averaged_weights_are_not_compared(config, few_digits):
    report = start(replace(config, epochs=4, select="best"), few_digits).report
    averaged = [entry["held_out_loss"] for entry in report.history][2:]
    assert report.selected_epoch == 3 + int(np.argmin(averaged))
    assert report.held_out_loss == min(averaged)


@pytest.mark.slow
def test_in_a_training_too_short_for_averages_the_last_weights_are_kept(config, few_digits):
    left, right = (
        start(replace(config, **changes), few_digits).net.state_dict()
        for changes in ({"average_every": 1000}, {"average_from": 1.0, "average_every": 0})
    )
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.slow
def test_averages_from_the_end_on_are_none_at_all(config, few_digits):
    left, right = (
        start(replace(config, average_from=1.0, average_every=every), few_digits).net.state_dict() for every in (0, 3)
    )
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_a_negative_distance_is_refused():
    with pytest.raises(ConfigError, match=r"features\.average_every must be at least 0; got -1"):
        FeatureConfig(average_every=-1)


def test_fine_tuning_averages_nothing(config):
    tuned = fine_tuning_config(config)
    assert (tuned.average_from, tuned.average_every) == (1.0, 0)
