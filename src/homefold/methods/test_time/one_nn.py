"""1-NN: the label of the nearest source feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from homefold.manifold import nearest_index
from homefold.methods.base import TestTimeMethod, TrainedMethod
from homefold.methods.registry import method_named
from homefold.methods.test_time.wrapping import Wrapped
from homefold.methods.training.learner_method import tunable
from homefold.runtime.tiles import apply_in_tiles
from homefold.stages.task import TrainingTask

__all__ = ["OneNearestNeighbour"]

_TILE = 64


@method_named(
    "1-nn",
    "1-NN",
    1967,
    "Cover and Hart, IEEE Trans. IT 1967",
    "Answers with the label of the nearest source feature by cosine.",
    wraps="deep-all",
)
@dataclass(frozen=True)
class OneNearestNeighbour(TestTimeMethod):
    """p(y | x) = s · [y = y_n] + (1 − s) · p_C(y | x), n = argmax_i cos(z(x), z_i) over the source's training images.

    `nearest`, a variant of the full method, finds the same neighbour on its own features but answers with the
    classifier's opinion of the neighbour's feature; this one answers with the neighbour's label, on any features.

    Null setting: share 0.
    """

    looks_as_asked = True

    share: float = tunable(1.0, choices=(0.25, 0.5, 1.0), most=1)
    """s: weight of the neighbour's label; the rest is the wrapped classifier's."""

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _Neighbours(self, trained, task)


class _Neighbours(Wrapped[OneNearestNeighbour]):
    def __init__(self, method: OneNearestNeighbour, trained: TrainedMethod, task: TrainingTask) -> None:
        super().__init__(method, trained, task)
        self._bank, self._labels = self.training_features()

    @torch.no_grad()
    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        z, share = self.target_features(pixels), self.method.share
        own = torch.softmax(apply_in_tiles(self.network.layer, z, _TILE), dim=1)
        neighbour = F.one_hot(self._labels[nearest_index(z, self._bank)], own.shape[1]).float()
        return z, share * neighbour + (1 - share) * own
