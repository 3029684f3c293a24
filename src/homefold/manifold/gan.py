"""A generative adversarial network of features: a manifold without an encoder."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from homefold.config.manifold import ManifoldConfig, manifold_named
from homefold.errors import TrainingDivergedError
from homefold.manifold.base import (
    Manifold,
    ManifoldReport,
    check_features,
    constant_features_reason,
    explained_share,
    fused_adamw,
    load_weights,
    mlp,
    nearly_constant,
    training_rate,
)
from homefold.runtime.captured_step import CapturedStep, Recorder, recorder_for
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.seeding import generator, isolated_seed

__all__ = [
    "GAN",
    "build_gan",
    "coverage",
    "discriminator_loss",
    "fit_gan",
    "generator_loss",
    "gradient_penalty",
    "mean_pairwise_distance",
]

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
    """R1: mean over rows of |∇_z D(z)|².

    Args:
        real_scores: (n, 1) scores of `real`.
        real: (n, d), requires a gradient.
    """
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
        feature_dim: dimensions d of a feature.
        latent_dim: dimensions of u.
        decoder: (n, latent_dim) -> (n, d), without batch statistics.
        bank_size: rows of the bank before fitting.
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
    labels: torch.Tensor | None = None,
    seed: int,
    device: torch.device | str = "cpu",
    reporter: ProgressReporter | None = None,
    initial: Mapping[str, torch.Tensor] | None = None,
    keep: Literal["best", "last"] = "best",
) -> GAN:
    """Train a GAN on source features and keep the generator that covers held-out source features best.

    Args:
        config: kind `"gan"`, and how to train it.
        train: (n, d) features.
        held_out: (m, d) features of the same source domains.
        labels: of no use to it.
        seed: initialisation, order and latents follow from it.
        device: where to train; the result stays there.
        reporter: is told of each epoch.
        initial: weights to go on from, as `state_dict` gives them (a bank among them counts for nothing); none
            begins anew. The discriminator, which nobody keeps, always does.
        keep: the epoch to keep, the best on `held_out` or the last.
    """
    check_features(train, held_out)
    device = torch.device(device)
    train, held_out = (z.detach().to(device, torch.float32) for z in (train, held_out))
    with isolated_seed(seed, "manifold", "gan", "initialisation"):
        model = build_gan(config, train.shape[1]).to(device)
        discriminator = mlp(train.shape[1], *reversed(config.hidden), 1).to(device)
    if initial is not None:
        load_weights(model, initial)
    judge = _Judge(train, held_out, config.latent_dim, seed)
    best_epoch = _train(model, discriminator, config, train, judge, seed, reporter or SilentReporter(), keep)
    model.freeze()
    draw = generator(seed, "manifold", "gan", "bank")
    model.bank_latents = torch.randn(config.bank_size, config.latent_dim, generator=draw).to(device)
    model.bank_features = model.decode(model.bank_latents)
    model.report = _report(config, best_epoch, judge, *judge.measure(model))
    return model


class _Judge:
    """Measures a generator at the same latents every time, so that epochs are compared fairly."""

    def __init__(self, train: torch.Tensor, held_out: torch.Tensor, latent_dim: int, seed: int) -> None:
        draw = generator(seed, "manifold", "gan", "judge")
        self.latents = torch.randn(_JUDGING_SAMPLES, latent_dim, generator=draw).to(train.device)
        self.held_out = held_out
        self.real_distance = mean_pairwise_distance(held_out)
        self.baseline = float(F.cosine_similarity(held_out, train.mean(dim=0, keepdim=True)).mean())

    @torch.no_grad()
    def measure(self, model: GAN) -> tuple[float, float]:
        """Coverage of the held-out features, and diversity relative to theirs."""
        samples = model.decode(self.latents)
        distance = mean_pairwise_distance(samples)
        return coverage(self.held_out, samples), distance / max(self.real_distance, _SMALLEST_DISTANCE)

    def score(self, covered: float, diversity: float) -> float:
        """Higher is better: what the samples cover, less how far their spread is from the real one."""
        return explained_share(covered, self.baseline) - abs(1 - diversity)


def _train(
    model: GAN,
    discriminator: nn.Module,
    config: ManifoldConfig,
    train: torch.Tensor,
    judge: _Judge,
    seed: int,
    reporter: ProgressReporter,
    keep: Literal["best", "last"],
) -> int:
    """Run the epochs, leave the best or the last averaged weights in the model; return the epoch they come from."""
    epochs, size = config.resolved_epochs, min(config.batch_size, len(train))
    steps = len(train) // size
    optimizers = [
        fused_adamw(network, config.resolved_learning_rate, config.weight_decay, betas=(0.5, 0.999))
        for network in (discriminator, model)
    ]
    averaged = copy.deepcopy(model).requires_grad_(False)
    penalty_weight = config.gradient_penalty * float(train.square().sum(dim=1).mean())
    recorder = recorder_for(train.device)
    plain, penalised = (
        _training_step(model, discriminator, averaged, optimizers, weight, recorder)
        for weight in (0.0, penalty_weight * _PENALTY_EVERY)
    )
    best_score, best_epoch, best_state = -math.inf, 0, {}
    judge_every = max(1, epochs // 30)
    with reporter.task("Manifold (GAN)", total=epochs) as task:
        for epoch in range(epochs):
            draw = generator(seed, "manifold", "gan", epoch, device=train.device)
            order = torch.randperm(len(train), generator=draw, device=train.device)
            for step in range(steps):
                done = epoch * steps + step
                rate = training_rate(config, done, epochs * steps)
                real = train[order[step * size : (step + 1) * size]]
                latents = torch.randn(size, config.latent_dim, generator=draw, device=train.device)
                learn = penalised if done % _PENALTY_EVERY == 0 else plain
                learn(real, latents, rate, 1 - min(_AVERAGING, (1 + done) / (10 + done)))
            facts: dict[str, float] = {}
            if (epoch + 1) % judge_every == 0 or epoch + 1 == epochs:
                covered, diversity = judge.measure(averaged)
                if not math.isfinite(score := judge.score(covered, diversity)):
                    raise _diverged(config, epoch, train)
                facts = {"coverage": covered, "diversity": diversity}
                if score > best_score or keep == "last":
                    best_score, best_epoch = score, epoch + 1
                    best_state = {name: value.clone() for name, value in averaged.state_dict().items()}
            task.advance(1, **facts)
    model.load_state_dict(best_state)
    return best_epoch


def _training_step(
    model: GAN,
    discriminator: nn.Module,
    averaged: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    penalty_weight: float,
    recorder: Recorder | None,
) -> CapturedStep:
    """A step on real features (n, d) and latents (n, latent_dim), at a rate, moving the averaged weights by a share."""

    def learn(
        real: torch.Tensor, latents: torch.Tensor, rate: float | torch.Tensor, share: float | torch.Tensor
    ) -> torch.Tensor:
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        loss = _adversarial_step(model, discriminator, optimizers, real.detach(), latents, penalty_weight)
        _follow(averaged, model, share)
        return loss

    return CapturedStep(learn, model.bank_latents.device, recorder)


def _adversarial_step(
    model: GAN,
    discriminator: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    real: torch.Tensor,
    latents: torch.Tensor,
    penalty_weight: float,
) -> torch.Tensor:
    """One step of the discriminator, then one of the generator, on the same fakes; the generator's loss before it."""
    fake = model.decode(latents)
    real.requires_grad_(penalty_weight > 0)
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
    return loss.detach()


@torch.no_grad()
def _follow(averaged: nn.Module, model: nn.Module, share: float | torch.Tensor) -> None:
    """Move the averaged weights by a share towards the current ones: a GAN's weights circle around good ones."""
    if not isinstance(share, torch.Tensor):
        torch._foreach_lerp_(list(averaged.parameters()), list(model.parameters()), share)
        return
    for mean, value in zip(averaged.parameters(), model.parameters(), strict=True):
        mean.lerp_(value, share)


def _diverged(config: ManifoldConfig, epoch: int, train: torch.Tensor) -> TrainingDivergedError:
    return TrainingDivergedError(
        f"The GAN's weights became NaN or infinite by epoch {epoch + 1} of {config.resolved_epochs}, with "
        f"learning_rate {config.resolved_learning_rate:g} and features as large as "
        f"{float(train.abs().max()):.3g}; lower learning_rate tenfold, or normalise the features."
    )


def _report(config: ManifoldConfig, best_epoch: int, judge: _Judge, covered: float, diversity: float) -> ManifoldReport:
    reason = ""
    if nearly_constant(judge.baseline):
        reason = constant_features_reason(judge.baseline)
    elif diversity < _LEAST_DIVERSITY or covered <= judge.baseline:
        reason = (
            f"The GAN collapsed: its samples spread {diversity:.0%} as much as source features do "
            f"and come within cosine {covered:.3f} of held-out ones (a constant: {judge.baseline:.3f}). "
            f"Raise manifold.gradient_penalty (it is {config.gradient_penalty:g}) "
            f"or manifold.epochs (it is {config.resolved_epochs}), or use a VAE."
        )
    return ManifoldReport(
        kind="gan",
        epochs_run=config.resolved_epochs,
        best_epoch=best_epoch,
        baseline_cosine=judge.baseline,
        reconstruction_cosine=covered,
        explained=explained_share(covered, judge.baseline),
        collapsed=bool(reason),
        reason=reason,
        diversity=None if nearly_constant(judge.baseline) else diversity,
    )
