"""Stage 1 in its real loop: images a second, what augmentation takes of it, and how long the device stands idle.

    python benchmarks/training.py --device cuda --out results/h200/training.json
    python benchmarks/training.py --quick

Each row is a whole training by `train_features` on made-up images, as the preset `default` trains: an epoch with its
selection, the median over all but the first two, in which things are compiled and recorded. `augmentation_share`
compares it with the same training without augmentation; `idle_share` is the part of one epoch in which a profiler saw
nothing run on the device. Last comes the usual way in the same run: a DataLoader whose workers decode JPEGs with PIL
and vary them with torchvision.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from measuring import (
    made_up_dataset,
    peak_memory_bytes,
    print_table,
    seconds_of,
    surroundings,
    write_jpegs,
    write_result,
)
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from homefold import preset_config
from homefold.config import augmentation_preset
from homefold.data import DomainDataset
from homefold.features import FeatureConfig, batches, build_feature_net, train_features
from homefold.features.loss import pairwise_metric_loss
from homefold.runtime.device import autocast, resolve_device, resolve_precision

WAYS: dict[str, dict[str, str]] = {
    "eager": {"compile": "off", "cuda_graph": "off"},
    "recorded": {"compile": "off", "cuda_graph": "auto"},
    "compiled": {"compile": "on", "cuda_graph": "off"},
    "compiled and recorded": {"compile": "on", "cuda_graph": "auto"},
}
_UNSTEADY_EPOCHS = 2


@contextmanager
def images_kept(resident: bool) -> Iterator[None]:
    """Inside the block images are kept on the device, or copied there batch by batch."""
    decide = batches._fits
    batches._fits = lambda images, device: resident
    try:
        yield
    finally:
        batches._fits = decide


def train(
    config: FeatureConfig, dataset: DomainDataset, device: torch.device, on_epoch: Callable[[dict[str, float]], None]
) -> int:
    """One training; returns how many images an epoch has."""
    indices = np.random.default_rng(0).permutation(len(dataset))
    held_out, chosen = np.split(indices, [max(2 * len(dataset.class_names), len(dataset) // 50)])
    net = build_feature_net(config, dataset.image_size, normalisation="imagenet", seed=0, pretrained=True)
    train_features(config, net, dataset, chosen, held_out, seed=0, device=device, on_epoch=on_epoch)
    return len(chosen) // config.batch_size * config.batch_size


def epoch_seconds(config: FeatureConfig, dataset: DomainDataset, device: torch.device) -> tuple[float, int]:
    """Median seconds of an epoch once everything runs steadily, and its images."""
    times = [time.perf_counter()]
    images = train(config, dataset, device, lambda figures: times.append(time.perf_counter()))
    return median(np.diff(times)[min(_UNSTEADY_EPOCHS, config.epochs - 1) :].tolist()), images


def idle_share(config: FeatureConfig, dataset: DomainDataset, device: torch.device) -> float | None:
    """The part of an epoch in which no kernel ran and nothing was copied; None where a profiler cannot tell."""
    if device.type != "cuda":
        return None
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])

    def on_epoch(figures: dict[str, float]) -> None:
        if figures["epoch"] == _UNSTEADY_EPOCHS + 1:
            profiler.start()
        elif figures["epoch"] == _UNSTEADY_EPOCHS + 2:
            profiler.stop()

    train(replace(config, epochs=_UNSTEADY_EPOCHS + 2), dataset, device, on_epoch)
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profiler.events() or ()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )
    if not spans:
        return None
    busy, reached = 0.0, spans[0][0]
    for start, end in spans:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return 1 - busy / (reached - spans[0][0])


def copy_ahead_rates(dataset: DomainDataset, device: torch.device, size: int) -> dict[str, float]:
    """What copying batches ahead cannot exceed: images a second gathered on the host, and copied from pinned memory."""
    images = torch.from_numpy(dataset.images)
    buffer = torch.empty((size, *images.shape[1:]), dtype=torch.uint8, pin_memory=device.type == "cuda")
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(images)))
    rounds = max(1, min(20, len(images) // size))

    def gather() -> None:
        for i in range(rounds):
            torch.index_select(images, 0, order[i * size : (i + 1) * size], out=buffer)

    def copy() -> None:
        for _ in range(rounds):
            buffer.to(device, non_blocking=True)

    gathered, copied = (size * rounds / seconds_of(run, device) for run in (gather, copy))
    return {"gathered_per_second": gathered, "copied_per_second": copied}


class JpegFiles(Dataset[tuple[torch.Tensor, int]]):
    """Files decoded by PIL and varied by torchvision, one image at a time."""

    def __init__(self, paths: Sequence[Path], side: int, classes: int) -> None:
        self._paths, self._classes = paths, classes
        config = augmentation_preset("default")
        self._transform = v2.Compose(
            [
                v2.RandomResizedCrop(side, (config.crop_min_area, 1), (config.crop_min_aspect, config.crop_max_aspect)),
                v2.RandomHorizontalFlip(config.flip_probability),
                v2.ColorJitter(config.brightness, config.contrast, config.saturation, config.hue),
                v2.RandomGrayscale(config.grey_probability),
                v2.PILToTensor(),
            ]
        )

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self._paths[index]) as image:
            return self._transform(image.convert("RGB")), index % self._classes


def data_loader_seconds(
    config: FeatureConfig, side: int, files: Sequence[Path], device: torch.device, workers: int
) -> float:
    """Seconds an image takes when worker processes decode and vary, after a first epoch that starts them."""
    loader = DataLoader(
        JpegFiles(files, side, 7),
        config.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.type == "cuda",
    )
    net = build_feature_net(config, (side, side), normalisation="imagenet", seed=0, pretrained=True)
    net = net.to(device).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    dtype = resolve_precision(config.precision, device)
    seconds, images = 0.0, 0
    for epoch in range(2):
        began = time.perf_counter()
        for pixels, labels in loader:
            given = pixels.to(device, non_blocking=True).float().div_(255)
            given = given.contiguous(memory_format=torch.channels_last)
            with autocast(device, dtype):
                z = net(given)
            loss = pairwise_metric_loss(z.float(), labels.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            images += len(pixels) if epoch else 0
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - began
    return seconds / images


def measure(arguments: argparse.Namespace, device: torch.device, dataset: DomainDataset) -> list[dict[str, Any]]:
    recipe = FeatureConfig(cross_entropy_weight=1.0) if arguments.plain else preset_config("default").features
    config = replace(
        recipe,
        backbone=arguments.backbone,
        weights="none",
        epochs=arguments.epochs,
        batch_size=arguments.batch,
        select="last",
        learning_rate=0.01,
    )
    unvaried = augmentation_preset("none")
    rows: list[dict[str, Any]] = []
    for way in arguments.ways:
        for resident in (True, False) if way == arguments.ways[-1] else (True,):
            with images_kept(resident):
                one = replace(config, **WAYS[way])
                if device.type == "cuda":
                    torch.cuda.reset_peak_memory_stats(device)
                seconds, images = epoch_seconds(one, dataset, device)
                without, _ = epoch_seconds(replace(one, augmentation=unvaried), dataset, device)
                row = {
                    "way": way,
                    "images_kept": "on the device" if resident else "copied ahead",
                    "images_per_second": images / seconds,
                    "ms_per_batch": 1000 * seconds / images * arguments.batch,
                    "augmentation_share": 1 - without / seconds,
                    "idle_share": None,
                    "peak_memory_mb": peak_memory_bytes(device) / 1e6,
                    "times_data_loader": None,
                }
                rows.append(row)
                print(row, flush=True)
                if arguments.profile and resident:
                    row["idle_share"] = idle_share(one, dataset, device)
    if arguments.workers >= 0:
        with tempfile.TemporaryDirectory() as folder:
            files = write_jpegs(Path(folder), arguments.files, side=arguments.side)
            usual = 1 / data_loader_seconds(config, arguments.side, files, device, arguments.workers)
        for row in rows:
            row["times_data_loader"] = row["images_per_second"] / usual
        empty = dict.fromkeys(rows[0])
        rows.append(
            empty
            | {
                "way": "DataLoader, PIL, torchvision",
                "images_kept": f"{arguments.workers} workers",
                "images_per_second": usual,
                "ms_per_batch": 1000 / usual * arguments.batch,
                "times_data_loader": 1.0,
            }
        )
    return rows


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--images", type=int, default=8192)
    parser.add_argument("--side", type=int, default=224, help="image size in pixels")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), help="by default all but one on CUDA, eager elsewhere")
    parser.add_argument("--files", type=int, default=4096, help="JPEG files of the DataLoader")
    parser.add_argument("--workers", type=int, default=16, help="of the DataLoader; -1 leaves it out")
    parser.add_argument(
        "--plain", action="store_true", help="without MixStyle, Fourier mixing and averaged weights, as the DataLoader"
    )
    parser.add_argument("--no-profile", dest="profile", action="store_false")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    device = resolve_device(arguments.device)
    if arguments.quick:
        arguments.images, arguments.side, arguments.batch, arguments.epochs = 64, 32, 16, 3
        arguments.backbone, arguments.files, arguments.workers = "digits-bn", 32, 0
    arguments.ways = arguments.ways or (
        ["eager", "recorded", "compiled and recorded"] if device.type == "cuda" else ["eager"]
    )
    facts = surroundings(device)
    dataset = made_up_dataset(arguments.images, arguments.side)
    rates = copy_ahead_rates(dataset, device, arguments.batch)
    print(rates, flush=True)
    rows = measure(arguments, device, dataset)
    print_table(f"{arguments.backbone}, {arguments.side} px, batch {arguments.batch}, {facts['hardware']}", rows)
    names = ("backbone", "images", "side", "batch", "epochs", "files", "plain")
    settings = {name: getattr(arguments, name) for name in names}
    write_result(arguments.out, facts, rows, settings=settings, copy_ahead=rates)


if __name__ == "__main__":
    main()
