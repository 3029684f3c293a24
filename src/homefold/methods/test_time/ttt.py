"""TTT: features trained, for one image, on telling how copies of it were turned."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from homefold.classifier import ClassifierConfig, build_classifier, fit_classifier
from homefold.features import extract_features
from homefold.methods.base import TrainedMethod
from homefold.methods.registry import MethodInfo, method_named
from homefold.methods.settings import without_changes
from homefold.methods.test_time.per_image import PerImage, PerImageMethod
from homefold.methods.training.learner_method import TrainedLearner, tunable
from homefold.methods.training.rotation import QUARTER_TURNS, Rotation, RotationLearner, rotation_loss, shared_part
from homefold.runtime.device import one_thread
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["TestTimeTraining"]

_HEAD = ClassifierConfig()


@method_named(
    "ttt",
    "TTT",
    2020,
    "Sun et al., ICML 2020",
    "Before each answer, trains the features on telling how copies of the image were turned.",
    touches_target=True,
    wraps="rotation",
)
@dataclass(frozen=True)
class TestTimeTraining(PerImageMethod):
    """ℓ(x; θ) = mean over copies a_b and turns r of CE(h(f_1(turn_r(a_b(x)))), r); SGD on θ, then p(· | x; θ_x).

    θ are the parameters of f_1, the levels that h shares, and those of h. They start anew for every image. With
    `online` 1 they stay as they are after it: the authors' best version, which they run with one step an image. The
    copies are varied as the training images were, and each is seen in all four turns, where the authors draw one for
    each of 32 copies. Batch normalisation keeps the statistics of the training (the authors train with group
    normalisation for that reason).

    h was trained with f where `rotation` is wrapped, as the paper asks: its branch leaves f before the last level. For
    any other method h is a linear layer on z, trained afterwards on the frozen features of turned source images: a
    level of its own, and θ is all of f and h.

    Null setting: learning_rate 0.
    """

    learning_rate: float = tunable(0.001, 1e-4, 1e-2, log=True)
    """η of each step."""
    steps: int = tunable(10, choices=(1, 3, 10))
    """Steps for each image."""
    copies: int = tunable(8, choices=(1, 4, 8, 16), least=1)
    """Varied copies of the image, new ones in every step; times four turns."""
    online: int = tunable(0, choices=(0, 1), most=1)
    """Whether what one image taught stays for the images after it (1), as one step each then does best."""

    @property
    def keeps(self) -> bool:
        return bool(self.online)

    @property
    def info(self) -> MethodInfo:
        info = super().info
        return replace(info, stateless=info.stateless and not self.online)

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        stages = self.base.planned_stages(key)
        return stages if isinstance(without_changes(self.base), Rotation) else (*stages, _head_id(stages, key))

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _SelfTaught(self, trained, task)


class _SelfTaught(PerImage[TestTimeTraining]):
    def __init__(self, method: TestTimeTraining, trained: TrainedMethod, task: TrainingTask) -> None:
        super().__init__(method, trained, task)
        self._turns = torch.arange(QUARTER_TURNS, device=task.device).repeat_interleave(method.copies)
        self._head_stage: Stage | None = None
        if isinstance(trained, TrainedLearner) and isinstance(trained.learner, RotationLearner):
            self._head: nn.Module = copy.deepcopy(trained.learner.rotation_head)
        else:
            self._head_stage = _train_head(self.network.features, method.base.planned_stages(task.key), task)
            weight = self._head_stage.part("tensors")["layers.0.weight"]
            head = build_classifier(_HEAD, weight.shape[1], QUARTER_TURNS)
            self._head_stage.load_into(head, "tensors")
            self._head = head.to(task.device)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.trained.stages if self._head_stage is None else (*self.trained.stages, self._head_stage)

    def facts(self) -> dict[str, Any]:
        if self._head_stage is None:
            return super().facts()
        return {**super().facts(), "rotation_head": {"held_out_accuracy": self._head_stage.part("held_out_accuracy")}}

    def adapted(self, image: torch.Tensor) -> list[torch.Tensor]:
        network = nn.ModuleList([self.network.features, self._head]).requires_grad_(True)
        parameters = list(network.parameters())
        seen = shared_part(self.network.features, image, self._head)
        gradients = torch.autograd.grad(self._head(seen).sum(), parameters, allow_unused=True)
        network.requires_grad_(False)
        reached = [item for item, gradient in zip(parameters, gradients, strict=True) if gradient is not None]
        return [parameter.requires_grad_(True) for parameter in reached]

    def loss(self, varied: torch.Tensor) -> torch.Tensor:
        turned = torch.cat([torch.rot90(varied, quarter, (2, 3)) for quarter in range(QUARTER_TURNS)])
        seen = shared_part(self.network.features, turned.contiguous(memory_format=torch.channels_last), self._head)
        return rotation_loss(seen, self._head, self._turns)


def _head_id(stages: tuple[StageId, ...], key: TaskKey) -> StageId:
    return stage_id("rotation-head", base=[stage.digest for stage in stages], head=asdict(_HEAD), seed=key.config.seed)


def _train_head(features: nn.Module, stages: tuple[StageId, ...], task: TrainingTask) -> Stage:
    """A linear layer that tells quarter turns by frozen features of the source, trained if it was not before."""
    config, images = task.config, task.source.images

    def train(_: Any) -> dict[str, Any]:
        train, held_out = task.split
        seen = [
            extract_features(features, np.rot90(images, quarter, (1, 2)), task.device)
            for quarter in range(QUARTER_TURNS)
        ]

        def part(rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
            z = torch.cat([z[torch.from_numpy(rows).to(z.device)] for z in seen])
            return z, torch.arange(QUARTER_TURNS).repeat_interleave(len(rows))

        with one_thread(task.device):
            head = fit_classifier(
                _HEAD,
                *part(train),
                *part(held_out),
                num_classes=QUARTER_TURNS,
                seed=config.seed,
                device=task.device,
                reporter=task.reporter,
            )
        return {"tensors": head.state_dict(), "held_out_accuracy": head.held_out_accuracy}

    return task.stages.get(_head_id(stages, task.key), train)
