"""Holding a part of the source images out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homefold.data.splits import holdout_split, selection_split
from homefold.errors import ConfigError, DataError

cells = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=120)
fractions = st.floats(0.01, 0.99)


def _columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(rows)
    return table[:, 0], table[:, 1]


@given(rows=cells, fraction=fractions, seed=st.integers(0, 2**31))
def test_every_image_is_on_exactly_one_side_in_sorted_order(rows, fraction, seed):
    labels, domains = _columns(rows)
    train, held_out = holdout_split(labels, domains, fraction, seed)
    assert sorted([*train, *held_out]) == list(range(len(rows)))
    assert (np.diff(train) > 0).all()
    assert (np.diff(held_out) > 0).all()


@given(rows=cells, fraction=fractions)
def test_each_cell_gives_its_share_and_leaves_neither_side_empty(rows, fraction):
    labels, domains = _columns(rows)
    train, held_out = holdout_split(labels, domains, fraction, seed=0)
    for label, domain in set(rows):
        in_cell = (labels == label) & (domains == domain)
        members, held = int(in_cell.sum()), int(in_cell[held_out].sum())
        assert in_cell[train].sum() >= 1
        assert held >= (members >= 2)
        if 1 <= round(members * fraction) <= members - 1:
            assert abs(held - members * fraction) <= 0.5 + 1e-9


def test_a_tenth_of_a_cell_of_twenty_is_two():
    labels, domains = np.repeat([0, 1], 20), np.zeros(40, dtype=int)
    _, held_out = holdout_split(labels, domains, 0.1, seed=3)
    assert np.bincount(labels[held_out]).tolist() == [2, 2]


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    labels, domains = np.repeat(np.arange(4), 50), np.tile(np.arange(2), 100)
    first, again = (holdout_split(labels, domains, 0.3, seed=1)[1] for _ in range(2))
    other = holdout_split(labels, domains, 0.3, seed=2)[1]
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_a_cells_draw_does_not_depend_on_the_other_cells():
    labels, domains = np.repeat([0, 1], 30), np.zeros(60, dtype=int)
    _, alone = holdout_split(labels[:30], domains[:30], 0.2, seed=5)
    _, together = holdout_split(labels, domains, 0.2, seed=5)
    assert alone.tolist() == together[together < 30].tolist()


def test_cells_of_one_size_do_not_all_draw_the_same_places():
    labels, domains = np.repeat(np.arange(6), 30), np.zeros(180, dtype=int)
    _, held_out = holdout_split(labels, domains, 0.2, seed=5)
    assert len({tuple(held_out[labels[held_out] == label] % 30) for label in range(6)}) == 6


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_fraction_that_leaves_a_side_empty_is_refused(fraction):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        holdout_split(np.zeros(4, int), np.zeros(4, int), fraction, seed=0)


def test_labels_and_domains_of_different_lengths_are_refused():
    with pytest.raises(DataError, match=r"\(4,\) and \(3,\)"):
        holdout_split(np.zeros(4, int), np.zeros(3, int), 0.5, seed=0)


def test_official_validation_images_are_selected_on_where_there_are_any(few_digits):
    marks = tuple("val" if i % 5 == 0 else "train" for i in range(len(few_digits)))
    train, held_out = selection_split(replace(few_digits, splits=marks), 0.5, 0)
    assert held_out.tolist() == list(range(0, len(few_digits), 5))
    assert sorted([*train, *held_out]) == list(range(len(few_digits)))


def test_without_official_ones_a_part_is_drawn(few_digits):
    train, held_out = selection_split(few_digits, 0.25, 0)
    expected = holdout_split(few_digits.labels, few_digits.domains, 0.25, 0)
    assert (train.tolist(), held_out.tolist()) == (expected[0].tolist(), expected[1].tolist())


def test_too_few_images_to_hold_any_back(few_digits):
    with pytest.raises(DataError, match="too few"):
        selection_split(few_digits.subset([0, 24]), 0.5, 0)
