"""Stages 2 and 3 as the methods share them: one manifold a kind, one classifier for all of them.

In few-shot adaptation each is fine-tuned: trained on the source first, then continued from there on the labelled target
samples alone, at a tenth of its rate for at most 20 epochs, the last of which is kept. 1-NN has no weights to tune: it
keeps the samples beside the source features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from homefold.classifier import Classifier, ClassifierConfig, build_classifier, fit_classifier
from homefold.data.splits import selection_split
from homefold.device import one_thread
from homefold.errors import ConfigError
from homefold.evaluation.stage_store import Stage, StageId, stage_id
from homefold.feature_model import FeatureModel, calibration_features, reconstructor, to_sphere
from homefold.features.network import FeatureSpace
from homefold.manifold import (
    FeatureGroups,
    Manifold,
    ManifoldConfig,
    ManifoldReport,
    build_manifold,
    component_groups,
    denoising_shifts,
    fit_manifold,
)
from homefold.methods.base import TaskKey, TrainingTask
from homefold.methods.feature_stage import FeatureStage, features_id
from homefold.methods.rehearsal_stage import rehearsal_ids, rehearsal_stages, rehearsed_stage_features
from homefold.projection import ProjectionConfig

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
    def of(task: TrainingTask, features: FeatureStage, space: FeatureSpace = "feature") -> TrainingFeatures:
        """The source's, whether or not there are target samples to adapt to."""
        config, source = task.config, task.source
        train, held_out = selection_split(source, config.features.held_out, config.seed)
        labels = torch.from_numpy(source.labels).to(task.device)
        z, rows, held = features.source(space), torch.from_numpy(train), torch.from_numpy(held_out)
        prepare = to_sphere if config.normalise_features else torch.Tensor.float
        return TrainingFeatures(prepare(z[rows]), labels[rows], prepare(z[held]), labels[held])

    @staticmethod
    def to_adapt_to(task: TrainingTask, features: FeatureStage, space: FeatureSpace = "feature") -> TrainingFeatures:
        """The labelled target samples of few-shot adaptation; what is held out is the source's still."""
        assert task.adapt is not None
        prepare = to_sphere if task.config.normalise_features else torch.Tensor.float
        labels = torch.from_numpy(task.adapt.labels).to(task.device)
        source = TrainingFeatures.of(task, features, space)
        return replace(source, train=prepare(features.adapt(space)), train_labels=labels)

    def classes(self, task: TrainingTask) -> FeatureGroups:
        """Which class each is of."""
        return FeatureGroups(self.train_labels, self.held_out_labels, task.source.class_names)

    def with_samples(self, samples: TrainingFeatures) -> TrainingFeatures:
        """These and the samples after them."""
        train = torch.cat([self.train, samples.train])
        return replace(self, train=train, train_labels=torch.cat([self.train_labels, samples.train_labels]))


def _domain_groups(task: TrainingTask) -> FeatureGroups:
    """Which source domain each of the source's training and held-out features is of."""
    source = task.source
    train, held_out = selection_split(source, task.config.features.held_out, task.config.seed)
    domains = torch.from_numpy(source.domains)
    return FeatureGroups(domains[train], domains[held_out], source.domain_names)


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
    return ManifoldConfig(kind="nearest", space=config.space) if config.kind == "nearest" else config


def _decisive_search(config: ProjectionConfig) -> ProjectionConfig:
    """The settings with all at its default that does not decide where a search ends, but how fast or how rounded."""
    plain = ProjectionConfig()
    search = config.search.search_only()
    return replace(search, engine=plain.engine, precision=plain.precision, tile=plain.tile)


_CAME_LATER = ("rehearse", "tints")


def _settings(config: ManifoldConfig | ProjectionConfig) -> dict[str, Any]:
    """The settings as plain values; one that came later is left out where it is not used, so that stages are found."""
    return {name: value for name, value in asdict(config).items() if value or name not in _CAME_LATER}


def manifold_id(key: TaskKey) -> StageId:
    """Stage 2 on these features with these settings; the fine-tuned one where there are samples to adapt to."""
    config, manifold = key.config, _decisive_manifold(key.config.manifold)
    depends: dict[str, Any] = {}
    if key.adapt and config.manifold.per != "all":
        raise ConfigError(
            f"few-shot adaptation cannot fine-tune one manifold for each {config.manifold.per}: a component would see "
            "too few samples, or none; set manifold.per to all."
        )
    if key.adapt:
        depends = {
            "base": manifold_id(replace(key, adapt="")).digest,
            "tuning": _settings(_tuning_manifold(manifold)),
        }
    if rehearsed := rehearsal_ids(key):
        depends |= {"rehearsed": [stage.digest for stage in rehearsed]}
    return stage_id(
        "manifold",
        features=features_id(key).digest,
        normalise=config.normalise_features,
        manifold=_settings(manifold),
        seed=config.seed,
        **depends,
    )


def manifold_stage(task: TrainingTask, features: FeatureStage) -> tuple[Manifold, tuple[Stage, ...]]:
    """The manifold of the task's features, trained if it was not before, and the stages it stands on."""
    config = task.config
    before: Manifold | None = None
    stages = rehearsing = rehearsal_stages(task)
    if task.adapt is not None:
        before, stages = manifold_stage(*_before_adaptation(task, features))

    def train(_: Any) -> dict[str, Any]:
        given = source = TrainingFeatures.of(task, features, config.manifold.space)
        classes, domains = source.classes(task), _domain_groups(task)
        rehearsed = rehearsed_stage_features(task, features, rehearsing)
        if before is not None:
            samples = TrainingFeatures.to_adapt_to(task, features, config.manifold.space)
            given = samples if before.is_continuous else given.with_samples(samples)
        with one_thread(task.device):
            manifold = fit_manifold(
                config.manifold if before is None else _tuning_manifold(config.manifold),
                given.train,
                given.held_out,
                labels=given.train_labels,
                groups=component_groups(config.manifold, classes, domains),
                shifts=denoising_shifts(config.manifold, source.train, classes, domains),
                rehearsed=rehearsed,
                seed=config.seed,
                device=task.device,
                reporter=task.reporter,
                initial=None if before is None else before.state_dict(),
                keep="best" if before is None else "last",
            )
        return {"tensors": manifold.state_dict(), "report": manifold.report.as_dict()}

    stage = task.stages.get(manifold_id(task.key), train)
    manifold = build_manifold(config.manifold, features.source(config.manifold.space).shape[1])
    stage.load_into(manifold, "tensors")
    manifold.require_bank()
    manifold.report = ManifoldReport.from_dict(stage.part("report"))
    manifold.require_usable()
    return manifold.to(task.device), (*stages, stage)


def classifier_id(key: TaskKey) -> StageId:
    """Stage 3 on these features with these settings; of the manifold only where it trains on its reconstructions."""
    config = key.config
    depends: dict[str, Any] = {}
    if key.adapt:
        tuning = asdict(_tuning_classifier(config.classifier))
        depends = {"base": classifier_id(replace(key, adapt="")).digest, "tuning": tuning}
    if config.classifier.train_on == "both":
        depends |= {"manifold": manifold_id(key).digest}
        # Without an encoder the search makes the reconstructions, and so its settings are settings of the training.
        search = {"projection": _settings(_decisive_search(config.projection))}
        depends |= search if config.manifold.kind == "gan" else {}
    return stage_id(
        "classifier",
        features=features_id(key).digest,
        normalise=config.normalise_features,
        classifier=asdict(config.classifier),
        seed=config.seed,
        **depends,
    )


def classifier_stage(
    task: TrainingTask, features: FeatureStage, *, projected: bool
) -> tuple[Classifier, tuple[Stage, ...]]:
    """The classifier of the task's features, trained if it was not before, and the stages it stands on."""
    config, classes = task.config, len(task.source.class_names)
    before: Classifier | None = None
    stages: tuple[Stage, ...] = ()
    if task.adapt is not None:
        before, stages = classifier_stage(*_before_adaptation(task, features), projected=projected)

    def train(_: Any) -> dict[str, Any]:
        given = (TrainingFeatures.of if before is None else TrainingFeatures.to_adapt_to)(task, features)
        manifold = manifold_stage(task, features)[0] if projected and config.classifier.train_on == "both" else None
        with one_thread(task.device):
            classifier = fit_classifier(
                config.classifier if before is None else _tuning_classifier(config.classifier),
                given.train,
                given.train_labels,
                given.held_out,
                given.held_out_labels,
                num_classes=classes,
                reconstruct=None if manifold is None else _reconstructor(task, features, manifold),
                reconstruct_from=None if manifold is None else _reconstructed_from(task, features),
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


def _reconstructor(
    task: TrainingTask, features: FeatureStage, manifold: Manifold
) -> Callable[[torch.Tensor], torch.Tensor]:
    config = task.config
    head = features.head if config.manifold.space == "backbone" else None
    return reconstructor(manifold, config.projection, config.seed, head=head, normalise=config.normalise_features)


def _reconstructed_from(task: TrainingTask, features: FeatureStage) -> torch.Tensor | None:
    """The backbone's raw outputs for what the classifier is trained on; None where G is of z itself."""
    config = task.config
    if config.manifold.space == "feature":
        return None
    if task.adapt is not None:
        return features.adapt("backbone")
    train, _ = selection_split(task.source, config.features.held_out, config.seed)
    return features.source("backbone")[torch.from_numpy(train)]


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
    space = config.manifold.space if projected else "feature"
    given = TrainingFeatures.of(task, features, space)
    stages = list(features.stages)
    if projected:
        manifold, of_manifold = manifold_stage(task, features)
        stages += of_manifold
    else:
        manifold = build_manifold(ManifoldConfig(kind="nearest"), given.train.shape[1]).to(task.device)
    classifier, of_classifier = classifier_stage(task, features, projected=projected)
    stages += of_classifier
    model = FeatureModel(
        manifold=manifold,
        classifier=classifier,
        projection=config.projection,
        normalise=config.normalise_features,
        class_names=task.source.class_names,
        seed=config.seed,
        calibration=calibration_features(
            given.held_out, given.held_out_labels, _domain_groups(task).held_out, config.seed
        ),
        head=features.head if space == "backbone" else None,
    )
    return model, tuple(stages)
