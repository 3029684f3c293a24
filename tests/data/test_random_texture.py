"""Random filters agree with a convolution written out image by image."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from homefold.config import AugmentationConfig, augmentation_preset
from homefold.data.augmentation import apply_augmentation, augment_batch
from homefold.data.random_texture import NUMBERS, filter_repeatedly, random_filters
from homefold.runtime.seeding import generator


def uniform(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand((NUMBERS, n), generator=generator(seed, "filters"))


def images_of(n: int, height: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.rand((n, 3, height, width), generator=generator(seed, "images"))


def slow_passes(image: torch.Tensor, filters: torch.Tensor, times: int) -> torch.Tensor:
    """One image `(3, h, w)`, in float64, with torch's own convolution and one channel after the other."""
    if times == 0:
        return image
    x = image.double()
    contrast, offset = filters[:, 27].double(), filters[:, 28].double()
    taps_first = filters[:, :27].double().reshape(3, 3, 3, 3)  # out, row of the tap, column of the tap, in
    kernel = taps_first.permute(0, 3, 1, 2)
    for _ in range(times):
        mixed = F.conv2d(F.pad(x[None], (1, 1, 1, 1), mode="replicate"), kernel)[0]
        channels = []
        for c in range(3):
            standard = (mixed[c] - mixed[c].mean()) / (mixed[c].var(correction=0).sqrt() + 1e-3)
            channels.append(torch.tanh(standard * contrast[c] + offset[c]))
        x = torch.stack(channels)
    return (x + 1) / 2


class TestFilters:
    @given(height=st.integers(1, 9), width=st.integers(1, 9), seed=st.integers(0, 2**16))
    @pytest.mark.slow
    def test_a_pass_is_a_convolution_standardised_and_squashed(self, height: int, width: int, seed: int) -> None:
        images, filters = images_of(4, height, width, seed), random_filters(uniform(4, seed))
        passes = torch.tensor([0, 1, 2, 3])
        result = filter_repeatedly(images, filters, passes, 3)
        for i in range(4):
            slow = slow_passes(images[i], filters[i], int(passes[i]))
            torch.testing.assert_close(result[i].double(), slow.double(), atol=2e-3, rtol=0)

    def test_never_passed_means_the_same_bytes(self) -> None:
        images = images_of(3, 8, 8)
        result = filter_repeatedly(images, random_filters(uniform(3)), torch.zeros(3, dtype=torch.long), 5)
        assert torch.equal(result, images)

    def test_weights_are_normal_where_the_window_is_open(self) -> None:
        numbers = uniform(4000)
        filters = random_filters(numbers)
        contrasts, offsets = filters[:, :, 27], filters[:, :, 28]
        middle = filters[:, :, 12:15]
        assert abs(middle.mean()) < 0.02
        assert abs(middle.std() - 1) < 0.02
        assert abs(offsets.mean()) < 0.02
        assert abs(offsets.std() - 0.5) < 0.02
        assert contrasts.min() == pytest.approx(0.1)
        assert abs(contrasts.median() - 1) < 0.03

    def test_a_narrow_window_looks_at_one_pixel_and_a_wide_one_at_its_neighbours(self) -> None:
        numbers = uniform(2)
        numbers[81] = torch.tensor([0.0, 1.0])
        filters = random_filters(numbers)[:, :, :27].view(2, 3, 9, 3)
        beside = [tap for tap in range(9) if tap != 4]
        assert filters[0, :, beside].abs().max() == 0
        expected = torch.special.ndtri(numbers[:81, 1]).view(3, 9, 3)[:, 0] * torch.exp(torch.tensor(-1.0))
        torch.testing.assert_close(filters[1, :, 0], expected)

    def test_the_ends_of_the_uniform_numbers_stay_finite(self) -> None:
        numbers = torch.stack((torch.zeros(NUMBERS), torch.ones(NUMBERS)), dim=1)
        result = filter_repeatedly(images_of(2, 4, 4), random_filters(numbers), torch.tensor([1, 2]), 2)
        assert torch.isfinite(result).all()

    def test_a_flat_image_stays_flat(self) -> None:
        flat = torch.full((1, 3, 6, 6), 0.25)
        filters = random_filters(uniform(1))
        result = filter_repeatedly(flat, filters, torch.tensor([1]), 1)
        expected = ((torch.tanh(filters[:, :, 28:]) + 1) / 2)[..., None].expand(1, 3, 6, 6)
        torch.testing.assert_close(result, expected, atol=2e-3, rtol=0)


class TestWithinTheAugmentation:
    def test_passes_are_drawn_evenly_from_one_to_the_most(self) -> None:
        # With the same filter for all, equal images that pass equally often come out equal.
        config = AugmentationConfig(
            crop_min_area=1.0,
            flip_probability=0.0,
            jitter_probability=0.0,
            grey_probability=0.0,
            texture_probability=0.5,
            texture_passes=4,
        )
        n = 4000
        images = images_of(1, 4, 4).repeat(n, 1, 1, 1)
        drawn = torch.rand((18 + NUMBERS, n), generator=generator(0, "drawn"))
        drawn[18:] = drawn[18:, :1]
        result = apply_augmentation(images, config, drawn)
        kinds = (result * 1e4).round().flatten(1).unique(dim=0, return_counts=True)[1].sort().values
        assert len(kinds) == 5
        assert abs(kinds[-1] - n / 2) < 5 * (n / 4) ** 0.5
        for count in kinds[:-1]:
            assert abs(count - n / 8) < 5 * (n * 7 / 64) ** 0.5

    def test_filters_leave_the_draws_of_the_others(self) -> None:
        plain = augmentation_preset("paper")
        some = AugmentationConfig(**{**vars(plain), "texture_probability": 0.5})
        images = images_of(32, 8, 8)
        before = augment_batch(images, plain, generator(0, "augment"))
        after = augment_batch(images, some, generator(0, "augment"))
        same = (before == after).flatten(1).all(1)
        assert 5 <= same.sum() <= 27
