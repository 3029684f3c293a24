"""A dataset: choosing domains, its fingerprint, what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from homefold.data import DomainDataset
from homefold.errors import DataError


class TestDataset:
    def test_choosing_domains(self):
        images = np.arange(6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), dtype=np.uint8)
        dataset = DomainDataset(images, [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2], ("a", "b"), ("x", "y", "z"))
        chosen = dataset.only("z", "x")
        assert chosen.domain_names == ("z", "x")
        assert chosen.domains.tolist() == [1, 1, 0, 0]
        assert chosen.images[:, 0, 0, 0].tolist() == [0, 1, 4, 5]
        assert dataset.without("y").domain_names == ("x", "z")
        with pytest.raises(DataError, match=r"there is no domain 'w'.*x, y, z"):
            dataset.only("w")

    def test_the_fingerprint_sees_every_change(self):
        images = np.zeros((4, 2, 2, 3), dtype=np.uint8)
        dataset = DomainDataset(images, [0, 1, 0, 1], [0, 0, 1, 1], ("a", "b"), ("x", "y"))
        touched = images.copy()
        touched[3, 1, 1, 2] = 1
        variants = [
            dataset,
            replace(dataset, images=touched),
            replace(dataset, labels=[1, 1, 0, 1]),
            replace(dataset, domains=[0, 1, 1, 1]),
            replace(dataset, class_names=("a", "c")),
            replace(dataset, splits=("train", "train", "val", "train")),
        ]
        assert len({variant.fingerprint() for variant in variants}) == 6

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"images": np.zeros((2, 2, 2, 3))}, "uint8"),
            ({"labels": [0]}, "one integer for each of the 2 images"),
            ({"labels": [0, 5]}, "0 to 5, but there are 2 names"),
            ({"paths": ("a",)}, "paths must be empty or have one entry"),
        ],
    )
    def test_what_does_not_fit_is_a_sentence(self, change, words):
        fine = {
            "images": np.zeros((2, 2, 2, 3), dtype=np.uint8),
            "labels": [0, 1],
            "domains": [0, 0],
            "class_names": ("a", "b"),
            "domain_names": ("x",),
        }
        with pytest.raises(DataError, match=words):
            DomainDataset(**{**fine, **change})
