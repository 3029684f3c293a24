"""What test-time methods share: a copy of a finished method's network, and answers that come from it."""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from homefold.errors import ConfigError
from homefold.evaluation.stage_store import Stage
from homefold.methods.base import (
    Answers,
    ClassifierNetwork,
    ImageSet,
    MethodInfo,
    TrainedMethod,
    TrainingTask,
    plain_predictions,
)
from homefold.seeding import generator

__all__ = ["Wrapped", "copy_of_network", "even_batches", "stream_order", "wrapper_info"]


def wrapper_info(own: MethodInfo, base: MethodInfo) -> MethodInfo:
    """What a test-time method is on top of another: it needs, touches and remembers what either of them does."""
    return replace(
        own,
        name=f"{own.name}+{base.name}",
        title=f"{own.title} on {base.title}",
        needs_domain_labels=own.needs_domain_labels or base.needs_domain_labels,
        touches_target=own.touches_target or base.touches_target,
        stateless=own.stateless and base.stateless,
    )


def copy_of_network(name: str, trained: TrainedMethod, base: str) -> ClassifierNetwork:
    """A frozen copy of the network of `trained`, in eval mode, for the test-time method `name` to change."""
    network = trained.classifier_network()
    if network is None:
        raise ConfigError(
            f"{name} cannot wrap {base}, which does not answer by one network and its classifier layer. Methods that "
            f"do can be wrapped: deep-all, rotation, vae, gan, nearest and their ablations, and every other "
            f"training-time method whose classifier_network is not None; test-time methods cannot."
        )
    features, layer = (copy.deepcopy(part).eval().requires_grad_(False) for part in (network.features, network.layer))
    return ClassifierNetwork(features, layer)


def stream_order(n: int, seed: int) -> torch.Tensor:
    """In which order n target images arrive: shuffled, since datasets lie sorted by class and streams do not."""
    return torch.randperm(n, generator=generator(seed, "target stream"))


def even_batches(rows: torch.Tensor, batch_size: int) -> list[torch.Tensor]:
    """`rows: (n,)` in the fewest batches of at most `batch_size`, all of nearly one size: none is left over.

    >>> [len(batch) for batch in even_batches(torch.arange(9), 4)]
    [3, 3, 3]
    """
    return list(rows.tensor_split(max(1, -(-len(rows) // batch_size)))) if len(rows) else []


class Wrapped(TrainedMethod):
    """A finished method whose network, copied, answers in another way.

    Args:
        name: of the test-time method.
        base: name of the wrapped method.
        trained: the wrapped method.
        task: what it was trained on.
    """

    def __init__(self, name: str, base: str, trained: TrainedMethod, task: TrainingTask) -> None:
        self.trained, self.task = trained, task
        self.network = copy_of_network(name, trained, base)

    @abstractmethod
    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Features `(n, d)` and probabilities `(n, classes)` of `pixels: (n, h, w, 3)` uint8, in their order."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.trained.stages

    def answer(self, images: ImageSet) -> Answers:
        began = time.perf_counter()
        z, probabilities = self.respond(images.pixels)
        found = probabilities.cpu().numpy()
        seconds = time.perf_counter() - began
        return Answers(plain_predictions(self.task.source.class_names, found), seconds, z)

    def source_features(self) -> torch.Tensor | None:
        return self.trained.source_features()

    def facts(self) -> dict[str, Any]:
        return self.trained.facts()
