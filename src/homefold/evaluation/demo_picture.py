"""A picture of target images being brought home: their nearest source images before and after, and the search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from homefold.config import SearchConfig, search_preset
from homefold.data.dataset import DomainDataset
from homefold.manifold import Manifold
from homefold.projection import elbow_index
from homefold.projection.engines.reference import loss_curve
from homefold.projection.rules.starts import starting_latents
from homefold.stages.feature_model import FeatureModel
from homefold.store.files import write_atomically

__all__ = ["draw_homecoming"]

# From the palette of Okabe and Ito, which colour-blind readers can tell apart.
_RIGHT, _WRONG, _CURVE = "#0072B2", "#D55E00", "#009E73"
_NEIGHBOURS = 3


def draw_homecoming(
    path: Path,
    model: FeatureModel,
    source: DomainDataset,
    source_features: torch.Tensor,
    target: DomainDataset,
    target_features: torch.Tensor,
    searched: torch.Tensor,
    chosen: np.ndarray,
) -> None:
    """Write a PNG with one row for each chosen target image.

    Args:
        path: file to write.
        model: fitted on the source features.
        source, source_features: labelled source images and their `(n, d)` raw features.
        target, target_features: images of the unseen domain and their `(m, d)` raw features.
        searched: `(m, d)` what the search is given for `target`.
        chosen: indices into `target` to draw.
    """
    # The default search starts almost at its end, so another one's loss is drawn: the authors' from a random start.
    search = replace(search_preset("authors"), steps=200)
    rows = torch.as_tensor(chosen)
    z = model.prepare(searched[rows])
    home = model.project(searched[rows]).features
    bank = model.prepare(source_features)
    before, after = _nearest(model.prepare(target_features[rows]), bank), _nearest(home, bank)
    columns = 2 * _NEIGHBOURS + 1
    figure = plt.figure(figsize=(1.15 * columns + 3.2, 1.25 * len(rows) + 0.6), layout="constrained")
    grid = figure.add_gridspec(len(rows), columns + 3)
    names = target.class_names
    for i, row in enumerate(rows.tolist()):
        truth = int(target.labels[row])
        axis = figure.add_subplot(grid[i, 0])
        _show(axis, target.images[row], f"unseen: {names[truth]}", "black")
        for k in range(_NEIGHBOURS):
            for offset, found in ((1, before), (1 + _NEIGHBOURS, after)):
                index = int(found[i, k])
                label = int(source.labels[index])
                axis = figure.add_subplot(grid[i, offset + k])
                _show(axis, source.images[index], names[label], _RIGHT if label == truth else _WRONG)
                if i == 0 and k == 1:
                    axis.set_title(
                        f"nearest source images {'before' if offset == 1 else 'after'}\n{names[label]}", fontsize=8
                    )
        axis = figure.add_subplot(grid[i, columns:])
        _draw_curve(axis, model.manifold, z[i, None], search, model.seed, last=i == len(rows) - 1)
    with write_atomically(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)
    plt.close(figure)


def _nearest(z: torch.Tensor, bank: torch.Tensor) -> torch.Tensor:
    """`(n, 3)` indices of the most similar rows of the bank."""
    unit, others = torch.nn.functional.normalize(z, dim=1), torch.nn.functional.normalize(bank, dim=1)
    return (unit @ others.T).topk(_NEIGHBOURS, dim=1).indices.cpu()


def _show(axis: Axes, image: np.ndarray, title: str, colour: str) -> None:
    axis.imshow(image, interpolation="nearest")
    axis.set_title(title, fontsize=8, color=colour)
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color(colour)
        spine.set_linewidth(2)


def _draw_curve(
    axis: Axes, manifold: Manifold, z: torch.Tensor, search: SearchConfig, seed: int, *, last: bool
) -> None:
    with torch.no_grad():
        losses, _ = loss_curve(manifold.decode, z, starting_latents(search, manifold, z, seed)[:, 0], search)
    elbow = int(elbow_index(losses, search.window))
    axis.plot(losses.cpu(), color=_CURVE, linewidth=1.2)
    axis.axvline(elbow, color=_WRONG, linestyle="--", linewidth=1)
    axis.annotate(f"n* = {elbow}", (elbow, float(losses.max())), fontsize=7, xytext=(3, -6), textcoords="offset points")
    axis.set_ylabel("$L_S$", fontsize=7)
    axis.tick_params(labelsize=6)
    if last:
        axis.set_xlabel("step", fontsize=7)
