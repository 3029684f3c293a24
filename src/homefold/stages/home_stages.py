"""Stages 2 and 3 as the methods share them: one manifold a kind, one classifier for all of them.

In few-shot adaptation each is fine-tuned: trained on the source first, then continued from there on the labelled target
samples alone, at a tenth of its rate for at most 20 epochs, the last of which is kept. 1-NN has no weights to tune: it
keeps the samples beside the source features.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from homefold.classifier import Classifier, ClassifierConfig, build_classifier, fit_classifier
from homefold.data.splits import selection_split
from homefold.manifold import (
    Manifold,
    ManifoldConfig,
    ManifoldReport,
    build_manifold,
    fit_manifold,
)
from homefold.runtime.device import one_thread
from homefold.stages.feature_model import FeatureModel, calibration_features, to_sphere
from homefold.stages.features import FeatureStage, features_id
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["TrainingFeatures", "classifier_id", "classifier_stage", "feature_model", "manifold_id", "manifold_stage"]

_TUNING_EPOCHS = 20
_TUNING_RATE = 0.1


@dataclass(frozen=True, eq=False)
class TrainingFeatures:
    """Prepared features that stages 2 and 3 train on and select on: `(n, d)` with `(n,)` labels each."""

    train: torch.Tensor
    train_labels: torch.Tensor
    held_out: torch.Tensor
    held_out_labels: torch.Tensor

    @staticmethod
    def of(task: TrainingTask, features: FeatureStage) -> TrainingFeatures:
        """The source's, whether or not there are target samples to adapt to."""
        config, source = task.config, task.source
        train, held_out = selection_split(source, config.features.held_out, config.seed)
        labels = torch.from_numpy(source.labels).to(task.device)
        z, rows, held = features.source(), torch.from_numpy(train), torch.from_numpy(held_out)
        prepare = to_sphere if config.normalise_features else torch.Tensor.float
        return TrainingFeatures(prepare(z[rows]), labels[rows], prepare(z[held]), labels[held])

    @staticmethod
    def to_adapt_to(task: TrainingTask, features: FeatureStage) -> TrainingFeatures:
        """The labelled target samples of few-shot adaptation; what is held out is the source's still."""
        assert task.adapt is not None
        prepare = to_sphere if task.config.normalise_features else torch.Tensor.float
        labels = torch.from_numpy(task.adapt.labels).to(task.device)
        source = TrainingFeatures.of(task, features)
        return replace(source, train=prepare(features.adapt()), train_labels=labels)

    def with_samples(self, samples: TrainingFeatures) -> TrainingFeatures:
        """These and the samples after them."""
        train = torch.cat([self.train, samples.train])
        return replace(self, train=train, train_labels=torch.cat([self.train_labels, samples.train_labels]))


def _before_adaptation(task: TrainingTask, features: FeatureStage) -> tuple[TrainingTask, FeatureStage]:
    """The task and its stage 1 as they were before any target sample was seen."""
    before = replace(task, key=replace(task.key, adapt=""), adapt=None)
    return before, FeatureStage(before, features.stages[0])


def _tuning_manifold(config: ManifoldConfig) -> ManifoldConfig:
    return replace(
        config,
        epochs=max(1, min(config.resolved_epochs, _TUNING_EPOCHS)),
        learning_rate=config.resolved_learning_rate * _TUNING_RATE,
        schedule="constant",
    )


def _tuning_classifier(config: ClassifierConfig) -> ClassifierConfig:
    return replace(config, epochs=min(config.epochs, _TUNING_EPOCHS), learning_rate=config.learning_rate * _TUNING_RATE)


def _decisive_manifold(config: ManifoldConfig) -> ManifoldConfig:
    """The settings with all at its default that decides nothing: 1-NN has features to keep and nothing to train."""
    return ManifoldConfig(kind="nearest") if config.kind == "nearest" else config


def manifold_id(key: TaskKey) -> StageId:
    """Stage 2 on these features with these settings; the fine-tuned one where there are samples to adapt to."""
    config, manifold = key.config, _decisive_manifold(key.config.manifold)
    depends: dict[str, Any] = {}
    if key.adapt:
        depends = {
            "base": manifold_id(replace(key, adapt="")).digest,
            "tuning": asdict(_tuning_manifold(manifold)),
        }
    return stage_id(
        "manifold",
        features=features_id(key).digest,
        normalise=config.normalise_features,
        manifold=asdict(manifold),
        seed=config.seed,
        **depends,
    )


def manifold_stage(task: TrainingTask, features: FeatureStage) -> tuple[Manifold, tuple[Stage, ...]]:
    """The manifold of the task's features, trained if it was not before, and the stages it stands on."""
    config = task.config
    before: Manifold | None = None
    stages: tuple[Stage, ...] = ()
    if task.adapt is not None:
        before, stages = manifold_stage(*_before_adaptation(task, features))

    def train(_: Any) -> dict[str, Any]:
        given = TrainingFeatures.of(task, features)
        if before is not None:
            samples = TrainingFeatures.to_adapt_to(task, features)
            given = samples if before.is_continuous else given.with_samples(samples)
        with one_thread(task.device):
            manifold = fit_manifold(
                config.manifold if before is None else _tuning_manifold(config.manifold),
                given.train,
                given.held_out,
                labels=given.train_labels,
                seed=config.seed,
                device=task.device,
                reporter=task.reporter,
                initial=None if before is None else before.state_dict(),
                keep="best" if before is None else "last",
            )
        return {"tensors": manifold.state_dict(), "report": manifold.report.as_dict()}

    stage = task.stages.get(manifold_id(task.key), train)
    tensors = stage.state["tensors"]
    manifold = build_manifold(config.manifold, tensors["bank_features"].shape[1])
    manifold.load_state_dict(tensors)
    manifold.report = ManifoldReport.from_dict(stage.state["report"])
    manifold.require_usable()
    return manifold.to(task.device), (*stages, stage)


def classifier_id(key: TaskKey) -> StageId:
    """Stage 3 on these features with these settings; the fine-tuned one where there are samples to adapt to."""
    config = key.config
    depends: dict[str, Any] = {}
    if key.adapt:
        tuning = asdict(_tuning_classifier(config.classifier))
        depends = {"base": classifier_id(replace(key, adapt="")).digest, "tuning": tuning}
    return stage_id(
        "classifier",
        features=features_id(key).digest,
        normalise=config.normalise_features,
        classifier=asdict(config.classifier),
        seed=config.seed,
        **depends,
    )


def classifier_stage(task: TrainingTask, features: FeatureStage) -> tuple[Classifier, tuple[Stage, ...]]:
    """The classifier of the task's features, trained if it was not before, and the stages it stands on."""
    config, classes = task.config, len(task.source.class_names)
    before: Classifier | None = None
    stages: tuple[Stage, ...] = ()
    if task.adapt is not None:
        before, stages = classifier_stage(*_before_adaptation(task, features))

    def train(_: Any) -> dict[str, Any]:
        given = (TrainingFeatures.of if before is None else TrainingFeatures.to_adapt_to)(task, features)
        with one_thread(task.device):
            classifier = fit_classifier(
                config.classifier if before is None else _tuning_classifier(config.classifier),
                given.train,
                given.train_labels,
                given.held_out,
                given.held_out_labels,
                num_classes=classes,
                seed=config.seed,
                device=task.device,
                reporter=task.reporter,
                initial=None if before is None else before.state_dict(),
                keep="best" if before is None else "last",
            )
        return {"tensors": classifier.state_dict(), "held_out_accuracy": classifier.held_out_accuracy}

    stage = task.stages.get(classifier_id(task.key), train)
    classifier = build_classifier(config.classifier, features.source().shape[1], classes)
    classifier.load_state_dict(stage.state["tensors"])
    classifier.held_out_accuracy = stage.state["held_out_accuracy"]
    return classifier.to(task.device), (*stages, stage)


def feature_model(
    task: TrainingTask, features: FeatureStage, *, projected: bool
) -> tuple[FeatureModel, tuple[Stage, ...]]:
    """Stages 2 to 4 on the task's features, and the stages they stand on.

    Args:
        task: source and settings.
        features: stage 1.
        projected: whether a manifold is needed; without one the nearest source feature stands in its place, unused.
    """
    config = task.config
    given = TrainingFeatures.of(task, features)
    stages = list(features.stages)
    if projected:
        manifold, of_manifold = manifold_stage(task, features)
        stages += of_manifold
    else:
        manifold = build_manifold(ManifoldConfig(kind="nearest"), given.train.shape[1]).to(task.device)
    classifier, of_classifier = classifier_stage(task, features)
    stages += of_classifier
    model = FeatureModel(
        manifold=manifold,
        classifier=classifier,
        projection=config.projection,
        normalise=config.normalise_features,
        class_names=task.source.class_names,
        seed=config.seed,
        calibration=calibration_features(given.held_out),
    )
    return model, tuple(stages)
