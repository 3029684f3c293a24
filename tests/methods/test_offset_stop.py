"""Stopping beside n*: no offset is the projection itself."""

from __future__ import annotations

from dataclasses import replace

import torch

from homefold.config.search import SearchConfig
from homefold.manifold import ManifoldConfig, fit_manifold
from homefold.methods.training.paper import project_with_offset
from homefold.projection import project


def test_an_offset_walks_on_along_the_same_search():
    random = torch.Generator().manual_seed(0)
    z = torch.randn(3, 8, generator=random).repeat(20, 1) + 0.2 * torch.randn(60, 8, generator=random)
    manifold = fit_manifold(ManifoldConfig(latent_dim=3, hidden=(16,), epochs=60), z[:50], z[50:], seed=0)
    config = SearchConfig(encoder_start=False, random_starts=1, steps=12)
    for offset in (0, -4):
        found = project_with_offset(manifold, z[50:], config, seed=1, offset=offset)
        expected = project(manifold, z[50:], replace(config, steps=12 + offset), seed=1)
        assert found.iterations.tolist() == [12 + offset] * 10
        torch.testing.assert_close(found.latents, expected.latents)
        torch.testing.assert_close(found.similarity_after, expected.similarity_after)
