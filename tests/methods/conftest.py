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
from homefold.methods import Batch, LearningTask, Method, TaskKey, TrainingImages, TrainingTask
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
