"""Which images look like those of the sources: by the style of their feature maps, before any style is moved.

Such an image is answered without projection, which can only move it away from where the sources taught C to look.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn

from homefold.errors import ModelFileError
from homefold.features.network import FeatureNet
from homefold.stages.encoder import Encoder, frozen
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId, stage_id
from homefold.style import collect_styles, map_style, style_modules

__all__ = ["Familiarity", "familiarity_id", "familiarity_stage"]

_QUANTILE = 0.75
_SMALLEST_DEVIATION = 1e-3


class _WithStyles(nn.Module):
    """Images to their features followed by their styles after some blocks, `(n, d + styles)`."""

    def __init__(self, net: FeatureNet, blocks: Sequence[str]) -> None:
        super().__init__()
        self.net, self._seen = net, dict.fromkeys(blocks, torch.empty(0))
        for name, module in zip(blocks, style_modules(net.backbone, blocks), strict=True):
            module.register_forward_hook(lambda _module, _inputs, output, name=name: self._keep(name, output))

    def _keep(self, name: str, output: torch.Tensor) -> None:
        self._seen[name] = map_style(output)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        z = self.net(images).float()
        return torch.cat([z, *self._seen.values()], dim=1)


class Familiarity(nn.Module):
    """How far an image's style is from those of the source domains.

    After each block it is the root mean square of the standardised differences to a domain's mean style; the nearest
    domain counts, and the block where that is largest.

    Args:
        means: `(domains, styles)`, the styles after all blocks side by side.
        deviations: `(domains, styles)`.
        sizes: `(blocks,)` how many numbers belong to each block.
        threshold: what three quarters of held-out source images stay below.
    """

    means: torch.Tensor
    deviations: torch.Tensor
    sizes: torch.Tensor
    threshold: torch.Tensor

    def __init__(
        self, means: torch.Tensor, deviations: torch.Tensor, sizes: torch.Tensor, threshold: torch.Tensor
    ) -> None:
        super().__init__()
        for name, value in zip(
            ("means", "deviations", "sizes", "threshold"), (means, deviations, sizes, threshold), strict=True
        ):
            self.register_buffer(name, value)
        self._sizes = tuple(sizes.tolist())

    @staticmethod
    def from_tensors(tensors: Mapping[str, torch.Tensor]) -> Familiarity:
        """What `state_dict` was taken from; anything else is refused."""
        names = ("means", "deviations", "sizes", "threshold")
        if set(tensors) != set(names):
            raise ModelFileError(f"the familiar styles should be {', '.join(names)}; got {', '.join(sorted(tensors))}.")
        means, deviations, sizes, threshold = (tensors[name] for name in names)
        fits = (
            means.ndim == 2
            and means.shape == deviations.shape
            and means.dtype == deviations.dtype == torch.float32
            and sizes.ndim == 1
            and sizes.dtype == torch.long
            and bool((sizes > 0).all())
            and int(sizes.sum()) == means.shape[1]
            and threshold.shape == ()
        )
        finite = fits and all(bool(torch.isfinite(x).all()) for x in (means, deviations, threshold))
        if not finite or not len(means) or not bool((deviations > 0).all()):
            raise ModelFileError("the familiar styles have odd shapes or values.")
        return Familiarity(means, deviations, sizes, threshold)

    def distances(self, styles: torch.Tensor) -> torch.Tensor:
        """`(n,)` for `styles: (n, styles)`; row by row, so that none depends on the others."""
        of_blocks = [part.amin(dim=1) for part in self._of_blocks(styles)]
        return torch.stack(of_blocks, dim=1).amax(dim=1)

    def distances_to_each(self, styles: torch.Tensor) -> torch.Tensor:
        """`(n, domains)` for `styles: (n, styles)`: to each domain, in the block where it is farthest."""
        return torch.stack(self._of_blocks(styles), dim=2).amax(dim=2)

    def _of_blocks(self, styles: torch.Tensor) -> list[torch.Tensor]:
        """After each block the distances `(n, domains)`."""
        off = ((styles[:, None] - self.means) / self.deviations).square()
        return [part.mean(dim=2).sqrt() for part in off.split(self._sizes, dim=2)]

    def watcher(self, net: FeatureNet, blocks: Sequence[str], device: torch.device) -> Encoder:
        """What gives raw features and styles of images in one pass."""
        return Encoder(device, frozen(_WithStyles(copy.deepcopy(net), blocks), device))

    def split(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Raw features `(n, d)` and which of the images are familiar `(n,)`, from what the watcher gave."""
        width = rows.shape[1] - self.means.shape[1]
        return rows[:, :width], self.distances(rows[:, width:]) <= self.threshold


def familiarity_id(key: TaskKey, features: StageId) -> StageId:
    """The familiar styles of these sources in this f after these blocks."""
    return stage_id("familiar", features=features.digest, blocks=list(key.config.style.blocks), seed=key.config.seed)


def familiarity_stage(task: TrainingTask, net: FeatureNet, features: StageId) -> tuple[Familiarity, Stage]:
    """The styles of each source domain, and how far held-out source images are from them."""

    def fit(_: object) -> dict[str, object]:
        train, held_out = task.split
        found = collect_styles(net, task.source.images, task.device, task.config.style.blocks)
        styles = torch.cat(found, dim=1)
        domains = torch.from_numpy(task.source.domains[train]).to(task.device)
        rows = styles[torch.from_numpy(train).to(task.device)]
        of_each = [rows[domains == domain] for domain in domains.unique()]
        means = torch.stack([part.mean(dim=0) for part in of_each])
        deviations = torch.stack([part.std(dim=0, correction=0).clamp_min(_SMALLEST_DEVIATION) for part in of_each])
        sizes = torch.tensor([part.shape[1] for part in found])
        model = Familiarity(means, deviations, sizes, torch.zeros(()))
        held = model.distances(styles[torch.from_numpy(held_out).to(task.device)])
        model.threshold = torch.from_numpy(np.asarray(np.quantile(held.double().cpu().numpy(), _QUANTILE))).float()
        return {"tensors": model.cpu().state_dict()}

    stage = task.stages.get(familiarity_id(task.key, features), fit)
    return Familiarity.from_tensors(stage.part("tensors")).to(task.device), stage
