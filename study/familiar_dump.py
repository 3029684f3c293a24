"""What a trained model knows of each image before it answers: unseen ones, and source images it did not learn from.

    homefold bench leave-two-out --data PACS --methods vae … --seeds 1 --out RUNS
    python study/familiar_dump.py RUNS --data PACS --out FOLDER

One file a run of `vae` in RUNS, `FOLDER/RUN.npz`, from which rules are tried that tell familiar images from others:
answers with and without projection, distances to the source manifold, and distances of its style to the styles of
each source domain after each block. The models are found again in RUNS/stages; nothing is trained twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from homefold import Homefold
from homefold.config import HomefoldConfig, config_from_dict
from homefold.data import DomainDataset, load_dataset
from homefold.data.splits import selection_split
from homefold.evaluation.protocols import few_of_each_class, source_dataset
from homefold.evaluation.records import RunRecord, read_records
from homefold.stages.task import ImageSet
from homefold.style.model import collect_styles


def dump(record: RunRecord, data: str, runs: Path, device: str) -> dict[str, np.ndarray]:
    """Everything about the held-out source images and the target's, by name; rows in that order."""
    config = config_from_dict(HomefoldConfig, record.config)
    whole = load_dataset(data, size=(config.preprocessing.image_size,) * 2)
    rows = np.flatnonzero(np.isin(whole.domains, [whole.domain_names.index(name) for name in record.facts["sources"]]))
    few = record.facts.get("source_images_per_class")
    kept = few_of_each_class(whole, rows, few, record.seed) if few else rows
    source, target, unused = source_dataset(whole, kept), whole.only(record.target), np.setdiff1d(rows, kept)
    model = Homefold(config, device=device).fit(source, work_dir=runs / "stages")
    train, held_out = selection_split(source, config.features.held_out, config.seed)
    pixels = np.concatenate([source.images[held_out], whole.images[unused], target.images])
    trained, images = model.trained, ImageSet(pixels)
    plain, styled, home = (
        trained.answer(images, projected=False),
        trained.answer(images, projected=False, styled=True),
        trained.answer(images),
    )
    prepared = trained.feature_model.prepare(plain.features)
    found = trained.feature_model.project(plain.features)
    bank = trained.feature_model.prepare(trained.encoder.of(ImageSet(source.images[train]))[0])
    nearest = torch.nn.functional.normalize(prepared, dim=1) @ torch.nn.functional.normalize(bank, dim=1).T
    found_rows = {
        "label": np.concatenate([source.labels[held_out], whole.labels[unused], target.labels]),
        "domain": np.concatenate([source.domains[held_out], whole.domains[unused], np.full(len(target), -1)]),
        "plain": plain.predictions.probabilities,
        "styled": styled.predictions.probabilities,
        "home": home.predictions.probabilities,
        "off_manifold": home.predictions.off_manifold,
        "similarity_plain": found.similarity_after.cpu().numpy(),
        "similarity_home": home.predictions.similarity_after,
        "nearest_5": nearest.topk(5, dim=1).values.cpu().numpy(),
        "moved": torch.nn.functional.cosine_similarity(plain.features, home.features).cpu().numpy(),
        **_style_distances(model, source, train, pixels),
    }
    return {
        name: value.astype(np.float16 if value.dtype.kind == "f" else np.int16) for name, value in found_rows.items()
    }


def _style_distances(
    model: Homefold, source: DomainDataset, train: np.ndarray, pixels: np.ndarray
) -> dict[str, np.ndarray]:
    """After each block that moves styles: root mean square of the standardised difference to each domain's styles."""
    blocks = model.trained.config.style.blocks
    found: dict[str, np.ndarray] = {}
    if not blocks:
        return found
    given = collect_styles(model.net, pixels, model.device, blocks)
    own = collect_styles(model.net, source.images[train], model.device, blocks)
    for name, seen, known in zip(blocks, given, own, strict=True):
        parts = [
            known[torch.from_numpy(source.domains[train] == d).to(known.device)] for d in np.unique(source.domains)
        ]
        parts.append(known)
        distances = [((seen - part.mean(0)) / part.std(0).clamp_min(1e-3)).square().mean(1).sqrt() for part in parts]
        found[f"style_{name}"] = torch.stack(distances, dim=1).cpu().numpy()
    return found


def main() -> None:
    """Dump each finished run of the whole method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=["vae"], help="as the records name them")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for record in read_records(options.runs / "records.jsonl"):
        if record.method not in options.methods or record.accuracy is None:
            continue
        rows = dump(record, options.data, options.runs, options.device)
        about = f"{record.method} {'+'.join(record.facts['sources'])} {record.target} seed {record.seed}"
        np.savez_compressed(options.out / f"{record.run}.npz", about=np.array(about), **rows)
        unseen = rows["domain"] < 0
        right = {name: rows[name].argmax(1) == rows["label"] for name in ("plain", "home")}
        said = [f"{name} {value[~unseen].mean():.3f} {value[unseen].mean():.3f}" for name, value in right.items()]
        print(about, "held out, unseen:", *said, flush=True)


if __name__ == "__main__":
    main()
