"""The whole search as one Triton kernel: weights and latents stay on the chip for all steps of a tile.

A program owns a tile of rows, each a sample with one of its starts, and never looks at another row: an answer is the
same whatever the batch. It works on `MLPDecoder`'s form of the decoder; widths are filled up with zeros to powers of
two, which changes nothing. What it keeps in device memory does not grow with the number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from weakref import WeakKeyDictionary

import torch

from homefold.config.search import SearchConfig
from homefold.projection.engines.engine import Engine, Search
from homefold.projection.rules.objective import Decoder, MLPDecoder, mlp_decoder
from homefold.runtime.tiles import apply_in_tiles
from homefold.runtime.triton_ready import why_no_triton

__all__ = ["FUSED", "STEP_RULES", "STOPPING_RULES", "fused", "side", "tile_for", "why_not_on_chip"]

_TERM_ROWS = 4096
# What a multiprocessor of a Hopper chip has, for where torch does not say.
_SHARED_BYTES = 232_448


STEP_RULES = {"gradient": 0, "normalised": 1, "adam": 2}
STOPPING_RULES = {"fixed": 0, "elbow": 1}
"""The rules whose arithmetic the kernel repeats, and what it calls them."""

_WIDEST = 256
_SMALLEST_SIDE = 16


@dataclass(frozen=True)
class _Tile:
    """Rows that one program searches together, and the warps that share its work."""

    rows: int
    warps: int

    def scratch_bytes(self, widest: int) -> int:
        """Shared memory beside the weights: at most one float32 for each row and unit, and a little more if few."""
        return max(4 * self.rows * widest, 32_768)


# Sixteen rows are the fewest that tensor cores take. Eight warps then hold the weights of the usual decoder in
# registers; in tiles of 64 rows registers do not suffice even for what the rows need. The elbow's rings need barriers,
# across which weights do not stay in registers: there the larger tile takes less memory.
_SMALL, _LARGE = _Tile(16, 8), _Tile(64, 4)


def tile_for(config: SearchConfig) -> _Tile:
    """The tile that suits the stopping rule; it never depends on how many rows there are."""
    return _LARGE if config.stop == "elbow" else _SMALL


def side(width: int) -> int:
    """A layer's width as the kernel sees it, filled up to a power of two."""
    return max(_SMALLEST_SIDE, 1 << (width - 1).bit_length())


def why_not_on_chip(decode: Decoder, config: SearchConfig, shared_bytes: int) -> str:
    """Why a multiprocessor with so much shared memory cannot run the kernel for this decoder; empty where it can."""
    decoder = mlp_decoder(decode)
    precision = config.resolved_precision
    if decoder is None:
        return "the decoder is not an MLP with LeakyReLU between its layers"
    if len(decoder.weights) > 2:
        return f"the decoder has {len(decoder.weights)} hidden layers, and the kernel holds two at most"
    if precision == "highest":
        return 'tensor cores do not multiply in full float32 (precision "highest")'
    sides = [side(width) for width in decoder.widths]
    weights = sum(a * b for a, b in pairwise(sides)) + sides[-1] ** 2
    needed = weights * (4 if precision == "high" else 2) + tile_for(config).scratch_bytes(max(sides))
    if max(sides) > _WIDEST or needed > shared_bytes:
        return f"layers of {', '.join(map(str, decoder.widths))} units do not fit on the chip"
    return ""


def _why_no_kernel(decode: Decoder, config: SearchConfig, device: torch.device) -> str:
    """Why the kernel cannot be built or hold this decoder on a CUDA device; empty where it can."""
    for kind, known, asked in (("step", STEP_RULES, config.step), ("stopping", STOPPING_RULES, config.stop)):
        if asked not in known:
            return f"it knows the {kind} rules {', '.join(sorted(known))}, and this is {asked}"
    return why_no_triton(device) or why_not_on_chip(decode, config, _shared_bytes(device))


@cache
def _shared_bytes(device: torch.device) -> int:
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", _SHARED_BYTES))


_padded: WeakKeyDictionary[MLPDecoder, dict[bool, tuple[torch.Tensor, ...]]] = WeakKeyDictionary()


def _fill(x: torch.Tensor, *sides: int) -> torch.Tensor:
    if x.shape == sides:
        return x.contiguous()
    filled = x.new_zeros(sides)
    filled[tuple(slice(0, n) for n in x.shape)] = x
    return filled


def _parts(x: torch.Tensor) -> torch.Tensor:
    """x as a sum of two bfloat16 tensors, stacked: the second holds what the first rounds away."""
    high = x.bfloat16()
    return torch.stack([high, (x - high.float()).bfloat16()])


def _kernel_weights(decoder: MLPDecoder, precision: str) -> tuple[torch.Tensor, ...]:
    """The decoder as the kernel reads it, filled up with zeros; remembered."""
    known = _padded.setdefault(decoder, {})
    whole = precision == "highest"
    if whole not in known:
        k, *hidden = (side(width) for width in decoder.widths)
        first, last = hidden[0], hidden[-1]
        matrices = (
            _fill(decoder.weights[0], k, first),
            _fill(decoder.weights[-1], first if len(hidden) > 1 else k, last),
            _fill(decoder.gram, last, last),
        )
        w1, w2, gram = (torch.stack([x, x]) if whole else _parts(x) for x in matrices)
        b1, b2 = _fill(decoder.biases[0], first), _fill(decoder.biases[-1], last)
        known[whole] = (w1, b1, w2, b2, gram, _fill(decoder.gram_bias, last), decoder.bias_square.reshape(1))
    return known[whole]


def _target_terms(decoder: MLPDecoder, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`decoder.target_terms`, the same for a target whatever their number."""

    def terms(tile: torch.Tensor) -> torch.Tensor:
        p, c = decoder.target_terms(tile)
        return torch.cat([p, c[:, None]], dim=1)

    joined = apply_in_tiles(terms, targets, _TERM_ROWS)
    return joined[:, :-1], joined[:, -1]


def fused(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: SearchConfig) -> Search:
    """Search for all samples × all starts in one launch."""
    from homefold.projection.engines.kernel import launch  # Triton is not there on every platform

    decoder = mlp_decoder(decode)
    assert decoder is not None
    n, s, k = starts.shape
    weights = _kernel_weights(decoder, config.resolved_precision)
    p, c = _target_terms(decoder, targets)
    found, *per_row = launch(
        _fill(starts.reshape(n * s, k), n * s, weights[0].shape[1]),
        _fill(p, n, weights[4].shape[1]),
        c.contiguous(),
        weights,
        s,
        config,
        decoder.slope,
        len(decoder.weights),
    )
    steps, before, after = (x.view(n, s) for x in per_row)
    return Search(found[:, :k].reshape(n, s, k), steps.long(), before, after)


FUSED = Engine(
    "fused",
    fused,
    device_type="cuda",
    further_reason=_why_no_kernel,
    row_by_row=True,
    capturable=True,
)
