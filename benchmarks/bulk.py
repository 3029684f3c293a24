"""Answers in shards: images a second of one worker, of several and of Ray's, beside a bare torchvision loop.

    python benchmarks/bulk.py --images 400 --out results/bulk_2core.json
    python benchmarks/bulk.py --quick

Every way has one thread a worker and answers the same JPEG files with a ResNet-18. Start-up is the time for one image;
images a second come from what the others add to it. Memory is that of the largest process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from measuring import print_table, surroundings, write_jpegs, write_result
from predict import make_model, run


def measure(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    model, few, many = folder / "model", folder / "few", folder / "many"
    make_model(model, arguments.preset)
    write_jpegs(few, 1)
    write_jpegs(many, arguments.images)
    side = "224" if arguments.preset == "default" else "32"
    bare = [sys.executable, str(Path(__file__).with_name("bare_loop.py"))]
    predict = [sys.executable, "-m", "homefold", "predict", str(model)]
    out = folder / "answers"

    def bulk(files: Path, workers: int, *more: str) -> list[str]:
        shutil.rmtree(out, ignore_errors=True)
        size = ["--shard-size", str(arguments.shard_size), "--workers", str(workers)]
        return [*predict, str(files), "--out", f"{out}/", *size, "--device", "cpu", *more]

    ways: dict[str, tuple[int, Any]] = {
        "bare torchvision loop": (1, lambda files: [*bare, str(files), str(folder / "labels"), "--side", side]),
        "1 worker": (1, lambda files: bulk(files, 1)),
    }
    for workers in arguments.workers:
        ways[f"{workers} workers"] = workers, lambda files, workers=workers: bulk(files, workers)
        ways[f"{workers} workers on Ray"] = workers, lambda files, workers=workers: bulk(files, workers, "--on", "ray")
    rows: list[dict[str, Any]] = []
    rates: dict[str, float] = {}
    for name, (workers, command) in ways.items():
        start_up = run(command(few))[0]
        seconds, processor, peak = run(command(many))
        rate = rates[name] = (arguments.images - 1) / max(seconds - start_up, 1e-9)
        rows.append(
            {
                "way": name,
                "start_up_seconds": start_up,
                "seconds": seconds,
                "images_per_second": rate,
                "times_bare_loop": rate / rates["bare torchvision loop"],
                "of_linear": rate / (workers * rates.get("1 worker", rate)),
                "processor_seconds": processor,
                "peak_memory_mb": peak,
            }
        )
        print(rows[-1], flush=True)
    return rows


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--shard-size", type=int, default=40)
    parser.add_argument("--workers", type=int, nargs="*", default=[os.cpu_count() or 1])
    parser.add_argument("--preset", choices=["default", "small"], default="default")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    if arguments.quick:
        arguments.images, arguments.preset, arguments.workers, arguments.shard_size = 8, "small", [], 4
    os.environ["OMP_NUM_THREADS"] = "1"
    facts = surroundings(torch.device("cpu"))
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(arguments, Path(folder))
    print_table(f"{arguments.images:,} JPEG files, preset {arguments.preset}, {facts['hardware']}", rows)
    write_result(
        arguments.out,
        facts,
        rows,
        images=arguments.images,
        preset=arguments.preset,
        shard_size=arguments.shard_size,
        threads_a_worker=1,
    )


if __name__ == "__main__":
    main()
