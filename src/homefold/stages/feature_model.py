"""Stages 2 to 4 on features: manifold, classifier and projection, whatever the features come from."""

from __future__ import annotations

import math
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from homefold.classifier import Classifier, build_classifier, fit_classifier
from homefold.classifier.temperature import apply_temperature
from homefold.config.search import SearchConfig
from homefold.data.splits import stratified_rows
from homefold.errors import ManifoldCollapsedError, ModelFileError, NotFiniteError, TrainingDivergedError, cut
from homefold.features.loss import cosine_normalise
from homefold.manifold import Manifold, ManifoldConfig, ManifoldReport, build_manifold, fit_manifold
from homefold.projection import Projection, project
from homefold.projection.projector import preferred_tile
from homefold.runtime.device import one_thread
from homefold.runtime.module_state import rebuilt, require_finite
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.tiles import apply_in_tiles, steady_tile
from homefold.stages.description import FeatureSettings
from homefold.stages.predictions import NOT_SEARCHED, Predictions

__all__ = ["FeatureModel", "calibration_features", "fit_feature_model", "to_sphere"]

_CALIBRATION_ROWS = 256
_CALIBRATION_QUANTILE = 0.95
_PART_FOR_OTHER_SETTINGS = 4
_SMALLEST_SCALE = 1e-6


def to_sphere(z: torch.Tensor) -> torch.Tensor:
    """Scale every row of `z: (n, d)` to length √d, so that its coordinates are of order one."""
    return cosine_normalise(z.float()) * math.sqrt(z.shape[1])


@dataclass
class FeatureModel:
    """A manifold and a classifier of features, and how features are brought to the one before the other sees them."""

    manifold: Manifold
    classifier: Classifier
    search: SearchConfig
    normalise: bool  # scale features to the sphere first
    class_names: tuple[str, ...]
    seed: int  # of random starts
    calibration: torch.Tensor
    """`(m, d)` held-out source features, as in training: they say which off-manifold distance is usual."""
    temperature: float = 1.0
    """That the logits are divided by before they become probabilities."""

    def __post_init__(self) -> None:
        self._scales: dict[SearchConfig, float] = {}
        self._getting_ready: Future[object] | None = None

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.manifold.bank_features.device

    def prepare(self, z: torch.Tensor) -> torch.Tensor:
        """Raw features `(n, d)` as the stages want them."""
        z = z.to(self.device).float()
        return to_sphere(z) if self.normalise else z

    def project(
        self, z: torch.Tensor, config: SearchConfig | None = None, reporter: ProgressReporter | None = None
    ) -> Projection:
        """Bring raw features `(n, d)` to the source manifold."""
        config = config or self.search
        self._wait_until_ready()
        found = project(self.manifold, self.prepare(z), config, seed=self.seed, reporter=reporter)
        finite = torch.isfinite(found.features).all(dim=1)
        if not bool(finite.all()):
            raise NotFiniteError(int((~finite).nonzero()[0]))
        return found

    def get_ready(self, config: SearchConfig | None = None) -> None:
        """Do in a thread what only the first projection takes long for; that one waits for it, and raises its errors.

        On a GPU that is loading the kernels, which Triton begins by reading half a gigabyte of its own. It pays where
        images are decoded and go through the network meanwhile. A CPU has nothing to load, and no cores to spare.
        """
        config = config or self.search
        self._wait_until_ready()
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="homefold-ready")
        self._getting_ready = executor.submit(
            lambda: self.classify(project(self.manifold, self.calibration[:1], config, seed=self.seed), config)
        )
        executor.shutdown(wait=False)

    def _wait_until_ready(self) -> None:
        getting_ready, self._getting_ready = self._getting_ready, None
        if getting_ready is not None:
            getting_ready.result()

    def off_manifold_scale(self, config: SearchConfig) -> float:
        """The distance 1 − cos that 95 % of held-out source features stay below under these settings.

        It is saved for the model's own settings; for others fewer features must do, since a search may be long.
        """
        if config not in self._scales:
            rows = self.calibration
            if config != self.search:  # a seeded draw: in their order classes and domains may take turns
                most = -(-len(rows) // _PART_FOR_OTHER_SETTINGS)
                drawn = stratified_rows(np.zeros(len(rows)), most, self.seed)
                rows = rows[torch.from_numpy(drawn).to(self.device)].contiguous()
            found = project(self.manifold, rows, config, seed=self.seed)
            quantile = torch.quantile(1 - found.similarity_after, _CALIBRATION_QUANTILE)
            self._scales[config] = max(float(quantile), _SMALLEST_SCALE)
        return self._scales[config]

    def logits(self, z: torch.Tensor) -> torch.Tensor:
        """C's output `(n, classes)` for prepared or projected features."""
        with torch.no_grad(), one_thread(z.device):
            preferred = preferred_tile(self.search, z.device)
            size = steady_tile(self.classifier, "logits", self.classifier, z.shape[1:], preferred, z.device)
            return apply_in_tiles(self.classifier, z, size)

    def predict(
        self,
        z: torch.Tensor,
        *,
        projected: bool = True,
        config: SearchConfig | None = None,
        reporter: ProgressReporter | None = None,
    ) -> Predictions:
        """Answers for raw features `(n, d)`; without projection C sees the features themselves."""
        if projected:
            return self.classify(self.project(z, config, reporter), config)
        prepared = self.prepare(z)
        ones = torch.ones(len(z), device=self.device)
        zeros = torch.zeros(len(z), dtype=torch.long, device=self.device)
        found = Projection(prepared, prepared[:, :0], ones, ones, zeros, zeros, NOT_SEARCHED)
        return self._predictions(found, ones * math.nan, projected=False)

    def classify(self, found: Projection, config: SearchConfig | None = None) -> Predictions:
        """Answers for features that were projected with `config`, by default the model's own settings."""
        off_manifold = (1 - found.similarity_after) / self.off_manifold_scale(config or self.search)
        return self._predictions(found, off_manifold, projected=True)

    def _predictions(self, found: Projection, off_manifold: torch.Tensor, *, projected: bool) -> Predictions:
        """C's answers for the features of `found`."""
        return Predictions(
            class_names=self.class_names,
            probabilities=apply_temperature(self.logits(found.features), self.temperature).cpu().numpy(),
            similarity_before=found.similarity_before.cpu().numpy(),
            similarity_after=found.similarity_after.cpu().numpy(),
            iterations=found.iterations.cpu().numpy(),
            start=found.start.cpu().numpy(),
            off_manifold=off_manifold.cpu().numpy(),
            projected=np.full(len(off_manifold), projected),
            start_names=found.start_names,
            engine=found.engine,
        )

    def tensors(self) -> dict[str, torch.Tensor]:
        """Everything that must be saved, by name."""
        parts = {"manifold": self.manifold.state_dict(), "classifier": self.classifier.state_dict()}
        named = {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}
        scale = torch.tensor(self.off_manifold_scale(self.search), dtype=torch.float64)
        known = {**named, "calibration": self.calibration, "off_manifold_scale": scale}
        if self.temperature == 1.0:
            return known
        return {**known, "temperature": torch.tensor(self.temperature, dtype=torch.float64)}

    @staticmethod
    def from_tensors(
        tensors: dict[str, torch.Tensor],
        config: FeatureSettings,
        *,
        class_names: tuple[str, ...],
        manifold_report: dict[str, Any],
        device: torch.device,
        feature_dim: int,
    ) -> FeatureModel:
        """Rebuild what `tensors` was taken from; what does not fit the settings is refused."""
        parts = _parts(tensors)
        manifold = rebuilt(lambda: build_manifold(config.manifold, feature_dim), parts["manifold"], "the manifold")
        manifold.require_bank()
        manifold.report = ManifoldReport.from_dict(manifold_report)
        classifier = rebuilt(
            lambda: build_classifier(config.classifier, feature_dim, len(class_names)),
            parts["classifier"],
            "the classifier",
        )
        calibration, scale, temperature = _calibration(parts[""], feature_dim)
        model = FeatureModel(
            manifold.to(device),
            classifier.to(device),
            config.search,
            config.normalise_features,
            class_names,
            config.seed,
            calibration.to(device),
            temperature,
        )
        model._scales[config.search] = scale
        return model


def _parts(tensors: dict[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """What `FeatureModel.tensors` put together: manifold and classifier, and under an empty name the rest."""
    parts: dict[str, dict[str, torch.Tensor]] = {"manifold": {}, "classifier": {}, "": {}}
    for name, value in tensors.items():
        part, dot, inner = name.partition(".")
        known = dot and part in parts
        parts[part if known else ""][inner if known else name] = value
    return parts


def _calibration(tensors: dict[str, torch.Tensor], feature_dim: int) -> tuple[torch.Tensor, float, float]:
    """The held-out features `(m, d)`, the off-manifold distance that 95 % of them stay below, and the temperature."""
    given = dict(tensors)
    temperature = given.pop("temperature", torch.tensor(1.0, dtype=torch.float64))
    if set(given) != {"calibration", "off_manifold_scale"}:
        raise ModelFileError(
            f"beside manifold and classifier there should be calibration and off_manifold_scale; there is "
            f"{cut(', '.join(sorted(tensors))) or 'nothing'}."
        )
    calibration, scale = given["calibration"], given["off_manifold_scale"]
    if calibration.ndim != 2 or calibration.dtype != torch.float32 or calibration.shape[1] != feature_dim:
        raise ModelFileError(
            f"the features of the calibration should be rows of {feature_dim} float32 numbers; got "
            f"{tuple(calibration.shape)} of {calibration.dtype}."
        )
    if not len(calibration):
        raise ModelFileError("the calibration has no features.")
    for name, value in (("off_manifold_scale", scale), ("temperature", temperature)):
        if value.shape != () or value.dtype != torch.float64 or not float(value) > 0:
            raise ModelFileError(f"{name} should be one positive float64 number.")
    require_finite(tensors, "the calibration")
    return calibration, float(scale), float(temperature)


def fit_feature_model(
    train: torch.Tensor,
    train_labels: torch.Tensor,
    held_out: torch.Tensor,
    held_out_labels: torch.Tensor,
    config: FeatureSettings,
    *,
    class_names: tuple[str, ...],
    device: torch.device,
    held_out_domains: torch.Tensor | None = None,
) -> FeatureModel:
    """Stages 2 and 3 on raw source features `(n, d)` with labels `(n,)`, selected on the held-out ones."""
    train, held_out = train.to(device).float(), held_out.to(device).float()
    train_labels, held_out_labels = train_labels.to(device), held_out_labels.to(device)
    seed, normalise = config.seed, config.normalise_features
    if normalise:
        train, held_out = to_sphere(train), to_sphere(held_out)
    with one_thread(device):
        manifold = _usable_manifold(config.manifold, train, held_out, labels=train_labels, seed=seed, device=device)
        classifier = fit_classifier(
            config.classifier,
            train,
            train_labels,
            held_out,
            held_out_labels,
            num_classes=len(class_names),
            seed=seed,
            device=device,
        )
    calibration = calibration_features(held_out, held_out_labels, held_out_domains, seed)
    return FeatureModel(manifold, classifier, config.search, normalise, class_names, seed, calibration)


def _usable_manifold(config: ManifoldConfig, *features: torch.Tensor, **options: Any) -> Manifold:
    """As configured; where nothing can be learned, with a warning the nearest of the features in its place."""
    try:
        manifold = fit_manifold(config, *features, **options)
        manifold.require_usable()
        return manifold
    except (ManifoldCollapsedError, TrainingDivergedError) as error:
        manifold, reason = fit_manifold(ManifoldConfig(kind="nearest"), *features, **options), str(error)
        if config.kind == "nearest" or manifold.report.collapsed:
            raise
    manifold.report = replace(manifold.report, instead_of=config.kind, reason=reason)
    warnings.warn(
        f"no manifold ({config.kind}) could be learned from {len(features[0])} features, so that the nearest of them "
        f"stands in its place. {reason}",
        stacklevel=4,
    )
    return manifold


def calibration_features(
    held_out: torch.Tensor, labels: torch.Tensor, domains: torch.Tensor | None, seed: int
) -> torch.Tensor:
    """Enough of the prepared held-out features `(n, d)`, evenly of classes and domains, to calibrate the off-manifold
    score."""
    groups = labels.cpu() if domains is None else torch.stack([labels.cpu(), domains.cpu()], dim=1)
    rows = stratified_rows(groups.numpy(), _CALIBRATION_ROWS, seed)
    return held_out[torch.from_numpy(rows).to(held_out.device)].contiguous()
