"""Projection for people who already have features: a scikit-learn estimator over stages 2 to 4."""

from __future__ import annotations

import warnings
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from homefold.config import ManifoldConfig, config_to_dict
from homefold.config.grammar import replaced
from homefold.config.manifold import MANIFOLDS
from homefold.data.arrays import without_torch
from homefold.data.splits import holdout_split
from homefold.errors import ConfigError, DataError, ModelFileError
from homefold.projection import Projection
from homefold.runtime.device import resolve_device
from homefold.runtime.provenance import versions
from homefold.stages.description import ProjectorConfig, projector_config
from homefold.stages.feature_model import FeatureModel, fit_feature_model
from homefold.stages.own_code import require_registered
from homefold.stages.predictions import Predictions
from homefold.store.files import plain_json
from homefold.store.model_folder import FeaturesDescription, read_model_folder, write_model_folder

__all__ = ["ManifoldProjector"]

_PARAMETERS = {
    "manifold": "manifold.kind",
    "latent_dim": "manifold.latent_dim",
    "hidden": "manifold.hidden",
    "kl_weight": "manifold.kl_weight",
    "manifold_epochs": "manifold.epochs",
    "classifier": "classifier.kind",
    "classifier_epochs": "classifier.epochs",
    "normalise": "normalise_features",
    "encoder_start": "search.encoder_start",
    "random_starts": "search.random_starts",
    "nearest_starts": "search.nearest_starts",
    "step": "search.step",
    "rate": "search.rate",
    "steps": "search.steps",
    "stop": "search.stop",
    "held_out": "held_out",
    "random_state": "seed",
}
"""The setting that each parameter of the constructor stands for."""


def _rows_of(X: np.ndarray) -> torch.Tensor:
    """`X: (n, d)` laid out row by row: in another layout one row is summed in another order than many are."""
    return torch.from_numpy(np.array(X, order="C"))


class ManifoldProjector(ClassifierMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Classify features of unseen domains by first bringing them to the manifold of the source features.

    Follows scikit-learn's conventions: parameters are set in the constructor and read back with `get_params`, `fit`
    learns, `predict` gives labels, `transform` gives the projected features, one column for each of theirs
    (`set_output(transform="pandas")` keeps their names).

    Args:
        manifold: `vae`, `conv-vae`, `gan`, `nearest`, or one that a plugin registers.
        latent_dim: dimensions of the latent u.
        hidden: widths of the decoder's hidden layers.
        kl_weight: weight of the VAE's KL term.
        manifold_epochs: passes over the features; None takes the manifold's default.
        classifier: `linear`, or `hidden` for one hidden layer.
        classifier_epochs: passes over the features.
        normalise: scale features to the sphere first: similarity is cosine.
        encoder_start, random_starts, nearest_starts, step, rate, steps, stop: see `SearchConfig`.
        held_out: share of the features set aside for selection and calibration.
        random_state: seed of everything random.
        device: `auto`, `cpu`, `cuda` or `mps`.

    Attributes:
        classes_: labels in the order of the probabilities.
        model_: the fitted `FeatureModel`.
        n_features_in_: size of a feature.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> centres = rng.normal(size=(3, 16))
        >>> y = np.repeat([0, 1, 2], 60)
        >>> X = centres[y] + 0.3 * rng.normal(size=(180, 16))
        >>> model = ManifoldProjector(latent_dim=4, manifold_epochs=40, device="cpu").fit(X, y)
        >>> bool(model.score(X, y) > 0.9)
        True
    """

    def __init__(
        self,
        *,
        manifold: str = "vae",
        latent_dim: int = 32,
        hidden: tuple[int, ...] = (128, 128),
        kl_weight: float = 1e-3,
        manifold_epochs: int | None = None,
        classifier: Literal["linear", "hidden"] = "linear",
        classifier_epochs: int = 20,
        normalise: bool = True,
        encoder_start: bool = True,
        random_starts: int = 0,
        nearest_starts: int = 0,
        step: Literal["gradient", "normalised", "adam"] = "adam",
        rate: float = 0.05,
        steps: int = 50,
        stop: Literal["elbow", "fixed"] = "fixed",
        held_out: float = 0.1,
        random_state: int = 0,
        device: str = "auto",
    ) -> None:
        self.manifold = manifold
        self.latent_dim = latent_dim
        self.hidden = hidden
        self.kl_weight = kl_weight
        self.manifold_epochs = manifold_epochs
        self.classifier = classifier
        self.classifier_epochs = classifier_epochs
        self.normalise = normalise
        self.encoder_start = encoder_start
        self.random_starts = random_starts
        self.nearest_starts = nearest_starts
        self.step = step
        self.rate = rate
        self.steps = steps
        self.stop = stop
        self.held_out = held_out
        self.random_state = random_state
        self.device = device

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _config(self) -> ProjectorConfig:
        # Python's own numbers: what is saved as JSON must compute the same.
        given = plain_json(self.get_params())
        return replaced(ProjectorConfig(), {setting: given[name] for name, setting in _PARAMETERS.items()})

    def _saved_config(self) -> ProjectorConfig:
        """The settings, with the manifold that was learned in the place of the one that could not be."""
        config, report = self._config(), self.model_.manifold.report
        return replace(config, manifold=ManifoldConfig(kind=report.kind)) if report.instead_of else config

    def fit(self, X: Any, y: Any, domains: Any = None) -> ManifoldProjector:
        """Learn the manifold of the source features and the classifier on it.

        Args:
            X: `(n, d)` features, numpy or torch.
            y: `(n,)` labels, numbers or text.
            domains: `(n,)` domain of each feature, by which the held-out part is made even over domains.
        """
        X, y = validate_data(
            self, without_torch(X), without_torch(y), dtype=np.float32, ensure_min_samples=4, ensure_min_features=2
        )
        check_classification_targets(y)
        if not isinstance(self.random_state, int | np.integer):
            raise ConfigError(f"random_state must be a whole number; got {self.random_state!r}.")
        config = self._config()
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y holds one class only ({self.classes_[0]!r}); a classifier needs at least two classes.")
        groups = np.zeros(len(y), dtype=np.int64)
        if domains is not None:
            _, groups = np.unique(np.asarray(without_torch(domains)), return_inverse=True)
            if groups.shape != labels.shape:
                raise DataError(f"domains must have one entry for each of the {len(y)} features; got {groups.shape}.")
        train, held_out = holdout_split(labels, groups, config.held_out, config.seed)
        if len(held_out) < 2:
            raise DataError(f"{len(y)} features are too few to hold a part back; give at least two of each class.")
        z, targets = _rows_of(X), torch.from_numpy(labels)
        self.model_ = fit_feature_model(
            z[train],
            targets[train],
            z[held_out],
            targets[held_out],
            config,
            class_names=tuple(str(name) for name in self.classes_),
            device=resolve_device(self.device),
            held_out_domains=None if domains is None else torch.from_numpy(groups[held_out]),
        )
        return self

    def _rows(self, X: Any) -> torch.Tensor:
        check_is_fitted(self, "model_")
        return _rows_of(validate_data(self, without_torch(X), dtype=np.float32, reset=False))

    def predict(self, X: Any, *, projected: bool = True) -> np.ndarray:
        """Labels `(n,)` of features `(n, d)`; without projection C sees the features themselves: the control."""
        check_is_fitted(self, "model_")
        labels: np.ndarray = self.classes_[self.predictions(X, projected=projected).indices]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities `(n, classes)`, columns in the order of `classes_`."""
        return self.predictions(X).probabilities

    def predictions(self, X: Any, *, projected: bool = True) -> Predictions:
        """Answers with all they carry: similarities, iterations, winning start, off-manifold score."""
        rows = self._rows(X)
        return self.model_.predict(rows, projected=projected)

    def explain(self, X: Any, *, projected: bool = True) -> Predictions:
        """`predictions`, under its earlier name."""
        warnings.warn("ManifoldProjector.explain is called predictions now.", DeprecationWarning, stacklevel=2)
        return self.predictions(X, projected=projected)

    def project(self, X: Any) -> Projection:
        """Where each feature comes home to, with how the search went; tensors on the CPU."""
        return self.model_.project(self._rows(X)).cpu()

    def transform(self, X: Any) -> np.ndarray:
        """The projected features `(n, d)`."""
        return self.project(X).features.numpy()

    def save(self, path: Path | str) -> None:
        """Write the fitted estimator as one folder, atomically."""
        check_is_fitted(self, "model_")
        if self.classes_.dtype.kind not in "iufUb":
            raise ConfigError(f"labels of type {self.classes_.dtype} cannot be saved; use numbers or text.")
        description: FeaturesDescription = {
            "kind": "features",
            "settings": plain_json(config_to_dict(self._saved_config())),
            "classes": self.classes_.tolist(),
            "feature_dim": int(self.n_features_in_),
            "measured": {"manifold": self.model_.manifold.report.as_dict()},
            "versions": versions(),
        }
        card = (
            "# A homefold projector\n\n"
            f"Brings {self.n_features_in_}-dimensional features to the manifold of the source features and tells "
            f"{len(self.classes_)} classes apart.\n\n"
            "```python\nfrom homefold import ManifoldProjector\n"
            'model = ManifoldProjector.load("this/folder")\n```\n'
        )
        write_model_folder(path, {"home": self.model_.tensors()}, description, card)

    @classmethod
    def load(cls, path: Path | str, *, device: str = "auto") -> ManifoldProjector:
        """Read what `save` wrote; nothing from the folder is executed."""
        tensors, description = read_model_folder(path)
        config = projector_config(description, path)
        require_registered(config.manifold.kind, MANIFOLDS, path)
        model = cls(**{name: attrgetter(setting)(config) for name, setting in _PARAMETERS.items()}, device=device)
        model.classes_ = np.asarray(description["classes"])
        model.n_features_in_ = description["feature_dim"]
        try:
            model.model_ = FeatureModel.from_tensors(
                tensors["home"],
                config,
                class_names=tuple(str(name) for name in model.classes_),
                manifold_report=description["measured"]["manifold"],
                device=resolve_device(device),
                feature_dim=model.n_features_in_,
            )
        except (ConfigError, ModelFileError) as error:
            raise ModelFileError(f"the projector in {path} cannot be rebuilt: {error}") from None
        return model
