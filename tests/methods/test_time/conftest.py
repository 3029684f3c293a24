"""Finished methods for test-time methods to wrap: two trained on digits in seconds, and toys to compute by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from homefold.config import augmentation_preset, preset_config, replace_settings
from homefold.data import DomainDataset
from homefold.methods import (
    Answers,
    ClassifierNetwork,
    ImageSet,
    Method,
    MethodInfo,
    TaskKey,
    TestTimeMethod,
    TrainedMethod,
    TrainingTask,
    find_method,
)
from homefold.store.stage_store import StageStore

SETTINGS = {
    "preprocessing__image_size": 16,
    "features__epochs": 5,
    "features__batch_size": 32,
    "features__feature_dim": 32,
    # Random filters need more steps than these few.
    "features__augmentation__texture_probability": 0.0,
}


@dataclass(frozen=True)
class Finished:
    """A trained method with its task, and how to wrap it."""

    method: Method
    task: TrainingTask
    trained: TrainedMethod

    def wrapped_by(self, name: str, **settings: object) -> TrainedMethod:
        """The test-time method `name` with these settings on top of it."""
        wrapper = find_method(f"{name}+deep-all")
        assert isinstance(wrapper, TestTimeMethod)
        return replace(wrapper, base=self.method, **settings).wrap(self.trained, self.task)


@pytest.fixture(scope="session")
def finished(few_digits: DomainDataset, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Finished]:
    """A method trained on three domains of a few digits, once for all tests."""
    source = few_digits.without("scan")
    stages, known = StageStore(tmp_path_factory.mktemp("stages")), {}

    def train(name: str, **settings: object) -> Finished:
        key = (name, tuple(settings.items()))
        if key not in known:
            method = find_method(name)
            changes = {name.replace("__", "."): value for name, value in {**SETTINGS, **settings}.items()}
            config = method.configure(replace_settings(method.starting(preset_config("small")), changes), "quick")
            task = TrainingTask(TaskKey("source", config), source, torch.device("cpu"), stages)
            known[key] = Finished(method, task, method.train(task))
        return known[key]

    return train


@pytest.fixture(scope="session")
def scan(few_digits: DomainDataset) -> DomainDataset:
    """Some of the domain that nothing was trained on."""
    domain = few_digits.only("scan")
    return domain.subset(np.concatenate([np.flatnonzero(domain.labels == label)[:16] for label in range(3)]))


class Toy(TrainedMethod):
    """A network that was never trained, or none at all."""

    stages = ()

    def __init__(self, network: ClassifierNetwork | None) -> None:
        self.network = network

    def answer(self, images: ImageSet) -> Answers:
        raise NotImplementedError

    def classifier_network(self) -> ClassifierNetwork | None:
        return self.network


class ToyMethod(Method):
    """Stands for the method that a toy came from."""

    info = MethodInfo("toy", "Toy", 2020, "made up", "A toy.")

    def planned_stages(self, key: TaskKey) -> tuple:
        return ()

    def train(self, task: TrainingTask) -> TrainedMethod:
        raise NotImplementedError

    def settings(self) -> dict:
        return {}


@pytest.fixture
def toy(tmp_path) -> Callable[..., Finished]:
    """A network by its parts, with source images that are not varied."""

    def make(
        features: nn.Module | None, layer: nn.Module | None, images: np.ndarray | None = None, labels: object = (0, 1)
    ) -> Finished:
        pixels = np.zeros((len(labels), 1, 1, 3), dtype=np.uint8) if images is None else images
        zeros = np.zeros(len(labels), dtype=int)
        classes = tuple(str(index) for index in range(max(labels) + 1))
        dataset = DomainDataset(pixels, np.asarray(labels), zeros, classes, ("a",))
        config = preset_config("small")
        still = replace(config, features=replace(config.features, augmentation=augmentation_preset("none")))
        task = TrainingTask(TaskKey("toy", still), dataset, torch.device("cpu"), StageStore(tmp_path))
        network = None if features is None or layer is None else ClassifierNetwork(features, layer)
        return Finished(ToyMethod(), task, Toy(network))

    return make
