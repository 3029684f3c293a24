"""A variational autoencoder of features: the default manifold, as an MLP or as the paper's small conv net."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from homefold.config.manifold import ManifoldConfig, manifold_named
from homefold.errors import ConfigError
from homefold.manifold.base import SLOPE, Manifold, ManifoldReport, baseline_cosine, explained_share, mlp, report_on
from homefold.manifold.training import Batches, fused_adamw, train_epochs
from homefold.manifold.vae_gradient import VAEGradient, linear_layers
from homefold.runtime.captured_step import CapturedStep, capturer_for
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.seeding import generator, isolated_seed

__all__ = ["VAE", "build_vae", "fit_vae", "gaussian_kl", "reconstruction_loss", "vae_loss"]

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
        encoder: (n, d) -> (n, 2 * latent_dim), mean and log-variance side by side.
        decoder: (n, latent_dim) -> (n, d).
        feature_dim, latent_dim, bank_size: as for a `Manifold`.
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
    small, channels = side // 8, (1, 4, 8, 16)
    flat = channels[-1] * small * small
    down: list[nn.Module] = []
    for before, after in pairwise(channels):
        down += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.LeakyReLU(SLOPE)]
    encoder = nn.Sequential(nn.Unflatten(1, (1, side, side)), *down, nn.Flatten(), nn.Linear(flat, 2 * latent_dim))
    first = nn.Linear(latent_dim, flat)
    up: list[nn.Module] = [nn.Unflatten(1, (channels[-1], small, small))]
    for before, after in pairwise(reversed(channels)):
        up += [nn.ConvTranspose2d(before, after, 3, 2, 1, output_padding=1), nn.LeakyReLU(SLOPE)]
    decoder = nn.Sequential(first, nn.LeakyReLU(SLOPE), *up[:-1], nn.Flatten())
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
    seed: int,
    reporter: ProgressReporter,
    **_: Any,
) -> VAE:
    """Train a VAE and keep the weights that reconstruct held-out source features best; see `fit_manifold`."""
    with isolated_seed(seed, "manifold", config.kind, "initialisation"):
        model = build_vae(config, train.shape[1])
    model.to(train.device)
    step = _training_step(model, config, min(config.batch_size, len(train)))

    def learn(batches: Batches) -> dict[str, float]:
        total, steps = torch.zeros((), device=train.device), 0
        for _, target, noise, rate in batches:
            total += step(target, noise, rate)
            steps += 1
        # the only wait for the device in an epoch
        return {"loss": float(total) / steps}

    def judge() -> tuple[float, dict[str, float]]:
        loss = float(reconstruction_loss(_reconstruct(model, held_out), held_out))
        return -loss, {"held_out": loss}

    trouble = f"The loss of the manifold ({config.kind}) became NaN or infinite in"
    best_epoch = train_epochs(model, config, train, learn, judge, seed=seed, reporter=reporter, trouble=trouble)
    model.zero_grad(set_to_none=True)
    model.freeze()
    chosen = even_subset(len(train), config.bank_size, generator(seed, "manifold", "bank"))
    model.bank_latents = model.encode(train[chosen.to(train.device)])
    model.bank_features = model.decode(model.bank_latents)
    model.report = _measure(model, config, train, held_out, best_epoch)
    return model


def _training_step(model: VAE, config: ManifoldConfig, rows: int) -> CapturedStep:
    """A step on targets (rows, d) with noise (rows, latent_dim) at a learning rate; returns the loss before it."""
    optimizer: torch.optim.Optimizer
    if config.optimizer == "sgd":
        optimizer = torch.optim.SGD(
            model.parameters(),
            lr=config.resolved_learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            fused=True,
        )
    else:
        optimizer = fused_adamw(model, config)
    device = model.bank_latents.device
    encoder, decoder = linear_layers(model.encoder), linear_layers(model.decoder)
    by_hand = None
    # on CUDA, where steps are captured, autograd costs nothing
    if encoder is not None and decoder is not None and device.type == "cpu":
        by_hand = VAEGradient(encoder, decoder, SLOPE, rows, config.kl_weight)

    def by_autograd(target: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, log_variance = model.posterior(target)
        reconstruction = model.decode(torch.addcmul(mean, noise, (0.5 * log_variance).exp()))
        loss = vae_loss(reconstruction, target, mean, log_variance, config.kl_weight)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        return loss.detach()

    measure = by_hand or by_autograd

    def learn(target: torch.Tensor, noise: torch.Tensor, rate: float | torch.Tensor) -> torch.Tensor:
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = measure(target, noise)
        optimizer.step()
        return loss

    return CapturedStep(learn, device, capturer_for(device))


def even_subset(n: int, size: int, generator: torch.Generator) -> torch.Tensor:
    """At most `size` distinct indices below n, evenly spaced from a random offset, on the CPU.

    Features usually lie sorted by domain or class: even spacing keeps each one's share.
    """
    if n <= size:
        return torch.arange(n)
    offset = torch.rand(1, generator=generator, dtype=torch.float64)
    return ((torch.arange(size, dtype=torch.float64) + offset) * (n / size)).long().clamp_(max=n - 1)


@torch.no_grad()
def _reconstruct(model: VAE, z: torch.Tensor) -> torch.Tensor:
    return torch.cat([model.decode(model.encode(part)) for part in z.split(_CHUNK)])


def _measure(
    model: VAE, config: ManifoldConfig, train: torch.Tensor, held_out: torch.Tensor, best_epoch: int
) -> ManifoldReport:
    posteriors = [model.posterior(part) for part in held_out.split(_CHUNK)]
    mean, log_variance = (torch.cat(parts) for parts in zip(*posteriors, strict=True))
    reconstruction = _reconstruct(model, held_out)
    cosine = float(F.cosine_similarity(held_out, reconstruction).mean())
    baseline = baseline_cosine(train, held_out)
    explained = explained_share(cosine, baseline)
    active = int((mean.var(dim=0, correction=0) > _ACTIVE_VARIANCE).sum())
    trouble = ""
    if active == 0 or explained < _LEAST_EXPLAINED:
        trouble = (
            f"The VAE collapsed: {active} of its {config.latent_dim} latent dimensions carry information, "
            f"and it explains {max(explained, 0):.0%} of how held-out source features vary. "
            f"{_advice(config)}"
        )
    return report_on(
        config,
        best_epoch,
        baseline,
        cosine,
        trouble,
        reconstruction=float(reconstruction_loss(reconstruction, held_out)),
        kl_per_sample=float(gaussian_kl(mean, log_variance)),
        active_units=active,
    )


def _advice(config: ManifoldConfig) -> str:
    if config.kl_weight > _SAFE_KL_WEIGHT:
        return f"Lower manifold.kl_weight (it is {config.kl_weight:g}; 0.001 to 0.01 works)."
    return (
        f"Raise manifold.epochs (it is {config.resolved_epochs}) or manifold.learning_rate "
        f"(it is {config.resolved_learning_rate:g}), or lower manifold.kl_weight (it is {config.kl_weight:g})."
    )
