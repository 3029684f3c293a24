"""Stage 1: it learns, it selects on held-out source images, it resumes to the same bytes, it stops with a sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold.data.splits import holdout_split
from homefold.errors import FeatureCollapseError, TrainingDivergedError
from homefold.features import FeatureConfig, build_feature_net, train_features
from homefold.features.collapse import metric_advice
from homefold.features.loss import pairwise_metric_loss, pairwise_metric_loss_bound

CPU = torch.device("cpu")


def start(config: FeatureConfig, dataset, **settings):
    train, held_out = holdout_split(dataset.labels, dataset.domains, config.held_out, 0)
    net = build_feature_net(config, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    return train_features(config, net, dataset, train, held_out, seed=0, device=CPU, **settings)


def same_bytes(left: torch.nn.Module, right: torch.nn.Module) -> bool:
    pairs = zip(left.state_dict().values(), right.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def config(quick_config) -> FeatureConfig:
    return replace(quick_config.features, epochs=5)


@pytest.fixture(scope="module")
def trained(config, few_digits):
    return start(config, few_digits)


@pytest.mark.slow
def test_it_learns_to_tell_classes_apart(config, few_digits):
    report = start(replace(config, epochs=15), few_digits).report
    assert report.spread.same - report.spread.different > 0.3
    history = [entry["held_out_loss"] for entry in report.history]
    assert min(history) < 0.7 * history[0]


@pytest.mark.slow
def test_it_keeps_the_epoch_with_the_lowest_held_out_loss(trained, few_digits, config):
    history = [entry["held_out_loss"] for entry in trained.report.history]
    assert trained.report.selected_epoch == int(np.argmin(history)) + 1
    assert trained.report.held_out_loss == min(history)
    _, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
    images = torch.from_numpy(few_digits.images[held_out]).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        z = trained.net(images)
    again = pairwise_metric_loss(z, torch.from_numpy(few_digits.labels[held_out]), config.temperature)
    assert float(again) == pytest.approx(trained.report.held_out_loss, rel=1e-4)


def test_the_loss_stays_above_its_bound(trained, few_digits, config):
    assert trained.report.criterion == "pairwise metric loss"
    _, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
    counts = np.bincount(few_digits.labels[held_out]).tolist()
    assert trained.report.bound == pairwise_metric_loss_bound(counts, config.temperature)
    assert 0.0 < trained.report.bound < trained.report.held_out_loss


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(trained, config, few_digits):
    assert same_bytes(trained.net, start(config, few_digits).net)


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_a_killed_run_goes_on_to_the_same_bytes(trained, config, few_digits, tmp_path, epoch):
    def kill(figures):
        if figures["epoch"] == epoch:
            raise Killed

    checkpoint = tmp_path / "features.safetensors"
    with pytest.raises(Killed):
        start(config, few_digits, checkpoint=checkpoint, on_epoch=kill)
    epochs = []
    resumed = start(config, few_digits, checkpoint=checkpoint, on_epoch=lambda figures: epochs.append(figures["epoch"]))
    assert epochs == list(range(max(epoch - 1, 0) + 1, config.epochs + 1))
    assert same_bytes(trained.net, resumed.net)
    assert resumed.report == trained.report


@pytest.mark.slow
def test_averaged_weights_resume_too(config, few_digits, tmp_path):
    averaging = replace(config, average_from=0.4, sampling="balanced")
    whole = start(averaging, few_digits)
    checkpoint = tmp_path / "features.safetensors"

    def kill(figures):
        if figures["epoch"] == 4:
            raise Killed

    with pytest.raises(Killed):
        start(averaging, few_digits, checkpoint=checkpoint, on_epoch=kill)
    assert same_bytes(whole.net, start(averaging, few_digits, checkpoint=checkpoint).net)
    assert whole.report.selected_epoch >= 3


@pytest.mark.slow
def test_nan_stops_with_the_place_and_keeps_the_last_good_checkpoint(config, few_digits, tmp_path):
    checkpoint = tmp_path / "features.safetensors"

    def poison(figures):
        if figures["epoch"] == 3:
            with torch.no_grad():
                net.head.weight.fill_(float("nan"))

    train, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
    net = build_feature_net(config, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
    written = {}

    def remember(figures):
        poison(figures)
        written["epoch"] = figures["epoch"]

    settings = replace(config, checkpoint_seconds=1e9)  # the poisoned epoch must not be written
    start(replace(settings, epochs=1), few_digits, checkpoint=checkpoint)
    before = checkpoint.read_bytes()
    checkpoint.write_bytes(before)
    with pytest.raises(TrainingDivergedError, match=r"epoch 4, step 1 of .*features\.learning_rate.*last good state"):
        train_features(
            settings, net, few_digits, train, held_out, seed=0, device=CPU, checkpoint=checkpoint, on_epoch=remember
        )
    assert written["epoch"] == 3
    assert checkpoint.read_bytes() == before


def test_an_enormous_rate_diverges_with_a_sentence(config, few_digits):
    with pytest.raises((TrainingDivergedError, FeatureCollapseError), match=r"features\.learning_rate"):
        start(replace(config, learning_rate=1e12, cross_entropy_weight=1.0, schedule="constant"), few_digits)


@pytest.mark.slow
def test_the_printed_network_without_a_head_dies_under_the_metric_loss_and_says_so(few_digits, config):
    printed = replace(
        config, backbone="digits", head="none", feature_dim=0, cross_entropy_weight=0.0, learning_rate=0.5, epochs=12
    )
    with pytest.raises(FeatureCollapseError, match=r"head linear.*features\.cross_entropy_weight"):
        start(printed, few_digits)


def test_advice_on_a_collapse_leaves_out_what_is_done_already():
    told = metric_advice(has_head=True, has_cross_entropy=True, learning_rate=0.1)
    assert told.endswith(
        "tell classes apart: lower features.learning_rate (it was 0.1), or start from pretrained weights."
    )
    bare = metric_advice(has_head=False, has_cross_entropy=False, learning_rate=0.1)
    assert ": use a head (features.head linear or mlp), set features.cross_entropy_weight=1, lower" in bare


@pytest.mark.slow
def test_deep_all_is_selected_by_cross_entropy(config, few_digits):
    deep_all = replace(config, metric_weight=0.0, cross_entropy_weight=1.0)
    trained = start(deep_all, few_digits)
    assert trained.report.criterion == "cross entropy"
    assert trained.report.bound == 0.0
    assert trained.report.held_out_loss < np.log(3)


@pytest.mark.slow
def test_selecting_the_last_epoch(config, few_digits):
    assert start(replace(config, select="last", epochs=3), few_digits).report.selected_epoch == 3


@pytest.mark.slow
def test_images_copied_ahead_train_to_the_same_bytes(trained, config, few_digits, monkeypatch):
    monkeypatch.setattr("homefold.features.batches._fits", lambda images, device: False)
    assert same_bytes(trained.net, start(config, few_digits).net)
