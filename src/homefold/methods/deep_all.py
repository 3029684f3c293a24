"""Deep All: a plain classifier on the pooled source domains, the control that every method must beat."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from homefold.config import HomefoldConfig
from homefold.data.dataset import DomainDataset
from homefold.data.splits import selection_split
from homefold.device import resolve_device
from homefold.errors import ConfigError
from homefold.evaluation.stage_store import StageId
from homefold.features import TrainedFeatures, build_feature_net, extract_features, train_features
from homefold.methods.base import Method, MethodInfo, TaskKey, TrainedMethod, TrainingTask
from homefold.methods.feature_stage import FeatureStage, features_id, require_stage_1, train_feature_stage
from homefold.methods.style_stage import style_ids, styled_stage, with_style_blocks
from homefold.methods.trained_classifier import TrainedClassifier
from homefold.progress import ProgressReporter

__all__ = ["DeepAll", "DeepAllMethod", "deep_all_config"]


def deep_all_config(config: HomefoldConfig) -> HomefoldConfig:
    """`config` with cross entropy in the place of L_A, which nothing is emphasised in, and everything else as it is."""
    features = replace(
        config.features,
        metric_weight=0.0,
        cross_entropy_weight=1.0,
        cross_entropy_until=1.0,
        cross_domain_weight=1.0,
        hard_pairs=0.0,
    )
    return replace(config, features=features)


class DeepAll:
    """Minimise CE(W f(x), y) over the pooled sources; the same network, augmentation and selection as the method.

    Args:
        config: of the method it is compared with; its loss is replaced by cross entropy.
        device: where to train.
        reporter: shows progress.
    """

    def __init__(
        self,
        config: HomefoldConfig,
        *,
        device: str | torch.device = "auto",
        reporter: ProgressReporter | None = None,
    ) -> None:
        self.config = deep_all_config(config)
        self.device = resolve_device(device)
        self.reporter = reporter
        self._trained: TrainedFeatures | None = None

    def fit(self, dataset: DomainDataset) -> DeepAll:
        """Train on source domains of the configured image size."""
        config = self.config
        train, held_out = selection_split(dataset, config.features.held_out, config.seed)
        net = build_feature_net(
            config.features,
            dataset.image_size,
            normalisation=config.preprocessing.normalisation,
            seed=config.seed,
            pretrained=True,
        )
        self._trained = train_features(
            config.features,
            net,
            dataset,
            train,
            held_out,
            seed=config.seed,
            device=self.device,
            reporter=self.reporter,
        )
        return self

    @property
    def trained(self) -> TrainedFeatures:
        """The network and its classifier layer."""
        if self._trained is None:
            raise ConfigError("Deep All has not been fitted: call fit first.")
        return self._trained

    def predict_proba(self, images: np.ndarray) -> np.ndarray:
        """Probabilities `(n, classes)` of `images: (n, h, w, 3)` uint8."""
        z = extract_features(self.trained.net, images, self.device)
        classifier = self.trained.objective.classifier
        assert classifier is not None
        with torch.no_grad():
            return torch.softmax(classifier(z), dim=1).cpu().numpy()

    def score(self, dataset: DomainDataset) -> float:
        """Accuracy on `dataset`."""
        return float((self.predict_proba(dataset.images).argmax(axis=1) == dataset.labels).mean())


@dataclass(frozen=True)
class DeepAllMethod(Method):
    """Deep All as the benchmark drives it: its features serve the ablation without f."""

    @property
    def info(self) -> MethodInfo:
        return MethodInfo(
            name="deep-all",
            title="Deep All",
            year=2017,
            needs_domain_labels=False,
            touches_target=False,
            stateless=True,
            reference="Li et al., ICCV 2017",
            summary="A plain classifier on the pooled source domains.",
        )

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        config = deep_all_config(config)
        require_stage_1(config)
        config.views()  # complains of too many before any work
        return with_style_blocks(config)

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        base = (features_id(replace(key, adapt="")),) if key.adapt else ()
        return (*base, features_id(key), *style_ids(key))

    def train(self, task: TrainingTask) -> TrainedMethod:
        return TrainedDeepAll(task, train_feature_stage(task))


class TrainedDeepAll(TrainedClassifier):
    """Answers by the linear layer that was trained with the features.

    Args:
        task: what it was trained on.
        features: stage 1 under cross entropy.
    """

    def __init__(self, task: TrainingTask, features: FeatureStage) -> None:
        state = features.stage.part("objective")
        weight = state["classifier.weight"]
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        layer.load_state_dict({"weight": weight, "bias": state["classifier.bias"]})
        super().__init__(task, features, layer)

    def _look(self, task: TrainingTask, features: FeatureStage) -> FeatureStage:
        return styled_stage(task, features)
