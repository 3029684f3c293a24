"""Features of a folder of JPEGs: images a second that are decoded with one core, two, … all, and through the network.

    python benchmarks/decoding.py --images 8000 --out results/decoding.json
    python benchmarks/decoding.py --quick

Decoding is done by threads inside one process, then by decoder processes, started before the clock is; `homefold`
chooses between them (HOMEFOLD_DECODERS). The last rows take the same files to features, by threads and as it chooses.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import print_table, surroundings, write_jpegs, write_result

from homefold.data.archives import FileImage
from homefold.data.decoding.many import load_images, one_ahead
from homefold.data.decoding.pool import DecoderPool, allowed_cores
from homefold.data.index import LoadRequest
from homefold.features import FeatureConfig, build_feature_net, extract_features
from homefold.runtime.device import resolve_device
from homefold.runtime.progress import SilentReporter

_AT_ONCE = 512


def worker_counts(cores: int) -> list[int]:
    """1, 2, 4, … and all."""
    counts = [2**i for i in range(cores.bit_length()) if 2**i < cores]
    return [*counts, cores]


def decoded_by_threads(paths: Sequence[Path], side: int, workers: int) -> None:
    """Decode all files, a chunk at a time."""
    for start in range(0, len(paths), _AT_ONCE):
        load_images(paths[start : start + _AT_ONCE], size=(side, side), workers=workers)


def decoded_by_processes(paths: Sequence[Path], side: int, pool: DecoderPool) -> None:
    """The same by decoder processes."""
    for start in range(0, len(paths), _AT_ONCE):
        sources = [FileImage(path) for path in paths[start : start + _AT_ONCE]]
        images = np.empty((len(sources), side, side, 3), np.uint8)
        with SilentReporter().task("decoding images", total=len(sources)) as task:
            left = pool.decode_into(images, sources, range(len(sources)), LoadRequest(), task)
        if left:
            raise RuntimeError(f"the decoder processes left {len(left)} of {len(sources)} images")


def measured(decode: Callable[[], None], images: int) -> tuple[float, float]:
    """Images a second, and the seconds of processor time that one costs this process."""
    began, processor = time.perf_counter(), time.process_time()
    decode()
    return images / (time.perf_counter() - began), (time.process_time() - processor) / images


def features_per_second(
    paths: Sequence[Path], side: int, workers: int | None, backbone: str, device: torch.device
) -> float:
    """Images a second from files to features, decoded by so many threads; None for as `homefold` chooses."""
    config = FeatureConfig(backbone=backbone, weights="none")
    net = build_feature_net(config, (side, side), normalisation="imagenet", seed=0, pretrained=False)
    net = net.to(device).to(memory_format=torch.channels_last).eval()
    chunks = [paths[start : start + _AT_ONCE] for start in range(0, len(paths), _AT_ONCE)]
    # A whole chunk, so that decoder processes run already where they are used.
    extract_features(net, load_images(chunks[0], size=(side, side), workers=workers)[0][:64], device)
    began = time.perf_counter()
    decoded = one_ahead(
        lambda chunk: load_images(chunk, size=(side, side), workers=workers)[0], chunks, enabled=device.type != "cpu"
    )
    for images in decoded:
        extract_features(net, images, device).cpu()
    return len(paths) / (time.perf_counter() - began)


def row(decoders: str, cores: int, rate: float, processor: float, before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is written of one measurement; the first one is the measure of the others."""
    found = {
        "what": "decode and resize",
        "decoders": decoders,
        "cores": cores,
        "images_per_second": rate,
        "per_core": rate / cores,
        "times_one_thread": rate / (before[0]["images_per_second"] if before else rate),
        "own_processor_ms_per_image": 1000 * processor,
    }
    print(found, flush=True)
    return found


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--file-side", type=int, default=256, help="width and height of the files")
    parser.add_argument("--side", type=int, default=224, help="image size of the network")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--cores", type=int, default=allowed_cores())
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
        decoded_by_threads(paths[:64], arguments.side, 1)
        for workers in worker_counts(arguments.cores):
            found = measured(partial(decoded_by_threads, paths, arguments.side, workers), len(paths))
            rows.append(row("threads", workers, *found, rows))
        for workers in worker_counts(arguments.cores):
            with DecoderPool(workers) as pool:
                decoded_by_processes(paths[: 16 * workers], arguments.side, pool)
                found = measured(partial(decoded_by_processes, paths, arguments.side, pool), len(paths))
            rows.append(row("processes", workers, *found, rows))
        for decoders, workers in (("threads", arguments.cores), ("as chosen", None)):
            rate = features_per_second(paths, arguments.side, workers, arguments.backbone, device)
            last = {"what": f"to features, {arguments.backbone}", "decoders": decoders, "cores": arguments.cores}
            last |= {"images_per_second": rate, "per_core": rate / arguments.cores}
            rows.append(dict.fromkeys(rows[0]) | last)
    print_table(f"{arguments.images:,} JPEG files of {arguments.file_side} px, {facts['hardware']}", rows)
    write_result(arguments.out, facts, rows, images=arguments.images, file_side=arguments.file_side)


if __name__ == "__main__":
    main()
