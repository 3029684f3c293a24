"""Seeds: everything random follows from one, and nothing else is touched."""

from __future__ import annotations

import torch

from homefold.runtime.seeding import derive_seed, generator, isolated_seed


class TestSeeds:
    def test_each_purpose_has_its_own_stream(self):
        seeds = {derive_seed(s, *names) for s in (0, 1) for names in (("a",), ("a", 1), ("b",), ("a", "1x"))}
        assert len(seeds) == 8
        assert derive_seed(0, "order", 3) == 5172884068272721061  # on every machine

    def test_generators_repeat(self):
        a, b = (torch.rand(3, generator=generator(1, "x")) for _ in range(2))
        assert torch.equal(a, b)

    def test_isolated_seeds_leave_the_global_stream_alone(self):
        torch.manual_seed(5)
        expected = torch.rand(2)
        torch.manual_seed(5)
        with isolated_seed(0, "x"):
            inside = torch.rand(2)
        assert torch.equal(torch.rand(2), expected)
        with isolated_seed(0, "x"):
            assert torch.equal(torch.rand(2), inside)
