"""The kernel that moves styles to a fixed one, run by Triton's interpreter.

`test_style.py` runs this file in a process where TRITON_INTERPRET=1.
"""

from __future__ import annotations

import math

import pytest
import torch

from homefold.style import map_style, restyle
from homefold.style.kernel import move

TOLERANCE = {
    torch.float32: {"atol": 2e-5, "rtol": 2e-5},
    torch.bfloat16: {"atol": 1e-2, "rtol": 1e-2},
    torch.float16: {"atol": 2e-3, "rtol": 2e-3},
}


def _maps(n, channels, height, width, dtype):
    generator = torch.Generator().manual_seed(channels * height)
    maps = torch.randn(n, channels, height, width, generator=generator) * 2 + 1
    # One that is nearly constant, one that is constant: neither reaches the deviation it is to have.
    maps[:, 1] = 0.5 + 0.004 * (maps[:, 1] > 1)
    maps[:, 3] = 0.25
    home = torch.randn(2 * channels, generator=generator).clamp(-1, 1)
    return maps.to(dtype).contiguous(memory_format=torch.channels_last), home


def _in_torch(maps, home, weight):
    own = map_style(maps)
    return restyle(maps, own, torch.lerp(own, home.expand_as(own), weight))


def _exactly(maps, home, weight):
    x, home = maps.double(), home.double()
    mean = x.mean((2, 3))
    deviation = (x.var((2, 3), correction=0) + 1e-6).sqrt().log()
    new_mean, new_deviation = (
        (1 - weight) * own + weight * end for own, end in zip((mean, deviation), home.chunk(2), strict=True)
    )
    scale = (new_deviation - deviation).clamp_max(math.log(4)).exp()
    return (x - mean[:, :, None, None]) * scale[:, :, None, None] + new_mean[:, :, None, None]


@pytest.mark.parametrize(
    ("dtype", "weight"), [*((torch.float32, weight) for weight in (0, 0.3, 0.5, 1.0)), (torch.bfloat16, 0.5)]
)
@pytest.mark.parametrize(("channels", "sides"), [(5, (16, 16)), (64, (3, 3)), (100, (7, 9))])
def test_it_moves_styles_as_torch_and_as_exact_numbers_do(channels, sides, weight, dtype):
    maps, home = _maps(1, channels, *sides, dtype)
    before = maps.clone()
    found = move(maps, home, weight)
    assert found.dtype == dtype
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(maps, before)
    torch.testing.assert_close(found, _in_torch(maps, home, weight), **TOLERANCE[dtype])
    torch.testing.assert_close(found.double(), _exactly(maps, home, weight), **TOLERANCE[dtype])


def test_a_nearly_constant_channel_is_stretched_four_times_at_most():
    maps = torch.tensor([[[[1.0, 1.02]]]]).contiguous(memory_format=torch.channels_last)
    assert move(maps, torch.tensor([3.0, 0.0]), 1.0).flatten().tolist() == pytest.approx([2.96, 3.04], abs=1e-4)


def test_maps_of_float16_keep_their_kind():
    maps, home = _maps(2, 20, 5, 4, torch.float16)
    found = move(maps, home, 0.7)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found, _in_torch(maps, home, 0.7), **TOLERANCE[torch.float16])


@pytest.mark.parametrize(("channels_at_once", "positions_at_once"), [(16, 16), (64, 128), (128, 32)])
def test_sizes_of_a_program_change_nothing_that_counts(channels_at_once, positions_at_once):
    maps, home = _maps(2, 100, 7, 9, torch.float32)
    found = move(maps, home, 0.3, channels_at_once=channels_at_once, positions_at_once=positions_at_once, warps=4)
    torch.testing.assert_close(found, move(maps, home, 0.3), **TOLERANCE[torch.float32])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_image_alone_gives_the_same_bytes_as_in_a_batch(dtype):
    maps, home = _maps(4, 40, 9, 8, dtype)
    together = move(maps, home, 0.8)
    torch.testing.assert_close(together, _in_torch(maps, home, 0.8), **TOLERANCE[dtype])
    assert torch.equal(together, torch.cat([move(maps[i : i + 1], home, 0.8) for i in range(4)]))
    assert torch.equal(together.flip(0), move(maps.flip(0).contiguous(memory_format=torch.channels_last), home, 0.8))
