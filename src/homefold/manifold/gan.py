"""A generative adversarial network of features: a manifold without an encoder."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from homefold.config.manifold import ManifoldConfig, manifold_named
from homefold.manifold.base import (
    Manifold,
    ManifoldReport,
    baseline_cosine,
    explained_share,
    mlp,
    nearly_constant,
    report_on,
)
from homefold.manifold.training import Batches, fused_adamw, train_epochs
from homefold.runtime.captured_step import CapturedStep, capturer_for
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.seeding import generator, isolated_seed

__all__ = ["GAN", "coverage", "discriminator_loss", "generator_loss", "gradient_penalty", "mean_pairwise_distance"]

_JUDGING_SAMPLES = 4096
_LEAST_DIVERSITY = 0.1
_SMALLEST_DISTANCE = 1e-12
_AVERAGING = 0.995
# the penalty costs a second derivative: every fourth step, four times as strong, does as well
_PENALTY_EVERY = 4


def discriminator_loss(real_scores: torch.Tensor, fake_scores: torch.Tensor) -> torch.Tensor:
    """Mean softplus(-D(z)) + mean softplus(D(G(u))). Both (n, 1); returns a scalar."""
    return F.softplus(-real_scores).mean() + F.softplus(fake_scores).mean()


def generator_loss(fake_scores: torch.Tensor) -> torch.Tensor:
    """The non-saturating loss, mean softplus(-D(G(u))). (n, 1); returns a scalar."""
    return F.softplus(-fake_scores).mean()


def gradient_penalty(real_scores: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """R1: mean over rows of |∇_z D(z)|². real_scores: (n, 1) of `real`: (n, d), which requires a gradient."""
    (gradient,) = torch.autograd.grad(real_scores.sum(), real, create_graph=True)
    return gradient.square().sum(dim=1).mean()


def coverage(real: torch.Tensor, samples: torch.Tensor) -> float:
    """Mean over real features of the highest cosine to any sample. real: (m, d), samples: (n, d)."""
    samples = F.normalize(samples, dim=1)
    highest = [(part @ samples.T).amax(dim=1) for part in F.normalize(real, dim=1).split(1024)]
    return float(torch.cat(highest).mean())


def mean_pairwise_distance(z: torch.Tensor) -> float:
    """Mean of 1 - cos over all pairs of different rows, in time linear in n. z: (n, d), n at least 2."""
    unit = F.normalize(z.double(), dim=1) if z.device.type != "mps" else F.normalize(z, dim=1)
    n = len(unit)
    # |Σ z_i|² = Σ_i |z_i|² + Σ_{i≠j} cos(z_i, z_j)
    off_diagonal = unit.sum(dim=0).square().sum() - unit.square().sum()
    return max(0.0, float(1 - off_diagonal / (n * (n - 1))))


class GAN(Manifold):
    """A generator with a linear output; its discriminator lives only while it trains.

    Args:
        decoder: (n, latent_dim) -> (n, d), without batch statistics.
        feature_dim, latent_dim, bank_size: as for a `Manifold`.
    """

    has_encoder = False
    is_continuous = True

    def __init__(self, feature_dim: int, latent_dim: int, decoder: nn.Module, bank_size: int = 0) -> None:
        super().__init__(feature_dim, latent_dim, bank_size)
        self.decoder = decoder

    def decode(self, u: torch.Tensor) -> torch.Tensor:
        """u: (n, latent_dim) -> (n, feature_dim)."""
        decoded: torch.Tensor = self.decoder(u)
        return decoded


def build_gan(config: ManifoldConfig, feature_dim: int, bank_size: int = 0) -> GAN:
    """An untrained generator of the configured widths, for features of `feature_dim` dimensions."""
    return GAN(feature_dim, config.latent_dim, mlp(config.latent_dim, *config.hidden, feature_dim), bank_size)


@manifold_named("gan", build=build_gan, epochs=150, learning_rate=1e-3)
def fit_gan(
    config: ManifoldConfig,
    train: torch.Tensor,
    held_out: torch.Tensor,
    *,
    seed: int,
    reporter: ProgressReporter,
    **_: Any,
) -> GAN:
    """Train a GAN and keep the generator that covers held-out source features best; see `fit_manifold`."""
    device = train.device
    with isolated_seed(seed, "manifold", "gan", "initialisation"):
        model = build_gan(config, train.shape[1]).to(device)
        discriminator = mlp(train.shape[1], *reversed(config.hidden), 1).to(device)
    # A GAN's weights circle around good ones: it is their mean that is judged and kept.
    averaged = copy.deepcopy(model).requires_grad_(False)
    optimizers = [fused_adamw(network, config, betas=(0.5, 0.999)) for network in (discriminator, model)]
    penalty_weight = config.gradient_penalty * float(train.square().sum(dim=1).mean())
    capturer = capturer_for(device)
    plain, penalised = (
        CapturedStep(_step_function(model, discriminator, averaged, optimizers, weight), device, capturer)
        for weight in (0.0, penalty_weight * _PENALTY_EVERY)
    )

    def learn(batches: Batches) -> dict[str, float]:
        for done, real, latents, rate in batches:
            step = penalised if done % _PENALTY_EVERY == 0 else plain
            step(real, latents, rate, 1 - min(_AVERAGING, (1 + done) / (10 + done)))
        return {}

    judge = _Judge(averaged, train, held_out, seed)
    trouble = "The GAN's weights became NaN or infinite by"
    best_epoch = train_epochs(averaged, config, train, learn, judge, seed=seed, reporter=reporter, trouble=trouble)
    averaged.freeze()
    draw = generator(seed, "manifold", "gan", "bank")
    averaged.bank_latents = torch.randn(config.bank_size, config.latent_dim, generator=draw).to(device)
    averaged.bank_features = averaged.decode(averaged.bank_latents)
    averaged.report = judge.report(config, best_epoch)
    return averaged


class _Judge:
    """Measures a generator at the same latents every time, so that epochs are compared fairly."""

    def __init__(self, model: GAN, train: torch.Tensor, held_out: torch.Tensor, seed: int) -> None:
        draw = generator(seed, "manifold", "gan", "judge")
        self._latents = torch.randn(_JUDGING_SAMPLES, model.latent_dim, generator=draw).to(train.device)
        self._model, self._held_out = model, held_out
        self._real_distance = mean_pairwise_distance(held_out)
        self._baseline = baseline_cosine(train, held_out)

    @torch.no_grad()
    def _measure(self) -> tuple[float, float]:
        """Coverage of the held-out features, and diversity relative to theirs."""
        samples = self._model.decode(self._latents)
        distance = mean_pairwise_distance(samples)
        return coverage(self._held_out, samples), distance / max(self._real_distance, _SMALLEST_DISTANCE)

    def __call__(self) -> tuple[float, dict[str, float]]:
        """What the samples cover, less how far their spread is from the real one; and both of them."""
        covered, diversity = self._measure()
        score = explained_share(covered, self._baseline) - abs(1 - diversity)
        return score, {"coverage": covered, "diversity": diversity}

    def report(self, config: ManifoldConfig, best_epoch: int) -> ManifoldReport:
        """On the weights that were kept."""
        covered, diversity = self._measure()
        trouble = ""
        if diversity < _LEAST_DIVERSITY or covered <= self._baseline:
            trouble = (
                f"The GAN collapsed: its samples spread {diversity:.0%} as much as source features do "
                f"and come within cosine {covered:.3f} of held-out ones (a constant: {self._baseline:.3f}). "
                f"Raise manifold.gradient_penalty (it is {config.gradient_penalty:g}) "
                f"or manifold.epochs (it is {config.resolved_epochs}), or use a VAE."
            )
        known = None if nearly_constant(self._baseline) else diversity
        return report_on(config, best_epoch, self._baseline, covered, trouble, diversity=known)


def _step_function(
    model: GAN,
    discriminator: nn.Module,
    averaged: GAN,
    optimizers: Sequence[torch.optim.Optimizer],
    penalty_weight: float,
) -> Callable[..., torch.Tensor]:
    """One step of the discriminator, then one of the generator, on the same fakes; the generator's loss before it.

    It takes real features (n, d), latents (n, latent_dim), the learning rate, and the share by which the averaged
    weights move towards the current ones.
    """

    def learn(
        real: torch.Tensor, latents: torch.Tensor, rate: float | torch.Tensor, share: float | torch.Tensor
    ) -> torch.Tensor:
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        fake, real = model.decode(latents), real.detach().requires_grad_(penalty_weight > 0)
        real_scores = discriminator(real)
        loss = discriminator_loss(real_scores, discriminator(fake.detach()))
        if penalty_weight > 0:
            loss = loss + penalty_weight * gradient_penalty(real_scores, real)
        optimizers[0].zero_grad(set_to_none=True)
        loss.backward()
        optimizers[0].step()

        loss = generator_loss(discriminator(fake))
        optimizers[1].zero_grad(set_to_none=True)
        loss.backward(inputs=list(model.parameters()))
        optimizers[1].step()
        _follow(averaged, model, share)
        return loss.detach()

    return learn


@torch.no_grad()
def _follow(averaged: nn.Module, model: nn.Module, share: float | torch.Tensor) -> None:
    """Move the averaged weights by a share towards the current ones."""
    if not isinstance(share, torch.Tensor):
        torch._foreach_lerp_(list(averaged.parameters()), list(model.parameters()), share)
        return
    for mean, value in zip(averaged.parameters(), model.parameters(), strict=True):
        mean.lerp_(value, share)
