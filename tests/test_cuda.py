"""The same promises on a CUDA device; skipped where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold import Homefold
from homefold.manifold.base import mlp
from homefold.projection import ProjectionConfig
from homefold.projection.engines import ENGINES, reference

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


RULES = [
    {"step": step, "stop": stop}
    for step in ("gradient", "normalised", "adam")
    for stop in ("fixed", "elbow", "plateau")
]


def _search(engine: str, precision: str, rules: dict[str, str], n: int = 40, s: int = 3, steps: int = 12):
    torch.manual_seed(0)
    decode = mlp(32, 128, 128, 256).cuda().requires_grad_(False)
    targets, starts = torch.randn(n, 256, device="cuda"), torch.randn(n, s, 32, device="cuda")
    # Long plain steps, so that the curves bend where no rounding moves the bend.
    rate = 50.0 if rules["step"] == "gradient" else 0.05
    config = ProjectionConfig(steps=steps, rate=rate, patience=3, tolerance=1e-3, precision=precision, **rules)
    with torch.no_grad():
        found = ENGINES[engine](decode, targets, starts, config)
    return found, (decode, targets, starts, config)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(rules.values()))
@pytest.mark.parametrize(
    ("engine", "precision", "tolerance"),
    [("batched", "highest", 1e-3), ("compiled", "highest", 1e-3), ("fused", "high", 5e-3)],
)
def test_engines_follow_a_double_precision_reference_over_the_first_steps(engine, precision, tolerance, rules):
    found, (decode, targets, starts, config) = _search(engine, precision, rules, n=4)
    expected = reference(decode.double(), targets.double(), starts.double(), config)
    same = found.steps == expected.steps
    assert same.float().mean() > 0.9
    torch.testing.assert_close(found.before.double(), expected.before, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.after.double(), expected.after, atol=tolerance, rtol=0)
    torch.testing.assert_close(found.latents[same].double(), expected.latents[same], atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(rules.values()))
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_a_row_of_the_kernel_has_the_same_bytes_in_any_batch(precision, rules):
    found, (decode, targets, starts, config) = _search("fused", precision, rules)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0)).cuda()
    permuted = ENGINES["fused"](decode, targets[order], starts[order], config)
    for name in ("latents", "steps", "before", "after"):
        assert torch.equal(getattr(permuted, name), getattr(found, name)[order])


def test_kernel_and_graphs_give_the_same_bytes_every_time():
    for engine in ("compiled", "fused"):
        runs = [_search(engine, "high", {"step": "adam", "stop": "fixed"}, steps=120)[0] for _ in range(3)]
        assert all(torch.equal(run.latents, runs[0].latents) for run in runs)


def test_auto_takes_the_kernel_and_says_so(on_cuda, few_digits):
    assert on_cuda.predict(few_digits.images[:3]).engine == "fused"
