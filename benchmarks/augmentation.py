"""Time of augmenting one batch: homefold in plain torch, kornia, and torchvision image by image.

    python benchmarks/augmentation.py --device cpu --repeats 15 --out results.json

All contenders do the same operations with the same strengths on the same batch; they take turns within each repeat, so
that a busy machine slows all of them, and the median is reported.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torchvision.transforms import v2

from homefold.config import AugmentationConfig, augmentation_preset
from homefold.data.augmentation import (
    apply_augmentation,
    augment_batch,
    draw_augmentation,
)
from homefold.runtime.seeding import generator
from homefold.store.files import write_json

Contender = Callable[[Tensor], Tensor]

OURS, COMPILED, TORCHVISION = "homefold", "homefold, compiled", "torchvision, per image"
# kornia crops either sample by sample or all at once by resampling; which is faster depends on the device.
KORNIA_CROPS = {"kornia, slice crop": "slice", "kornia, resample crop": "resample"}


def ours(config: AugmentationConfig, device: torch.device) -> Contender:
    stream = generator(0, "benchmark", device=device)
    return lambda images: augment_batch(images, config, stream)


def ours_compiled(config: AugmentationConfig, device: torch.device) -> Contender:
    stream = generator(0, "benchmark", device=device)
    compiled = torch.compile(apply_augmentation, fullgraph=True, dynamic=False)
    return lambda images: compiled(images, config, *draw_augmentation(images.shape, config, stream))


def kornia(config: AugmentationConfig, size_px: int, cropping_mode: str) -> Contender:
    import kornia.augmentation as K

    steps: list[Any] = [
        K.RandomResizedCrop(
            (size_px, size_px),
            scale=(config.crop_min_area, 1.0),
            ratio=(config.crop_min_aspect, config.crop_max_aspect),
            cropping_mode=cropping_mode,
        ),
        K.RandomHorizontalFlip(p=config.flip_probability),
        K.ColorJitter(config.brightness, config.contrast, config.saturation, config.hue, p=config.jitter_probability),
        K.RandomGrayscale(p=config.grey_probability),
    ]
    if config.blur_probability > 0:
        kernel, sigma = (config.blur_kernel_px,) * 2, (config.blur_sigma_min, config.blur_sigma_max)
        steps.append(K.RandomGaussianBlur(kernel, sigma, p=config.blur_probability))
    if config.noise_sigma > 0:
        steps.append(K.RandomGaussianNoise(std=config.noise_sigma, p=1.0))
    sequence = K.AugmentationSequential(*steps, data_keys=["input"], same_on_batch=False)
    return lambda images: sequence(images).clamp_(0, 1)


def torchvision_per_image(config: AugmentationConfig, size_px: int) -> Contender:
    jitter = v2.ColorJitter(config.brightness, config.contrast, config.saturation, config.hue)
    ratio = (config.crop_min_aspect, config.crop_max_aspect)
    steps: list[torch.nn.Module] = [
        v2.RandomResizedCrop(size_px, scale=(config.crop_min_area, 1.0), ratio=ratio),
        v2.RandomHorizontalFlip(config.flip_probability),
        v2.RandomApply([jitter], config.jitter_probability),
        v2.RandomGrayscale(config.grey_probability),
    ]
    if config.blur_probability > 0:
        blur = v2.GaussianBlur(config.blur_kernel_px, (config.blur_sigma_min, config.blur_sigma_max))
        steps.append(v2.RandomApply([blur], config.blur_probability))
    if config.noise_sigma > 0:
        steps.append(v2.GaussianNoise(sigma=config.noise_sigma))
    transform = v2.Compose(steps)
    return lambda images: torch.stack([transform(image) for image in images])


def contenders(
    config: AugmentationConfig, size_px: int, device: torch.device, *, with_compiled: bool
) -> dict[str, Contender]:
    found = {OURS: ours(config, device)}
    if with_compiled:
        found[COMPILED] = ours_compiled(config, device)
    try:
        found |= {name: kornia(config, size_px, mode) for name, mode in KORNIA_CROPS.items()}
    except ModuleNotFoundError:
        print("kornia is not installed, so it is left out; `pip install kornia` brings it in.", file=sys.stderr)
    found[TORCHVISION] = torchvision_per_image(config, size_px)
    return found


def milliseconds(contender: Contender, images: Tensor) -> float:
    synchronise = torch.cuda.synchronize if images.device.type == "cuda" else lambda: None
    synchronise()
    start = time.perf_counter()
    contender(images)
    synchronise()
    return (time.perf_counter() - start) * 1e3


def measure(found: dict[str, Contender], images: Tensor, repeats: int) -> dict[str, list[float]]:
    for contender in found.values():
        milliseconds(contender, images)
        milliseconds(contender, images)
    times: dict[str, list[float]] = {name: [] for name in found}
    names = list(found)
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(milliseconds(found[name], images))
    return times


def processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def surroundings(device: torch.device) -> dict[str, Any]:
    """Hardware, versions, commit and command: what a reader needs to repeat the figures."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    packages = ("torch", "torchvision", "kornia")
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except ModuleNotFoundError:
            versions[package] = "not installed"
    return {
        "hardware": {
            "processor": processor_name(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        },
        "versions": versions,
        "commit": commit.stdout.strip() if commit.returncode == 0 else None,
        "command": "python " + shlex.join(sys.argv),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=9, help="timed calls of each contender")
    parser.add_argument("--batch", type=int, default=128, help="images in a batch")
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 224], help="image sizes in pixels")
    parser.add_argument("--presets", nargs="+", default=["default", "paper"])
    parser.add_argument("--threads", type=int, help="CPU threads; torch's own choice if not given")
    parser.add_argument("--compile", action="store_true", help="also time homefold under torch.compile")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    facts = surroundings(device)

    table = Table(title=f"one batch of {arguments.batch}, median of {arguments.repeats}, {device}")
    for heading in ("preset", "size px", "contender", "ms", "least ms", "times homefold"):
        table.add_column(heading, justify="left" if heading in ("preset", "contender") else "right")
    rows: list[dict[str, Any]] = []
    for preset in arguments.presets:
        for size_px in arguments.sizes:
            shape = (arguments.batch, 3, size_px, size_px)
            images = torch.rand(shape, generator=generator(0, "images", device=device), device=device)
            found = contenders(augmentation_preset(preset), size_px, device, with_compiled=arguments.compile)
            times = measure(found, images, arguments.repeats)
            for name, values in times.items():
                ratio = median(values) / median(times[OURS])
                row = {"preset": preset, "size_px": size_px, "batch": arguments.batch, "contender": name}
                rows.append(row | {"median_ms": median(values), "least_ms": min(values), "times_homefold": ratio})
                figures = (f"{median(values):.2f}", f"{min(values):.2f}", f"{ratio:.2f}")
                table.add_row(preset, str(size_px), name, *figures)
    Console(width=100).print(table)
    if arguments.out:
        write_json(arguments.out, facts | {"device": str(device), "repeats": arguments.repeats, "results": rows})


if __name__ == "__main__":
    main()
