"""Stages 2 and 3 as the methods share them: one manifold a kind, one classifier for all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from homefold.classifier import Classifier, build_classifier, fit_classifier
from homefold.data.splits import selection_split
from homefold.device import one_thread
from homefold.evaluation.stage_store import Stage, StageId, stage_id
from homefold.feature_model import FeatureModel, calibration_features, reconstructor, to_sphere
from homefold.manifold import Manifold, ManifoldReport, build_manifold, fit_manifold
from homefold.methods.base import TaskKey, TrainingTask
from homefold.methods.feature_stage import FeatureStage, features_id

__all__ = ["TrainingFeatures", "classifier_id", "classifier_stage", "feature_model", "manifold_id", "manifold_stage"]


@dataclass(frozen=True, eq=False)
class TrainingFeatures:
    """Prepared features that stages 2 and 3 train on and select on: `(n, d)` with `(n,)` labels each."""

    train: torch.Tensor
    train_labels: torch.Tensor
    held_out: torch.Tensor
    held_out_labels: torch.Tensor

    @staticmethod
    def of(task: TrainingTask, features: FeatureStage) -> TrainingFeatures:
        """The source's; in few-shot adaptation with the target's samples, repeated to weigh as much."""
        config, source = task.config, task.source
        train, held_out = selection_split(source, config.features.held_out, config.seed)
        labels = torch.from_numpy(source.labels).to(task.device)
        z, rows, held = features.source(), torch.from_numpy(train), torch.from_numpy(held_out)
        train_z, train_labels = z[rows], labels[rows]
        if task.adapt is not None:
            times = max(1, len(train) // len(task.adapt))
            train_z = torch.cat([train_z, features.adapt().repeat(times, 1)])
            few = torch.from_numpy(task.adapt.labels).to(task.device)
            train_labels = torch.cat([train_labels, few.repeat(times)])
        prepare = to_sphere if config.normalise_features else torch.Tensor.float
        return TrainingFeatures(prepare(train_z), train_labels, prepare(z[held]), labels[held])


def manifold_id(key: TaskKey) -> StageId:
    """Stage 2 on these features with these settings."""
    config = key.config
    return stage_id(
        "manifold",
        features=features_id(key).digest,
        normalise=config.normalise_features,
        manifold=asdict(config.manifold),
        seed=config.seed,
    )


def manifold_stage(task: TrainingTask, features: FeatureStage) -> tuple[Manifold, Stage]:
    """The manifold of the task's features, trained if it was not before, and its stage."""
    config = task.config

    def train(_: Any) -> dict[str, Any]:
        given = TrainingFeatures.of(task, features)
        with one_thread(task.device):
            manifold = fit_manifold(
                config.manifold,
                given.train,
                given.held_out,
                labels=given.train_labels,
                seed=config.seed,
                device=task.device,
                reporter=task.reporter,
            )
        return {"tensors": manifold.state_dict(), "report": manifold.report.as_dict()}

    stage = task.stages.get(manifold_id(task.key), train)
    tensors = stage.state["tensors"]
    manifold = build_manifold(config.manifold, tensors["bank_features"].shape[1])
    manifold.load_state_dict(tensors)
    manifold.report = ManifoldReport.from_dict(stage.state["report"])
    manifold.require_usable()
    return manifold.to(task.device), stage


def classifier_id(key: TaskKey) -> StageId:
    """Stage 3 on these features with these settings; of the manifold only where it trains on its reconstructions."""
    config = key.config
    depends: dict[str, Any] = {}
    if config.classifier.train_on == "both":
        depends = {"manifold": manifold_id(key).digest, "projection": asdict(config.projection)}
    return stage_id(
        "classifier",
        features=features_id(key).digest,
        normalise=config.normalise_features,
        classifier=asdict(config.classifier),
        seed=config.seed,
        **depends,
    )


def classifier_stage(task: TrainingTask, features: FeatureStage, manifold: Manifold | None) -> tuple[Classifier, Stage]:
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
                reconstruct=None if manifold is None else reconstructor(manifold, config.projection, config.seed),
                seed=config.seed,
                device=task.device,
                reporter=task.reporter,
            )
        return {"tensors": classifier.state_dict(), "held_out_accuracy": classifier.held_out_accuracy}

    stage = task.stages.get(classifier_id(task.key), train)
    classifier = build_classifier(config.classifier, features.source().shape[1], classes)
    classifier.load_state_dict(stage.state["tensors"])
    classifier.held_out_accuracy = stage.state["held_out_accuracy"]
    return classifier.to(task.device), stage


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
        manifold, stage = manifold_stage(task, features)
        stages.append(stage)
    else:
        unused = replace(config.manifold, kind="nearest", optimizer="adamw")
        manifold = build_manifold(unused, given.train.shape[1]).to(task.device)
    classifier, stage = classifier_stage(task, features, manifold if projected else None)
    stages.append(stage)
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
