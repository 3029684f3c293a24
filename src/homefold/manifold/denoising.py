"""Features moved as an unseen domain might move them, for an encoder that is to bring them back."""

from __future__ import annotations

import torch

from homefold.errors import ConfigError
from homefold.manifold.base import ManifoldConfig
from homefold.manifold.mixture import FeatureGroups

__all__ = ["denoising_shifts", "domain_shifts", "moved"]

_SMALLEST = 1e-12


def denoising_shifts(
    config: ManifoldConfig, train: torch.Tensor, classes: FeatureGroups, domains: FeatureGroups | None
) -> torch.Tensor | None:
    """`domain_shifts` of the training features where the settings ask for them, else None.

    Args:
        config: whose `denoise` decides.
        train: (n, d) training features.
        classes: their classes.
        domains: their source domains, where they are known.
    """
    if not config.denoise:
        return None
    if domains is None:
        raise ConfigError("denoise moves features as domains differ, so it needs the domain of every feature.")
    return domain_shifts(train, classes.train, domains.train)


def domain_shifts(z: torch.Tensor, labels: torch.Tensor, domains: torch.Tensor) -> torch.Tensor:
    """S (cells, d) with SᵀS the covariance between domains of the class means, pooled over classes.

    A cell is a class in a domain; its row is its mean less the mean over the domains of that class, divided by the root
    of the degrees of freedom, Σ over classes of (domains - 1). So ε S with ε from N(0, I) has this covariance.

    Args:
        z: (n, d) features.
        labels: (n,) classes.
        domains: (n,) source domains.
    """
    labels, domains = labels.to(z.device), domains.to(z.device)
    rows, freedom = [], 0
    for label in labels.unique().tolist():
        of_class = labels == label
        here = domains[of_class].unique().tolist()
        if len(here) < 2:
            continue
        means = torch.stack([z[of_class & (domains == domain)].mean(dim=0) for domain in here])
        rows.append(means - means.mean(dim=0))
        freedom += len(here) - 1
    if not rows:
        raise ConfigError(
            "denoise needs a class with features in two source domains or more, and there is none; give a second "
            "domain, or set denoise to 0."
        )
    return torch.cat(rows) / freedom**0.5


def moved(z: torch.Tensor, shifts: torch.Tensor, probability: float, draw: torch.Generator) -> torch.Tensor:
    """Rows of z, each with this probability moved by ε S and brought back to its length, as cosine ignores length.

    Args:
        z: (n, d) features.
        shifts: S (cells, d).
        probability: of being moved.
        draw: on the device of z.
    """
    chosen = torch.rand(len(z), 1, generator=draw, device=z.device) < probability
    there = z + torch.randn(len(z), len(shifts), generator=draw, device=z.device) @ shifts
    length, new_length = z.norm(dim=1, keepdim=True), there.norm(dim=1, keepdim=True)
    return torch.where(chosen, there * (length / new_length.clamp_min(_SMALLEST)), z)
