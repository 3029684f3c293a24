"""Deep All: a plain classifier on the pooled source domains, the control that every method must beat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from homefold.config import HomefoldConfig
from homefold.data.dataset import DomainDataset
from homefold.data.splits import holdout_split
from homefold.device import resolve_device
from homefold.errors import ConfigError
from homefold.features import TrainedFeatures, build_feature_net, extract_features, train_features
from homefold.progress import ProgressReporter

__all__ = ["DeepAll", "deep_all_config"]


def deep_all_config(config: HomefoldConfig) -> HomefoldConfig:
    """`config` with cross entropy in the place of L_A and everything else as it is."""
    return replace(
        config,
        features=replace(config.features, metric_weight=0.0, cross_entropy_weight=1.0, cross_entropy_until=1.0),
    )


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
        train, held_out = holdout_split(dataset.labels, dataset.domains, config.features.held_out, config.seed)
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
