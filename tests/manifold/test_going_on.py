"""A manifold that goes on from weights it is given: what fine-tuning needs."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from homefold.errors import ConfigError
from homefold.manifold import Manifold, ManifoldConfig, fit_manifold
from homefold.runtime.seeding import generator

QUICK = ManifoldConfig(latent_dim=4, hidden=(16,), epochs=4, batch_size=32, bank_size=20)


def drawn(n: int, seed: int = 0) -> torch.Tensor:
    """Features that differ with the seed: `(n, 64)`."""
    return torch.randn(n, 64, generator=generator(seed, "features")) + seed


def weights(manifold: Manifold) -> dict[str, torch.Tensor]:
    return dict(manifold.named_parameters())


@pytest.mark.parametrize("kind", ["vae", "conv-vae", "gan"])
def test_training_goes_on_from_the_weights_it_is_given(kind: str) -> None:
    config = dataclasses.replace(QUICK, kind=kind)
    before = fit_manifold(config, drawn(64), drawn(16), seed=0)
    barely = dataclasses.replace(config, epochs=1, learning_rate=1e-9, schedule="constant")
    after = fit_manifold(barely, drawn(32, seed=3), drawn(16), seed=5, initial=before.state_dict(), keep="last")
    for name, value in weights(after).items():
        torch.testing.assert_close(value, weights(before)[name], rtol=0, atol=1e-6)
    anew = fit_manifold(barely, drawn(32, seed=3), drawn(16), seed=5)
    assert any(not torch.allclose(value, weights(before)[name], atol=1e-3) for name, value in weights(anew).items())


def test_its_bank_is_of_the_features_it_went_on_with() -> None:
    before = fit_manifold(QUICK, drawn(64), drawn(16), seed=0)
    after = fit_manifold(QUICK, drawn(12, seed=3), drawn(16), seed=0, initial=before.state_dict())
    assert (len(before.bank_features), len(after.bank_features)) == (20, 12)


def test_the_last_epoch_is_kept_where_that_is_asked_for() -> None:
    """Training away from the held-out features makes every epoch worse on them than the one before."""
    before = fit_manifold(dataclasses.replace(QUICK, epochs=60), drawn(64), drawn(16), seed=0)
    options = {"seed": 0, "initial": before.state_dict()}
    config = dataclasses.replace(QUICK, epochs=10, learning_rate=0.01)
    best = fit_manifold(config, drawn(32, seed=9), drawn(16), **options)  # type: ignore[arg-type]
    last = fit_manifold(config, drawn(32, seed=9), drawn(16), **options, keep="last")  # type: ignore[arg-type]
    assert (best.report.best_epoch, last.report.best_epoch) == (1, 10)


def test_weights_of_another_shape_get_a_sentence() -> None:
    before = fit_manifold(QUICK, drawn(64), drawn(16), seed=0)
    deeper = dataclasses.replace(QUICK, hidden=(16, 16))
    with pytest.raises(ConfigError, match="cannot go on from these weights"):
        fit_manifold(deeper, drawn(64), drawn(16), seed=0, initial=before.state_dict())
    wider = dataclasses.replace(QUICK, hidden=(32,))
    with pytest.raises(ConfigError, match="cannot go on from these weights"):
        fit_manifold(wider, drawn(64), drawn(16), seed=0, initial=before.state_dict())
