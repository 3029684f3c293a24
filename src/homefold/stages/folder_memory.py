"""A memory over the images of a folder: the surest so far of each class classify those that come after, as in T3A."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from homefold.classifier.memory import ClassMemory
from homefold.errors import ConfigError, DataError
from homefold.runtime.device import one_thread
from homefold.stages.feature_model import FeatureModel
from homefold.stages.predictions import Predictions
from homefold.stages.trained_model import Answer

__all__ = ["FolderMemory"]


class FolderMemory:
    """Is given the answers for all images, a chunk at a time, and then answers again, by what C saw of them.

    Args:
        model: whose classifier's layer the memory begins with.
    """

    def __init__(self, model: FeatureModel) -> None:
        layers = model.classifier.layers
        if len(layers) != 1:
            raise ConfigError(
                "a memory takes the place of a linear classifier, and this model's has a hidden layer "
                "(classifier.kind=hidden); leave out adapt."
            )
        assert isinstance(layers[0], nn.Linear)
        self._model, self._layer = model, layers[0]
        self._seen: list[torch.Tensor] = []
        self._parts: list[Predictions] = []

    def add(self, answer: Answer) -> None:
        """Keep the answers for some images and what C saw of them: features where they were brought to, or as is."""
        z = self._model.prepare(answer.features)
        if answer.found is not None:
            projected = torch.from_numpy(answer.predictions.projected).to(z.device)
            z = torch.where(projected[:, None], answer.found.features, z)
        self._seen.append(z)
        self._parts.append(answer.predictions)

    def answers(self) -> Predictions:
        """The answers for all images, with the memory's probabilities."""
        found = Predictions.concatenate(self._parts)
        if len(found) < 2:
            raise DataError(
                "a memory answers by the images before, and there is one image; give several, or leave out adapt."
            )
        z = torch.cat(self._seen)
        with one_thread(z.device):
            scores = ClassMemory(self._layer).answers(z, self._model.logits(z), self._model.seed)
        return replace(found, probabilities=torch.softmax(scores, dim=1).cpu().numpy(), adapted=True)
