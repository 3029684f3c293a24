"""The Triton kernel that moves styles to a fixed one. Imported only where it runs: Triton exists for some platforms."""

# Annotations are read by Triton as values here, so they must not be postponed.

import torch
import triton
import triton.language as tl

from homefold.style.statistics import _LARGEST_STRETCH, _SMALLEST_VARIANCE

__all__ = ["move"]

_CHANNELS_AT_ONCE = 32
_POSITIONS_AT_ONCE = 128
_WARPS = 8


@triton.jit
def _lerp(start, end, weight):
    """As torch.lerp has it, which ends at `end` exactly for weight 1."""
    way = end - start
    return tl.where(weight < 0.5, start + weight * way, end - way * (1 - weight))


# The number of channels may specialise: where 16 divides it, loads and stores are wide.
@triton.jit(do_not_specialize=["positions", "weight"])
def _move(
    maps, destination, moved, positions, channels, weight,
    BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr, SMALLEST_VARIANCE: tl.constexpr, LARGEST_STRETCH: tl.constexpr,
):  # fmt: skip
    """One image and BLOCK_C of its channels, which lie beside each other: its style, then the moved maps."""
    groups = tl.cdiv(channels, BLOCK_C)
    image = tl.program_id(0) // groups
    channel = (tl.program_id(0) % groups) * BLOCK_C + tl.arange(0, BLOCK_C)
    there = channel < channels
    begin = image.to(tl.int64) * positions * channels
    maps += begin
    moved += begin
    row = tl.arange(0, BLOCK_P)
    blocks = tl.cdiv(positions, BLOCK_P)

    sums = tl.zeros((BLOCK_P, BLOCK_C), dtype=tl.float32)
    squares = tl.zeros((BLOCK_P, BLOCK_C), dtype=tl.float32)
    for block in range(blocks):
        position = block * BLOCK_P + row
        offset = position[:, None] * channels + channel[None, :]
        inside = (position < positions)[:, None] & there[None, :]
        x = tl.load(maps + offset, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        sums += x
        squares += x * x

    mean = tl.sum(sums, axis=0) / positions
    variance = tl.maximum(tl.sum(squares, axis=0) / positions - mean * mean, 0.0)
    deviation = 0.5 * tl.log(variance + SMALLEST_VARIANCE)
    new_mean = _lerp(mean, tl.load(destination + channel, mask=there, other=0.0), weight)
    new_deviation = _lerp(deviation, tl.load(destination + channels + channel, mask=there, other=0.0), weight)
    scale = tl.exp(tl.minimum(new_deviation - deviation, LARGEST_STRETCH))
    shift = new_mean - mean * scale

    # Backwards: what was read last is the likeliest to be in the cache still.
    for block in range(blocks):
        position = (blocks - 1 - block) * BLOCK_P + row
        offset = position[:, None] * channels + channel[None, :]
        inside = (position < positions)[:, None] & there[None, :]
        x = tl.load(maps + offset, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        tl.store(moved + offset, (x * scale[None, :] + shift[None, :]).to(moved.dtype.element_ty), mask=inside)


def move(
    maps: torch.Tensor,
    destination: torch.Tensor,
    weight: float,
    *,
    channels_at_once: int = _CHANNELS_AT_ONCE,
    positions_at_once: int = _POSITIONS_AT_ONCE,
    warps: int = _WARPS,
) -> torch.Tensor:
    """The maps with their styles moved towards `destination`; the same for an image whatever the batch.

    Args:
        maps: `(n, c, h, w)` with channels last in memory, none of the four 0.
        destination: `(2 c,)`, a style as `map_style` gives them.
        weight: how far a style is moved: 0 leaves it, 1 takes `destination`.
        channels_at_once: of a program, a power of two.
        positions_at_once: of a step of a program, a power of two.
        warps: of a program.
    """
    n, channels, height, width = maps.shape
    moved = torch.empty_like(maps)
    with torch.cuda.device_of(maps):
        _move[(n * triton.cdiv(channels, channels_at_once),)](
            maps, destination.float().contiguous(), moved, height * width, channels, float(weight),
            BLOCK_P=positions_at_once, BLOCK_C=channels_at_once,
            SMALLEST_VARIANCE=_SMALLEST_VARIANCE, LARGEST_STRETCH=_LARGEST_STRETCH,
            num_warps=warps, enable_fp_fusion=True,
        )  # fmt: skip
    return moved
