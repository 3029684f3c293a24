"""A variational autoencoder of features: the default manifold, as an MLP or as the paper's small conv net."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from homefold.config.manifold import ManifoldConfig, manifold_named
from homefold.errors import ConfigError, TrainingDivergedError
from homefold.manifold.base import (
    SLOPE,
    Manifold,
    ManifoldReport,
    check_features,
    constant_features_reason,
    even_subset,
    explained_share,
    fused_adamw,
    load_weights,
    mlp,
    nearly_constant,
    training_rate,
)
from homefold.manifold.vae_gradient import VAEGradient, linear_layers
from homefold.runtime.captured_step import CapturedStep, recorder_for
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.seeding import generator, isolated_seed

__all__ = [
    "VAE",
    "build_vae",
    "fit_vae",
    "gaussian_kl",
    "reconstruction_loss",
    "vae_loss",
]

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Targets and noise to the loss, the gradients of the weights set."""

_ACTIVE_VARIANCE = 0.01
_LEAST_EXPLAINED = 0.1
_SAFE_KL_WEIGHT = 0.01
_CHUNK = 8192


def reconstruction_loss(reconstruction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """L1 + L2: mean of |x̂ - x| + (x̂ - x)² over rows and coordinates. Both (n, d); returns a scalar."""
    return F.l1_loss(reconstruction, target) + F.mse_loss(reconstruction, target)


def gaussian_kl(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    """KL(N(μ, σ²) || N(0, I)) in nats: sum over latent dimensions, mean over rows. Both (n, latent_dim)."""
    return 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(dim=1).mean()


def vae_loss(
    reconstruction: torch.Tensor,
    target: torch.Tensor,
    mean: torch.Tensor,
    log_variance: torch.Tensor,
    kl_weight: float,
) -> torch.Tensor:
    """Reconstruction per coordinate plus `kl_weight` times KL per sample.

    Neither a larger batch nor a wider feature changes what `kl_weight` means.

    Args:
        reconstruction, target: (n, d).
        mean, log_variance: (n, latent_dim), of the posterior N(μ, σ²).
        kl_weight: weight of the KL term.
    """
    return reconstruction_loss(reconstruction, target) + kl_weight * gaussian_kl(mean, log_variance)


class VAE(Manifold):
    """An encoder to a Gaussian posterior over u, and a decoder back to a feature with a linear output.

    Args:
        feature_dim: dimensions d of a feature.
        latent_dim: dimensions of u.
        encoder: (n, d) -> (n, 2 * latent_dim), mean and log-variance side by side.
        decoder: (n, latent_dim) -> (n, d).
        bank_size: rows of the bank before fitting.
    """

    has_encoder = True
    is_continuous = True

    def __init__(
        self, feature_dim: int, latent_dim: int, encoder: nn.Module, decoder: nn.Module, bank_size: int = 0
    ) -> None:
        super().__init__(feature_dim, latent_dim, bank_size)
        self.encoder, self.decoder = encoder, decoder

    def decode(self, u: torch.Tensor) -> torch.Tensor:
        """u: (n, latent_dim) -> (n, feature_dim)."""
        decoded: torch.Tensor = self.decoder(u)
        return decoded

    def encode(self, z: torch.Tensor) -> torch.Tensor:
        """Posterior mean. z: (n, feature_dim) -> (n, latent_dim)."""
        return self.posterior(z)[0]

    def posterior(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and log-variance of q(u | z), (n, latent_dim) each."""
        mean, log_variance = self.encoder(z).chunk(2, dim=1)
        return mean, log_variance


def _conv_networks(feature_dim: int, latent_dim: int) -> tuple[nn.Sequential, nn.Sequential]:
    """The paper's pair: the feature as a square picture, halved three times; and the way back.

    256-d: 1×16×16 - 4×8×8 - 8×4×4 - 16×2×2 = 64 - μ, log σ² and u - 64 - transposed, 9,265 parameters in all.
    """
    side = math.isqrt(feature_dim)
    if side * side != feature_dim or side % 8:
        raise ConfigError(
            f"the convolutional VAE sees a feature as a square whose side divides by 8 (64, 256, 576, 1024 "
            f'dimensions, ...), but the features have {feature_dim}; use the manifold kind "vae".'
        )
    small = side // 8
    flat = 16 * small * small
    encoder = nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.LeakyReLU(SLOPE),
        nn.Conv2d(4, 8, 3, stride=2, padding=1),
        nn.LeakyReLU(SLOPE),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.LeakyReLU(SLOPE),
        nn.Flatten(),
        nn.Linear(flat, 2 * latent_dim),
    )
    decoder = nn.Sequential(
        nn.Linear(latent_dim, flat),
        nn.LeakyReLU(SLOPE),
        nn.Unflatten(1, (16, small, small)),
        nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1),
        nn.LeakyReLU(SLOPE),
        nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
        nn.LeakyReLU(SLOPE),
        nn.ConvTranspose2d(4, 1, 3, stride=2, padding=1, output_padding=1),
        nn.Flatten(),
    )
    return encoder, decoder


def build_vae(config: ManifoldConfig, feature_dim: int, bank_size: int = 0) -> VAE:
    """An untrained VAE of the configured kind and widths, for features of `feature_dim` dimensions."""
    if config.kind == "conv-vae":
        encoder, decoder = _conv_networks(feature_dim, config.latent_dim)
    else:
        encoder = mlp(feature_dim, *reversed(config.hidden), 2 * config.latent_dim)
        decoder = mlp(config.latent_dim, *config.hidden, feature_dim)
    return VAE(feature_dim, config.latent_dim, encoder, decoder, bank_size)


@manifold_named("vae", build=build_vae, epochs=100, learning_rate=4e-3)
@manifold_named("conv-vae", build=build_vae, epochs=100, learning_rate=1e-2)
def fit_vae(
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
) -> VAE:
    """Train a VAE on source features and keep the weights that reconstruct held-out source features best.

    Args:
        config: kind `"vae"` or `"conv-vae"`, and how to train it.
        train: (n, d) features.
        held_out: (m, d) features of the same source domains.
        labels: of no use to it.
        seed: initialisation, order and noise follow from it.
        device: where to train; the result stays there.
        reporter: is told of each epoch.
        initial: weights to go on from, as `state_dict` gives them (a bank among them counts for nothing); none
            begins anew.
        keep: the epoch to keep, the best on `held_out` or the last.
    """
    check_features(train, held_out)
    device = torch.device(device)
    train, held_out = (z.detach().to(device, torch.float32) for z in (train, held_out))
    with isolated_seed(seed, "manifold", config.kind, "initialisation"):
        model = build_vae(config, train.shape[1])
    if initial is not None:
        load_weights(model, initial)
    model.to(device)
    best_epoch = _train(model, config, train, held_out, seed, reporter or SilentReporter(), keep)
    _finish(model, config, train, held_out, seed=seed, best_epoch=best_epoch)
    return model


@torch.no_grad()
def _finish(
    model: VAE, config: ManifoldConfig, train: torch.Tensor, held_out: torch.Tensor, *, seed: int, best_epoch: int
) -> None:
    """Freeze a trained VAE, fill its bank from `train: (n, d)` and measure it on `held_out: (m, d)`."""
    model.freeze()
    chosen = even_subset(len(train), config.bank_size, generator(seed, "manifold", "bank"))
    model.bank_latents = model.encode(train[chosen.to(train.device)])
    model.bank_features = model.decode(model.bank_latents)
    model.report = _measure(model, config, train, held_out, best_epoch)


def _train(
    model: VAE,
    config: ManifoldConfig,
    train: torch.Tensor,
    held_out: torch.Tensor,
    seed: int,
    reporter: ProgressReporter,
    keep: Literal["best", "last"],
) -> int:
    """Run the epochs, leave the best or the last weights in the model, and return the epoch they come from."""
    epochs = config.resolved_epochs
    learn = _training_step(model, _optimizer(config, model), config, min(config.batch_size, len(train)))
    best_loss, best_epoch, best_state = math.inf, 0, {}
    judge_every = max(1, epochs // 30)
    with reporter.task(f"Manifold ({config.kind.upper()})", total=epochs) as task:
        for epoch in range(epochs):
            facts = {"loss": _run_epoch(learn, config, train, seed, epoch)}
            if not math.isfinite(facts["loss"]):
                raise _diverged(config, epoch, train)
            if (epoch + 1) % judge_every == 0 or epoch + 1 == epochs:
                held_out_loss = float(reconstruction_loss(_reconstruct(model, held_out), held_out))
                facts["held_out"] = held_out_loss
                if not math.isfinite(held_out_loss):
                    raise _diverged(config, epoch, train)
                if held_out_loss < best_loss or keep == "last":
                    best_loss, best_epoch = held_out_loss, epoch + 1
                    best_state = {name: value.clone() for name, value in model.state_dict().items()}
            task.advance(1, **facts)
    model.load_state_dict(best_state)
    model.zero_grad(set_to_none=True)
    return best_epoch


def _training_step(model: VAE, optimizer: torch.optim.Optimizer, config: ManifoldConfig, rows: int) -> CapturedStep:
    """A step on targets (rows, d) with noise (rows, latent_dim) at a learning rate; returns the loss before it."""
    device = model.bank_latents.device
    measure = _gradient_by_hand(model, config, rows) or _gradient_by_autograd(model, optimizer, config)

    def learn(target: torch.Tensor, noise: torch.Tensor, rate: float | torch.Tensor) -> torch.Tensor:
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = measure(target, noise)
        optimizer.step()
        return loss

    return CapturedStep(learn, device, recorder_for(device))


def _gradient_by_hand(model: VAE, config: ManifoldConfig, rows: int) -> LossFunction | None:
    """What sets the gradients on a CPU; on CUDA, where steps are recorded, autograd costs nothing."""
    encoder, decoder = linear_layers(model.encoder), linear_layers(model.decoder)
    if encoder is None or decoder is None or model.bank_latents.device.type != "cpu":
        return None
    return VAEGradient(encoder, decoder, SLOPE, rows, config.kl_weight)


def _gradient_by_autograd(model: VAE, optimizer: torch.optim.Optimizer, config: ManifoldConfig) -> LossFunction:
    def measure(target: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, log_variance = model.posterior(target)
        reconstruction = model.decode(torch.addcmul(mean, noise, (0.5 * log_variance).exp()))
        loss = vae_loss(reconstruction, target, mean, log_variance, config.kl_weight)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        return loss.detach()

    return measure


def _run_epoch(learn: CapturedStep, config: ManifoldConfig, train: torch.Tensor, seed: int, epoch: int) -> float:
    """One pass in whole batches (what remains of the shuffled order waits for another epoch); the mean loss."""
    size = min(config.batch_size, len(train))
    steps = len(train) // size
    draw = generator(seed, "manifold", config.kind, epoch, device=train.device)
    order = torch.randperm(len(train), generator=draw, device=train.device)
    total = torch.zeros((), device=train.device)
    for step in range(steps):
        target = train[order[step * size : (step + 1) * size]]
        noise = torch.randn(size, config.latent_dim, generator=draw, device=train.device)
        rate = training_rate(config, epoch * steps + step, config.resolved_epochs * steps)
        total += learn(target, noise, rate)
    # the only wait for the device in an epoch
    return float(total) / steps


def _optimizer(config: ManifoldConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The configured optimiser of all weights."""
    rate, decay = config.resolved_learning_rate, config.weight_decay
    if config.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=rate, momentum=config.momentum, weight_decay=decay, fused=True)
    return fused_adamw(model, rate, decay)


def _diverged(config: ManifoldConfig, epoch: int, train: torch.Tensor) -> TrainingDivergedError:
    """What to say when the loss is no number any more."""
    return TrainingDivergedError(
        f"The loss of the manifold ({config.kind}) became NaN or infinite in epoch {epoch + 1} of "
        f"{config.resolved_epochs}, with learning_rate {config.resolved_learning_rate:g} and features as "
        f"large as {float(train.abs().max()):.3g}; lower learning_rate tenfold, or normalise the features."
    )


@torch.no_grad()
def _reconstruct(model: VAE, z: torch.Tensor) -> torch.Tensor:
    return torch.cat([model.decode(model.encode(part)) for part in z.split(_CHUNK)])


def _advice(config: ManifoldConfig) -> str:
    if config.kl_weight > _SAFE_KL_WEIGHT:
        return f"Lower manifold.kl_weight (it is {config.kl_weight:g}; 0.001 to 0.01 works)."
    return (
        f"Raise manifold.epochs (it is {config.resolved_epochs}) or manifold.learning_rate "
        f"(it is {config.resolved_learning_rate:g}), or lower manifold.kl_weight (it is {config.kl_weight:g})."
    )


def _measure(
    model: VAE, config: ManifoldConfig, train: torch.Tensor, held_out: torch.Tensor, best_epoch: int
) -> ManifoldReport:
    posteriors = [model.posterior(part) for part in held_out.split(_CHUNK)]
    mean, log_variance = (torch.cat(parts) for parts in zip(*posteriors, strict=True))
    reconstruction = _reconstruct(model, held_out)
    cosine = float(F.cosine_similarity(held_out, reconstruction).mean())
    baseline = float(F.cosine_similarity(held_out, train.mean(dim=0, keepdim=True)).mean())
    explained = explained_share(cosine, baseline)
    active = int((mean.var(dim=0, correction=0) > _ACTIVE_VARIANCE).sum())
    reason = ""
    if nearly_constant(baseline):
        reason = constant_features_reason(baseline)
    elif active == 0 or explained < _LEAST_EXPLAINED:
        reason = (
            f"The VAE collapsed: {active} of its {config.latent_dim} latent dimensions carry information, "
            f"and it explains {max(explained, 0):.0%} of how held-out source features vary. "
            f"{_advice(config)}"
        )
    return ManifoldReport(
        kind=config.kind,
        epochs_run=config.resolved_epochs,
        best_epoch=best_epoch,
        baseline_cosine=baseline,
        reconstruction_cosine=cosine,
        explained=explained,
        collapsed=bool(reason),
        reason=reason,
        reconstruction=float(reconstruction_loss(reconstruction, held_out)),
        kl_per_sample=float(gaussian_kl(mean, log_variance)),
        active_units=active,
    )
