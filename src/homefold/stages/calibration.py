"""How sure answers for an unseen domain may sound: one temperature, and what such a domain may be expected to give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from homefold.classifier import Classifier
from homefold.classifier.temperature import fit_temperature
from homefold.data.dataset import DatasetKeys
from homefold.data.splits import stratified_rows
from homefold.errors import FeatureCollapseError, TrainingDivergedError
from homefold.stages.classifier import classifier_id
from homefold.stages.style import style_ids
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.stages.trained_model import TrainedModel
from homefold.stages.training_features import TrainingFeatures
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["Calibration", "calibration_ids", "calibration_stage"]

_MOST_IMAGES = 1000


@dataclass(frozen=True)
class Calibration:
    """What the logits are divided by, and where it is from.

    Args:
        temperature: 1 where nothing was fitted.
        fitted_on: `held-out images` or `held-out domains`; empty where nothing was fitted.
        accuracy: by source domain, that of a network trained without it, with styles moved and no projection; of those
            that could be trained.
    """

    temperature: float = 1.0
    fitted_on: str = ""
    accuracy: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For reports."""
        return {"temperature": self.temperature, "fitted_on": self.fitted_on, "accuracy": dict(self.accuracy)}


def calibration_ids(key: TaskKey) -> tuple[StageId, ...]:
    """The stage that `calibration_stage` keeps, if the settings ask for one; few samples to adapt to teach none."""
    config = key.config
    if config.calibrate == "none" or key.adapt:
        return ()
    styles = [style.digest for style in style_ids(key)] if config.calibrate == "domains" else []
    return (stage_id("calibration", classifier=classifier_id(key).digest, on=config.calibrate, styles=styles),)


def calibration_stage(
    task: TrainingTask, given: TrainingFeatures, classifier: Classifier, train: Callable[[TrainingTask], TrainedModel]
) -> tuple[Calibration, tuple[Stage, ...]]:
    """The temperature that the settings ask for, fitted if it was not before.

    Args:
        task: what was trained.
        given: its features.
        classifier: C, trained on them.
        train: trains f, C and styles on part of the sources.
    """
    ids = calibration_ids(task.key)
    if not ids:
        return Calibration(), ()

    def fit(_: object) -> dict[str, Any]:
        found = _on_domains(task, train) if task.config.calibrate == "domains" else None
        return (found or _on_images(given, classifier)).as_dict()

    stage = task.stages.get(ids[0], fit)
    names = ("temperature", "fitted_on", "accuracy")
    return Calibration(**{name: stage.part(name) for name in names}), (stage,)


def _on_images(given: TrainingFeatures, classifier: Classifier) -> Calibration:
    with torch.no_grad():
        logits = classifier(given.held_out)
    return Calibration(fit_temperature(logits, given.held_out_labels), "held-out images")


def _on_domains(task: TrainingTask, train: Callable[[TrainingTask], TrainedModel]) -> Calibration | None:
    """By each source domain, answered by a network that has not seen it; nothing where none can be left out."""
    source = task.source
    if len(source.domain_names) < 2 or task.network is not None:
        reason = "a network of your own is trained once" if task.network is not None else "there is one source domain"
        task.reporter.message(f"Confidence is calibrated on held-out images, since {reason}.")
        return None
    keys, found, accuracy = DatasetKeys(source), [], {}
    for index, name in enumerate(source.domain_names):
        task.reporter.message(f"Training without {name}, to see how sure answers for an unseen domain may be.")
        key = TaskKey(
            keys.of_labelled(np.flatnonzero(source.domains != index)),
            replace(task.config, calibrate="none"),
            deterministic=task.key.deterministic,
        )
        try:
            trained = train(replace(task, key=key, source=source.without(name), on_epoch=None))
        except (FeatureCollapseError, TrainingDivergedError) as error:
            task.reporter.message(f"Without {name} the training came to nothing. {error}")
            continue
        rows = np.flatnonzero(source.domains == index)
        rows = rows[stratified_rows(source.labels[rows], _MOST_IMAGES, task.config.seed)]
        answer = trained.answer(ImageSet(np.asarray(source.images[rows])), projected=False, styled=True)
        logits = trained.feature_model.logits(trained.feature_model.prepare(answer.features))
        labels = torch.from_numpy(source.labels[rows])
        found.append((logits.cpu(), labels, torch.full((len(rows),), 1 / len(rows))))
        accuracy[name] = float((answer.predictions.indices == source.labels[rows]).mean())
    if not found:
        return None
    return Calibration(fit_temperature(*map(torch.cat, zip(*found, strict=True))), "held-out domains", accuracy)
