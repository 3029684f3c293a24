"""A captured step sees each call's inputs; where nothing captures, it is the function itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold.runtime.captured_step import CapturedStep, capturer_for

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
STEPS = (
    "homefold.features.gradient_step",
    "homefold.manifold.vae",
    "homefold.manifold.gan",
    "homefold.classifier.training",
)


class FakeCapturer:
    """Repeats a function as a graph would: with the memory of the inputs it was captured with."""

    def __init__(self) -> None:
        self.runs = self.captures = self.replays = 0

    def run(self, function):
        self.runs += 1
        return function()

    def capture(self, function):
        self.captures += 1

        def replay():
            self.replays += 1
            return function()

        return replay


class StubbornCapturer(FakeCapturer):
    def capture(self, function):
        raise RuntimeError("operation not permitted when stream is capturing")


def weighted_sum(values: torch.Tensor, weight, extra) -> torch.Tensor:
    assert extra is None
    return (values * weight).sum()


def test_without_a_recorder_the_inputs_arrive_as_they_are():
    seen = []
    step = CapturedStep(lambda *given: seen.append(given) or torch.zeros(()), CPU, None)
    values = torch.ones(2)
    step(values, 0.5, None)
    assert seen[0][0] is values
    assert seen[0][1:] == (0.5, None)


def test_only_cuda_records():
    assert capturer_for(CPU) is None


def test_every_replay_uses_the_inputs_of_its_own_call():
    capturer = FakeCapturer()
    step = CapturedStep(weighted_sum, CPU, capturer)
    results = [float(step(torch.full((3,), float(i)), 0.5 * i, None)) for i in range(7)]
    assert results == [1.5 * i * i for i in range(7)]
    assert (capturer.runs, capturer.captures, capturer.replays) == (3, 1, 4)
    assert step.is_captured


def test_the_callers_tensors_are_never_written_to():
    step = CapturedStep(weighted_sum, CPU, FakeCapturer())
    first = torch.ones(3)
    step(first, 1.0, None)
    step(torch.zeros(3), 1.0, None)
    assert first.tolist() == [1.0, 1.0, 1.0]


def test_a_batch_of_another_size_is_run_and_not_captured():
    capturer = FakeCapturer()
    step = CapturedStep(weighted_sum, CPU, capturer)
    for _ in range(5):
        step(torch.ones(3), 1.0, None)
    assert float(step(torch.ones(2), 2.0, None)) == 4.0
    assert float(step(torch.ones(3), 3.0, None)) == 9.0
    assert capturer.captures == 1


def test_a_step_that_cannot_be_captured_goes_on_without():
    step = CapturedStep(weighted_sum, CPU, StubbornCapturer())
    for _ in range(3):
        step(torch.ones(3), 1.0, None)
    with pytest.warns(UserWarning, match="cannot be captured"):
        assert float(step(torch.ones(3), 2.0, None)) == 6.0
    assert float(step(torch.ones(3), 3.0, None)) == 9.0


@pytest.fixture
def capturers(monkeypatch) -> list[FakeCapturer]:
    """Lets every training step be captured, and remembers by what."""
    made: list[FakeCapturer] = []

    def fake(device, *, enabled=True):
        if not enabled:
            return None
        made.append(FakeCapturer())
        return made[-1]

    for module in STEPS:
        monkeypatch.setattr(f"{module}.capturer_for", fake)
    return made


@pytest.mark.slow
def test_features_trained_by_a_captured_step_are_those_of_the_plain_one(capturers, few_digits, quick_config):
    from homefold.data.splits import holdout_split
    from homefold.features import build_feature_net, train_features

    config = replace(quick_config.features, epochs=2)
    train, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
    histories = []
    for graph in ("off", "auto"):
        one = replace(config, cuda_graph=graph)
        net = build_feature_net(one, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
        trained = train_features(one, net, few_digits, train, held_out, seed=0, device=CPU)
        histories.append([entry["loss"] for entry in trained.report.history])
    assert [capturer.captures for capturer in capturers] == [1]
    # A captured rate is a float32, so the last digits differ.
    assert histories[1] == pytest.approx(histories[0], rel=1e-3)


def test_a_training_whose_steps_differ_is_never_captured(capturers, few_digits, quick_config, monkeypatch):
    from homefold.features import build_feature_net, train_features

    monkeypatch.setattr("homefold.features.training._FeatureRun.capturable", False)
    config = replace(quick_config.features, epochs=1)
    everything = np.arange(len(few_digits))
    net = build_feature_net(config, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
    train_features(config, net, few_digits, everything, everything, seed=0, device=CPU)
    assert capturers == []


@pytest.mark.parametrize(("kind", "graphs"), [("vae", 1), ("gan", 2)])
def test_a_manifold_fitted_by_captured_steps_is_the_one_fitted_step_by_step(monkeypatch, kind, graphs):
    from homefold.manifold import ManifoldConfig, fit_manifold

    random = torch.Generator().manual_seed(0)
    labels = torch.arange(300) % 3
    z = torch.randn(3, 16, generator=random)[labels] + 0.3 * torch.randn(300, 16, generator=random)
    # Short: once epochs are nearly as good as each other, the last digit decides which of them is kept.
    config = ManifoldConfig(kind=kind, epochs=8, latent_dim=4, batch_size=32)

    def fit():
        return fit_manifold(config, z[:260], z[260:], labels=labels[:260], seed=0, device=CPU)

    plain, capturer = fit(), FakeCapturer()
    monkeypatch.setattr(f"homefold.manifold.{kind}.capturer_for", lambda device: capturer)
    captured = fit()
    assert capturer.captures == graphs
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(captured.state_dict()[name], value, rtol=1e-2, atol=1e-3)


def test_a_classifier_fitted_by_captured_steps_sees_the_last_smaller_batch_too(monkeypatch):
    from homefold.classifier import ClassifierConfig, fit_classifier

    random = torch.Generator().manual_seed(0)
    labels = torch.arange(100) % 3
    z = torch.randn(3, 8, generator=random)[labels] + 0.3 * torch.randn(100, 8, generator=random)
    given = (ClassifierConfig(epochs=4, batch_size=16), z[:90], labels[:90], z[90:], labels[90:])
    plain, capturer = fit_classifier(*given, num_classes=3, seed=0), FakeCapturer()
    monkeypatch.setattr("homefold.classifier.training.capturer_for", lambda device: capturer)
    captured = fit_classifier(*given, num_classes=3, seed=0)
    # 6 batches an epoch, the last of 10 rows; three of the others come before the captured graph
    assert (capturer.runs, capturer.captures, capturer.replays) == (3 + 4, 1, 17)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(captured.state_dict()[name], value)
