"""What it costs that an answer does not depend on its batch: fixed tiles against one plain batch, on this machine.

For one image and for 64 at once, the network alone and the whole prediction with projection, each as a ratio to a plain
forward pass of the same images in one batch.

    python benchmarks/stateless_price.py --out results/stateless_price.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from homefold.classifier import ClassifierConfig
from homefold.features import FeatureNet, build_backbone, extract_features
from homefold.features.extraction import image_tile
from homefold.manifold import ManifoldConfig
from homefold.runtime.provenance import hardware, versions
from homefold.stages.description import ProjectorConfig
from homefold.stages.feature_model import FeatureModel, fit_feature_model

CASES = (("resnet18", 224, "imagenet", "mlp"), ("digits-bn", 32, "half", "linear"))


def home(feature_dim: int, device: torch.device) -> FeatureModel:
    """Stages 2 and 3 on made-up clustered features: their speed does not depend on what they mean."""
    random = torch.Generator().manual_seed(0)
    centres = torch.randn(7, feature_dim, generator=random)
    labels = torch.arange(400) % 7
    z = centres[labels] + 0.3 * torch.randn(400, feature_dim, generator=random)
    return fit_feature_model(
        z[:350],
        labels[:350],
        z[350:],
        labels[350:],
        ProjectorConfig(manifold=ManifoldConfig(epochs=60), classifier=ClassifierConfig(epochs=5)),
        class_names=tuple("abcdefg"),
        device=device,
    )


def interleaved(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of each, measured in turns so that a noisy moment hits all of them."""
    for function in functions.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            times[name].append(1000 * (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cpu")
    rows = []
    for name, side, normalisation, head in CASES:
        net = FeatureNet(build_backbone(name), (side, side), head=head, normalisation=normalisation)  # type: ignore[arg-type]
        net = net.to(memory_format=torch.channels_last).eval().requires_grad_(False)
        model = home(net.feature_dim, device)
        for count in (1, 64):
            images = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), dtype=np.uint8)
            batch = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
            z = extract_features(net, images, device)
            found = interleaved(
                {
                    "plain": lambda net=net, batch=batch: net(batch),
                    "tiled": lambda net=net, images=images: extract_features(net, images, device),
                    "projection": lambda model=model, z=z: model.predict(z),
                },
                arguments.repeats,
            )
            rows.append(
                {
                    "network": name,
                    "image_px": side,
                    "images": count,
                    "tile": image_tile((side, side), device),
                    "plain_ms_per_image": round(found["plain"] / count, 3),
                    "network_in_tiles_over_plain": round(found["tiled"] / found["plain"], 2),
                    "projection_over_plain": round(found["projection"] / found["plain"], 3),
                }
            )
            print(rows[-1], flush=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    result = {
        "command": " ".join(["python", *sys.argv]),
        "commit": commit,
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "rows": rows,
    }
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
