"""Features of a frozen tower: `homefold` beside a bare loop over the same timm model, and read back from the cache.

    python benchmarks/towers.py --device cpu --out results/towers_2core.json
    python benchmarks/towers.py --device cpu --images 10000 --side 48 --tower vit_tiny_patch16_224
    python benchmarks/towers.py --quick

The bare loop is what one writes first: batches of 32 bytes to floats, normalised, through the model. Both take turns
within each repeat; a pair of turns gives a ratio, and their median is reported. On a CPU the seconds are those of the
processor, as others may be using the machine; --wall takes those of the clock. What is done once a network (trying
which tile gives the same bytes, hashing its weights) is timed beside them and is in the second ratio alone. Weights are
random.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import torch
from measuring import made_up_dataset, print_table, seconds_of, surroundings, write_result

from homefold.config.normalisation import published_input
from homefold.features.backbones import build_backbone
from homefold.features.frozen import backbone_features, frozen_key
from homefold.features.network import FeatureNet
from homefold.runtime.device import resolve_device

_TOWERS = ("vit_small_patch14_dinov2", "vit_small_patch16_dinov3", "vit_base_patch32_clip_224")
_BATCH = 32

T = TypeVar("T")


@torch.no_grad()
def bare_loop(net: FeatureNet, images: np.ndarray, device: torch.device) -> torch.Tensor:
    """The model of timm over all images `(n, h, w, 3)`."""
    parts = []
    for start in range(0, len(images), _BATCH):
        pixels = torch.from_numpy(images[start : start + _BATCH]).to(device).permute(0, 3, 1, 2).float() / 255
        parts.append(net.backbone((pixels - net.mean) / net.std))
    return torch.cat(parts)


def _timed(function: Callable[[], T], device: torch.device, by_clock: bool) -> tuple[T, float]:
    found: list[T] = []
    before = time.process_time()
    seconds = seconds_of(lambda: found.append(function()), device)
    return found[0], seconds if by_clock else time.process_time() - before


def measured(
    name: str, images: np.ndarray, repeats: int, device: torch.device, *, wall: bool = False
) -> dict[str, object]:
    """One row: the time of either, of what is done once, and of reading it back."""
    by_clock = wall or device.type != "cpu"
    side = images.shape[1]
    normalisation = published_input(f"timm:{name}")["preprocessing.normalisation"]
    backbone = build_backbone(f"timm:{name}", "none", (side, side))
    net = FeatureNet(backbone, (side, side), head="none", feature_dim=0, normalisation=normalisation).to(device).eval()
    _, keying = _timed(lambda: frozen_key(net, device), device, by_clock)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOMEFOLD_CACHE"] = folder
        _, once = _timed(lambda: backbone_features(net, 255 - images[:1], device), device, by_clock)
    bare_times, own_times, read_times = [], [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HOMEFOLD_CACHE"] = folder
            bare, taken = _timed(lambda: bare_loop(net, images, device), device, by_clock)
            bare_times.append(taken)
            own, taken = _timed(lambda: backbone_features(net, images, device), device, by_clock)
            own_times.append(taken - keying)
            read, taken = _timed(lambda: backbone_features(net, images, device), device, by_clock)
            read_times.append(taken)
        torch.testing.assert_close(own, bare, rtol=1e-3, atol=1e-3)
        assert torch.equal(own, read)
    return {
        "network": name,
        "images": len(images),
        "image_size": side,
        "seconds_of": "clock" if by_clock else "processor",
        "bare_images_per_second": len(images) / median(bare_times),
        "images_per_second": len(images) / median(own_times),
        "times_bare_loop": median(own / bare for own, bare in zip(own_times, bare_times, strict=True)),
        "times_bare_loop_with_what_is_done_once": median(
            (own + once) / bare for own, bare in zip(own_times, bare_times, strict=True)
        ),
        "once_seconds": once,
        "read_back_seconds": median(read_times),
        "read_back_times_computed": median(read / own for read, own in zip(read_times, own_times, strict=True)),
    }


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tower", action="append", help="what timm calls it; may be given several times")
    parser.add_argument("--side", type=int, default=224, help="image size in pixels")
    parser.add_argument("--wall", action="store_true", help="seconds of the clock, on a machine that nobody else uses")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    device = resolve_device(arguments.device)
    facts = surroundings(device)
    kept = os.environ.get("HOMEFOLD_CACHE")
    try:
        if arguments.quick:
            rows = [measured("vit_tiny_patch16_224", made_up_dataset(12, 32).images, 1, device, wall=arguments.wall)]
        else:
            images = made_up_dataset(arguments.images, arguments.side).images
            # No two are the same, as the cache would see.
            images[:, 0, 0, :2] = np.stack(np.divmod(np.arange(len(images)) % 65536, 256), axis=1)
            rows = [
                measured(name, images, arguments.repeats, device, wall=arguments.wall)
                for name in arguments.tower or _TOWERS
            ]
    finally:
        if kept is None:
            del os.environ["HOMEFOLD_CACHE"]
        else:
            os.environ["HOMEFOLD_CACHE"] = kept
    print_table(f"Frozen towers, {facts['hardware']}", rows)
    write_result(arguments.out, facts, rows)


if __name__ == "__main__":
    main()
