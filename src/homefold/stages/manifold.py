"""Stage 2, resumable: one manifold for a trained f, its settings and a seed.

In few-shot adaptation it is fine-tuned: trained on the source first, then continued from there on the labelled target
samples alone, at a tenth of its rate for at most 20 epochs, the last of which is kept. 1-NN has no weights to tune: it
keeps the samples beside the source features.
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
from homefold.stages.training_features import TUNING_EPOCHS, TUNING_RATE, TrainingFeatures, before_adaptation
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["manifold_id", "manifold_stage", "usable_manifold_stage"]


def _tuning_manifold(config: ManifoldConfig) -> ManifoldConfig:
    return replace(
        config,
        epochs=max(1, min(config.resolved_epochs, TUNING_EPOCHS)),
        learning_rate=config.resolved_learning_rate * TUNING_RATE,
        schedule="constant",
    )


def _decisive_manifold(config: ManifoldConfig) -> ManifoldConfig:
    """The settings with all at its default that decides nothing: 1-NN has features to keep and nothing to train."""
    return config if MANIFOLDS[config.kind].has_settings else ManifoldConfig(kind=config.kind)


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
        **({"code": code} if (code := manifold_code(manifold.kind)) else {}),
    )


def manifold_stage(task: TrainingTask, features: FeatureStage) -> tuple[Manifold, tuple[Stage, ...]]:
    """The manifold of the task's features, trained if it was not before, and the stages it stands on."""
    config = task.config
    before: Manifold | None = None
    stages: tuple[Stage, ...] = ()
    if task.adapt is not None:
        before, stages = manifold_stage(*before_adaptation(task, features))

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
    manifold = build_manifold(config.manifold, features.source().shape[1])
    stage.load_into(manifold, "tensors")
    manifold.require_bank()
    manifold.report = ManifoldReport.from_dict(stage.part("report"))
    manifold.require_usable()
    return manifold.to(task.device), (*stages, stage)


def usable_manifold_stage(
    task: TrainingTask, features: FeatureStage
) -> tuple[Manifold, ManifoldConfig, tuple[Stage, ...]]:
    """`manifold_stage` with its settings; where nothing can be learned, the nearest source feature stands in.

    Few images make few features, of which a generative model may learn no more than the mean.
    """
    asked = task.config.manifold
    try:
        manifold, stages = manifold_stage(task, features)
        return manifold, asked, stages
    except (ManifoldCollapsedError, TrainingDivergedError) as error:
        nearest, reason = replace(asked, kind="nearest", optimizer="adamw"), str(error)
        if asked.kind == "nearest":
            raise
    task.reporter.message(
        f"No manifold ({asked.kind}) could be learned from {len(task.split[0])} images, so that the nearest source "
        f"feature stands in its place. {reason}"
    )
    config = replace(task.config, manifold=nearest)
    manifold, stages = manifold_stage(replace(task, key=replace(task.key, config=config)), features)
    manifold.report = replace(manifold.report, instead_of=asked.kind, reason=reason)
    return manifold, nearest, stages
