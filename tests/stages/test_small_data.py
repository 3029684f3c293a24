"""A fit on few images ends in a model, and says what it could not learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from homefold import Homefold
from homefold.cli.info import describe_model
from homefold.config import HomefoldConfig, replace_settings
from homefold.data import DomainDataset
from homefold.errors import ManifoldCollapsedError
from homefold.runtime.progress import SilentReporter
from homefold.stages.task import TaskKey, TrainingTask
from homefold.stages.train import train_stages
from homefold.store.stage_store import MemoryStages

NOTHING_TO_LEARN = {"manifold.kl_weight": 1000.0, "manifold.epochs": 2, "features.epochs": 3}


@pytest.fixture(scope="module")
def unlearnable(quick_config: HomefoldConfig) -> HomefoldConfig:
    return replace_settings(quick_config, NOTHING_TO_LEARN)


class Listener(SilentReporter):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


@pytest.fixture(scope="module")
def listener() -> Listener:
    return Listener()


@pytest.fixture(scope="module")
def model(few_digits: DomainDataset, unlearnable: HomefoldConfig, listener: Listener) -> Homefold:
    return Homefold(unlearnable, device="cpu", reporter=listener).fit(few_digits, holdout="street")


def test_where_no_manifold_can_be_learned_the_nearest_source_feature_stands_in_and_it_is_said_once(
    model: Homefold, listener: Listener, few_digits: DomainDataset
) -> None:
    (said,) = [text for text in listener.messages if "nearest source" in text]
    assert said.startswith("No manifold (vae) could be learned from 198 images")
    assert "Lower manifold.kl_weight (it is 1000" in said
    assert set(model.predict(few_digits.only("street")).start_names) == {"nearest source feature"}


def test_it_is_saved_with_what_it_stands_in_for(model: Homefold, few_digits: DomainDataset, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = Homefold.load(tmp_path / "model", device="cpu")
    images = few_digits.only("street").images[:9]
    np.testing.assert_array_equal(again.predict_proba(images), model.predict_proba(images))
    measured = describe_model(tmp_path / "model")["measured"]["manifold"]
    assert (measured["kind"], measured["instead_of"], measured["collapsed"]) == ("nearest", "vae", False)
    assert "The VAE collapsed" in measured["reason"]
    assert "manifold: the nearest source feature, as no vae could be learned" in (
        tmp_path / "model" / "README.md"
    ).read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_comparison_of_methods_has_the_manifold_that_was_asked_for_or_none(
    few_digits: DomainDataset, unlearnable: HomefoldConfig, model: Homefold
) -> None:
    task = TrainingTask(
        key=TaskKey("few digits", unlearnable),
        source=few_digits.without("street"),
        device=model.device,
        stages=MemoryStages(None),
    )
    with pytest.raises(ManifoldCollapsedError, match="kl_weight"):
        train_stages(task)
