"""A captured projection gives what it gave before; the capturer is a stand-in, since CPUs record nothing."""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from homefold.config.search import SearchConfig
from homefold.manifold import ManifoldConfig, fit_manifold
from homefold.projection import project, projector
from homefold.projection.captured import captured_rows
from homefold.projection.engines import ENGINES


class CountingCapturer:
    """Runs and captures as a CUDA device would; a replay writes its result to the same memory."""

    def __init__(self) -> None:
        self.replays = 0

    def run(self, function):
        return function()

    def capture(self, function):
        kept = []

        def replay():
            self.replays += 1
            found = function()
            if not kept:
                kept.append(found.clone())
            return kept[0].copy_(found)

        return replay


def small_manifold(seed: int = 0):
    random = torch.Generator().manual_seed(seed)
    z = torch.randn(3, 8, generator=random).repeat(20, 1) + 0.2 * torch.randn(60, 8, generator=random)
    return fit_manifold(ManifoldConfig(latent_dim=3, hidden=(16,), epochs=60), z[:50], z[50:], seed=0, device="cpu")


@pytest.mark.slow
def test_tensors_of_every_shape_and_type_come_back_and_stay_as_they_are():
    manifold, capturer = small_manifold(), CountingCapturer()

    def rows(given, z):
        assert given is manifold
        return z * 2, z[:, 0], (z[:, 1] * 1000).long()

    found = []
    inputs = [torch.full((4, 8), float(i)) for i in range(6)]
    for z in inputs:
        found.append(captured_rows(manifold, z, rows, key="k", capturer=capturer))
    assert capturer.replays == 3
    for z, (double, first, whole) in zip(inputs, found, strict=True):
        assert torch.equal(double, z * 2)
        assert torch.equal(first, z[:, 0])
        assert whole.dtype == torch.long
        assert whole.tolist() == [int(1000 * z[0, 1])] * 4


@pytest.mark.slow
def test_other_rows_settings_switches_and_weights_record_anew():
    manifold, capturer = small_manifold(), CountingCapturer()

    def call(z, key="k"):
        (found,) = captured_rows(manifold, z, lambda m, z: (m.decode(z[:, :3]),), key=key, capturer=capturer)
        return found

    z = torch.ones(2, 8)
    for _ in range(5):
        call(z)
    assert capturer.replays == 2
    call(torch.ones(3, 8))
    call(z, key="other")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        call(z)
    assert capturer.replays == 2
    call(z)
    assert capturer.replays == 3
    with torch.no_grad():
        next(manifold.decoder.parameters()).mul_(2)
    assert torch.equal(call(z), manifold.decode(z[:, :3]))
    assert capturer.replays == 3


@pytest.mark.slow
def test_threads_that_share_a_recording_get_their_own_answers():
    manifold, capturer = small_manifold(), CountingCapturer()

    def double(number):
        z = torch.full((2, 8), float(number))
        (found,) = captured_rows(manifold, z, lambda m, z: (z + z,), key="k", capturer=capturer)
        return torch.equal(found, z + z)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            right = list(pool.map(double, range(600)))
    finally:
        sys.setswitchinterval(before)
    assert all(right)


@pytest.mark.slow
def test_a_recording_does_not_keep_its_manifold_alive():
    manifold, capturer = small_manifold(), CountingCapturer()
    for _ in range(5):
        captured_rows(manifold, torch.ones(2, 8), lambda m, z: (z,), key="k", capturer=capturer)
    watched = weakref.ref(manifold)
    del manifold
    gc.collect()
    assert watched() is None


def test_only_the_last_used_are_kept():
    manifold, capturer = small_manifold(), CountingCapturer()

    def call(rows):
        captured_rows(manifold, torch.ones(rows, 8), lambda m, z: (z,), key="k", capturer=capturer)

    for _ in range(4):
        call(1)
    for rows in (2, 3, 1, 4, 5):
        call(rows)
    assert capturer.replays == 2, "the captured graph of one row was used again in between"
    call(1)
    assert capturer.replays == 3
    call(6)
    call(2)
    assert capturer.replays == 3


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_a_projection_by_recording_is_the_projection(monkeypatch, rows):
    manifold, capturer = small_manifold(), CountingCapturer()
    config = SearchConfig(steps=5, random_starts=2, tile=4, stop="fixed")
    z = torch.randn(6, rows, 8, generator=torch.Generator().manual_seed(1))
    expected = [project(manifold, one, config) for one in z]
    monkeypatch.setattr(projector, "_capturer", lambda device: capturer)
    monkeypatch.setitem(ENGINES, "batched", replace(ENGINES["batched"], capturable=True))
    for one, right in zip(z, expected, strict=True):
        found = project(manifold, one, config)
        for name in ("features", "latents", "similarity_before", "similarity_after", "iterations", "start"):
            assert torch.equal(getattr(found, name), getattr(right, name))
        assert found.start_names == right.start_names
        assert found.engine == right.engine == "batched"
    assert capturer.replays == 3


def test_a_manifold_made_for_inference_alone_is_projected_onto_too(monkeypatch):
    manifold = small_manifold()
    config = SearchConfig(steps=5, random_starts=2, tile=4)
    z = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    expected = project(manifold, z, config)
    with torch.inference_mode():
        for name, buffer in manifold.named_buffers():
            setattr(manifold, name, buffer.clone())
        manifold.decoder = copy.deepcopy(manifold.decoder)
        monkeypatch.setattr(projector, "_capturer", lambda device: CountingCapturer())
        monkeypatch.setitem(ENGINES, "batched", replace(ENGINES["batched"], capturable=True))
        assert torch.equal(project(manifold, z, config).latents, expected.latents)
