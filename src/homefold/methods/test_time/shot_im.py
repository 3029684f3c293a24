"""SHOT-IM: features re-trained on the whole unlabelled target so that a frozen classifier is sure and even-handed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from homefold.classifier.entropy import marginal_entropy, prediction_entropy
from homefold.config.augmentation import AugmentationConfig, augmentation_preset
from homefold.data.augmentation import augment_batch
from homefold.data.stream import even_batches
from homefold.features import extract_features
from homefold.features.batches import ImageStore
from homefold.features.network import FeatureNet
from homefold.methods.base import TestTimeMethod, TrainedMethod
from homefold.methods.registry import method_named
from homefold.methods.test_time.wrapping import Wrapped
from homefold.methods.training.learner_method import tunable
from homefold.runtime.seeding import generator, isolated_seed
from homefold.stages.task import TrainingTask

__all__ = ["ShotIM", "crops_and_flips", "head_and_backbone", "information_loss"]


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
    cropped and mirrored as in training and not varied otherwise. All images are answered after all of the adaptation.
    The backbone learns at a tenth of the rate of the head, which stands where the authors have a bottleneck. The source
    training is the wrapped method's: the authors add label smoothing and weight normalisation to theirs.

    Null setting: epochs 0.
    """

    epochs: int = tunable(15, 5, 30)
    """Passes over the target."""
    learning_rate: float = tunable(1e-2, 1e-3, 1e-1, log=True)
    """η, of what follows the backbone."""
    backbone_rate: float = tunable(0.1, 0.01, 1, log=True)
    """Rate of the backbone, as a multiple of η."""
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
        rates = (method.learning_rate, method.learning_rate * method.backbone_rate)
        groups = [{"params": part} for part in head_and_backbone(net)]
        optimizer = torch.optim.SGD(groups, lr=0.0, momentum=0.9, nesterov=True, weight_decay=1e-3)
        augmentation = crops_and_flips(config.features.augmentation)
        step, steps = 0, method.epochs * -(-len(pixels) // method.batch_size)
        for epoch in range(method.epochs):
            order = torch.randperm(len(pixels), generator=generator(config.seed, "shot-im order", epoch))
            random = generator(config.seed, "shot-im augmentation", epoch, device=device)
            with isolated_seed(config.seed, "shot-im epoch", epoch, device=device):
                for rows in even_batches(order, method.batch_size):
                    for group, rate in zip(optimizer.param_groups, rates, strict=True):
                        group["lr"] = rate * (1 + 10 * step / steps) ** -0.75
                    images = augment_batch(store.batch(rows), augmentation, random)
                    logits = self.network.layer(net(images).float())
                    optimizer.zero_grad(set_to_none=True)
                    information_loss(logits, method.diversity).backward()
                    optimizer.step()
                    step += 1
        net.eval()


def head_and_backbone(features: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """What follows the backbone and the backbone itself, of a network and of what a learner has around it."""
    nets = [module for module in features.modules() if isinstance(module, FeatureNet)]
    backbone = {id(parameter) for net in nets for parameter in net.backbone.parameters()}
    parameters = list(features.parameters())
    return [item for item in parameters if id(item) not in backbone], [x for x in parameters if id(x) in backbone]


def crops_and_flips(config: AugmentationConfig) -> AugmentationConfig:
    """Of an augmentation the crops and the mirroring."""
    kept = ("crop_min_area", "crop_min_aspect", "crop_max_aspect", "flip_probability")
    return replace(augmentation_preset("none"), **{name: getattr(config, name) for name in kept})
