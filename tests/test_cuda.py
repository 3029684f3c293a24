"""The same promises on a CUDA device; skipped where there is none."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold import Homefold, preset_config
from homefold.config.views import fixed_views
from homefold.features import build_feature_net
from homefold.features.views import apply_view
from homefold.methods import Batch, LearnerMethod, LearningTask, find_method
from homefold.methods.registry import METHODS

pytestmark = pytest.mark.gpu

LEARNERS = [method for method in map(find_method, METHODS) if isinstance(method, LearnerMethod)]


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(scope="session")
def few_digits(sharp_digits):
    """At 32 px: a device has the time for it."""
    return sharp_digits


@pytest.fixture(scope="session")
def quick_config(sharp_config):
    return sharp_config


@pytest.fixture(scope="module")
def on_cuda(few_digits, quick_config):
    return Homefold(quick_config, device="cuda").fit(few_digits, holdout="street")


def test_it_learns_in_bfloat16(on_cuda, few_digits):
    assert on_cuda.reports["classifier"]["held_out_accuracy"] > 0.7
    assert next(on_cuda.net.parameters()).device.type == "cuda"


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_it_learns_in_other_precisions(few_digits, quick_config, precision):
    config = replace(quick_config, features=replace(quick_config.features, precision=precision))
    model = Homefold(config, device="cuda").fit(few_digits, holdout="street")
    assert model.reports["classifier"]["held_out_accuracy"] > 0.7


def test_a_model_saved_on_cuda_answers_alike_on_the_cpu(on_cuda, few_digits, tmp_path):
    on_cuda.save(tmp_path / "model")
    on_cpu = Homefold.load(tmp_path / "model", device="cpu")
    left, right = on_cuda.predict(few_digits), on_cpu.predict(few_digits)
    assert (left.labels == right.labels).mean() > 0.98
    np.testing.assert_allclose(left.similarity_after, right.similarity_after, atol=0.02)


def test_label_and_steps_do_not_depend_on_the_batch(on_cuda, few_digits):
    images = few_digits.images[:64]
    together = on_cuda.predict(images)
    order = np.random.default_rng(0).permutation(64)
    permuted = on_cuda.predict(images[order])
    alone = [on_cuda.predict(images[i : i + 1]) for i in (0, 9, 63)]
    assert permuted.labels.tolist() == together.labels[order].tolist()
    assert permuted.iterations.tolist() == together.iterations[order].tolist()
    assert [one.labels[0] for one in alone] == together.labels[[0, 9, 63]].tolist()


def test_a_model_that_gets_ready_meanwhile_gives_the_same_answers(on_cuda, few_digits, tmp_path):
    on_cuda.save(tmp_path / "model")
    model, other = (Homefold.load(tmp_path / "model", device="cuda") for _ in range(2))
    model.feature_model.get_ready()
    found, expected = model.predict(few_digits), other.predict(few_digits)
    assert found.labels.tolist() == expected.labels.tolist()
    np.testing.assert_allclose(found.similarity_after, expected.similarity_after, atol=1e-4)


def test_a_deterministic_fit_resumes_to_the_same_bytes(few_digits, quick_config, tmp_path):
    def fit(work, on_epoch=None):
        model = Homefold(quick_config, device="cuda", deterministic=True)
        return model.fit(few_digits, holdout="street", work_dir=work, on_epoch=on_epoch)

    def kill(figures):
        if figures["epoch"] == 7:
            raise Killed

    whole = fit(tmp_path / "whole")
    with pytest.raises(Killed):
        fit(tmp_path / "killed", kill)
    resumed = fit(tmp_path / "killed")
    for left, right in (
        (whole.net.state_dict(), resumed.net.state_dict()),
        (whole.feature_model.tensors(), resumed.feature_model.tensors()),
    ):
        assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("method", LEARNERS, ids=lambda method: method.info.name)
def test_a_step_of_a_training_time_method_never_waits_for_the_device(method, few_digits):
    features = preset_config("small").features
    net = build_feature_net(features, (32, 32), normalisation="half", seed=0, pretrained=True)
    task = LearningTask(num_classes=3, num_domains=4, num_images=len(few_digits), image_size=(32, 32), seed=0)
    learner = method.learner(net, task).cuda().train()
    images = torch.from_numpy(few_digits.images).cuda().permute(0, 3, 1, 2).float().div(255)
    labels, domains = (torch.from_numpy(item).cuda() for item in (few_digits.labels, few_digits.domains))
    batch = Batch(images, labels, domains, torch.arange(len(images), device="cuda"), step=5, steps=10)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        learner.loss(batch).backward()  # libraries set themselves up in the first step
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = learner.loss(batch)
        loss.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(loss)


def test_deterministic_training_with_every_augmentation(few_digits, quick_config):
    from homefold.config import augmentation_preset

    everything = replace(augmentation_preset("paper"), fourier_mix_probability=0.5, texture_probability=0.5)
    features = replace(quick_config.features, epochs=2, augmentation=everything)
    fits = [
        Homefold(replace(quick_config, features=features), device="cuda", deterministic=True).fit(few_digits)
        for _ in range(2)
    ]
    states = [fit.net.state_dict() for fit in fits]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def trained_features(config, dataset, *, checkpoint=None, on_epoch=None, **changes):
    from homefold.data.splits import holdout_split
    from homefold.features import build_feature_net, train_features

    config = replace(config.features, **changes)
    train, held_out = holdout_split(dataset.labels, dataset.domains, config.held_out, 0)
    net = build_feature_net(config, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    asked = {"checkpoint": checkpoint, "on_epoch": on_epoch}
    return train_features(config, net, dataset, train, held_out, seed=0, device=torch.device("cuda"), **asked)


def test_several_runs_go_on_in_the_second_to_the_same_weights(few_digits, quick_config, tmp_path):
    from homefold.runtime.device import deterministic_algorithms

    class Killed(BaseException):
        """Stands for the end of the process: nothing catches it."""

    def kill(figures):
        if figures["run"] == 2 and figures["epoch"] == 2:
            raise Killed

    settings = {"epochs": 2, "runs": 2, "checkpoint_seconds": 0}
    with deterministic_algorithms(True):
        whole = trained_features(quick_config, few_digits, **settings)
        with pytest.raises(Killed):
            trained_features(quick_config, few_digits, **settings, checkpoint=tmp_path / "c", on_epoch=kill)
        resumed = trained_features(quick_config, few_digits, **settings, checkpoint=tmp_path / "c")
    for name, value in whole.net.state_dict().items():
        torch.testing.assert_close(resumed.net.state_dict()[name], value, rtol=1e-3, atol=1e-4)
    assert [entry["run"] for entry in resumed.report.history] == [1, 1, 2, 2]


def test_a_captured_training_is_the_training_without(few_digits, quick_config):
    from homefold.runtime.device import deterministic_algorithms

    with deterministic_algorithms(True):
        captured, plain = (
            trained_features(quick_config, few_digits, epochs=3, cuda_graph=way, average_from=0.5)
            for way in ("auto", "off")
        )
    history = [[entry["loss"] for entry in run.report.history] for run in (captured, plain)]
    np.testing.assert_allclose(history[0], history[1], rtol=1e-3)
    for name, value in plain.net.state_dict().items():
        torch.testing.assert_close(captured.net.state_dict()[name], value, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"mix_style_probability": 0.5},
        {"cross_entropy_weight": 1.0},
        {"average_from": 0.5, "average_every": 2},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_options_of_stage_1_are_captured_and_train_as_without_a_capture(few_digits, quick_config, changes):
    captured, plain = losses_with_and_without_a_capture(few_digits, quick_config, **changes)
    np.testing.assert_allclose(captured, plain, rtol=1e-2)


def test_a_sharpness_aware_step_is_captured_and_trains_as_without_a_capture(few_digits, quick_config, monkeypatch):
    from homefold.features.sharpness import sharpness_aware_gradient

    def take_gradient(run, gradient):
        return sharpness_aware_gradient(gradient, [run.net, run.objective], 0.05)

    monkeypatch.setattr("homefold.features.training._FeatureRun.take_gradient", take_gradient)
    captured, plain = losses_with_and_without_a_capture(few_digits, quick_config)
    np.testing.assert_allclose(captured, plain, rtol=1e-2)


def losses_with_and_without_a_capture(few_digits, quick_config, **changes):
    from homefold.runtime.device import deterministic_algorithms

    with deterministic_algorithms(True), warnings.catch_warnings():
        warnings.filterwarnings("error", message="a step cannot be captured")
        runs = [
            trained_features(quick_config, few_digits, epochs=3, cuda_graph=way, **changes) for way in ("auto", "off")
        ]
    return [[entry["loss"] for entry in run.report.history] for run in runs]


def test_a_captured_step_draws_new_random_numbers_at_every_replay():
    from homefold.runtime.captured_step import CapturedStep, capturer_for

    device = torch.device("cuda")
    step = CapturedStep(lambda x: torch.nn.functional.dropout(x, 0.5), device, capturer_for(device))
    with torch.random.fork_rng(devices=[0]):
        torch.manual_seed(0)
        found = [step(torch.ones(1000, device=device)).clone() for _ in range(6)]
        torch.manual_seed(0)
        expected = [torch.nn.functional.dropout(torch.ones(1000, device=device), 0.5) for _ in range(6)]
    assert step.is_captured
    assert len({tuple(value.tolist()) for value in found}) == 6
    assert all(torch.equal(left, right) for left, right in zip(found, expected, strict=True))


def test_images_copied_ahead_train_to_the_same_bytes(few_digits, quick_config, monkeypatch):
    from homefold.runtime.device import deterministic_algorithms

    with deterministic_algorithms(True):
        kept = trained_features(quick_config, few_digits, epochs=3)
        monkeypatch.setattr("homefold.features.batches._fits", lambda images, device: False)
        copied = trained_features(quick_config, few_digits, epochs=3)
    state = copied.net.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in kept.net.state_dict().items())


def test_a_training_step_never_waits_for_the_device(few_digits, quick_config):
    from homefold.config import augmentation_preset
    from homefold.features import build_feature_net
    from homefold.features.gradient_step import GradientStep
    from homefold.features.objective import Objective

    device = torch.device("cuda")
    net = build_feature_net(quick_config.features, (32, 32), normalisation="half", seed=0, pretrained=True).to(device)
    objective = Objective(net.feature_dim, 3).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    for captured in (False, True):
        step = GradientStep(
            lambda images, labels: objective(net(images).float(), labels),
            optimizer,
            scaler,
            augmentation_preset("default"),
            device,
            torch.bfloat16,
            captured=captured,
        )
        pixels = torch.from_numpy(few_digits.images[:32]).to(device)
        labels = torch.from_numpy(few_digits.labels[:32]).to(device)
        random = torch.Generator(device=device).manual_seed(0)
        for _ in range(5):
            step(pixels, labels, rates=[0.01], generator=random)
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(3):
                loss = step(pixels, labels, rates=[0.02], generator=random)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.isfinite(loss)


@pytest.mark.parametrize("kind", ["vae", "conv-vae", "gan"])
def test_a_captured_manifold_is_as_good_as_one_fitted_step_by_step(kind, monkeypatch):
    from homefold.manifold import ManifoldConfig, fit_manifold, gan, vae

    random = torch.Generator().manual_seed(0)
    labels = torch.arange(700) % 7
    z = torch.randn(7, 64, generator=random)[labels] + 0.3 * torch.randn(700, 64, generator=random)
    config = ManifoldConfig(kind=kind, epochs=60, latent_dim=8)

    def fit():
        return fit_manifold(config, z[:600], z[600:], labels=labels[:600], seed=0, device=torch.device("cuda")).report

    captured = fit()
    for module in (vae, gan):
        monkeypatch.setattr(module, "capturer_for", lambda device, enabled=True: None)
    assert captured.reconstruction_cosine == pytest.approx(fit().reconstruction_cosine, abs=0.02)


def test_a_captured_classifier_is_the_one_fitted_step_by_step(monkeypatch):
    from homefold import classifier

    random = torch.Generator().manual_seed(0)
    labels = torch.arange(700) % 7
    z = torch.randn(7, 64, generator=random)[labels] + 0.3 * torch.randn(700, 64, generator=random)

    def fit():
        config = classifier.ClassifierConfig(epochs=5)
        return classifier.fit_classifier(
            config, z[:610], labels[:610], z[610:], labels[610:], num_classes=7, seed=0, device="cuda"
        )

    captured = fit().state_dict()
    monkeypatch.setattr("homefold.classifier.training.capturer_for", lambda device, enabled=True: None)
    for name, value in fit().state_dict().items():
        torch.testing.assert_close(captured[name], value, rtol=1e-3, atol=1e-4)


def test_the_kernel_moves_styles_as_torch_does(few_digits, monkeypatch):
    from homefold.features import FeatureNet, extract_features
    from homefold.features.backbones import build_backbone
    from homefold.style import StyleConfig, fit_style, kernel, styled_net

    device, images, rows = torch.device("cuda"), few_digits.images, np.arange(len(few_digits))
    torch.manual_seed(0)
    net = FeatureNet(build_backbone("digits-bn"), (32, 32), head="linear", feature_dim=16, normalisation="half")
    net = net.to(device).eval().requires_grad_(False)
    config = StyleConfig(blocks=("block1", "block2"), manifold="mean", weight=0.8)
    style = fit_style(config, net, images, rows[::2], device=device)
    moved = styled_net(net, style)
    sizes, move = [], kernel.move
    monkeypatch.setattr(kernel, "move", lambda maps, *given: sizes.append(maps.shape) or move(maps, *given))
    # Numbers rounded to 10 bits would differ by more than what is compared.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        found = extract_features(moved, images, device)
        assert sizes
        with monkeypatch.context() as patched:
            patched.setattr("homefold.style.model.kernel_fits", lambda maps: False)
            expected = extract_features(moved, images, device)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        maps = torch.randn(9, 64, 30, 30, device=device, generator=torch.Generator(device).manual_seed(1)).to(dtype)
        maps = maps.contiguous(memory_format=torch.channels_last)
        together = style.parts[0](maps)
        assert together.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(together, torch.cat([style.parts[0](maps[i : i + 1].clone()) for i in range(9)]))


@pytest.mark.parametrize("view", fixed_views(4, mirror=True, textures=3), ids=str)
def test_a_view_is_the_same_on_the_device(view, few_digits):
    images = torch.from_numpy(few_digits.images[:32]).permute(0, 3, 1, 2).float() / 255
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        found = apply_view(images.cuda(), view)
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), apply_view(images, view), atol=1e-4, rtol=1e-4)
