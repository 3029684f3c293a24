"""Stage 3, resumable: one classifier for a trained f, whatever manifold stands beside it; fine-tuned as stage 2 is."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from homefold.classifier import Classifier, ClassifierConfig, build_classifier, fit_classifier
from homefold.runtime.device import one_thread
from homefold.stages.features import FeatureStage, features_id
from homefold.stages.task import TaskKey, TrainingTask
from homefold.stages.training_features import TUNING_EPOCHS, TUNING_RATE, TrainingFeatures, before_adaptation
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["classifier_id", "classifier_stage"]


def _tuning_classifier(config: ClassifierConfig) -> ClassifierConfig:
    return replace(config, epochs=min(config.epochs, TUNING_EPOCHS), learning_rate=config.learning_rate * TUNING_RATE)


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
        before, stages = classifier_stage(*before_adaptation(task, features))

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
    stage.load_into(classifier, "tensors")
    classifier.held_out_accuracy = stage.part("held_out_accuracy")
    return classifier.to(task.device), (*stages, stage)
