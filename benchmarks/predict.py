"""`homefold predict` on a folder of JPEGs beside a bare torchvision loop: start-up, images a second, peak memory.

    python benchmarks/predict.py --images 10000 --out results/h200/predict.json
    python benchmarks/predict.py --quick

Both run as processes of their own on the same files with a ResNet-18. The bare loop is what one writes first
(`bare_loop.py`). Start-up is the time for one image; images a second come from what the others add to it. Processor
seconds are those of all cores together, workers included: on a busy machine they are the fairer ratio.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from measuring import clustered_features, made_up_dataset, print_table, surroundings, write_jpegs, write_result

from homefold import Homefold, preset_config
from homefold.classifier import ClassifierConfig
from homefold.runtime.device import resolve_device
from homefold.stages.encoder import Encoder, build_net, frozen
from homefold.stages.feature_model import fit_feature_model
from homefold.stages.trained_model import TrainedModel
from homefold.style import fit_style, styled_net

_CLASSES = 7


def make_model(folder: Path, preset: str, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
    """A model folder whose network is untrained: answering takes as long as with a trained one."""
    config = preset_config(preset, {"features.weights": "none", "manifold.epochs": 60, **settings})
    cpu = torch.device("cpu")
    model = Homefold(config, device=cpu)
    config = model._checked_config()
    net = frozen(build_net(config, model._size, pretrained=False), cpu)
    shown = made_up_dataset(3 * _CLASSES, model._size[0])
    style = None
    if config.style.blocks:
        rows = np.arange(len(shown))
        style = fit_style(config.style, net, shown.images, rows, domains=shown.domains, device=cpu)
    z, labels = clustered_features(420, net.feature_dim, _CLASSES)
    feature_model = fit_feature_model(
        z[:350],
        labels[:350],
        z[350:],
        labels[350:],
        replace(config, classifier=ClassifierConfig(epochs=5)),
        class_names=tuple(f"class {i}" for i in range(_CLASSES)),
        device=cpu,
    )
    reports = {
        "images": {"trained_on": 0, "held_out": 0, "skipped": []},
        "features": {"criterion": "none", "held_out_loss": 0.0, "selected_epoch": 1},
        "manifold": feature_model.manifold.report.as_dict(),
        "classifier": {"held_out_accuracy": feature_model.classifier.held_out_accuracy},
    }
    styled = None if style is None else Encoder(cpu, styled_net(net, style))
    model._trained = TrainedModel(config, Encoder(cpu, net), feature_model, ("made up",), reports, style, styled)
    model.save(folder)


def run(words: Sequence[str]) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak megabytes of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(words)} ended with status {status}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def measure(arguments: argparse.Namespace, device: torch.device, folder: Path) -> list[dict[str, Any]]:
    model = folder / "model"
    make_model(model, arguments.preset)
    few, many = folder / "few", folder / "many"
    write_jpegs(few, 1)
    write_jpegs(many, arguments.images)
    predict = [sys.executable, "-m", "homefold", "predict", str(model)]
    to_file = ["--json", "--out", str(folder / "answers"), "--device", str(device)]
    side = "224" if arguments.preset == "default" else "32"
    bare = [sys.executable, str(Path(__file__).with_name("bare_loop.py"))]
    bare_settings = ["--device", str(device), "--workers", str(arguments.workers), "--side", side]
    ways = {
        "bare torchvision loop": lambda files: [*bare, str(files), str(folder / "answers"), *bare_settings],
        "homefold predict --no-projection": lambda files: [*predict, str(files), *to_file, "--no-projection"],
        "homefold predict": lambda files: [*predict, str(files), *to_file],
    }
    rows: list[dict[str, Any]] = []
    for name, command in ways.items():
        # The second start finds everything in the disk cache, as it does in daily use.
        start_up = min(run(command(few))[0] for _ in range(2))
        seconds, processor, peak = run(command(many))
        rows.append(
            {
                "way": name,
                "start_up_seconds": start_up,
                "images_per_second": (arguments.images - 1) / max(seconds - start_up, 1e-9),
                "seconds": seconds,
                "peak_memory_mb": peak,
                "processor_seconds": processor,
                "times_bare_loop": seconds / (rows[0]["seconds"] if rows else seconds),
                "times_its_processor": processor / (rows[0]["processor_seconds"] if rows else processor),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the bare loop")
    parser.add_argument("--preset", choices=["default", "small"], default="default")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    device = resolve_device(arguments.device)
    if arguments.quick:
        arguments.images, arguments.preset, arguments.workers = 8, "small", 0
    facts = surroundings(device)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(arguments, device, Path(folder))
    print_table(f"{arguments.images:,} JPEG files, preset {arguments.preset}, {facts['hardware']}", rows)
    write_result(arguments.out, facts, rows, images=arguments.images, preset=arguments.preset)


if __name__ == "__main__":
    main()
