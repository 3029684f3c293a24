"""What the trainings of generative manifolds share: batches, learning rate, the choice of an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

from homefold.config.manifold import ManifoldConfig
from homefold.errors import TrainingDivergedError
from homefold.manifold.base import Manifold
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.seeding import generator

__all__ = ["Batches", "fused_adamw", "train_epochs", "training_rate"]

Batches = Iterator[tuple[int, torch.Tensor, torch.Tensor, float]]
"""How many steps came before, features (b, d), noise (b, latent_dim) and the learning rate of each step of an epoch."""


def fused_adamw(
    network: nn.Module, config: ManifoldConfig, betas: tuple[float, float] = (0.9, 0.999)
) -> torch.optim.AdamW:
    """AdamW in one kernel, which a CUDA graph can hold where the network lies on CUDA."""
    return torch.optim.AdamW(
        network.parameters(),
        lr=config.resolved_learning_rate,
        betas=betas,
        weight_decay=config.weight_decay,
        fused=True,
        capturable=next(network.parameters()).is_cuda,
    )


def train_epochs(
    model: Manifold,
    config: ManifoldConfig,
    train: torch.Tensor,
    learn: Callable[[Batches], dict[str, float]],
    judge: Callable[[], tuple[float, dict[str, float]]],
    *,
    seed: int,
    reporter: ProgressReporter,
    trouble: str,
) -> int:
    """Run the epochs, leave the best weights in `model`, and return the epoch they come from.

    Args:
        model, config, train, seed, reporter: as in `fit_manifold`.
        learn: makes the steps of an epoch and returns its figures.
        judge: the score of `model` on held-out features, higher being better, and its figures.
        trouble: how the error begins when a figure or the score is no number any more.
    """
    epochs = config.resolved_epochs
    best_score, best_epoch, best_state = -math.inf, 0, {}
    judge_every = max(1, epochs // 30)
    with reporter.task(f"Manifold ({config.kind.upper()})", total=epochs) as task:
        for epoch in range(epochs):
            figures = learn(_batches(config, train, seed, epoch))
            numbers = list(figures.values())
            if (epoch + 1) % judge_every == 0 or epoch + 1 == epochs:
                score, found = judge()
                numbers.append(score)
                figures |= found
                if score > best_score:
                    best_score, best_epoch = score, epoch + 1
                    best_state = {name: value.clone() for name, value in model.state_dict().items()}
            if not all(map(math.isfinite, numbers)):
                raise TrainingDivergedError(
                    f"{trouble} epoch {epoch + 1} of {epochs}, with learning_rate "
                    f"{config.resolved_learning_rate:g} and features as large as {float(train.abs().max()):.3g}; "
                    f"lower learning_rate tenfold, or normalise the features."
                )
            task.advance(1, **figures)
    model.load_state_dict(best_state)
    return best_epoch


def _batches(config: ManifoldConfig, train: torch.Tensor, seed: int, epoch: int) -> Batches:
    """One pass in whole batches: what remains of the shuffled order waits for another epoch."""
    size = min(config.batch_size, len(train))
    steps = len(train) // size
    draw = generator(seed, "manifold", config.kind, epoch, device=train.device)
    order = torch.randperm(len(train), generator=draw, device=train.device)
    for step, rows in enumerate(order[: steps * size].split(size), start=epoch * steps):
        noise = torch.randn(size, config.latent_dim, generator=draw, device=train.device)
        yield step, train[rows], noise, training_rate(config, step, config.resolved_epochs * steps)


def training_rate(config: ManifoldConfig, step: int, total_steps: int) -> float:
    """Learning rate at `step`: linear over the first 5 % of steps, then a cosine to zero; or constant."""
    peak = config.resolved_learning_rate
    if config.schedule == "constant":
        return peak
    warm_up = max(1, total_steps // 20)
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, total_steps - warm_up)))
