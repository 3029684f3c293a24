"""Features as f would have made them had the domain of their image been unseen, for an encoder to bring home."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from homefold.device import one_thread
from homefold.errors import ConfigError, DataError
from homefold.manifold.base import ManifoldConfig

__all__ = ["Rehearsed", "affine_map", "asked_for", "rehearse", "require_domains", "seen_instead"]

_RIDGE = 1e-3
_SMALLEST = 1e-12

Prepare = Callable[[torch.Tensor], torch.Tensor]
"""Features as the manifold wants them."""


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """What stands for each feature when its domain is rehearsed as unseen, prepared as the features are.

    Args:
        train: `(n, d)` in the order of the training features.
        held_out: `(m, d)` in the order of the held-out ones.
    """

    train: torch.Tensor
    held_out: torch.Tensor


def require_domains(config: ManifoldConfig, count: int) -> None:
    """Refuse to rehearse where no source domain is left when one is left out."""
    if config.rehearse and count < 2:
        raise ConfigError(
            "rehearse leaves out one source domain at a time and learns from the others, so it needs two source "
            "domains or more: give a second one, or set rehearse to 0."
        )


def asked_for(
    config: ManifoldConfig, rehearsed: Rehearsed | None, train: torch.Tensor, held_out: torch.Tensor
) -> Rehearsed | None:
    """`rehearsed` on the device and in the type of the features it stands for; None where the settings ask for none.

    Args:
        config: whose `rehearse` decides.
        rehearsed: what is given.
        train: (n, d) training features.
        held_out: (m, d) held-out features.
    """
    if not config.rehearse:
        return None
    if rehearsed is None:
        raise ConfigError(
            "rehearse needs what networks that never saw a domain make of its images, and here are features alone: "
            "fit a Homefold on images, or set rehearse to 0."
        )
    if (rehearsed.train.shape, rehearsed.held_out.shape) != (train.shape, held_out.shape):
        raise DataError(
            f"there must be one rehearsed feature for each feature, of shapes {tuple(train.shape)} and "
            f"{tuple(held_out.shape)}; got {tuple(rehearsed.train.shape)} and {tuple(rehearsed.held_out.shape)}."
        )
    return Rehearsed(rehearsed.train.to(train), rehearsed.held_out.to(held_out))


def affine_map(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """W `(d, k)` and b `(k,)` with x W + b close to y, by ridge regression in float64 on the CPU.

    The penalty is a thousandth of the mean variance of x; the offset is free of it.

    Args:
        x: (n, d).
        y: (n, k).
    """
    x, y = x.cpu().double(), y.cpu().double()
    x_mean, y_mean = x.mean(dim=0), y.mean(dim=0)
    centred = x - x_mean
    gram = centred.T @ centred
    gram.diagonal().add_(max(_RIDGE * float(gram.diagonal().mean()), _SMALLEST))
    weight = torch.linalg.solve(gram, centred.T @ (y - y_mean))
    return weight, y_mean - x_mean @ weight


def rehearse(
    z: torch.Tensor,
    domains: torch.Tensor,
    train: torch.Tensor,
    without: Callable[[int], torch.Tensor],
    prepare: Prepare,
) -> torch.Tensor:
    """M f_k(x) for each image x of each domain k `(n, d)`, where f_k never saw k.

    M carries features of f_k over to those of f; it is fitted to the training images of the other domains.

    Args:
        z: (n, d) prepared features by f of all source images.
        domains: (n,) their domains.
        train: (t,) the rows that f was trained on.
        without: from a domain to prepared features (n, d) of the same images by f_k.
        prepare: is applied to what was carried over.
    """
    domains, train = domains.to(z.device), train.to(z.device)
    rehearsed = torch.empty_like(z)
    for domain in domains.unique().tolist():
        there, own = without(domain), domains == domain
        shared = train[domains[train] != domain]
        # On the CPU whatever the device, and so by as many threads everywhere.
        with one_thread(torch.device("cpu")):
            weight, offset = affine_map(there[shared], z[shared])
            carried = there[own].cpu().double() @ weight + offset
        rehearsed[own] = prepare(carried.float().to(z.device))
    return rehearsed


def seen_instead(z: torch.Tensor, rehearsed: torch.Tensor, probability: float, draw: torch.Generator) -> torch.Tensor:
    """Rows of z, each with this probability replaced by the same row of `rehearsed`.

    Args:
        z: (n, d) features.
        rehearsed: (n, d) what stands for them.
        probability: of being replaced.
        draw: on the device of z.
    """
    chosen = torch.rand(len(z), 1, generator=draw, device=z.device) < probability
    return torch.where(chosen, rehearsed, z)
