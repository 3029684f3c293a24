"""What the kernel of the `fused` engine knows, and what it needs of a chip: its tiles and a multiprocessor's memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from homefold.config.search import SearchConfig
from homefold.projection.rules.objective import Decoder, mlp_decoder

__all__ = ["STEP_RULES", "STOPPING_RULES", "Tile", "side", "tile_for", "why_not_on_chip"]

STEP_RULES = {"gradient": 0, "normalised": 1, "adam": 2}
STOPPING_RULES = {"fixed": 0, "elbow": 1}
"""The rules whose arithmetic the kernel repeats, and what it calls them."""

_WIDEST = 256
_SMALLEST_SIDE = 16


@dataclass(frozen=True)
class Tile:
    """Rows that one program searches together, and the warps that share its work."""

    rows: int
    warps: int

    def scratch_bytes(self, widest: int) -> int:
        """Shared memory beside the weights: at most one float32 for each row and unit, and a little more if few."""
        return max(4 * self.rows * widest, 32_768)


# Sixteen rows are the fewest that tensor cores take. Eight warps then hold the weights of the usual decoder in
# registers; in tiles of 64 rows registers do not suffice even for what the rows need. The elbow's rings need barriers,
# across which weights do not stay in registers: there the larger tile takes less memory.
_SMALL, _LARGE = Tile(16, 8), Tile(64, 4)


def tile_for(config: SearchConfig) -> Tile:
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
