"""A recorded projection gives what it gave before; the recorder is a stand-in, since CPUs record nothing."""

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
from homefold.projection.engines import ENGINES
from homefold.projection.recorded import recorded_rows


class CountingRecorder:
    """Runs and records as a CUDA device would; a replay writes its result to the same memory."""

    def __init__(self) -> None:
        self.replays = 0

    def run(self, function):
        return function()

    def record(self, function):
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
    manifold, recorder = small_manifold(), CountingRecorder()

    def rows(given, z):
        assert given is manifold
        return z * 2, z[:, 0], (z[:, 1] * 1000).long()

    found = []
    inputs = [torch.full((4, 8), float(i)) for i in range(6)]
    for z in inputs:
        found.append(recorded_rows(manifold, z, rows, key="k", recorder=recorder))
    assert recorder.replays == 3
    for z, (double, first, whole) in zip(inputs, found, strict=True):
        assert torch.equal(double, z * 2)
        assert torch.equal(first, z[:, 0])
        assert whole.dtype == torch.long
        assert whole.tolist() == [int(1000 * z[0, 1])] * 4


@pytest.mark.slow
def test_other_rows_settings_switches_and_weights_record_anew():
    manifold, recorder = small_manifold(), CountingRecorder()

    def call(z, key="k"):
        (found,) = recorded_rows(manifold, z, lambda m, z: (m.decode(z[:, :3]),), key=key, recorder=recorder)
        return found

    z = torch.ones(2, 8)
    for _ in range(5):
        call(z)
    assert recorder.replays == 2
    call(torch.ones(3, 8))
    call(z, key="other")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        call(z)
    assert recorder.replays == 2
    call(z)
    assert recorder.replays == 3
    with torch.no_grad():
        next(manifold.decoder.parameters()).mul_(2)
    assert torch.equal(call(z), manifold.decode(z[:, :3]))
    assert recorder.replays == 3


@pytest.mark.slow
def test_threads_that_share_a_recording_get_their_own_answers():
    manifold, recorder = small_manifold(), CountingRecorder()

    def double(number):
        z = torch.full((2, 8), float(number))
        (found,) = recorded_rows(manifold, z, lambda m, z: (z + z,), key="k", recorder=recorder)
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
    manifold, recorder = small_manifold(), CountingRecorder()
    for _ in range(5):
        recorded_rows(manifold, torch.ones(2, 8), lambda m, z: (z,), key="k", recorder=recorder)
    watched = weakref.ref(manifold)
    del manifold
    gc.collect()
    assert watched() is None


def test_only_the_last_used_are_kept():
    manifold, recorder = small_manifold(), CountingRecorder()

    def call(rows):
        recorded_rows(manifold, torch.ones(rows, 8), lambda m, z: (z,), key="k", recorder=recorder)

    for _ in range(4):
        call(1)
    for rows in (2, 3, 1, 4, 5):
        call(rows)
    assert recorder.replays == 2, "the recording of one row was used again in between"
    call(1)
    assert recorder.replays == 3
    call(6)
    call(2)
    assert recorder.replays == 3


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_a_projection_by_recording_is_the_projection(monkeypatch, rows):
    manifold, recorder = small_manifold(), CountingRecorder()
    config = SearchConfig(steps=5, random_starts=2, tile=4, stop="fixed")
    z = torch.randn(6, rows, 8, generator=torch.Generator().manual_seed(1))
    expected = [project(manifold, one, config) for one in z]
    monkeypatch.setattr(projector, "_recorder", lambda device: recorder)
    monkeypatch.setitem(ENGINES, "batched", replace(ENGINES["batched"], recordable=True))
    for one, right in zip(z, expected, strict=True):
        found = project(manifold, one, config)
        for name in ("features", "latents", "similarity_before", "similarity_after", "iterations", "start"):
            assert torch.equal(getattr(found, name), getattr(right, name))
        assert found.start_names == right.start_names
        assert found.engine == right.engine == "batched"
    assert recorder.replays == 3


def test_a_manifold_made_for_inference_alone_is_projected_onto_too(monkeypatch):
    manifold = small_manifold()
    config = SearchConfig(steps=5, random_starts=2, tile=4)
    z = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    expected = project(manifold, z, config)
    with torch.inference_mode():
        for name, buffer in manifold.named_buffers():
            setattr(manifold, name, buffer.clone())
        manifold.decoder = copy.deepcopy(manifold.decoder)
        monkeypatch.setattr(projector, "_recorder", lambda device: CountingRecorder())
        monkeypatch.setitem(ENGINES, "batched", replace(ENGINES["batched"], recordable=True))
        assert torch.equal(project(manifold, z, config).latents, expected.latents)
