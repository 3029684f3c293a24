"""Made the archives `format_1_*.tar.xz` beside it and `format_1_answers.npz`, once; kept to say how.

It ran on the package of commit e718438 (version 0.1.0, before any setting was removed):

    git archive e718438 src | tar -x -C OLD
    PYTHONPATH=OLD/src python tests/store/saved/make_format_1.py

Each archive holds one model folder of format 1: every preset with a small network on a few digits, and a
`ManifoldProjector` with each manifold. Weights of f are rounded to few digits, so that they can be compressed. The
answers are those of the loaded models, by the package that wrote them.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save

from homefold import Homefold, ManifoldProjector, preset_config
from homefold.data import DomainDataset, load_digits_mini

HERE = Path(__file__).parent
PRESETS = ("default", "thorough", "small", "small-thorough", "paper")
MANIFOLDS = ("vae", "gan", "nearest")
SMALL = {
    "preprocessing__image_size": 16,
    "features__backbone": "digits-bn",
    "features__weights": "none",
    "features__feature_dim": 16,
    "features__epochs": 3,
    "features__batch_size": 24,
    "features__augmentation__texture_probability": 0.0,
    "manifold__epochs": 200,
    "manifold__latent_dim": 4,
    "manifold__hidden": (32,),
    "classifier__epochs": 3,
}
# The paper's manifold is convolutional: it sees features as a square, and by SGD it would learn nothing from so few.
OF_PAPER = {
    "features__feature_dim": 64,
    "manifold__optimizer": "adamw",
    "manifold__learning_rate": 0.004,
    "projection__steps": 20,
}


def few_digits() -> DomainDataset:
    """Three classes, 12 images of each in every domain, 16 px."""
    digits = load_digits_mini()
    rows = [np.flatnonzero((digits.domains == d) & (digits.labels == c))[:12] for d in range(4) for c in range(3)]
    few = digits.subset(np.concatenate(rows))
    images = few.images.reshape(-1, 16, 2, 16, 2, 3).mean(axis=(2, 4)).round().astype(np.uint8)
    return DomainDataset(images, few.labels, few.domains, ("0", "1", "2"), few.domain_names, name="few digits")


def few_features() -> tuple[np.ndarray, np.ndarray]:
    """Three clusters in 12 dimensions, with labels of text."""
    random = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog", "owl"], 40)
    return np.repeat(random.normal(size=(3, 12)), 40, axis=0) + 0.3 * random.normal(size=(120, 12)), labels


def round_weights(folder: Path) -> None:
    """Keep three binary digits of each weight of f, and write checksums that are right."""
    file = folder / "features.safetensors"
    tensors = load_file(file)
    for name, value in tensors.items():
        if value.is_floating_point():
            mantissa, exponent = torch.frexp(value)
            tensors[name] = torch.ldexp((mantissa * 8).round() / 8, exponent).contiguous()
    file.write_bytes(save(tensors))
    description = json.loads((folder / "config.json").read_text())
    del description["checksum"]
    description["files"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    checksum = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
    text = json.dumps({**description, "checksum": checksum}, indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def pack(folder: Path, name: str) -> None:
    """The same bytes whenever and by whomever it is run."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime = info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mode = 0o644
        return info

    with tarfile.open(HERE / f"format_1_{name}.tar.xz", "w:xz") as archive:
        for file in sorted(folder.iterdir()):
            archive.add(file, file.name, filter=plain)


def main() -> None:
    """Train, save, load, answer."""
    torch.set_num_threads(1)
    digits = few_digits()
    street = digits.only("street").images[::6]
    answers = {"images": street}
    with tempfile.TemporaryDirectory() as place:
        for preset in PRESETS:
            folder = Path(place) / preset
            config = preset_config(preset, **(SMALL | OF_PAPER if preset == "paper" else SMALL))
            Homefold(config, device="cpu").fit(digits, holdout="street").save(folder)
            round_weights(folder)
            found = Homefold.load(folder, device="cpu").predict(street)
            answers[f"{preset} probabilities"] = found.probabilities
            answers[f"{preset} off_manifold"] = found.off_manifold
            pack(folder, preset)
        features, labels = few_features()
        answers["features"] = unseen = features[::9] + 0.5
        for manifold in MANIFOLDS:
            folder = Path(place) / manifold
            model = ManifoldProjector(
                manifold=manifold, latent_dim=4, hidden=(16,), manifold_epochs=200, random_state=3, device="cpu"
            )
            model.fit(features, labels).save(folder)
            found = ManifoldProjector.load(folder, device="cpu").explain(unseen)
            answers[f"{manifold} probabilities"] = found.probabilities
            answers[f"{manifold} off_manifold"] = found.off_manifold
            pack(folder, manifold)
    np.savez_compressed(HERE / "format_1_answers.npz", **answers)


if __name__ == "__main__":
    main()
