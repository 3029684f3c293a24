"""Copies of training images are found, exact ones and slightly changed ones, and others are not."""

from __future__ import annotations

import numpy as np

from homefold.stages.duplicates import digest_of, find_duplicates, small_grey
from homefold.stages.source_images import SourceImages


def smooth(count: int, seed: int) -> np.ndarray:
    """Images of random blocks."""
    blocks = np.random.default_rng(seed).integers(0, 256, size=(count, 8, 8, 3), dtype=np.uint8)
    return blocks.repeat(4, axis=1).repeat(4, axis=2)


def test_what_is_alike_is_found_whatever_its_brightness():
    images, others = smooth(20, 0), smooth(5, 1)
    features = np.random.default_rng(2).normal(size=(20, 8))
    names = np.array(["a"] * 20, dtype=object)
    sources = SourceImages(features, names, names, np.arange(20), images=images)
    darker = (images[3] * 0.8).astype(np.uint8)
    new = np.stack([images[7], darker, *others])
    near = np.concatenate([features[[7, 3]], np.random.default_rng(4).normal(size=(5, 8))])
    found = find_duplicates(near, [digest_of(x) for x in new], [small_grey(x) for x in new], sources)
    assert [(each.image, each.source.row, each.exact) for each in found] == [(0, 7, True), (1, 3, False)]


def test_an_exact_copy_is_found_whatever_its_features():
    images = smooth(30, 0)
    features = np.random.default_rng(2).normal(size=(30, 8))
    names = np.array(["a"] * 30, dtype=object)
    sources = SourceImages(features, names, names, np.arange(30), images=images)
    (found,) = find_duplicates(-features[[5]], [digest_of(images[5])], [small_grey(images[5])], sources)
    assert (found.source.row, found.exact) == (5, True)


def test_a_small_grey_copy_is_the_mean_of_its_parts():
    image = np.random.default_rng(0).integers(0, 256, size=(32, 48, 3), dtype=np.uint8)
    slow = np.array(
        [[image[2 * i : 2 * i + 2, 3 * j : 3 * j + 3].astype(float).mean() for j in range(16)] for i in range(16)]
    ).reshape(-1)
    slow -= slow.mean()
    np.testing.assert_allclose(small_grey(image), slow / np.linalg.norm(slow), atol=1e-12)
    assert not small_grey(np.full((9, 9, 3), 7, np.uint8)).any()
