"""An exported model in onnxruntime beside torch: the whole answer, images in memory to probabilities.

    python benchmarks/export.py --out results/export_2core.json
    python benchmarks/export.py --quick

Both take turns on the same images, each on one thread; a pair of turns gives a ratio, and their median is reported with
the least and the most. Seconds are those of the processor, as others may be using the machine. Decoding is in neither.
Networks are untrained, which changes no time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from measuring import made_up_dataset, print_table, surroundings, write_result
from predict import make_model

from homefold import Homefold
from homefold.export import export_onnx
from homefold.export.onnx import session, time_ratios

# No ResNet: an untrained one amplifies rounding so much that its export cannot be compared with it.
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "small": ("small", {}),
    "vit-tiny": ("foundation", {"features.backbone": "timm:vit_tiny_patch16_224"}),
}
_BATCHES = (1, 16)


def rows_of(name: str, batches: Sequence[int], seconds: float) -> Iterator[dict[str, Any]]:
    """One row for each batch size; both are asked for as many images in turn as take so many seconds."""
    preset, settings = _MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder) / "model", preset, settings)
        model = Homefold.load(Path(folder) / "model", device="cpu")
        found = export_onnx(model, Path(folder) / "onnx")
        runtime = session(Path(folder) / "onnx" / "model.onnx", threads=1)
    for batch in batches:
        images = made_up_dataset(batch, model.config.preprocessing.image_size).images
        time_ratios(model, runtime, images, turns=1)
        ends, ratios, torch_seconds = time.monotonic() + seconds, [], []
        while time.monotonic() < ends or len(ratios) < 3:
            ratio, taken = time_ratios(model, runtime, images, 1, time.process_time)[0]
            ratios.append(ratio)
            torch_seconds.append(taken)
        yield {
            "model": name,
            "images_at_once": batch,
            "turns": len(ratios),
            "torch_images_per_second": batch / median(torch_seconds),
            "times_torch": median(ratios),
            "least": min(ratios),
            "most": max(ratios),
            "probability_difference": found.probability_difference,
            "nodes": found.nodes,
        }


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0, help="for each row")
    parser.add_argument("--model", action="append", choices=list(_MODELS), help="may be given several times")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    facts = surroundings(torch.device("cpu"))
    chosen = list(_MODELS)[:1] if arguments.quick else arguments.model or list(_MODELS)
    batches, seconds = ((2,), 0.0) if arguments.quick else (_BATCHES, arguments.seconds)
    rows = [row for name in chosen for row in rows_of(name, batches, seconds)]
    print_table(f"onnxruntime beside torch, one thread, {facts['hardware']}", rows)
    write_result(arguments.out, facts, rows)


if __name__ == "__main__":
    main()
