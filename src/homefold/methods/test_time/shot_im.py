"""SHOT-IM: features re-trained on the whole unlabelled target so that a frozen classifier is sure and even-handed."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch

from homefold.data.augmentation import augment_batch
from homefold.features import extract_features
from homefold.features.batches import ImageStore
from homefold.methods.base import TestTimeMethod, TrainedMethod
from homefold.methods.entropy import marginal_entropy, prediction_entropy
from homefold.methods.registry import method_named
from homefold.methods.test_time.wrapping import Wrapped, even_batches
from homefold.methods.training.learner_method import tunable
from homefold.runtime.seeding import generator, isolated_seed
from homefold.stages.task import TrainingTask

__all__ = ["ShotIM", "information_loss"]


def information_loss(logits: torch.Tensor, diversity: float = 1.0) -> torch.Tensor:
    """(1/n) Σ_i H(p_i) − w · H(p̄), p̄ the mean of the p_i: low when each answer is sure and all classes occur."""
    return prediction_entropy(logits).mean() - diversity * marginal_entropy(logits)


@method_named(
    "shot-im",
    "SHOT-IM",
    2020,
    "Liang et al., ICML 2020",
    "Trains the features on the whole unlabelled target by information maximisation.",
    touches_target=True,
    stateless=False,
    wraps="deep-all",
)
@dataclass(frozen=True)
class ShotIM(TestTimeMethod):
    """min over θ of (1/b) Σ_i H(p(· | x_i)) − H(p̄) on batches of the target, θ the features; the layer is frozen.

    SGD with Nesterov momentum 0.9 and weight decay 1e-3, at the rate η (1 + 10 t)^−0.75 where t runs from 0 to 1. The
    network is in training mode meanwhile, so that batch normalisation learns the target's statistics; images are
    varied as in training. All images are answered after all of the adaptation. The source training is the wrapped
    method's: the paper adds label smoothing and weight normalisation to its own. All of f has one rate, where the paper
    trains a new bottleneck faster than the pretrained rest.

    Null setting: epochs 0.
    """

    epochs: int = tunable(15, 5, 30)
    """Passes over the target."""
    learning_rate: float = tunable(1e-3, 1e-4, 1e-2, log=True)
    """η."""
    batch_size: int = tunable(64, choices=(32, 64, 128), least=1)
    """b."""
    diversity: float = tunable(1.0, choices=(0.5, 1.0))
    """Weight of H(p̄)."""

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _Maximised(self, trained, task)


class _Maximised(Wrapped[ShotIM]):
    def __init__(self, method: ShotIM, trained: TrainedMethod, task: TrainingTask) -> None:
        super().__init__(method, trained, task)
        self.network.features.requires_grad_(True)
        self._before = copy.deepcopy(self.network.features.state_dict())

    def reset(self) -> None:
        self.network.features.load_state_dict(self._before)

    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        self._adapt(pixels)
        z = extract_features(self.network.features, pixels, self.task.device)
        with torch.no_grad():
            return z, torch.softmax(self.network.layer(z), dim=1)

    def _adapt(self, pixels: np.ndarray) -> None:
        method, config, device = self.method, self.task.config, self.task.device
        store, net = ImageStore(pixels, device), self.network.features.train()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0, momentum=0.9, nesterov=True, weight_decay=1e-3)
        step, steps = 0, method.epochs * -(-len(pixels) // method.batch_size)
        for epoch in range(method.epochs):
            order = torch.randperm(len(pixels), generator=generator(config.seed, "shot-im order", epoch))
            random = generator(config.seed, "shot-im augmentation", epoch, device=device)
            with isolated_seed(config.seed, "shot-im epoch", epoch, device=device):
                for rows in even_batches(order, method.batch_size):
                    for group in optimizer.param_groups:
                        group["lr"] = method.learning_rate * (1 + 10 * step / steps) ** -0.75
                    images = augment_batch(store.batch(rows), config.features.augmentation, random)
                    logits = self.network.layer(net(images).float())
                    optimizer.zero_grad(set_to_none=True)
                    information_loss(logits, method.diversity).backward()
                    optimizer.step()
                    step += 1
        net.eval()
