"""Row-wise functions applied in tiles of a fixed size, so that no row's result depends on how many came with it.

Matrix kernels sum in another order for another number of rows. A tile always has the same number: the last one is
filled up with copies of its last row, whose results are dropped. Some kernels also treat the rows at the edge of a
matrix differently; `steady_tile` finds that out by trying, and then rows are computed one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

import torch
from torch import nn

__all__ = ["apply_in_tiles", "fill_tile", "steady_tile"]

RowFunction = Callable[[torch.Tensor], torch.Tensor]

_PERMUTATIONS = 4
_known: WeakKeyDictionary[nn.Module, dict[Hashable, int]] = WeakKeyDictionary()


def fill_tile(rows: torch.Tensor, size: int) -> torch.Tensor:
    """A copy of `rows` with its last row repeated until there are `size`; no rows stay none.

    Always a copy: a slice of a larger tensor may start at any address, and kernels sum differently from odd ones.
    """
    missing = size - len(rows)
    if missing <= 0 or len(rows) == 0:
        return rows.clone()
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])


def apply_in_tiles(function: RowFunction, rows: torch.Tensor, size: int) -> torch.Tensor:
    """`function(rows)`, computed `size` rows at a time.

    >>> apply_in_tiles(lambda x: x * 2, torch.arange(5.0)[:, None], 2).flatten()
    tensor([0., 2., 4., 6., 8.])
    """
    parts = [function(fill_tile(tile, size))[: len(tile)] for tile in rows.split(size)]
    return torch.cat(parts) if parts else function(rows)


def steady_tile(
    owner: nn.Module, key: Hashable, function: RowFunction, row_shape: tuple[int, ...], size: int, device: torch.device
) -> int:
    """`size` if `function` gives a row the same bytes at every place of a tile of that size on this machine, else 1.

    Tried once on random rows for each owner and key. Only a CPU promises equal bytes, so only there it is tried.

    The shapes of `owner` decide which kernels run, and what else does is in `key`. `function` takes rows
    `(size, *row_shape)` to anything with a row each.
    """
    if device.type != "cpu" or size == 1:
        return size
    sizes = _known.setdefault(owner, {})
    found = sizes.get((key, size, torch.get_num_threads()))
    if found is None:
        found = sizes[key, size, torch.get_num_threads()] = size if _is_steady(function, row_shape, size) else 1
    return found


def _is_steady(function: RowFunction, row_shape: tuple[int, ...], size: int) -> bool:
    random = torch.Generator().manual_seed(0)
    rows = torch.rand(size, *row_shape, generator=random)
    expected = function(rows)
    orders = [torch.randperm(size, generator=random) for _ in range(_PERMUTATIONS)]
    return all(torch.equal(function(rows[order]), expected[order]) for order in orders)
