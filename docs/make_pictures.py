"""Draw the pictures of README.md and of docs/how-it-works.md, with the embedded dataset, into docs/_static.

    python docs/make_pictures.py             # two to three minutes on 2 cores
    python docs/make_pictures.py --epochs 1 --out elsewhere

A PNG keeps the figures that its caption names, under `facts`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from homefold import Homefold, ManifoldProjector, preset_config
from homefold.data import DomainDataset, load_digits_mini
from homefold.features import build_feature_net, extract_features
from homefold.runtime.device import resolve_device

TARGET = "street"
NEIGHBOURS = 4
# From the palette of Okabe and Ito, which colour-blind readers can tell apart.
RIGHT, WRONG, PLAIN = "#0072B2", "#D55E00", "#444444"
COLOURS = ("#0072B2", "#E69F00", "#009E73")


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Train once, draw all pictures, and return the facts of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "_static")
    parser.add_argument("--epochs", type=int, default=30)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "homefold"})
    source, unseen = load_digits_mini().without(TARGET), load_digits_mini().only(TARGET)
    config = preset_config("small", {"features.epochs": given.epochs})
    model = Homefold(config, device="cpu").fit(source)
    return {
        name: draw(given.out / f"{name}.png", model, source, unseen)
        for name, draw in (("homecoming", homecoming), ("similarity", similarity), ("manifold", manifold))
    }


def homecoming(path: Path, model: Homefold, source: DomainDataset, unseen: DomainDataset) -> dict[str, float]:
    """Unseen images with their labels, and their nearest source images, before and after."""
    answers = model.predict(unseen, compare=True)
    before, after, truth = answers.unprojected, answers.indices, unseen.labels
    corrected = np.flatnonzero((before != truth) & (after == truth))
    spoiled = np.flatnonzero((before == truth) & (after != truth))
    rows = np.concatenate([_spread(corrected, 3), _spread(spoiled, 1)])
    bank = model.feature_model.prepare(torch.from_numpy(model.features(source)))
    plain = model.feature_model.prepare(torch.from_numpy(model.features(unseen.images[rows])))
    home = model.project(unseen.images[rows]).features
    names = unseen.class_names

    figure = plt.figure(figsize=(8.4, 0.45 + 0.98 * len(rows)))
    grid = figure.add_gridspec(
        len(rows), 2 * NEIGHBOURS + 5, left=0.01, right=0.99, top=0.91, bottom=0.01, wspace=0.12, hspace=0.12,
        width_ratios=[1.15, *(2 * [1.35, *NEIGHBOURS * [1], 0.15])],
    )  # fmt: skip
    for i, row in enumerate(rows):
        image = figure.add_subplot(grid[i, 0])
        _show(image, unseen.images[row], PLAIN)
        if i == 0:
            _head(image, "unseen")
        for k, (title, z, label) in enumerate((("before", plain[i], before[row]), ("after", home[i], after[row]))):
            first = 1 + k * (NEIGHBOURS + 2)
            _answer(figure.add_subplot(grid[i, first]), names[label], label == truth[row])
            for n, index in enumerate(_nearest(z, bank)):
                axis = figure.add_subplot(grid[i, first + 1 + n])
                _show(axis, source.images[index], RIGHT if source.labels[index] == truth[row] else WRONG)
                if i == 0 and n == 0:
                    _head(axis, f"nearest source images {title}", where="left")
            if i == 0:
                _head(figure.axes[-NEIGHBOURS - 1], title)
    facts = {
        "images": len(unseen),
        "corrected": len(corrected),
        "spoiled": len(spoiled),
        "accuracy_before": float((before == truth).mean()),
        "accuracy_after": float((after == truth).mean()),
    }
    return _save(figure, path, facts)


def similarity(path: Path, model: Homefold, source: DomainDataset, unseen: DomainDataset) -> dict[str, float]:
    """Cosine similarities of the features of a few images, with the network as drawn at random and as trained."""
    per_class = 9
    rows = np.concatenate([_spread(np.flatnonzero(source.labels == label), per_class) for label in range(10)])
    device = resolve_device("cpu")
    config = model.config
    size = (config.preprocessing.image_size, config.preprocessing.image_size)
    how = config.preprocessing.normalisation
    start = build_feature_net(config.features, size, normalisation=how, seed=config.seed, pretrained=False).eval()
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.7), layout="constrained")
    facts = {}
    for axis, net, title in ((axes[0], start, "before training"), (axes[1], model.net, "after training")):
        z = torch.nn.functional.normalize(extract_features(net, source.images[rows], device), dim=1)
        pairs = (z @ z.T).numpy()
        shown = axis.imshow(pairs, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        axis.set_title(title)
        axis.set_xticks(np.arange(10) * per_class + per_class / 2 - 0.5, source.class_names)
        axis.set_yticks(np.arange(10) * per_class + per_class / 2 - 0.5, source.class_names)
        axis.tick_params(length=0)
        same = source.labels[rows][:, None] == source.labels[rows][None]
        facts[title.replace(" ", "_")] = float(pairs[same].mean() - pairs[~same].mean())
    figure.colorbar(shown, ax=axes, label="cosine similarity", shrink=0.8)
    return _save(figure, path, facts)


def manifold(path: Path, model: Homefold, source: DomainDataset, unseen: DomainDataset) -> dict[str, float]:
    """Features of two dimensions, the manifold that a VAE with one latent learns of them, and new ones coming home."""
    random = np.random.default_rng(0)
    place = random.uniform(0, 1, 900)
    labels = np.minimum((3 * place).astype(int), 2)
    ground = _curve(place) + random.normal(0, 0.05, (900, 2))
    projector = ManifoldProjector(
        latent_dim=1, hidden=(64, 64), normalise=False, manifold_epochs=400, kl_weight=1e-4, steps=200, device="cpu"
    ).fit(ground, labels)
    new = _curve(np.array([0.08, 0.3, 0.52, 0.7, 0.93])) * np.array([[1.25], [0.72], [1.3], [0.75], [1.2]])
    home = projector.transform(new)
    figure, axis = plt.subplots(figsize=(5.6, 2.5), layout="constrained")
    for label, colour in enumerate(COLOURS):
        axis.scatter(*ground[labels == label].T, s=5, color=colour, alpha=0.45, linewidths=0)
    with torch.no_grad():
        known = projector.model_.manifold.encode(torch.from_numpy(ground.astype(np.float32)))
        latents = torch.linspace(float(known.min()), float(known.max()), 400)[:, None]
        curve = projector.model_.manifold.decode(latents).numpy()
    axis.plot(*curve.T, color="black", linewidth=1.4, label="manifold G(u)")
    for a, b in zip(new, home, strict=True):
        axis.annotate("", b, a, arrowprops={"arrowstyle": "->", "color": WRONG, "linewidth": 1.6})
    axis.scatter(*new.T, s=34, color=WRONG, zorder=3, label="feature of an unseen domain")
    axis.scatter(*home.T, s=34, color="white", edgecolors=WRONG, zorder=3, label="brought home")
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.legend(fontsize=8, loc="lower center", frameon=False)
    return _save(figure, path, {})


def _curve(place: np.ndarray) -> np.ndarray:
    angle = np.pi * (0.05 + 0.9 * place)
    return np.stack([2 * np.cos(angle), 1.5 * np.sin(angle)], axis=1)


def _spread(rows: np.ndarray, count: int) -> np.ndarray:
    """`count` of these, evenly spread; fewer where there are no more."""
    return rows[np.unique(np.linspace(0, max(len(rows) - 1, 0), count).astype(int))] if len(rows) else rows


def _nearest(z: torch.Tensor, bank: torch.Tensor) -> list[int]:
    found: list[int] = torch.nn.functional.cosine_similarity(z[None], bank).topk(NEIGHBOURS).indices.tolist()
    return found


def _head(axis: Axes, text: str, where: str = "center") -> None:
    """The title of a column, all at the same height."""
    box = axis.get_position()
    x = box.x0 if where == "left" else (box.x0 + box.x1) / 2
    assert axis.figure is not None
    axis.figure.text(x, 0.955, text, ha=where, va="center", fontsize=9)


def _show(axis: Axes, image: np.ndarray, colour: str) -> None:
    axis.imshow(image, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color(colour)
        spine.set_linewidth(2)


def _answer(axis: Axes, label: str, right: bool) -> None:
    axis.axis("off")
    colour, mark = (RIGHT, "✓") if right else (WRONG, "✗")
    axis.text(0.5, 0.5, f"{label} {mark}", ha="center", va="center", fontsize=16, color=colour, weight="bold")


def _save(figure: Figure, path: Path, facts: dict[str, float]) -> dict[str, float]:
    figure.savefig(path, dpi=110, metadata={"Software": None, "facts": json.dumps(facts)})
    plt.close(figure)
    return facts


if __name__ == "__main__":
    for name, facts in main().items():
        print(name, json.dumps(facts))
