"""A manifold in one file: the plane through the source features that loses least, by principal components.

homefold fit photos/ --out model --manifold.kind pca --plugin examples/plugins/pca_manifold.py
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from homefold.manifold import Manifold, ManifoldConfig, ManifoldReport, manifold_named


class Plane(Manifold):
    """G(u) = m + W u, with the mean m and k orthogonal directions W of largest variance, scaled by it."""

    has_encoder = True
    is_continuous = True

    def __init__(self, feature_dim: int, latent_dim: int, bank_size: int = 0) -> None:
        super().__init__(feature_dim, latent_dim, bank_size)
        self.decoder = nn.Linear(latent_dim, feature_dim)

    def decode(self, u: torch.Tensor) -> torch.Tensor:
        return self.decoder(u)

    def encode(self, z: torch.Tensor) -> torch.Tensor:
        # W^T W is the diagonal of the variances.
        directions = self.decoder.weight
        return (z - self.decoder.bias) @ directions / directions.square().sum(dim=0).clamp_min(1e-12)


def build_plane(config: ManifoldConfig, feature_dim: int, bank_size: int = 0) -> Plane:
    return Plane(feature_dim, min(config.latent_dim, feature_dim), bank_size)


@manifold_named("pca", build=build_plane)
def fit_plane(
    config: ManifoldConfig, train: torch.Tensor, held_out: torch.Tensor, *, device: str | torch.device, **_: Any
) -> Plane:
    train, held_out = (z.detach().to(device, torch.float32) for z in (train, held_out))
    plane = build_plane(config, train.shape[1]).to(device)
    mean = train.mean(dim=0)
    _, scales, directions = torch.linalg.svd(train - mean, full_matrices=False)
    rank = min(plane.latent_dim, len(scales))
    with torch.no_grad():
        plane.decoder.weight.zero_()
        plane.decoder.weight[:, :rank] = directions[:rank].T * scales[:rank] / len(train) ** 0.5
        plane.decoder.bias.copy_(mean)
    plane.freeze()
    plane.bank_latents = plane.encode(train[: config.bank_size])
    plane.bank_features = plane.decode(plane.bank_latents)
    baseline = float(F.cosine_similarity(held_out, mean[None]).mean())
    reached = float(F.cosine_similarity(held_out, plane.decode(plane.encode(held_out))).mean())
    plane.report = ManifoldReport(
        kind="pca",
        epochs_run=0,
        best_epoch=0,
        baseline_cosine=baseline,
        reconstruction_cosine=reached,
        explained=1 - (1 - reached) / (1 - baseline),
        collapsed=False,
    )
    return plane
