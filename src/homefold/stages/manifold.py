"""Stage 2, resumable: one manifold for a trained f, its settings and a seed.

In few-shot adaptation it is trained on the features of the source and of the target's samples together.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from homefold.config.manifold import MANIFOLDS
from homefold.errors import ManifoldCollapsedError, TrainingDivergedError
from homefold.manifold import Manifold, ManifoldConfig, ManifoldReport, build_manifold, fit_manifold
from homefold.runtime.device import one_thread
from homefold.stages.features import FeatureStage, features_id
from homefold.stages.own_code import manifold_code
from homefold.stages.task import TaskKey, TrainingTask
from homefold.stages.training_features import TrainingFeatures
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["manifold_id", "manifold_stage", "usable_manifold_stage"]


def _decisive_manifold(config: ManifoldConfig) -> ManifoldConfig:
    """The settings with all at its default that decides nothing: 1-NN has features to keep and nothing to train."""
    return config if MANIFOLDS[config.kind].has_settings else ManifoldConfig(kind=config.kind)


def manifold_id(key: TaskKey) -> StageId:
    """Stage 2 on these features with these settings; adapted features are trained on with the target's samples."""
    config, manifold = key.config, _decisive_manifold(key.config.manifold)
    return stage_id(
        "manifold",
        features=features_id(key).digest,
        normalise=config.normalise_features,
        manifold=asdict(manifold),
        seed=config.seed,
        **({"code": code} if (code := manifold_code(manifold.kind)) else {}),
    )


def manifold_stage(task: TrainingTask, features: FeatureStage) -> tuple[Manifold, Stage]:
    """The manifold of the task's features, trained if it was not before, and its stage."""
    config = task.config

    def train(_: Any) -> dict[str, Any]:
        # What keeps features and trains nothing has no use for copies.
        given = TrainingFeatures.of(task, features, evenly=MANIFOLDS[config.manifold.kind].has_settings)
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
    manifold = build_manifold(config.manifold, features.source().shape[1])
    stage.load_into(manifold, "tensors")
    manifold.require_bank()
    manifold.report = ManifoldReport.from_dict(stage.part("report"))
    manifold.require_usable()
    return manifold.to(task.device), stage


def usable_manifold_stage(task: TrainingTask, features: FeatureStage) -> tuple[Manifold, ManifoldConfig, Stage]:
    """`manifold_stage` with its settings; where nothing can be learned, the nearest source feature stands in.

    Few images make few features, of which a generative model may learn no more than the mean.
    """
    asked = task.config.manifold
    try:
        manifold, stage = manifold_stage(task, features)
        return manifold, asked, stage
    except (ManifoldCollapsedError, TrainingDivergedError) as error:
        nearest, reason = replace(asked, kind="nearest", optimizer="adamw"), str(error)
        if asked.kind == "nearest":
            raise
    task.reporter.message(
        f"No manifold ({asked.kind}) could be learned from {len(task.split[0])} images, so that the nearest source "
        f"feature stands in its place. {reason}"
    )
    config = replace(task.config, manifold=nearest)
    manifold, stage = manifold_stage(replace(task, key=replace(task.key, config=config)), features)
    manifold.report = replace(manifold.report, instead_of=asked.kind, reason=reason)
    return manifold, nearest, stage
