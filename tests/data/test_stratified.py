"""A part of the rows: seeded, with every class and domain in it, also where rows cycle through the classes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from homefold.data.splits import stratified_rows
from homefold.stages.feature_model import calibration_features


def test_rows_that_cycle_through_the_classes_keep_every_class_and_domain() -> None:
    groups = np.stack([np.arange(1800) % 10, np.arange(1800) // 600], axis=1)
    rows = stratified_rows(groups, 900, seed=0)
    assert Counter(map(tuple, groups[rows].tolist())) == {(a, b): 30 for a in range(10) for b in range(3)}
    assert rows.tolist() == sorted(set(rows.tolist()))


def test_all_rows_are_kept_where_there_are_no_more_than_asked_for() -> None:
    assert stratified_rows(np.zeros((7, 2), dtype=int), 7, seed=3).tolist() == list(range(7))
    assert stratified_rows(np.zeros(0, dtype=int), 7, seed=3).tolist() == []


def test_the_seed_decides_the_draw() -> None:
    groups = np.arange(300) % 7
    draws = [stratified_rows(groups, 100, seed).tolist() for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=200), st.integers(1, 60), st.integers(0, 9))
def test_each_group_has_its_share_to_the_row(groups: list[int], most: int, seed: int) -> None:
    values = np.array(groups)
    rows = stratified_rows(values, most, seed)
    assert len(rows) == len(set(rows.tolist())) == min(most, len(groups))
    whole, drawn = Counter(groups), Counter(values[rows].tolist())
    if len(whole) <= most:
        assert set(drawn) == set(whole)
    for group, count in whole.items():
        assert abs(drawn[group] - count * len(rows) / len(groups)) <= max(1.0, len(whole) / 2)


def test_a_score_is_calibrated_on_every_class_and_domain() -> None:
    n = 1024
    labels, domains = torch.arange(n) % 4, torch.arange(n) // 512
    held_out = torch.stack([labels, domains], dim=1).float()
    kept = calibration_features(held_out, labels, domains, seed=0)
    assert Counter(map(tuple, kept.int().tolist())) == {(a, b): 32 for a in range(4) for b in range(2)}
    classes = calibration_features(held_out, labels, None, seed=0)
    assert Counter(classes[:, 0].int().tolist()) == dict.fromkeys(range(4), 64)


def test_a_score_of_few_features_is_calibrated_on_all_of_them() -> None:
    held_out = torch.rand(256, 3)
    assert calibration_features(held_out, torch.arange(256) % 4, None, seed=0).equal(held_out)
