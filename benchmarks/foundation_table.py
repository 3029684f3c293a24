"""Accuracy on each held-out domain with frozen towers: the table of docs/foundation.md, as Markdown.

    python benchmarks/foundation_table.py pacs/ --weights auto
    python benchmarks/foundation_table.py pacs/ --tower resnet18=resnet18.safetensors --image-size 96

Every domain is held out once. What a tower makes of an image is computed once for all of them and kept in the cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from measuring import surroundings, write_result

from homefold import Homefold, preset_config
from homefold.data import load_dataset
from homefold.runtime.device import resolve_device

_SEEN = {
    "timm:vit_base_patch16_clip_224.openai": "yes: 400 million web images, not published",
    "timm:vit_base_patch16_siglip_224.webli": "yes: WebLI, not published",
    "timm:vit_small_patch14_dinov2.lvd142m": "yes: LVD-142M, web images",
    "timm:vit_small_patch16_dinov3.lvd1689m": "yes: LVD-1689M, web images",
    "resnet18": "photos only, as in ImageNet",
    "resnet50": "photos only, as in ImageNet",
}
_UNKNOWN = "unknown"


def row_of(data: str, tower: str, weights: str, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """One tower: accuracy on every domain, with projection, and the means with and without."""
    given: dict[str, Any] = {"features.backbone": tower, "features.weights": weights, "seed": options.seed}
    if options.image_size:
        given["preprocessing.image_size"] = options.image_size
    config = preset_config("foundation", given)
    side = config.preprocessing.image_size
    dataset = load_dataset(data, size=(side, side))
    found, plain = {}, []
    for domain in dataset.domain_names:
        model = Homefold(config, device=device).fit(dataset, holdout=domain)
        target = dataset.only(domain)
        answers = model.predict(target, compare=True)
        truth = np.array([model.class_names.index(name) for name in target.class_names])[target.labels]
        found[domain] = 100 * float((answers.indices == truth).mean())
        plain.append(100 * float((answers.unprojected == truth).mean()))
    return {
        "tower": tower,
        "image_size": side,
        **found,
        "mean": fmean(found.values()),
        "mean_without_projection": fmean(plain),
        "may_have_been_seen_in_pretraining": _SEEN.get(tower, _UNKNOWN),
    }


def as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table with one decimal."""
    lines = [[name.replace("_", " ") for name in rows[0]], ["---"] * len(rows[0])]
    lines += [[f"{value:.1f}" if isinstance(value, float) else str(value) for value in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(words: Sequence[str] | None = None) -> None:
    """Train, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a folder domain/class/image, its tar or zip, or the name of a dataset")
    parser.add_argument("--tower", action="append", metavar="NAME[=WEIGHTS]", help="by default the four that are known")
    parser.add_argument("--weights", default="auto", help="where none are named: auto, timm (download) or none")
    parser.add_argument("--image-size", type=int, help="by default the tower's own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args(words)
    device = resolve_device(options.device)
    facts = surroundings(device)
    rows = []
    for tower in options.tower or [name for name in _SEEN if name.startswith("timm:")]:
        name, _, weights = tower.partition("=")
        rows.append(row_of(options.data, name, weights or options.weights, options, device))
    print(as_markdown(rows))
    write_result(options.out, facts, rows, data=options.data, seed=options.seed)


if __name__ == "__main__":
    main()
