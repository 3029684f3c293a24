"""Small trainings that the tests of all methods share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from homefold.config import HomefoldConfig, preset_config, replace_settings
from homefold.data import DomainDataset
from homefold.features import build_feature_net
from homefold.features.batches import ImageStore
from homefold.features.loop import TrainingRun
from homefold.methods import Batch, LearningTask, Method, TaskKey, TrainedMethod, TrainingImages, TrainingTask
from homefold.store.stage_store import StageStore

SIDE_PX = 16
QUICK = {
    "preprocessing__image_size": SIDE_PX,
    "features__epochs": 3,
    "features__batch_size": 32,
    "features__feature_dim": 32,
    # Random filters need more steps than these few.
    "features__augmentation__texture_probability": 0.0,
}


@pytest.fixture(scope="session")
def source(few_digits: DomainDataset) -> DomainDataset:
    """Three source domains; `scan` is never seen."""
    return few_digits.without("scan")


@pytest.fixture(scope="session")
def unseen(few_digits: DomainDataset) -> DomainDataset:
    """The domain that nothing here trains on."""
    return few_digits.only("scan")


@pytest.fixture
def task_for(source: DomainDataset, tmp_path: Path) -> Callable[..., TrainingTask]:
    """The task of training a method on the source in seconds."""

    def task(method: Method, adapt: DomainDataset | None = None, **settings: object) -> TrainingTask:
        changes = {name.replace("__", "."): value for name, value in {**QUICK, **settings}.items()}
        config: HomefoldConfig = replace_settings(method.starting(preset_config("small")), changes)
        return TrainingTask(
            key=TaskKey("source", method.configure(config, "quick"), "few" if adapt is not None else ""),
            source=source,
            device=torch.device("cpu"),
            stages=StageStore(tmp_path / "stages"),
            adapt=adapt,
        )

    return task


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.fixture
def after_a_kill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Method, TrainingTask], TrainedMethod]:
    """Trains a method in a folder of its own, killed in the third epoch and started again; the checkpoint is from then.

    The task writes a checkpoint after every epoch (`features__checkpoint_seconds=0.0`).
    """

    def trained(method: Method, task: TrainingTask) -> TrainedMethod:
        assert task.config.features.checkpoint_seconds == 0
        task = replace(task, stages=StageStore(tmp_path / "elsewhere"))
        train_epoch, begun = TrainingRun.train_epoch, []

        def die_in_the_third(run: TrainingRun, checkpoint: Path | None) -> dict[str, float]:
            if run.epoch == 2:
                raise Killed
            return train_epoch(run, checkpoint)

        def watched(run: TrainingRun, checkpoint: Path | None) -> dict[str, float]:
            begun.append(run.epoch)
            return train_epoch(run, checkpoint)

        with monkeypatch.context() as patched:
            patched.setattr(TrainingRun, "train_epoch", die_in_the_third)
            with pytest.raises(Killed):
                method.train(task)
        with monkeypatch.context() as patched:
            patched.setattr(TrainingRun, "train_epoch", watched)
            ended = method.train(task)
        assert begun[0] == 2, "it goes on with the third epoch, and begins no other anew"
        return ended

    return trained


@pytest.fixture
def batch(source: DomainDataset) -> Batch:
    """Eight images of every domain and class of the source, in float."""
    rows = torch.arange(0, len(source), 3)
    images = torch.from_numpy(source.images)[rows].permute(0, 3, 1, 2).float() / 255
    labels, domains = torch.from_numpy(source.labels)[rows], torch.from_numpy(source.domains)[rows]
    return Batch(images, labels, domains, rows, step=5, steps=10)


@pytest.fixture
def training_images(source: DomainDataset) -> Callable[..., TrainingImages]:
    """All images of the source, at a size of their own if asked for."""

    def images(side: int = SIDE_PX) -> TrainingImages:
        pixels = F.interpolate(torch.from_numpy(source.images).permute(0, 3, 1, 2).float(), size=side)
        store = ImageStore(pixels.permute(0, 2, 3, 1).to(torch.uint8).numpy(), torch.device("cpu"))
        rows, labels, domains = (torch.from_numpy(x) for x in (np.arange(len(source)), source.labels, source.domains))
        return TrainingImages(store, rows, labels, domains)

    return images


@pytest.fixture
def build(source: DomainDataset) -> Callable[..., torch.nn.Module]:
    """A method's learner before training, in training mode."""

    def learner(method, *, backbone: str = "digits-bn", side: int = SIDE_PX, **settings: object) -> torch.nn.Module:
        config = preset_config("small", {"features.backbone": backbone, "features.feature_dim": 32}).features
        net = build_feature_net(
            replace(config, **settings), (side, side), normalisation="half", seed=0, pretrained=True
        )
        task = LearningTask(num_classes=3, num_domains=3, num_images=len(source), image_size=(side, side), seed=0)
        torch.manual_seed(0)
        return method.learner(net, task).train()

    return learner
