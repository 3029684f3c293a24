"""The same promises on a CUDA device; skipped where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold import Homefold

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


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
