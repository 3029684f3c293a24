"""VAEs that share all weights but the first bias of the decoder, one bias for each component of a mixture.

One network trains on the features of all components at once, told which component each is of. The latent then need not
say it, and what a component lacks in features it has from the others.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from homefold.captured_step import CapturedStep, recorder_for
from homefold.manifold.base import ManifoldConfig, check_features, mlp, training_rate
from homefold.manifold.mixture import Features
from homefold.manifold.vae import VAE, diverged, finish_vae, reconstruction_loss, vae_loss, vae_optimizer
from homefold.progress import ProgressReporter, SilentReporter
from homefold.seeding import generator, isolated_seed

__all__ = ["SharedVAE", "fit_shared_vae"]


class SharedVAE(nn.Module):
    """An encoder and a decoder for several components, whose first hidden layer is moved by an offset for each.

    Args:
        config: widths.
        feature_dim: dimensions d of a feature.
        components: how many there are.
    """

    def __init__(self, config: ManifoldConfig, feature_dim: int, components: int) -> None:
        super().__init__()
        self.feature_dim, self.latent_dim = feature_dim, config.latent_dim
        self.encoder = mlp(feature_dim, *reversed(config.hidden), 2 * config.latent_dim)
        self.decoder = mlp(config.latent_dim, *config.hidden, feature_dim)
        self.offsets = nn.Parameter(torch.zeros(components, config.hidden[0]))

    def decode(self, u: torch.Tensor, member: torch.Tensor) -> torch.Tensor:
        """u: (n, latent_dim), member: (n, components), one in the column of a row's component -> (n, d)."""
        first, *others = self.decoder
        # A product rather than a lookup: the gradient of a lookup adds up in any order on a GPU.
        hidden = first(u) + member @ self.offsets
        for layer in others:
            hidden = layer(hidden)
        return hidden

    def loss(self, target: torch.Tensor, member: torch.Tensor, noise: torch.Tensor, kl_weight: float) -> torch.Tensor:
        """`vae_loss` of target: (n, d) of the components `member: (n, components)`, with noise: (n, latent_dim)."""
        mean, log_variance = self.encoder(target).chunk(2, dim=1)
        rebuilt = self.decode(torch.addcmul(mean, noise, (0.5 * log_variance).exp()), member)
        return vae_loss(rebuilt, target, mean, log_variance, kl_weight)

    @torch.no_grad()
    def held_out_loss(self, z: torch.Tensor, member: torch.Tensor) -> float:
        """Reconstruction loss of z: (n, d), each by its own component."""
        mean, _ = self.encoder(z).chunk(2, dim=1)
        return float(reconstruction_loss(self.decode(mean, member), z))

    def component(self, index: int) -> VAE:
        """One component as a plain VAE, with weights of its own."""
        encoder, decoder = copy.deepcopy(self.encoder), copy.deepcopy(self.decoder)
        first = decoder[0]
        assert isinstance(first, nn.Linear)
        with torch.no_grad():
            first.bias.add_(self.offsets[index])
        return VAE(self.feature_dim, self.latent_dim, encoder, decoder)


def fit_shared_vae(
    config: ManifoldConfig,
    parts: Sequence[Features],
    *,
    seed: int,
    device: torch.device | str = "cpu",
    reporter: ProgressReporter | None = None,
    keep: Literal["best", "last"] = "best",
) -> list[VAE]:
    """Train one VAE on the features of all components and give each its own copy, measured on its own features.

    Args:
        config: how to train it; `bank_size` is a component's.
        parts: training features (n, d) and held-out features (m, d) of each component.
        seed: initialisation, order and noise follow from it.
        device: where to train; the result stays there.
        reporter: is told of each epoch.
        keep: the epoch to keep, the best on the held-out features or the last.
    """
    for part in parts:
        check_features(*part)
    device = torch.device(device)
    parts = [(own.detach().to(device, torch.float32), held.detach().to(device, torch.float32)) for own, held in parts]
    with isolated_seed(seed, "manifold", "shared", "initialisation"):
        model = SharedVAE(config, parts[0][0].shape[1], len(parts))
    model.to(device)
    best_epoch = _train(model, config, parts, seed, reporter or SilentReporter(), keep)
    components = [model.component(index) for index in range(len(parts))]
    for component, part in zip(components, parts, strict=True):
        finish_vae(component.to(device), config, *part, seed=seed, best_epoch=best_epoch)
    return components


def _members(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Which component each row of the parts, one after the other, is of: `(n, components)`."""
    index = [torch.full((len(part),), i, device=part.device) for i, part in enumerate(parts)]
    return F.one_hot(torch.cat(index), len(parts)).float()


def _train(
    model: SharedVAE,
    config: ManifoldConfig,
    parts: Sequence[Features],
    seed: int,
    reporter: ProgressReporter,
    keep: Literal["best", "last"],
) -> int:
    """Run the epochs, leave the best or the last weights in the model, and return the epoch they come from."""
    train, held_out = (torch.cat([part[side] for part in parts]) for side in (0, 1))
    member, held_member = (_members([part[side] for part in parts]) for side in (0, 1))
    epochs, size = config.resolved_epochs, min(config.batch_size, len(train))
    steps = len(train) // size
    learn = _training_step(model, config, train.device)
    best_loss, best_epoch, best_state = math.inf, 0, {}
    judge_every = max(1, epochs // 30)
    with reporter.task("Manifold (shared VAE)", total=epochs) as task:
        for epoch in range(epochs):
            draw = generator(seed, "manifold", "shared", epoch, device=train.device)
            order = torch.randperm(len(train), generator=draw, device=train.device)
            total = torch.zeros((), device=train.device)
            for step in range(steps):
                rows = order[step * size : (step + 1) * size]
                noise = torch.randn(size, config.latent_dim, generator=draw, device=train.device)
                rate = training_rate(config, epoch * steps + step, epochs * steps)
                total += learn(train[rows], member[rows], noise, rate)
            facts = {"loss": float(total) / steps}
            if not math.isfinite(facts["loss"]):
                raise diverged(config, epoch, train)
            if (epoch + 1) % judge_every == 0 or epoch + 1 == epochs:
                facts["held_out"] = held_out_loss = model.held_out_loss(held_out, held_member)
                if not math.isfinite(held_out_loss):
                    raise diverged(config, epoch, train)
                if held_out_loss < best_loss or keep == "last":
                    best_loss, best_epoch = held_out_loss, epoch + 1
                    best_state = {name: value.clone() for name, value in model.state_dict().items()}
            task.advance(1, **facts)
    model.load_state_dict(best_state)
    model.zero_grad(set_to_none=True)
    return best_epoch


def _training_step(model: SharedVAE, config: ManifoldConfig, device: torch.device) -> CapturedStep:
    """A step on targets (n, d) of components (n, c) with noise (n, latent_dim) at a rate; the loss before it."""
    optimizer = vae_optimizer(config, model)

    def learn(
        target: torch.Tensor, member: torch.Tensor, noise: torch.Tensor, rate: float | torch.Tensor
    ) -> torch.Tensor:
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = model.loss(target, member, noise, config.kl_weight)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return CapturedStep(learn, device, recorder_for(device))
