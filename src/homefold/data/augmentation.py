"""Augmentation of a whole batch on its device, each sample with its own random parameters.

The order is fixed: Fourier amplitude mixing, crop and flip, brightness, contrast, grey or saturation, hue, blur,
random filters, noise, clamp to [0, 1]. Grey stands where saturation does because neither saturation nor hue changes a
grey image.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from homefold.config.augmentation import AugmentationConfig
from homefold.data.random_texture import NUMBERS, filter_repeatedly, random_filters
from homefold.errors import ConfigError, DataError

__all__ = [
    "adjust_colour_",
    "apply_augmentation",
    "augment_batch",
    "crop_and_flip",
    "draw_augmentation",
    "gaussian_blur",
    "mix_amplitudes",
]

# The luma weights that torchvision's `rgb_to_grayscale` uses.
_RED, _GREEN, _BLUE = 0.2989, 0.587, 0.114

# One row of uniform numbers each, drawn whether used or not: switching one operation off leaves the others' draws.
_NAMES = """
    crop_area crop_aspect crop_top crop_left flip jitter brightness contrast saturation hue grey blur blur_sigma mix
    mix_ratio mix_partner
"""
_DRAWS = tuple(_NAMES.split())

_COLOURS = ("brightness", "contrast", "saturation", "hue")

# On a CPU so many values at a time stay in cache and in reused memory through all passes: twice as fast at 224 px.
_CPU_CHUNK_ELEMENTS = 310_000


def augment_batch(images: Tensor, config: AugmentationConfig, generator: torch.Generator) -> Tensor:
    """Vary every image of a batch by parameters of its own.

    The result depends on the images, the settings and the generator's state alone, and on a CPU it has the same bytes
    every time. Nothing waits for the device, so a CUDA graph can hold the call once it knows the generator
    (`torch.cuda.CUDAGraph.register_generator_state`). `torch.compile` takes no generators: give it
    `apply_augmentation`, and draw outside.

    Args:
        images: `(n, 3, height, width)` floating point in [0, 1], on any device; left as they are.
        config: what may happen, and how strongly.
        generator: on the device of the images.

    Returns:
        A new tensor of the same shape, type and memory format, in [0, 1]. Computed in float32.
    """
    _check(images, generator)
    if config.does_nothing or images.numel() == 0:
        return images.clone()
    return apply_augmentation(images, config, *draw_augmentation(images.shape, config, generator))


def draw_augmentation(
    shape: torch.Size | tuple[int, ...], config: AugmentationConfig, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    """All the random numbers that a batch of `shape` needs, on the generator's device.

    Returns:
        Uniform numbers `(parameters, n)`, with those of random filters after the others' where they are on, and
        standard normal noise of the batch's shape or `None` where it is off.
    """
    uniform = torch.rand((len(_DRAWS), shape[0]), generator=generator, device=generator.device)
    noise = torch.randn(shape, generator=generator, device=generator.device) if config.noise_sigma > 0 else None
    if config.texture_probability > 0:
        # Drawn last: what the others draw stays the same.
        texture = torch.rand((2 + NUMBERS, shape[0]), generator=generator, device=generator.device)
        uniform = torch.cat((uniform, texture))
    return uniform, noise


@torch.no_grad()
def apply_augmentation(
    images: Tensor, config: AugmentationConfig, uniform: Tensor, noise: Tensor | None = None
) -> Tensor:
    """Vary a batch by `uniform` and `noise` from `draw_augmentation`: what is not random of `augment_batch`."""
    with torch.autocast(images.device.type, enabled=False):
        plan = _plan(images.shape, config, uniform, noise)
        source = images
        if "mix_ratio" in plan:
            source = mix_amplitudes(images.float(), plan["mix_partners"], plan["mix_ratio"])
        result = torch.empty_like(images)
        rows = _rows_at_a_time(images)
        for start in range(0, len(images), rows):
            part = slice(start, start + rows)
            own = {name: values[part] for name, values in plan.items()}
            result[part] = _apply(source[part].float(), own, config)
    return result


def _check(images: Tensor, generator: torch.Generator) -> None:
    if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
        raise DataError(
            f"augmentation takes floating-point images (n, 3, height, width) in [0, 1]; got {images.dtype} "
            f"{tuple(images.shape)}. Bytes in (n, height, width, 3) become that by `.permute(0, 3, 1, 2) / 255`."
        )
    if generator.device.type != images.device.type:
        raise ConfigError(
            f"the images are on {images.device.type} but the random generator is on {generator.device.type}; "
            "make the generator with device=images.device."
        )


def _rows_at_a_time(images: Tensor) -> int:
    if images.device.type != "cpu":
        return len(images)
    chunks = math.ceil(len(images) / max(1, _CPU_CHUNK_ELEMENTS // images[0].numel()))
    return math.ceil(len(images) / chunks)


def _plan(shape: torch.Size, config: AugmentationConfig, uniform: Tensor, noise: Tensor | None) -> dict[str, Tensor]:
    """What will happen to each of n samples; an operation that is off for all of them is not in it."""
    height, width = shape[2:]
    u = dict(zip(_DRAWS, uniform[: len(_DRAWS)].unbind(), strict=True))
    plan = _colour_factors(u, config)
    if config.flip_probability > 0:
        plan["flips"] = u["flip"] < config.flip_probability
    if config.crop_min_area < 1:
        plan["boxes"] = _crop_boxes(u, height, width, config)
    if config.blur_probability > 0:
        sigma = config.blur_sigma_min + (config.blur_sigma_max - config.blur_sigma_min) * u["blur_sigma"]
        sigma = sigma * (u["blur"] < config.blur_probability)
        plan["blur_across"], plan["blur_down"] = _blur_matrices(sigma, config.blur_kernel_px, height, width)
    if config.mixes:
        plan["mix_partners"] = u["mix_partner"].argsort()
        plan["mix_ratio"] = config.fourier_mix_strength * u["mix_ratio"] * (u["mix"] < config.fourier_mix_probability)
    if config.texture_probability > 0:
        whether, passes, *_ = texture = uniform[len(_DRAWS) :]
        passes = 1 + (passes * config.texture_passes).long().clamp(max=config.texture_passes - 1)
        plan["filters"] = random_filters(texture[2:])
        plan["passes"] = passes * (whether < config.texture_probability)
    if noise is not None:
        plan["noise"] = noise
    return plan


def _colour_factors(u: Mapping[str, Tensor], config: AugmentationConfig) -> dict[str, Tensor]:
    """Brightness, contrast, saturation and hue as `adjust_colour_` takes them; grey is saturation zero."""
    jittered = u["jitter"] < config.jitter_probability
    factors: dict[str, Tensor] = {}
    for name in _COLOURS[:3] if config.jitters else ():
        if strength := getattr(config, name):
            low = max(0.0, 1 - strength)
            factors[name] = torch.where(jittered, low + (1 + strength - low) * u[name], 1.0)
    if config.grey_probability > 0:
        factors["saturation"] = factors.get("saturation", 1.0) * (u["grey"] >= config.grey_probability).float()
    if config.hue > 0 and config.jitters:
        factors["hue"] = (u["hue"] * 2 - 1) * config.hue * jittered
    return factors


def _crop_boxes(u: Mapping[str, Tensor], height: int, width: int, config: AugmentationConfig) -> Tensor:
    """Boxes `(n, 4)` whose area is uniform, with a log-uniform aspect among those that fit into the image."""
    area = config.crop_min_area + (1 - config.crop_min_area) * u["crop_area"]
    narrowest, widest = area * (width / height), (width / height) / area
    low = torch.minimum(narrowest.clamp(min=config.crop_min_aspect), widest)
    high = torch.maximum(widest.clamp(max=config.crop_max_aspect), narrowest)
    aspect = low * (high / low) ** u["crop_aspect"]
    area_px = area * (height * width)
    box_height = (area_px / aspect).sqrt().clamp(1, height)
    box_width = (area_px * aspect).sqrt().clamp(1, width)
    top, left = u["crop_top"] * (height - box_height), u["crop_left"] * (width - box_width)
    return torch.stack((top, left, box_height, box_width), dim=1)


def _apply(images: Tensor, plan: Mapping[str, Tensor], config: AugmentationConfig) -> Tensor:
    if "boxes" in plan:
        images = crop_and_flip(images, plan["boxes"], plan.get("flips"))
    elif "flips" in plan:
        images = torch.where(_per_sample(plan["flips"]), images.flip(3), images)
    else:
        images = images.clone(memory_format=torch.contiguous_format)
    images = adjust_colour_(images.contiguous(), **{name: plan[name] for name in _COLOURS if name in plan})
    if "blur_across" in plan:
        images = _transform_axes(images, plan["blur_across"], plan["blur_down"])
    if "filters" in plan:
        images = filter_repeatedly(images, plan["filters"], plan["passes"], config.texture_passes)
    if "noise" in plan:
        images.add_(plan["noise"], alpha=config.noise_sigma)
    return images.clamp_(0, 1)


def crop_and_flip(images: Tensor, boxes: Tensor, flips: Tensor | None = None) -> Tensor:
    """Cut a box out of every image and stretch it to the image's size, bilinearly, mirrored where asked.

    A box of whole pixels gives what torchvision's `resized_crop` gives; a box may also lie between pixels.

    Args:
        images: `(n, 3, height, width)` float32.
        boxes: `(n, 4)` top, left, height and width in pixels, inside the image and at least one pixel each way.
        flips: `(n,)` booleans, or `None` to mirror none.
    """
    n, _, height, width = images.shape
    top, left, box_height, box_width = boxes.unbind(1)
    y, x = _normalised_positions(top, box_height, height), _normalised_positions(left, box_width, width)
    if flips is not None:
        x = torch.where(flips[:, None], x.flip(1), x)
    planes = (x[:, None, :].expand(n, height, width), y[:, :, None].expand(n, height, width))
    grid = torch.stack(planes, dim=1).permute(0, 2, 3, 1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _normalised_positions(start: Tensor, length: Tensor, size: int) -> Tensor:
    """The places `(n, size)` along an axis that output pixels look at, as `grid_sample` counts them."""
    centres = torch.arange(size, device=start.device) + 0.5
    start, length = start[:, None], length[:, None]
    positions = start + centres * (length / size) - 0.5
    inside = torch.minimum(torch.maximum(positions, start), start + length - 1)
    return (2 * inside + 1) / size - 1


def adjust_colour_(
    images: Tensor,
    brightness: Tensor | None = None,
    contrast: Tensor | None = None,
    saturation: Tensor | None = None,
    hue: Tensor | None = None,
) -> Tensor:
    """Adjust brightness, then contrast, saturation and hue, in place, each as torchvision defines it.

    Args:
        images: contiguous `(n, 3, height, width)` float32 in [0, 1]; overwritten and returned.
        brightness, contrast, saturation: `(n,)` factors, 1 for no change; `None` here and below skips the adjustment.
        hue: `(n,)` shifts from -0.5 to 0.5 turns, 0 for no change.
    """
    if brightness is not None:
        images.mul_(_per_sample(brightness)).clamp_(max=1)
    if contrast is not None:
        means = images.mean((2, 3))
        mean = means[:, 0] * _RED + means[:, 1] * _GREEN + means[:, 2] * _BLUE
        images.mul_(_per_sample(contrast)).add_(_per_sample((1 - contrast) * mean)).clamp_(0, 1)
    if saturation is not None:
        red, green, blue = images.unbind(1)
        grey = (red * _RED).add_(green, alpha=_GREEN).add_(blue, alpha=_BLUE).unsqueeze_(1)
        images.mul_(_per_sample(saturation)).add_(grey.mul_(_per_sample(1 - saturation))).clamp_(0, 1)
    return images if hue is None else _shift_hue_(images, hue)


def _per_sample(values: Tensor) -> Tensor:
    return values[:, None, None, None]


def _shift_hue_(images: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue by `shift` turns, in HSV's hexagon, without divisions and without choosing sectors.

    With M and m the largest and smallest of (r, g, b), d = M - m and the hue h in sixths of a turn from -3 to 3,
    |h| d = M - 2m + g + b - r, with the sign of g - b. A channel at home at hue k (red 0, green 2, blue 4) has the
    value m + clamp(2d - t, 0, d) = clamp(2d - t + m, m, M), where t is d times the distance from k around the circle:
    with x = (h - k) d between -6d and 6d, t = 3d - ||x| - 3d|.
    """
    red, green, blue = images.unbind(1)
    largest, smallest = torch.maximum(red, green), torch.minimum(red, green)
    torch.maximum(largest, blue, out=largest)
    torch.minimum(smallest, blue, out=smallest)
    spread = largest - smallest
    hue = (green + blue).sub_(red).add_(largest).sub_(smallest, alpha=2).copysign_(green - blue)
    homes = torch.arange(0, 6, 2, device=images.device)
    offsets = torch.remainder(6 * shift[:, None] - homes + 3, 6) - 3
    floor = (smallest - spread)[:, None]
    spread, smallest, largest = spread[:, None], smallest[:, None], largest[:, None]
    torch.addcmul(hue[:, None], spread, offsets[:, :, None, None], out=images)
    return images.abs_().sub_(spread, alpha=3).abs_().add_(floor).clamp_(smallest, largest)


def gaussian_blur(images: Tensor, sigma: Tensor, kernel_px: int) -> Tensor:
    """Blur every image by its own Gaussian, reflecting at the border, as torchvision's `gaussian_blur` does.

    Args:
        images: contiguous `(n, 3, height, width)` float32.
        sigma: `(n,)` standard deviations in pixels; 0 leaves an image as it is.
        kernel_px: odd width of the window, cut to `2 * size - 1` along an axis of too few pixels to reflect.
    """
    return _transform_axes(images, *_blur_matrices(sigma, kernel_px, images.shape[2], images.shape[3]))


def _blur_matrices(sigma: Tensor, kernel_px: int, height: int, width: int) -> tuple[Tensor, Tensor]:
    across = _blur_matrix(sigma, kernel_px, width)
    return across, across if height == width else _blur_matrix(sigma, kernel_px, height)


def _blur_matrix(sigma: Tensor, kernel_px: int, size: int) -> Tensor:
    """`(n, size, size)`: row i holds the weights of pixel i's neighbours along an axis, reflection included."""
    radius = min(kernel_px // 2, size - 1)
    offsets = torch.arange(-radius, radius + 1, device=sigma.device)
    # exp underflows to exactly zero beside the middle at this floor, so sigma 0 is the identity.
    kernels = torch.exp(-0.5 * (offsets / sigma.clamp(min=1e-3)[:, None]) ** 2)
    kernels = kernels / kernels.sum(1, keepdim=True)
    pixels = torch.arange(size, device=sigma.device)
    neighbours = (size - 1) - ((size - 1) - (pixels + offsets[:, None]).abs()).abs()
    placement = (neighbours[:, :, None] == pixels).float()
    placed: Tensor = (kernels @ placement.flatten(1)).unflatten(1, (size, size))
    return placed


def _transform_axes(images: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Apply a matrix `(n, width, width)` to every row and a matrix `(n, height, height)` to every column."""
    images = torch.bmm(images.flatten(1, 2), across.transpose(1, 2)).view_as(images)
    return torch.matmul(down[:, None], images)


def mix_amplitudes(images: Tensor, partners: Tensor, ratio: Tensor) -> Tensor:
    """Mix the Fourier amplitudes of images with their partners' and keep their own phases.

    For the spectra F_i and F_p the result is the image of ((1 - λ)|F_i| + λ|F_p|) F_i / |F_i|, clamped to [0, 1]:
    amplitudes carry style, phases carry shape. Where F_i vanishes it has no phase and stays zero.

    Args:
        images, partners: `(n, 3, height, width)` float32, and `(n,)` indices into the batch.
        ratio: `(n,)` shares λ of the partner, from 0 (bit for bit the image itself) to 1.
    """
    images = images.contiguous()
    spectra = torch.fft.rfft2(images)
    amplitudes = spectra.abs()
    mixed = torch.lerp(amplitudes, amplitudes[partners], _per_sample(ratio))
    spectra = spectra * (mixed / amplitudes.clamp(min=1e-12))
    restyled = torch.fft.irfft2(spectra, s=images.shape[2:]).clamp_(0, 1)
    return torch.where(_per_sample(ratio) > 0, restyled, images)
