"""Jigen: beside the label of ordered images the network tells how shuffled ones were shuffled."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.features.network import FeatureNet
from homefold.methods.recipe import COLOUR_AND_CROP, DIGITS, PRETRAINED, SMALL, Recipe, Training
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["Jigen", "JigenLearner", "distant_permutations", "grey_tiles", "shuffle_tiles"]

_GRID = 3
# What the eye sees of each colour, as image libraries weigh them.
_RED, _GREEN, _BLUE = 0.299, 0.587, 0.114


@method_named(
    "jigen", "JiGen", 2019, "Carlucci et al., CVPR 2019", "Solves jigsaw puzzles of the images as an auxiliary task."
)
@dataclass(frozen=True)
class Jigen(LearnerMethod):
    """L = CE(W f(x̃), y) + α CE(V f(x̃), p) over all images.

    Each image stays ordered (p = 0) with probability β; else the nine tiles of its 3 × 3 grid are laid out by an order
    drawn from the ordered one and P fixed permutations (p = 1 … P), chosen far from each other in Hamming distance.
    Every tile of every image loses its colour with probability `grey_tiles`, so that colours do not solve the puzzle. V
    is a second linear layer. Images are 224 px where the authors' are 222 or 225: where the size is not a multiple of
    three, the one or two pixels of the rim stay in place.

    The authors' recipe is theirs for ResNet-18 on PACS; with AlexNet they took α 0.9 and β 0.7
    (`jigen:weight=0.9,ordered=0.7`). Figures to reach: 80.5 % on PACS with ResNet-18 (their paper), 73.9 % on Digits-DG
    (Zhou et al., 2020). Ours at our own recipe, before tiles were greyed: 77.6 % on PACS in 10 epochs, one seed.

    Null setting: `weight` 0, `ordered` 1 and `grey_tiles` 0. Cost of a step: that of Deep All.
    """

    null = {"weight": 0.0, "ordered": 1.0, "grey_tiles": 0.0}  # noqa: RUF012 - a constant
    recipes = {  # noqa: RUF012 - a constant
        PRETRAINED: Recipe(Training(0.001, 30, 128, milestones=(0.8,), augmentation=COLOUR_AND_CROP)),
        SMALL: Recipe(DIGITS),
    }

    weight: float = tunable(0.7, 0.1, 1.0)
    """α: weight of the puzzle."""
    ordered: float = tunable(0.9, 0.5, 0.95, most=1)
    """β: share of images that are not shuffled."""
    permutations: int = tunable(30, choices=(10, 30, 60, 100), least=1)
    """P: how many ways there are to shuffle."""
    grey_tiles: float = tunable(0.1, 0.0, 0.5, most=1)
    """How often a tile loses its colour."""

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return JigenLearner(net, task, self)


class JigenLearner(Learner[Jigen]):
    """The losses of `Jigen`, and its puzzles."""

    capturable = True

    orders: torch.Tensor

    def __init__(self, net: FeatureNet, task: LearningTask, settings: Jigen) -> None:
        super().__init__(net, task, settings)
        if min(task.image_size) < _GRID:
            raise ConfigError(f"a {_GRID} × {_GRID} puzzle needs larger images than {task.image_size} px.")
        self.puzzle = nn.Linear(net.feature_dim, settings.permutations + 1)
        orders = torch.from_numpy(distant_permutations(settings.permutations + 1))
        self.register_buffer("orders", orders, persistent=False)

    def puzzles(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Some of the images shuffled, some of their tiles grey; and how each was shuffled, `(n,)`."""
        settings, n, device = self.settings, len(images), images.device
        keep = torch.rand(n, device=device) < settings.ordered
        drawn = torch.randint(settings.permutations + 1, (n,), device=device)
        which = torch.where(keep, 0, drawn)
        if settings.grey_tiles:
            images = grey_tiles(images, torch.rand(n, _GRID**2, device=device) < settings.grey_tiles)
        return shuffle_tiles(images, self.orders[which]), which

    def solved(self, z: torch.Tensor, labels: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        """CE of the labels and, by its weight, that of the puzzles, from features `z: (n, d)` of these."""
        loss = self.cross_entropy(self.classify(z), labels)
        if not self.settings.weight:
            return loss
        with torch.autocast(z.device.type, enabled=False):
            return loss + self.settings.weight * F.cross_entropy(self.puzzle(z.float()), which)

    def loss(self, batch: Batch) -> torch.Tensor:
        images, which = self.puzzles(batch.images)
        return self.solved(self.features(images), batch.labels, which)


@cache
def distant_permutations(count: int) -> np.ndarray:
    """`(count, 9)` permutations of nine tiles, the identity first, each as far as can be from all before it.

    Each next one has the largest Hamming distance to the nearest of those chosen; of equals the one with the largest
    sum of distances, then the first in dictionary order.
    """
    everything = np.array(list(itertools.permutations(range(_GRID**2))), dtype=np.int8)
    if not 1 <= count <= len(everything):
        raise ConfigError(f"nine tiles have {len(everything)} orders; {count - 1} beside the ordered one are too many.")
    nearest = np.full(len(everything), _GRID**2)
    total = np.zeros(len(everything), dtype=np.int64)
    chosen = [0]
    for _ in range(count - 1):
        distance = (everything != everything[chosen[-1]]).sum(axis=1)
        nearest, total = np.minimum(nearest, distance), total + distance
        chosen.append(int((nearest * (_GRID**2 * count + 1) + total).argmax()))
    return everything[chosen].astype(np.int64)


def grey_tiles(images: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    """`images: (n, 3, h, w)` without the colour of the tiles `which: (n, 9)`; a rim goes with the tiles beside it."""
    height, width = images.shape[-2:]
    down, across = (
        torch.div(
            torch.arange(side, device=images.device) - side % _GRID // 2, side // _GRID, rounding_mode="floor"
        ).clamp(0, _GRID - 1)
        for side in (height, width)
    )
    mask = which.view(-1, 1, _GRID, _GRID)[:, :, down][:, :, :, across]
    red, green, blue = images.unbind(dim=1)
    grey = (_RED * red + _GREEN * green + _BLUE * blue)[:, None]
    return torch.where(mask, grey, images)


def shuffle_tiles(images: torch.Tensor, orders: torch.Tensor) -> torch.Tensor:
    """Each of `images: (n, 3, h, w)` with tile `orders[i, k]` of its 3 × 3 grid at place k, counted along rows.

    What a multiple of three leaves over is a rim that stays.
    """
    n, channels, height, width = images.shape
    tall, wide = height // _GRID, width // _GRID
    top, left = height % _GRID // 2, width % _GRID // 2
    inside = (slice(None), slice(None), slice(top, top + _GRID * tall), slice(left, left + _GRID * wide))
    tiles = images[inside].reshape(n, channels, _GRID, tall, _GRID, wide).permute(0, 2, 4, 1, 3, 5)
    tiles = tiles.reshape(n, _GRID**2, channels, tall, wide)
    tiles = tiles[torch.arange(n, device=images.device)[:, None], orders]
    tiles = tiles.view(n, _GRID, _GRID, channels, tall, wide).permute(0, 3, 1, 4, 2, 5)
    shuffled = images.clone()
    shuffled[inside] = tiles.reshape(n, channels, _GRID * tall, _GRID * wide)
    return shuffled
