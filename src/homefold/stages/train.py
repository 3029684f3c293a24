"""The one place that strings the stages together."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from homefold.features.network import FeatureNet
from homefold.manifold import Manifold, ManifoldConfig, build_manifold
from homefold.runtime.text import as_text
from homefold.stages.calibration import Calibration, calibration_ids, calibration_stage
from homefold.stages.classifier import classifier_id, classifier_stage
from homefold.stages.familiar import familiarity_id, familiarity_stage
from homefold.stages.feature_model import FeatureModel, calibration_features
from homefold.stages.features import FeatureStage, features_id, features_ids, train_feature_stage
from homefold.stages.manifold import manifold_id, manifold_stage, usable_manifold_stage
from homefold.stages.style import StyledStage, style_ids, styled_stage
from homefold.stages.task import TaskKey, TrainingTask
from homefold.stages.trained_model import TrainedModel
from homefold.stages.training_features import TrainingFeatures
from homefold.store.stage_store import StageId

__all__ = ["planned_stages", "train_stages"]


def planned_stages(key: TaskKey, *, projected: bool = True) -> tuple[StageId, ...]:
    """The stages that `train_stages` will need, in their order."""
    manifold = [manifold_id(key)] if projected else []
    familiar = [familiarity_id(key, features_id(key))] if projected and _leaves_familiar(key) else []
    return (*features_ids(key), *manifold, classifier_id(key), *style_ids(key), *familiar, *calibration_ids(key))


def _leaves_familiar(key: TaskKey) -> bool:
    return key.config.look.leave_familiar and bool(style_ids(key))


def train_stages(task: TrainingTask, *, projected: bool = True, any_manifold: bool = False) -> TrainedModel:
    """Train f, G, C and the source styles, or find them again where they were trained before.

    Unless `projected`, no manifold is needed, and the nearest source feature stands in its place, unused. With
    `any_manifold` it does so as well where the manifold asked for cannot be learned.
    """
    config = task.config
    features = train_feature_stage(task)
    stages = list(features.stages)
    given = TrainingFeatures.of(task, features)
    if projected and any_manifold:
        manifold, of_it, of_manifold = usable_manifold_stage(task, features)
        config, stages = replace(config, manifold=of_it), [*stages, of_manifold]
    elif projected:
        manifold, of_manifold = manifold_stage(task, features)
        stages.append(of_manifold)
    else:
        manifold = build_manifold(ManifoldConfig(kind="nearest"), given.train.shape[1]).to(task.device)
    classifier, of_classifier = classifier_stage(task, features)
    stages.append(of_classifier)
    seen = styled_stage(task, features)
    style = seen if isinstance(seen, StyledStage) else None
    if style is not None:
        stages.append(style.stages[-1])
    familiarity = None
    if projected and _leaves_familiar(task.key):
        assert isinstance(features.net, FeatureNet)
        familiarity, of_familiar = familiarity_stage(task, features.net, features_id(task.key))
        stages.append(of_familiar)
    elif config.look.leave_familiar:
        config = replace(config, look=replace(config.look, leave_familiar=False))
    calibration, of_calibration = calibration_stage(
        task, given, classifier, partial(train_stages, projected=False, any_manifold=any_manifold)
    )
    stages += of_calibration
    domains = torch.from_numpy(task.source.domains[task.split[1]])
    model = FeatureModel(
        manifold=manifold,
        classifier=classifier,
        search=task.config.search,
        normalise=task.config.normalise_features,
        class_names=task.source.class_names,
        seed=task.config.seed,
        calibration=calibration_features(given.held_out, given.held_out_labels, domains, task.config.seed),
        temperature=calibration.temperature,
    )
    return TrainedModel(
        config=config,
        encoder=features,
        feature_model=model,
        domains=task.source.domain_names,
        reports=_reports(task, features, manifold if projected else None, model, calibration),
        style=None if style is None else style.style,
        styled=style,
        familiarity=familiarity,
        stages=tuple(stages),
    )


def _reports(
    task: TrainingTask,
    features: FeatureStage,
    manifold: Manifold | None,
    model: FeatureModel,
    calibration: Calibration,
) -> dict[str, Any]:
    """What each stage measured on held-out source images."""
    train, held_out = task.split
    of_manifold = {} if manifold is None else {"manifold": manifold.report.as_dict()}
    return {
        "images": {
            "trained_on": len(train),
            "held_out": len(held_out),
            "skipped": [[as_text(text) for text in item] for item in task.source.skipped],
        },
        "features": features.report,
        **of_manifold,
        "classifier": {"held_out_accuracy": model.classifier.held_out_accuracy},
        **({"calibration": calibration.as_dict()} if calibration.fitted_on else {}),
    }
