"""Tiles change nothing but the order of work."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from homefold.runtime.tiles import apply_in_tiles, fill_tile, steady_tile

CPU = torch.device("cpu")


class TestTiles:
    @given(n=st.integers(0, 20), size=st.integers(1, 7))
    def test_tiles_change_nothing_but_the_order_of_work(self, n, size):
        seen = []

        def double(rows):
            seen.append(len(rows))
            return rows * 2

        rows = torch.arange(n, dtype=torch.float32)[:, None]
        assert apply_in_tiles(double, rows, size).tolist() == (rows * 2).tolist()
        assert n == 0 or set(seen) == {size}

    def test_filling_repeats_the_last_row(self):
        assert fill_tile(torch.tensor([[1.0], [2.0]]), 4).flatten().tolist() == [1, 2, 2, 2]

    def test_a_function_whose_rows_depend_on_their_place_is_computed_row_by_row(self):
        def steady(rows):
            return rows * 2

        def unsteady(rows):
            return rows + torch.arange(len(rows))[:, None] * 1e-7

        assert steady_tile(nn.Identity(), "a", steady, (3,), 8, CPU) == 8
        assert steady_tile(nn.Identity(), "a", unsteady, (3,), 8, CPU) == 1
