"""Features of a folder of JPEGs: images a second that are decoded with one core, two, … all, and through the network.

    python benchmarks/decoding.py --images 8000 --out results/decoding.json
    python benchmarks/decoding.py --quick

Decoding is threads inside one process, as `homefold` does it. The last row takes the same files to
features.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from measuring import print_table, surroundings, write_jpegs, write_result

from homefold.data.decoding import one_ahead
from homefold.data.folder import load_images
from homefold.device import resolve_device
from homefold.features import FeatureConfig, build_feature_net, extract_features

_AT_ONCE = 512


def worker_counts(cores: int) -> list[int]:
    """1, 2, 4, … and all."""
    counts = [2**i for i in range(cores.bit_length()) if 2**i < cores]
    return [*counts, cores]


def decoded_per_second(paths: Sequence[Path], side: int, workers: int) -> tuple[float, float]:
    """Images a second, and the processor seconds that one takes."""
    began, processor = time.perf_counter(), time.process_time()
    for start in range(0, len(paths), _AT_ONCE):
        load_images(paths[start : start + _AT_ONCE], size=(side, side), workers=workers)
    return len(paths) / (time.perf_counter() - began), (time.process_time() - processor) / len(paths)


def features_per_second(paths: Sequence[Path], side: int, workers: int, backbone: str, device: torch.device) -> float:
    """Images a second from files to features."""
    config = FeatureConfig(backbone=backbone, weights="none")
    net = build_feature_net(config, (side, side), normalisation="imagenet", seed=0, pretrained=False)
    net = net.to(device).to(memory_format=torch.channels_last).eval()
    chunks = [paths[start : start + _AT_ONCE] for start in range(0, len(paths), _AT_ONCE)]
    extract_features(net, load_images(paths[:64], size=(side, side))[0], device)
    began = time.perf_counter()
    decoded = one_ahead(
        lambda chunk: load_images(chunk, size=(side, side), workers=workers)[0], chunks, enabled=device.type != "cpu"
    )
    for images in decoded:
        extract_features(net, images, device).cpu()
    return len(paths) / (time.perf_counter() - began)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--file-side", type=int, default=256, help="width and height of the files")
    parser.add_argument("--side", type=int, default=224, help="image size of the network")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    if arguments.quick:
        arguments.images, arguments.side, arguments.backbone, arguments.cores = 16, 32, "digits-bn", 2
    device = resolve_device(arguments.device)
    facts = surroundings(device)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = write_jpegs(Path(folder), arguments.images, side=arguments.file_side)
        decoded_per_second(paths[:64], arguments.side, 1)
        for workers in worker_counts(arguments.cores):
            rate, processor = decoded_per_second(paths, arguments.side, workers)
            rows.append(
                {
                    "what": "decode and resize",
                    "cores": workers,
                    "images_per_second": rate,
                    "per_core": rate / workers,
                    "times_one_core": rate / (rows[0]["images_per_second"] if rows else rate),
                    "processor_ms_per_image": 1000 * processor,
                }
            )
            print(rows[-1], flush=True)
        rate = features_per_second(paths, arguments.side, arguments.cores, arguments.backbone, device)
    last = {"what": f"to features, {arguments.backbone}", "cores": arguments.cores, "images_per_second": rate}
    rows.append(dict.fromkeys(rows[0]) | last | {"per_core": rate / arguments.cores})
    print_table(f"{arguments.images:,} JPEG files of {arguments.file_side} px, {facts['hardware']}", rows)
    write_result(arguments.out, facts, rows, images=arguments.images, file_side=arguments.file_side)


if __name__ == "__main__":
    main()
