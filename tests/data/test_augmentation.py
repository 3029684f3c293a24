"""Augmentation agrees with torchvision sample by sample, and with its promises batch by batch."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as tv

from homefold.config import AUGMENTATION_PRESETS, AugmentationConfig, augmentation_preset
from homefold.data import augmentation
from homefold.data.augmentation import (
    adjust_colour_,
    apply_augmentation,
    augment_batch,
    crop_and_flip,
    draw_augmentation,
    gaussian_blur,
    mix_amplitudes,
)
from homefold.errors import ConfigError, DataError
from homefold.runtime.seeding import generator

OFF = augmentation_preset("none")
EVERYTHING = replace(
    augmentation_preset("paper"), fourier_mix_probability=0.5, texture_probability=0.5, texture_passes=3
)
SIZES = st.integers(1, 40)
SEEDS = st.integers(0, 2**16)


def random_images(n: int, height: int = 32, width: int = 32, seed: int = 0) -> torch.Tensor:
    return torch.rand((n, 3, height, width), generator=generator(seed, "images"))


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=generator(seed, "draws"))


def same_image(n: int, size: int = 16) -> torch.Tensor:
    return random_images(1, size, size).repeat(n, 1, 1, 1)


def awkward_colours() -> torch.Tensor:
    """All colours with channels in {0, 1/3, 2/3, 1}: greys, primaries and every tie between channels."""
    steps = torch.linspace(0, 1, 4)
    return torch.cartesian_prod(steps, steps, steps).T.reshape(1, 3, 8, 8)


def augment(images: torch.Tensor, config: AugmentationConfig, seed: int = 0) -> torch.Tensor:
    return augment_batch(images, config, generator(seed, "augment"))


class TestSettings:
    def test_the_defaults_are_the_mild_recipe_that_was_measured(self) -> None:
        config = AugmentationConfig()
        assert (config.crop_min_area, config.flip_probability, config.jitter_probability) == (0.7, 0.5, 1.0)
        assert (config.brightness, config.contrast, config.saturation, config.hue) == (0.4, 0.4, 0.4, 0.1)
        assert (config.grey_probability, config.blur_probability, config.noise_sigma) == (0.1, 0.0, 0.0)
        assert augmentation_preset("default") == config

    def test_the_paper_preset_is_the_papers_list(self) -> None:
        config = augmentation_preset("paper")
        assert (config.flip_probability, config.jitter_probability, config.grey_probability) == (0.5, 0.8, 0.2)
        assert (config.brightness, config.contrast, config.saturation, config.hue) == (0.8, 0.8, 0.8, 0.2)
        assert (config.blur_probability, config.blur_kernel_px, config.noise_sigma) == (0.5, 21, 0.2)
        assert (config.blur_sigma_min, config.blur_sigma_max, config.crop_min_area) == (0.1, 2.0, 0.08)

    def test_digits_are_never_mirrored(self) -> None:
        assert augmentation_preset("digits").flip_probability == 0
        assert augmentation_preset("digits").jitters

    def test_an_unknown_preset_is_answered_with_the_known_ones(self) -> None:
        with pytest.raises(ConfigError, match=r"'heavy'.*default, paper, digits, none"):
            augmentation_preset("heavy")

    @pytest.mark.parametrize("name", [f.name for f in fields(AugmentationConfig)])
    @pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "0.5", True, None])
    def test_a_setting_that_cannot_work_is_named(self, name: str, value: object) -> None:
        with pytest.raises(ConfigError, match=name):
            AugmentationConfig(**{name: value})  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("flip_probability", 1.01),
            ("jitter_probability", 2),
            ("grey_probability", 1.5),
            ("blur_probability", 1.5),
            ("fourier_mix_probability", 1.5),
            ("fourier_mix_strength", 1.5),
            ("texture_probability", 1.5),
            ("texture_passes", 0),
            ("hue", 0.51),
            ("crop_min_area", 0),
            ("crop_min_area", 1.1),
            ("crop_min_aspect", 0),
            ("crop_max_aspect", 0.5),
            ("blur_kernel_px", 20),
            ("blur_sigma_min", 0),
            ("blur_sigma_max", 0.05),
        ],
    )
    def test_a_setting_out_of_its_range_is_named(self, name: str, value: float) -> None:
        with pytest.raises(ConfigError, match=rf"^features\.augmentation\.{name} must .*; got {value}\.$"):
            AugmentationConfig(**{name: value})  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "changes",
        [
            {"crop_min_area": 0.9},
            {"flip_probability": 0.1},
            {"jitter_probability": 0.1},
            {"grey_probability": 0.1},
            {"blur_probability": 0.1},
            {"noise_sigma": 0.1},
            {"fourier_mix_probability": 0.1},
            {"texture_probability": 0.1},
        ],
    )
    def test_any_operation_switched_on_does_something(self, changes: dict[str, float]) -> None:
        assert OFF.does_nothing
        config = replace(OFF, **changes)  # type: ignore[arg-type]
        assert not config.does_nothing
        assert not torch.equal(augment(random_images(64, 8, 8), config), random_images(64, 8, 8))

    def test_jitter_without_strength_and_mixing_without_strength_are_off(self) -> None:
        still = replace(OFF, jitter_probability=1.0, brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0)
        assert still.does_nothing
        assert replace(OFF, fourier_mix_probability=1.0, fourier_mix_strength=0.0).does_nothing


class TestCrop:
    @settings(max_examples=60, deadline=None)
    @given(height=SIZES, width=SIZES, seed=SEEDS)
    def test_a_box_of_whole_pixels_gives_torchvisions_resized_crop(self, height: int, width: int, seed: int) -> None:
        image = random_images(1, height, width, seed)
        u = draws(4, seed=seed)
        box_height, box_width = 1 + int(u[0] * height * 0.999), 1 + int(u[1] * width * 0.999)
        top, left = int(u[2] * (height - box_height + 1)), int(u[3] * (width - box_width + 1))
        box = torch.tensor([[top, left, box_height, box_width]], dtype=torch.float32)
        # Enlarging needs no antialias, and torch's antialiased kernel answers wrongly for images one pixel wide.
        expected = tv.resized_crop(
            image, top, left, box_height, box_width, [height, width], InterpolationMode.BILINEAR, antialias=False
        )
        torch.testing.assert_close(crop_and_flip(image, box), expected, atol=2e-5, rtol=0)
        mirrored = crop_and_flip(image, box, torch.tensor([True]))
        torch.testing.assert_close(mirrored, tv.hflip(expected), atol=2e-5, rtol=0)

    def test_every_image_gets_the_box_of_its_own(self) -> None:
        images = random_images(3)
        boxes = torch.tensor([[0.0, 0.0, 32.0, 32.0], [4.0, 2.0, 20.0, 25.0], [1.5, 0.25, 30.5, 17.75]])
        flips = torch.tensor([False, True, False])
        together = crop_and_flip(images, boxes, flips)
        for i in range(3):
            alone = crop_and_flip(images[i : i + 1], boxes[i : i + 1], flips[i : i + 1])
            torch.testing.assert_close(together[i : i + 1], alone, atol=1e-6, rtol=0)
        torch.testing.assert_close(together[0], images[0], atol=1e-5, rtol=0)

    def test_a_box_between_pixels_reads_a_ramp_where_it_lies(self) -> None:
        ramp = torch.arange(40.0).expand(1, 3, 40, 40) / 100
        cropped = crop_and_flip(ramp, torch.tensor([[3.25, 5.5, 30.0, 20.0]]))
        expected = (5.5 + (torch.arange(40.0) + 0.5) * 0.5 - 0.5).clamp(5.5, 24.5) / 100
        torch.testing.assert_close(cropped, expected.expand(1, 3, 40, 40), atol=1e-5, rtol=0)

    @pytest.mark.parametrize(("height", "width"), [(32, 32), (20, 60), (60, 20), (7, 9)])
    @pytest.mark.parametrize("min_area", [0.08, 0.7])
    def test_boxes_lie_inside_with_uniform_area_and_allowed_aspect(
        self, height: int, width: int, min_area: float
    ) -> None:
        config = replace(OFF, crop_min_area=min_area)
        n = 4000
        u = dict(zip(augmentation._DRAWS, draws(len(augmentation._DRAWS), n), strict=True))
        top, left, box_height, box_width = augmentation._crop_boxes(u, height, width, config).double().unbind(1)
        assert top.min() >= 0
        assert left.min() >= 0
        assert (top + box_height).max() <= height + 1e-4
        assert (left + box_width).max() <= width + 1e-4
        area, aspect = box_height * box_width / (height * width), box_width / box_height
        quantiles = torch.quantile(area, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=torch.float64))
        expected = min_area + (1 - min_area) * torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=torch.float64)
        torch.testing.assert_close(quantiles, expected, atol=0.03, rtol=0)
        fits_only = (area * width / height, width / height / area)
        assert torch.all((aspect >= 3 / 4 - 1e-4) | (aspect - fits_only[1]).abs().lt(1e-3))
        assert torch.all((aspect <= 4 / 3 + 1e-4) | (aspect - fits_only[0]).abs().lt(1e-3))

    def test_crops_of_a_square_lean_neither_wide_nor_tall_and_start_anywhere(self) -> None:
        u = dict(zip(augmentation._DRAWS, draws(len(augmentation._DRAWS), 4000), strict=True))
        boxes = augmentation._crop_boxes(u, 32, 32, replace(OFF, crop_min_area=0.3))
        top, left, box_height, box_width = boxes.unbind(1)
        assert abs((box_width / box_height).log().mean()) < 0.01
        assert (box_width / box_height).log().std() > 0.1
        assert abs((top / (32 - box_height)).mean() - 0.5) < 0.03
        assert abs((left / (32 - box_width)).mean() - 0.5) < 0.03
        assert abs(torch.corrcoef(torch.stack((top / (32 - box_height), left / (32 - box_width))))[0, 1]) < 0.08

    def test_a_crop_of_a_tiny_image_keeps_at_least_a_pixel_each_way(self) -> None:
        u = dict(zip(augmentation._DRAWS, draws(len(augmentation._DRAWS), 500), strict=True))
        top, left, box_height, box_width = augmentation._crop_boxes(u, 1, 3, replace(OFF, crop_min_area=0.08)).unbind(1)
        assert torch.equal(box_height, torch.ones(500))
        assert torch.equal(top, torch.zeros(500))
        assert box_width.min() >= 1
        assert (left + box_width).max() <= 3 + 1e-5


class TestColour:
    @settings(max_examples=40, deadline=None)
    @given(factor=st.floats(0, 2, width=32), seed=SEEDS)
    def test_brightness_contrast_and_saturation_are_torchvisions(self, factor: float, seed: int) -> None:
        image = random_images(1, 9, 7, seed)
        value = torch.tensor([factor])
        for name, reference in (
            ("brightness", tv.adjust_brightness),
            ("contrast", tv.adjust_contrast),
            ("saturation", tv.adjust_saturation),
        ):
            ours = adjust_colour_(image.clone(), **{name: value})
            torch.testing.assert_close(ours, reference(image, factor), atol=1e-5, rtol=0, msg=name)

    @settings(max_examples=40, deadline=None)
    @given(shift=st.floats(-0.5, 0.5, width=32), seed=SEEDS)
    def test_hue_is_torchvisions_for_random_and_for_awkward_colours(self, shift: float, seed: int) -> None:
        for image in (random_images(1, 8, 8, seed), awkward_colours()):
            ours = adjust_colour_(image.clone(), hue=torch.tensor([shift]))
            torch.testing.assert_close(ours, tv.adjust_hue(image, shift), atol=1e-4, rtol=0)

    @pytest.mark.parametrize("shift", [-0.5, -1 / 3, -1 / 6, 0.0, 1 / 6, 1 / 3, 0.5])
    def test_hue_is_torchvisions_where_sectors_meet(self, shift: float) -> None:
        ours = adjust_colour_(awkward_colours(), hue=torch.tensor([shift]))
        torch.testing.assert_close(ours, tv.adjust_hue(awkward_colours(), shift), atol=1e-4, rtol=0)

    def test_a_third_of_a_turn_makes_red_green(self) -> None:
        red = torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1)
        turned = adjust_colour_(red, hue=torch.tensor([1 / 3]))
        torch.testing.assert_close(turned.flatten(), torch.tensor([0.0, 1.0, 0.0]), atol=1e-6, rtol=0)

    def test_the_order_is_brightness_contrast_saturation_hue_for_each_sample_alone(self) -> None:
        images = random_images(6, 12, 10)
        brightness, contrast, saturation = (0.2 + 1.6 * draws(3, 6)).unbind()
        hue = draws(6, seed=1) - 0.5
        ours = adjust_colour_(images.clone(), brightness, contrast, saturation, hue)
        for i, image in enumerate(images):
            expected = tv.adjust_brightness(image, float(brightness[i]))
            expected = tv.adjust_contrast(expected, float(contrast[i]))
            expected = tv.adjust_saturation(expected, float(saturation[i]))
            expected = tv.adjust_hue(expected, float(hue[i]))
            torch.testing.assert_close(ours[i], expected, atol=1e-5, rtol=0)

    def test_grey_has_torchvisions_weights(self) -> None:
        images = random_images(4)
        grey = augment(images, replace(OFF, grey_probability=1.0))
        torch.testing.assert_close(grey, tv.rgb_to_grayscale(images, 3), atol=1e-5, rtol=0)

    def test_neither_saturation_nor_hue_colours_a_grey_image(self) -> None:
        config = replace(OFF, grey_probability=1.0, jitter_probability=1.0, brightness=0.0, contrast=0.0, hue=0.5)
        grey = augment(random_images(8), config)
        torch.testing.assert_close(grey, tv.rgb_to_grayscale(random_images(8), 3), atol=1e-5, rtol=0)

    def test_factors_fill_the_range_the_strength_names(self) -> None:
        images = torch.full((2000, 3, 1, 1), 0.25)
        factors = augment(images, replace(OFF, jitter_probability=1.0, contrast=0.0, saturation=0.0, hue=0.0)) / 0.25
        assert 0.6 <= factors.min() < 0.61
        assert 1.39 < factors.max() <= 1.4
        strong = replace(OFF, jitter_probability=1.0, brightness=2.0, contrast=0.0, saturation=0.0, hue=0.0)
        factors = augment(images, strong) / 0.25
        assert 0 <= factors.min() < 0.01
        assert 2.98 < factors.max() <= 3.0
        assert abs(factors.mean() - 1.5) < 0.1

    def test_hue_shifts_fill_both_directions(self) -> None:
        red = torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1).repeat(2000, 1, 1, 1)
        config = replace(OFF, jitter_probability=1.0, brightness=0.0, contrast=0.0, saturation=0.0, hue=0.1)
        turned = augment(red, config)
        assert torch.equal(turned[:, 0], torch.ones(2000, 1, 1))
        towards_green, towards_blue = turned[:, 1].max(), turned[:, 2].max()
        assert 0.59 < towards_green <= 0.6 + 1e-6
        assert 0.59 < towards_blue <= 0.6 + 1e-6


class TestBlur:
    @settings(max_examples=40, deadline=None)
    @given(height=SIZES, width=SIZES, radius=st.integers(0, 12), sigma=st.floats(0.125, 3, width=32), seed=SEEDS)
    def test_blur_is_torchvisions_with_a_window_cut_to_the_image(
        self, height: int, width: int, radius: int, sigma: float, seed: int
    ) -> None:
        image = random_images(1, height, width, seed)
        window = [min(2 * radius + 1, 2 * width - 1), min(2 * radius + 1, 2 * height - 1)]
        expected = tv.gaussian_blur(image, window, [sigma, sigma])
        ours = gaussian_blur(image, torch.tensor([sigma]), 2 * radius + 1)
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)

    def test_every_image_has_its_own_width_and_zero_changes_nothing(self) -> None:
        images = random_images(3)
        blurred = gaussian_blur(images, torch.tensor([0.0, 0.7, 2.0]), 21)
        assert torch.equal(blurred[0], images[0])
        for i, sigma in ((1, 0.7), (2, 2.0)):
            torch.testing.assert_close(blurred[i], tv.gaussian_blur(images[i], 21, sigma), atol=1e-5, rtol=0)

    def test_widths_fill_the_range_the_settings_name(self) -> None:
        point = torch.zeros(1000, 3, 21, 21)
        point[:, :, 10, 10] = 1
        blurred = augment(point, replace(OFF, blur_probability=1.0, blur_sigma_min=0.8, blur_sigma_max=2.0))
        distance = torch.arange(21.0) - 10
        sigma = (blurred[:, 0].sum(1) * distance**2).sum(1).sqrt()
        assert 0.79 < sigma.min() < 0.82
        assert 1.98 < sigma.max() < 2.01


class TestFourierMixing:
    @settings(max_examples=20, deadline=None)
    @given(height=SIZES, width=SIZES, seed=SEEDS)
    def test_amplitudes_mix_and_phases_stay(self, height: int, width: int, seed: int) -> None:
        images, ratio = random_images(3, height, width, seed), draws(3, seed=seed)
        partners = torch.tensor([1, 2, 0])
        spectra = torch.fft.fft2(images.double())
        share = ratio.double()[:, None, None, None]
        amplitude = (1 - share) * spectra.abs() + share * spectra.abs()[partners]
        expected = torch.fft.ifft2(torch.polar(amplitude, spectra.angle())).real.clamp(0, 1)
        mixed = mix_amplitudes(images, partners, ratio)
        torch.testing.assert_close(mixed.double(), expected, atol=1e-4, rtol=0)

    def test_share_zero_returns_the_same_bytes(self) -> None:
        images = random_images(2)
        mixed = mix_amplitudes(images, torch.tensor([1, 0]), torch.tensor([0.0, 0.5]))
        assert torch.equal(mixed[0], images[0])
        assert not torch.allclose(mixed[1], images[1], atol=1e-3)

    def test_a_black_image_stays_finite_and_black(self) -> None:
        images = random_images(2)
        images[0] = 0
        mixed = mix_amplitudes(images, torch.tensor([1, 0]), torch.tensor([1.0, 1.0]))
        assert torch.equal(mixed[0], torch.zeros_like(images[0]))
        assert torch.isfinite(mixed).all()

    @pytest.mark.parametrize("strength", [1.0, 0.5])
    def test_the_partners_share_fills_the_range_up_to_the_strength(self, strength: float) -> None:
        images = torch.full((1000, 3, 4, 4), 0.2)
        images[500:] = 0.8
        mixed = augment(images, replace(OFF, fourier_mix_probability=1.0, fourier_mix_strength=strength))
        shares = (mixed[:500].mean((1, 2, 3)) - 0.2) / 0.6
        mixed_shares = shares[shares > 1e-5]
        assert abs(len(mixed_shares) - 250) < 50
        assert mixed_shares.max() <= strength + 1e-5
        assert abs(mixed_shares.mean() - strength / 2) < 0.1 * strength

    def test_a_mixed_image_depends_on_another_of_the_batch(self) -> None:
        config = replace(OFF, fourier_mix_probability=1.0)
        images = random_images(2, 8, 8)
        changed = torch.stack((images[0], images[1] * 0.1))
        differs = [
            not torch.equal(augment(images, config, seed)[0], augment(changed, config, seed)[0]) for seed in range(8)
        ]
        assert any(differs)


class TestBatches:
    @pytest.mark.parametrize("name", AUGMENTATION_PRESETS)
    def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(self, name: str) -> None:
        images, config = random_images(8), augmentation_preset(name)
        assert torch.equal(augment(images, config), augment(images, config))
        assert torch.equal(augment(images, config), augment(images, config, seed=1)) == config.does_nothing

    def test_torchs_global_generator_is_neither_used_nor_moved(self) -> None:
        torch.manual_seed(0)
        before = torch.get_rng_state()
        first = augment(random_images(4), EVERYTHING)
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(1)
        assert torch.equal(augment(random_images(4), EVERYTHING), first)

    def test_successive_batches_of_one_generator_differ(self) -> None:
        stream = generator(0, "augment")
        images, config = random_images(4), AugmentationConfig()
        assert not torch.equal(augment_batch(images, config, stream), augment_batch(images, config, stream))

    @pytest.mark.parametrize("name", ["default", "paper", "digits"])
    def test_two_samples_of_one_image_come_out_differently(self, name: str) -> None:
        augmented = augment(same_image(6), augmentation_preset(name))
        for i in range(6):
            for j in range(i):
                assert (augmented[i] - augmented[j]).abs().max() > 0.01

    @pytest.mark.parametrize("name", ["default", "paper", "digits"])
    @pytest.mark.parametrize("changed", [0, 3])
    def test_a_samples_output_does_not_depend_on_the_others_pixels(self, name: str, changed: int) -> None:
        images, config = random_images(4), augmentation_preset(name)
        others = [i for i in range(4) if i != changed]
        altered = images.clone()
        altered[changed] = random_images(1, seed=9)[0]
        assert torch.equal(augment(altered, config)[others], augment(images, config)[others])
        assert not torch.equal(augment(altered, config)[changed], augment(images, config)[changed])

    def test_switching_one_operation_off_leaves_the_draws_of_the_others(self) -> None:
        flip_only = replace(OFF, flip_probability=0.5)
        both = replace(flip_only, grey_probability=0.5)
        images = random_images(32, 8, 8)
        flipped, flipped_and_grey = augment(images, flip_only), augment(images, both)
        coloured = (flipped_and_grey[:, 0] != flipped_and_grey[:, 1]).flatten(1).any(1)
        assert 0 < coloured.sum() < 32
        torch.testing.assert_close(flipped_and_grey[coloured], flipped[coloured], atol=1e-6, rtol=0)

    def test_everything_off_returns_the_same_bytes_in_another_tensor(self) -> None:
        images = random_images(3)
        result = augment(images, OFF)
        assert torch.equal(result, images)
        assert result.data_ptr() != images.data_ptr()

    def test_the_input_is_left_as_it_was(self) -> None:
        for config in (EVERYTHING, replace(OFF, jitter_probability=1.0), replace(OFF, noise_sigma=0.1)):
            images = random_images(3)
            augment(images, config)
            assert torch.equal(images, random_images(3))

    def test_a_flip_without_a_crop_moves_pixels_and_changes_none(self) -> None:
        images = random_images(3)
        assert torch.equal(augment(images, replace(OFF, flip_probability=1.0)), images.flip(3))

    @settings(max_examples=60, deadline=None)
    @given(n=st.integers(1, 5), height=SIZES, width=SIZES, seed=SEEDS)
    def test_any_size_gives_finite_values_between_zero_and_one(
        self, n: int, height: int, width: int, seed: int
    ) -> None:
        images = random_images(n, height, width, seed)
        for config in (EVERYTHING, AugmentationConfig()):
            result = augment(images, config, seed)
            assert result.shape == images.shape
            assert result.dtype == torch.float32
            assert torch.isfinite(result).all()
            assert result.min() >= 0
            assert result.max() <= 1

    @pytest.mark.parametrize("config", [AugmentationConfig(), replace(OFF, crop_min_area=0.5)])
    def test_white_stays_within_range_and_a_crop_keeps_it_white(self, config: AugmentationConfig) -> None:
        result = augment(torch.ones(16, 3, 31, 31), config)
        assert result.max() <= 1
        if not config.jitters:
            torch.testing.assert_close(result, torch.ones(16, 3, 31, 31), atol=1e-6, rtol=0)

    def test_an_empty_batch_stays_empty(self) -> None:
        assert augment(torch.zeros(0, 3, 8, 8), EVERYTHING).shape == (0, 3, 8, 8)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_other_types_are_computed_in_float32_and_returned_in_their_own(self, dtype: torch.dtype) -> None:
        images = random_images(4).to(dtype)
        result = augment(images, EVERYTHING)
        assert result.dtype == dtype
        assert torch.equal(result, augment(images.float(), EVERYTHING).to(dtype))

    def test_autocast_around_the_call_changes_nothing(self) -> None:
        images = random_images(4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = augment(images, EVERYTHING)
        assert torch.equal(inside, augment(images, EVERYTHING))

    @pytest.mark.parametrize("config", [AugmentationConfig(), EVERYTHING, OFF, replace(OFF, flip_probability=0.5)])
    def test_the_memory_format_is_kept_and_does_not_matter(self, config: AugmentationConfig) -> None:
        images = random_images(5)
        channels_last = images.contiguous(memory_format=torch.channels_last)
        result = augment(channels_last, config)
        assert result.is_contiguous(memory_format=torch.channels_last)
        assert augment(images, config).is_contiguous()
        torch.testing.assert_close(result, augment(images, config), atol=1e-6, rtol=0)

    def test_images_seen_through_a_view_are_augmented_alike(self) -> None:
        one = random_images(1)
        view = one.expand(4, 3, 32, 32)
        assert torch.equal(augment(view, EVERYTHING), augment(view.clone(), EVERYTHING))
        assert torch.equal(one, random_images(1))

    def test_the_number_of_images_worked_on_at_a_time_does_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        images, config = random_images(7), EVERYTHING
        whole = augment(images, config)
        monkeypatch.setattr(augmentation, "_CPU_CHUNK_ELEMENTS", 2 * 3 * 32 * 32)
        torch.testing.assert_close(augment(images, config), whole, atol=1e-5, rtol=0)

    def test_no_value_is_ever_asked_back_from_the_device(self) -> None:
        # A fake tensor has no data, so any `.item()` or data-dependent shape raises.
        with FakeTensorMode():
            result = augment_batch(torch.rand(4, 3, 16, 16), EVERYTHING, torch.Generator().manual_seed(0))
        assert result.shape == (4, 3, 16, 16)

    @pytest.mark.slow
    def test_all_but_the_drawing_compiles_into_one_graph(self) -> None:
        images = random_images(4, 16, 16)
        drawn = draw_augmentation(images.shape, EVERYTHING, generator(0, "augment"))
        compiled = torch.compile(apply_augmentation, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(images, EVERYTHING, *drawn), augment(images, EVERYTHING))

    def test_noise_comes_last_and_has_its_strength(self) -> None:
        images = torch.full((4, 3, 64, 64), 0.5)
        config = replace(OFF, grey_probability=1.0, blur_probability=1.0, blur_sigma_min=2.0, noise_sigma=0.1)
        noise = augment(images, config) - 0.5
        assert abs(noise.mean()) < 0.003
        assert abs(noise.std() - 0.1) < 0.003
        neighbours = (noise[..., 1:] * noise[..., :-1]).mean() / noise.var()
        channels = (noise[:, 0] * noise[:, 1]).mean() / noise.var()
        assert abs(neighbours) < 0.03
        assert abs(channels) < 0.03

    def test_gradients_are_not_recorded(self) -> None:
        images = random_images(2).requires_grad_()
        assert not augment(images, EVERYTHING).requires_grad


class TestProbabilities:
    @pytest.mark.parametrize(
        "setting",
        [
            "flip_probability",
            "jitter_probability",
            "grey_probability",
            "blur_probability",
            "fourier_mix_probability",
            "texture_probability",
        ],
    )
    @pytest.mark.parametrize("probability", [0.5, 0.1, 1.0])
    def test_an_operation_touches_its_share_of_the_samples(self, setting: str, probability: float) -> None:
        n = 2000
        images = random_images(n, 4, 4)
        config = replace(OFF, blur_sigma_min=1.0, **{setting: probability})  # type: ignore[arg-type]
        touched = int(((augment(images, config) - images).abs().flatten(1).amax(1) > 1e-5).sum())
        spread = (n * probability * (1 - probability)) ** 0.5
        assert abs(touched - n * probability) <= 5 * spread + 2

    def test_operations_strike_independently_of_each_other(self) -> None:
        n = 2000
        images = random_images(n, 4, 4)
        result = augment(images, replace(OFF, flip_probability=0.5, grey_probability=0.5))
        grey = (result[:, 0] == result[:, 1]).flatten(1).all(1)
        luma = tv.rgb_to_grayscale(images, 1)
        unflipped = (tv.rgb_to_grayscale(result, 1) - luma).abs().flatten(1).amax(1) < 1e-3
        both = int((grey & ~unflipped).sum())
        assert abs(both - n / 4) <= 5 * (n * 3 / 16) ** 0.5


class TestBadInput:
    @pytest.mark.parametrize(
        "images",
        [
            torch.zeros(2, 3, 8, 8, dtype=torch.uint8),
            torch.zeros(3, 8, 8),
            torch.zeros(2, 8, 8, 3),
            torch.zeros(2, 1, 8, 8),
        ],
    )
    def test_images_of_another_kind_get_a_sentence(self, images: torch.Tensor) -> None:
        with pytest.raises(DataError, match=r"floating-point images \(n, 3, height, width\).*got"):
            augment(images, AugmentationConfig())

    def test_a_generator_on_another_device_gets_a_sentence(self) -> None:
        with pytest.raises(ConfigError, match=r"images are on meta.*generator is on cpu"):
            augment(torch.zeros(2, 3, 8, 8, device="meta"), AugmentationConfig())
