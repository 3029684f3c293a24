"""Stage 3, resumable: one classifier for a trained f, whatever manifold stands beside it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from homefold.classifier import Classifier, build_classifier, fit_classifier
from homefold.runtime.device import one_thread
from homefold.stages.features import FeatureStage, features_id
from homefold.stages.task import TaskKey, TrainingTask
from homefold.stages.training_features import TrainingFeatures
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["classifier_id", "classifier_stage"]


def classifier_id(key: TaskKey) -> StageId:
    """Stage 3 on these features with these settings; adapted features are trained on with the target's samples."""
    config = key.config
    return stage_id(
        "classifier",
        features=features_id(key).digest,
        normalise=config.normalise_features,
        classifier=asdict(config.classifier),
        seed=config.seed,
    )


def classifier_stage(task: TrainingTask, features: FeatureStage) -> tuple[Classifier, Stage]:
    """The classifier of the task's features, trained if it was not before, and its stage."""
    config, classes = task.config, len(task.source.class_names)

    def train(_: Any) -> dict[str, Any]:
        given = TrainingFeatures.of(task, features)
        with one_thread(task.device):
            classifier = fit_classifier(
                config.classifier,
                given.train,
                given.train_labels,
                given.held_out,
                given.held_out_labels,
                num_classes=classes,
                seed=config.seed,
                device=task.device,
                reporter=task.reporter,
            )
        return {"tensors": classifier.state_dict(), "held_out_accuracy": classifier.held_out_accuracy}

    stage = task.stages.get(classifier_id(task.key), train)
    classifier = build_classifier(config.classifier, features.source().shape[1], classes)
    stage.load_into(classifier, "tensors")
    classifier.held_out_accuracy = stage.part("held_out_accuracy")
    return classifier.to(task.device), stage
