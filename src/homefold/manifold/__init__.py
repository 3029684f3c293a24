"""Stage 2: a model of the manifold on which source features lie."""

from __future__ import annotations

from homefold.config.manifold import ManifoldConfig, manifold_named, paper_manifold_config
from homefold.manifold.base import Manifold, ManifoldReport, build_manifold, fit_manifold, list_manifolds
from homefold.manifold.gan import GAN
from homefold.manifold.nearest import NearestNeighbour, nearest_index
from homefold.manifold.vae import VAE, vae_loss

__all__ = [
    "GAN",
    "VAE",
    "Manifold",
    "ManifoldConfig",
    "ManifoldReport",
    "NearestNeighbour",
    "build_manifold",
    "fit_manifold",
    "list_manifolds",
    "manifold_named",
    "nearest_index",
    "paper_manifold_config",
    "vae_loss",
]
