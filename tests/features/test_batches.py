"""Batches are the same bytes whether all images lie on the device or are copied ahead from a file."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from homefold.features import batches
from homefold.features.batches import ImageStore, to_pixels

CPU = torch.device("cpu")


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (40, 5, 6, 3), dtype=np.uint8)


@pytest.fixture
def order() -> torch.Tensor:
    return torch.randperm(40, generator=torch.Generator().manual_seed(0)).view(10, 4)


def test_both_ways_give_the_bytes_of_the_images_in_order(images, order, tmp_path):
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    kept = list(ImageStore(images, CPU, resident=True).batches(order))
    ahead = list(ImageStore(mapped, CPU, resident=False).batches(order))
    assert len(kept) == len(ahead) == 10
    for row, left, right in zip(order, kept, ahead, strict=True):
        assert np.array_equal(left.numpy(), images[row.numpy()])
        assert torch.equal(left, right)


def test_fewer_batches_than_are_read_ahead(images, order):
    assert len(list(ImageStore(images, CPU, resident=False).batches(order[:2]))) == 2
    assert list(ImageStore(images, CPU, resident=False).batches(order[:0])) == []


def test_the_next_batches_are_read_before_they_are_asked_for(images, order, monkeypatch):
    read = threading.Semaphore(0)
    gather = batches._Fetch.__call__

    def counted(self, indices):
        found = gather(self, indices)
        read.release()
        return found

    monkeypatch.setattr(batches._Fetch, "__call__", counted)
    given = ImageStore(images, CPU, resident=False).batches(order)
    next(given)
    for _ in range(4):
        assert read.acquire(timeout=10)
    given.close()


def test_a_failing_read_reaches_the_caller(images, order):
    order[2, 0] = 1000
    given = ImageStore(images, CPU, resident=False).batches(order)
    assert len([next(given), next(given)]) == 2
    with pytest.raises(IndexError):
        next(given)


def test_leaving_early_ends_the_reader(images, order):
    given = ImageStore(images, CPU, resident=False).batches(order)
    next(given)
    given.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("homefold-batches")]


@pytest.mark.slow
def test_pixels_are_shares_of_255_with_channels_last(images):
    pixels = to_pixels(torch.from_numpy(images[:2]))
    assert pixels.shape == (2, 3, 5, 6)
    assert pixels.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(pixels.permute(0, 2, 3, 1).numpy(), images[:2] / 255, atol=1e-7)
    torch.testing.assert_close(ImageStore(images, CPU).batch(torch.tensor([0, 1])), pixels, rtol=0, atol=0)


class Card:
    """A device whose free memory the test decides."""

    type = "cuda"


@pytest.mark.parametrize(("free_gib", "fits"), [(100, True), (30, True), (13, False), (15, True), (5, False)])
def test_images_stay_on_the_device_only_where_room_for_training_is_left(monkeypatch, free_gib, fits):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free_gib << 30, 0))

    class Images:
        nbytes = 10 << 30

    assert batches._fits(Images(), Card()) is fits
