"""The same promises on a CUDA device; skipped where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold import Homefold, preset_config
from homefold.features import build_feature_net
from homefold.methods import Batch, LearnerMethod, LearningTask, registry

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LEARNERS = [method for method in registry._methods.values() if isinstance(method, LearnerMethod)]


class Killed(BaseException):
    """Stands for the end of the process."""


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
            learner.loss(batch).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_deterministic_training_with_every_augmentation(few_digits, quick_config):
    from homefold.data.augmentation import augmentation_preset

    features = replace(
        quick_config.features, epochs=2, augmentation=replace(augmentation_preset("paper"), fourier_mix_probability=0.5)
    )
    fits = [
        Homefold(replace(quick_config, features=features), device="cuda", deterministic=True).fit(few_digits)
        for _ in range(2)
    ]
    states = [fit.net.state_dict() for fit in fits]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
