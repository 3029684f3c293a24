"""What networks that keep more or less of their pretrained weights answer, and what is known of each image beforehand.

    homefold bench leave-two-out --data pacs:PACS --weights FILE --methods without-projection --seeds 1 --out RUNS
    python study/share_dump.py RUNS --data pacs:PACS --weights FILE --out FOLDER

One file a run of `without-projection` in RUNS: for each share the probabilities for the held-out source
images and for all images of the unseen domain, with styles as they are and with styles moved, without projection of the
last feature. Beside them, how far each image's feature maps are from what the pretrained network met in ImageNet: the
batch-norm statistics that its file holds. The networks are found again in RUNS/stages; none is trained twice.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from homefold.config import HomefoldConfig, StyleConfig, config_from_dict
from homefold.config.whole import EARLY
from homefold.data import DomainDataset, load_dataset
from homefold.data.dataset import DatasetKeys
from homefold.evaluation.records import RunRecord, read_records
from homefold.features.batches import ImageStore
from homefold.features.network import FeatureNet
from homefold.runtime.device import resolve_device
from homefold.stages.encoder import build_net, frozen
from homefold.stages.style import with_style_blocks
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.stages.train import train_stages
from homefold.store.stage_store import StageStore

_AT_ONCE = 256


@torch.no_grad()
def published_distances(net: FeatureNet, pixels: np.ndarray, device: torch.device) -> np.ndarray:
    """`(n, layers, 2)`: how far the means and the log deviations of each batch norm's input are from its statistics.

    Root mean squares over the channels; means in units of the layer's own deviation.
    """
    found: list[torch.Tensor] = []

    def look(layer: _BatchNorm, inputs: tuple[torch.Tensor, ...]) -> None:
        maps = inputs[0].float()
        deviation = (layer.running_var + layer.eps).sqrt()
        mean = (maps.mean(dim=(2, 3)) - layer.running_mean) / deviation
        spread = (maps.std(dim=(2, 3)).clamp_min(1e-4) / deviation).log()
        found.append(torch.stack([mean.square().mean(1).sqrt(), spread.square().mean(1).sqrt()], dim=1))

    layers = [module for module in net.backbone.modules() if isinstance(module, _BatchNorm)]
    handles = [layer.register_forward_pre_hook(look) for layer in layers]
    store, rows = ImageStore(pixels, device), []
    for chunk in torch.arange(len(pixels)).split(_AT_ONCE):
        found.clear()
        net(store.batch(chunk))
        rows.append(torch.stack(found, dim=1).cpu())
    for handle in handles:
        handle.remove()
    return torch.cat(rows).numpy()


def answers(task: TrainingTask, share: float, pixels: np.ndarray) -> dict[str, np.ndarray]:
    """Probabilities of the network that keeps this share, by name."""
    config = replace(task.config, features=replace(task.config.features, keep_pretrained=share))
    trained = train_stages(replace(task, key=replace(task.key, config=config)), projected=False)
    images, name = ImageSet(pixels), f"{share:g}"
    plain = trained.answer(images, projected=False)
    styled = trained.answer(images, projected=False, styled=True)
    nearest = nn.functional.normalize(trained.feature_model.prepare(plain.features), dim=1)
    return {
        f"plain_{name}": plain.predictions.probabilities,
        f"styled_{name}": styled.predictions.probabilities,
        f"moved_{name}": nn.functional.cosine_similarity(plain.features, styled.features).cpu().numpy(),
        f"length_{name}": (plain.features.norm(dim=1) / nearest.shape[1] ** 0.5).cpu().numpy(),
    }


def dump(
    record: RunRecord, dataset: DomainDataset, weights: str, runs: Path, shares: list[float]
) -> dict[str, np.ndarray]:
    """Everything about the held-out source images and the target's, by name; rows in that order."""
    device = resolve_device("auto")
    config = config_from_dict(HomefoldConfig, record.config)
    config = with_style_blocks(
        replace(
            config,
            features=replace(config.features, weights=weights),
            style=StyleConfig(blocks=(EARLY,), manifold="mean", weight=0.5),
        )
    )
    source, target = dataset.only(*record.facts["sources"]), dataset.only(record.target)
    if kept := record.facts.get("source_images_per_class"):
        raise SystemExit(f"{record.run} was trained on {kept} images of each class; only whole sources are dumped.")
    key = TaskKey(DatasetKeys(source).of_labelled(np.arange(len(source))), config)
    task = TrainingTask(key, source, device, StageStore(runs / "stages"))
    held_out = task.split[1]
    pixels = np.concatenate([source.images[held_out], target.images])
    start = build_net(config, source.image_size, pretrained=True)
    frozen(start, device)
    rows = {
        "label": np.concatenate([source.labels[held_out], target.labels]),
        "domain": np.concatenate([source.domains[held_out], np.full(len(target), -1)]),
        "published": published_distances(start, pixels, device),
    }
    for share in shares:
        rows |= answers(task, share, pixels)
    return {name: value.astype(np.float16 if value.dtype.kind == "f" else np.int16) for name, value in rows.items()}


def main() -> None:
    """Dump each finished run, or this process's part of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.2, 0.4, 0.6, 0.8])
    parser.add_argument("--part", default="0/1", help="which part of the runs, as in 2/6")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    records = [r for r in read_records(options.runs / "records.jsonl") if r.accuracy is not None]
    records = sorted({r.run: r for r in records if r.method == "without-projection"}.values(), key=lambda r: r.run)
    part, parts = map(int, options.part.split("/"))
    name, _, root = options.data.partition(":")
    for record in records[part::parts]:
        side = record.config["preprocessing"]["image_size"]
        dataset = load_dataset(name, root=root or None, size=(side, side))
        rows = dump(record, dataset, options.weights, options.runs, options.shares)
        about = f"{'+'.join(record.facts['sources'])} {record.target} seed {record.seed}"
        np.savez_compressed(options.out / f"{record.run}.npz", about=np.array(about), **rows)
        held = rows["domain"] >= 0
        right = {n: (rows[n].argmax(1) == rows["label"])[held].mean() for n in rows if n.startswith("styled_")}
        print(about, "held-out images:", *(f"{n} {value:.3f}" for n, value in right.items()), flush=True)


if __name__ == "__main__":
    main()
