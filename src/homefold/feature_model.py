"""Stages 2 to 4 on features: manifold, classifier and projection, whatever the features come from."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from homefold.classifier import Classifier, ClassifierConfig, build_classifier, fit_classifier
from homefold.device import one_thread
from homefold.errors import ConfigError, ModelFileError, NotFiniteError, cut
from homefold.features.loss import cosine_normalise
from homefold.manifold import (
    FeatureGroups,
    Manifold,
    ManifoldConfig,
    ManifoldReport,
    Rehearsed,
    build_manifold,
    component_groups,
    denoising_shifts,
    fit_manifold,
)
from homefold.module_state import rebuilt, require_finite
from homefold.predictions import NOT_SEARCHED, Predictions
from homefold.progress import ProgressReporter
from homefold.projection import Projection, ProjectionConfig, project
from homefold.projection.projector import preferred_tile
from homefold.stratified import stratified_rows
from homefold.tiles import apply_in_tiles, steady_tile

__all__ = ["FeatureModel", "calibration_features", "fit_feature_model", "reconstructor", "to_sphere", "with_lengths_of"]

_CALIBRATION_ROWS = 256
_CALIBRATION_QUANTILE = 0.95
_STEP_FOR_OTHER_SETTINGS = 4
_SMALLEST_SCALE = 1e-6


def to_sphere(z: torch.Tensor) -> torch.Tensor:
    """Scale every row of `z: (n, d)` to length √d, so that its coordinates are of order one."""
    return cosine_normalise(z.float()) * math.sqrt(z.shape[1])


@dataclass
class FeatureModel:
    """A manifold and a classifier of features, and how features are brought to the one before the other sees them.

    Args:
        manifold: G.
        classifier: C.
        projection: the default settings of the search.
        normalise: scale features to the sphere first.
        class_names: one name a class.
        seed: of random starts.
        calibration: `(m, d)` held-out source features, normalised as in training: they say which off-manifold
            distance is usual.
        head: from the space of the manifold to that of the classifier, f's own; None where both are one.
    """

    manifold: Manifold
    classifier: Classifier
    projection: ProjectionConfig
    normalise: bool
    class_names: tuple[str, ...]
    seed: int
    calibration: torch.Tensor
    head: nn.Module | None = None

    def __post_init__(self) -> None:
        self._scales: dict[ProjectionConfig, float] = {}
        self._getting_ready: Future[object] | None = None

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.manifold.bank_features.device

    def prepare(self, z: torch.Tensor) -> torch.Tensor:
        """Raw features `(n, d)` as the stages want them."""
        z = z.to(self.device).float()
        return to_sphere(z) if self.normalise else z

    def seen(self, z: torch.Tensor) -> torch.Tensor:
        """Raw features `(n, d)` of the manifold's space as C sees them, without projection."""
        return self.prepare(z if self.head is None else self._through_head(z.to(self.device).float()))

    def seen_projected(self, found: Projection) -> torch.Tensor:
        """Projected features as C sees them."""
        return found.features if self.head is None else self.seen(found.features)

    def at_own_length(self, found: Projection, z: torch.Tensor) -> Projection:
        """What was found for raw features `z`, at their length where f's head follows.

        A search by cosine finds a direction, and G knows directions only where features are normalised; the head is no
        linear map, so that length is something to it.
        """
        if self.head is None or not self.normalise:
            return found
        return replace(found, features=with_lengths_of(found.features, z.to(self.device).float()))

    def _through_head(self, h: torch.Tensor) -> torch.Tensor:
        assert self.head is not None
        with torch.no_grad(), one_thread(h.device):
            preferred = preferred_tile(self.projection, h.device)
            size = steady_tile(self.head, "head", self.head, h.shape[1:], preferred, h.device)
            return apply_in_tiles(self.head, h, size)

    def project(
        self, z: torch.Tensor, config: ProjectionConfig | None = None, reporter: ProgressReporter | None = None
    ) -> Projection:
        """Bring raw features `(n, d)` to the source manifold."""
        config = config or self.projection
        config.require_manifold(self.manifold.per)
        self._wait_until_ready()
        found = project(self.manifold, self.prepare(z), config.search, seed=self.seed, reporter=reporter)
        finite = torch.isfinite(found.features).all(dim=1)
        if not bool(finite.all()):
            raise NotFiniteError(int((~finite).nonzero()[0]))
        return self.at_own_length(found, z)

    def get_ready(self, config: ProjectionConfig | None = None) -> None:
        """Do in a thread what only the first projection takes long for; that one waits for it, and raises its errors.

        On a GPU that is loading the kernels, which Triton begins by reading half a gigabyte of its own. It pays where
        images are decoded and go through the network meanwhile. A CPU has nothing to load, and no cores to spare.
        """
        config = config or self.projection
        self._wait_until_ready()
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="homefold-ready")
        self._getting_ready = executor.submit(self._project_one, config)
        executor.shutdown(wait=False)

    def _project_one(self, config: ProjectionConfig) -> None:
        one = self.calibration[:1]
        self.classify(self.at_own_length(project(self.manifold, one, config.search, seed=self.seed), one), one, config)

    def _wait_until_ready(self) -> None:
        getting_ready, self._getting_ready = self._getting_ready, None
        if getting_ready is not None:
            getting_ready.result()

    def off_manifold_scale(self, config: ProjectionConfig) -> float:
        """The distance 1 − cos that 95 % of held-out source features stay below under these settings.

        It is saved for the model's own settings; for others fewer features must do, since a search may be long.
        """
        search = config.search.search_only()
        if search not in self._scales:
            step = 1 if search == self.projection.search.search_only() else _STEP_FOR_OTHER_SETTINGS
            found = project(self.manifold, self.calibration[::step].contiguous(), search, seed=self.seed)
            quantile = torch.quantile(1 - found.similarity_after, _CALIBRATION_QUANTILE)
            self._scales[search] = max(float(quantile), _SMALLEST_SCALE)
        return self._scales[search]

    def logits(self, z: torch.Tensor) -> torch.Tensor:
        """C's output `(n, classes)` for prepared or projected features."""
        with torch.no_grad(), one_thread(z.device):
            preferred = preferred_tile(self.projection, z.device)
            size = steady_tile(self.classifier, "logits", self.classifier, z.shape[1:], preferred, z.device)
            return apply_in_tiles(self.classifier, z, size)

    def predict(
        self,
        z: torch.Tensor,
        *,
        projected: bool = True,
        config: ProjectionConfig | None = None,
        reporter: ProgressReporter | None = None,
        plain: torch.Tensor | None = None,
    ) -> Predictions:
        """Answers for raw features `(n, d)`; without projection C sees the features themselves.

        Args:
            z: the features.
            projected: bring them to the manifold first.
            config: other settings of the search than the model's own.
            reporter: is told the progress of the search.
            plain: `(n, d)` what has its say where the projection is not trusted, if that is not `z`.
        """
        if projected:
            return self.classify(self.project(z, config, reporter), z, config, plain)
        raw = z.to(self.device).float()
        prepared = raw if self.head is not None else self.prepare(raw)
        ones = torch.ones(len(z), device=self.device)
        zeros = torch.zeros(len(z), dtype=torch.long, device=self.device)
        found = Projection(prepared, prepared[:, :0], ones, ones, zeros, zeros, NOT_SEARCHED)
        own = self._classified(self.seen(raw))
        return self._predictions(found, ones * math.nan, own, ones == 0)

    def classify(
        self,
        found: Projection,
        z: torch.Tensor,
        config: ProjectionConfig | None = None,
        plain: torch.Tensor | None = None,
    ) -> Predictions:
        """Answers for raw features `z` that were projected with `config`, by default the model's own settings.

        Where the projection is not trusted, or trusted in part, the features as they are have their say: `plain`, where
        their styles were moved before the search.
        """
        config = config or self.projection
        off_manifold = (1 - found.similarity_after) / self.off_manifold_scale(config)
        probabilities = self._probabilities(found, z, config)
        trusted = torch.full_like(off_manifold, config.blend > 0, dtype=torch.bool)
        if config.trust_below is not None:
            trusted &= off_manifold <= config.trust_below
        if not config.answers_for_all:
            own = self._classified(self.seen(z if plain is None else plain))
            blended = config.blend * probabilities + (1 - config.blend) * own
            probabilities = torch.where(trusted[:, None], blended, own)
        return self._predictions(found, off_manifold, probabilities, trusted)

    def _classified(self, seen: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.logits(seen), dim=1)

    def _probabilities(self, found: Projection, z: torch.Tensor, config: ProjectionConfig) -> torch.Tensor:
        """`(n, classes)`: the classifier's, or where a mixture was searched, whatever the settings make of it."""
        compared = found.components
        if compared is not None and config.answer == "residuals":
            return compared.weights(config.temperature)
        if compared is None or compared.features is None:
            return self._classified(self.seen_projected(found))
        weights = compared.weights(config.temperature)
        total = weights.new_zeros(len(weights), len(self.class_names))
        # Added up one by one: the order of the sum must not depend on how many samples there are.
        for index in range(len(compared.names)):
            one = self.at_own_length(replace(found, features=compared.features[:, index].contiguous()), z)
            total = total + weights[:, index, None] * self._classified(self.seen_projected(one))
        return total

    def _predictions(
        self, found: Projection, off_manifold: torch.Tensor, probabilities: torch.Tensor, projected: torch.Tensor
    ) -> Predictions:
        compared = found.components
        won = np.zeros(0, dtype=np.int64) if compared is None else compared.won.cpu().numpy()
        return Predictions(
            class_names=self.class_names,
            probabilities=probabilities.cpu().numpy(),
            similarity_before=found.similarity_before.cpu().numpy(),
            similarity_after=found.similarity_after.cpu().numpy(),
            iterations=found.iterations.cpu().numpy(),
            start=found.start.cpu().numpy(),
            off_manifold=off_manifold.cpu().numpy(),
            projected=projected.cpu().numpy(),
            start_names=found.start_names,
            engine=found.engine,
            component=won,
            component_names=() if compared is None else compared.names,
        )

    def tensors(self) -> dict[str, torch.Tensor]:
        """Everything that must be saved, by name."""
        parts = {"manifold": self.manifold.state_dict(), "classifier": self.classifier.state_dict()}
        named = {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}
        scale = torch.tensor(self.off_manifold_scale(self.projection), dtype=torch.float64)
        return {**named, "calibration": self.calibration, "off_manifold_scale": scale}

    @staticmethod
    def from_tensors(
        tensors: dict[str, torch.Tensor],
        *,
        manifold_config: ManifoldConfig,
        classifier_config: ClassifierConfig,
        projection: ProjectionConfig,
        normalise: bool,
        class_names: tuple[str, ...],
        seed: int,
        manifold_report: dict[str, Any],
        device: torch.device,
        feature_dim: int,
        searched_dim: int,
        head: nn.Module | None = None,
    ) -> FeatureModel:
        """Rebuild what `tensors` was taken from; what does not fit the settings is refused.

        Args:
            tensors: as `tensors` gave them.
            manifold_config: of G.
            classifier_config: of C.
            projection: the default settings of the search.
            normalise: whether features are scaled to the sphere first.
            class_names: one name a class.
            seed: of random starts.
            manifold_report: what was measured of G.
            device: where to compute.
            feature_dim: dimensions of what C classifies.
            searched_dim: dimensions of what G is of.
            head: that of the network, where the manifold is of its input.
        """
        _require_head(manifold_config, head)
        projection.require_manifold(manifold_config.per)
        parts = _parts(tensors)
        manifold = rebuilt(lambda: build_manifold(manifold_config, searched_dim), parts["manifold"], "the manifold")
        manifold.require_bank()
        manifold.report = ManifoldReport.from_dict(manifold_report)
        if manifold.per == "class" and tuple(part.name for part in manifold.report.components) != class_names:
            raise ModelFileError("the components of the manifold are not the classes of the model.")
        classifier = rebuilt(
            lambda: build_classifier(classifier_config, feature_dim, len(class_names)),
            parts["classifier"],
            "the classifier",
        )
        calibration, scale = _calibration(parts[""], searched_dim)
        model = FeatureModel(
            manifold.to(device),
            classifier.to(device),
            projection,
            normalise,
            class_names,
            seed,
            calibration.to(device),
            head,
        )
        model._scales[projection.search.search_only()] = scale
        return model


def _parts(tensors: dict[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """What `FeatureModel.tensors` put together: manifold and classifier, and under an empty name the rest."""
    parts: dict[str, dict[str, torch.Tensor]] = {"manifold": {}, "classifier": {}, "": {}}
    for name, value in tensors.items():
        part, dot, inner = name.partition(".")
        if dot and part in parts:
            parts[part][inner] = value
        else:
            parts[""][name] = value
    return parts


def _calibration(tensors: dict[str, torch.Tensor], searched_dim: int) -> tuple[torch.Tensor, float]:
    """The held-out features `(m, d)` and the off-manifold distance that 95 % of them stay below."""
    if set(tensors) != {"calibration", "off_manifold_scale"}:
        raise ModelFileError(
            f"beside manifold and classifier there should be calibration and off_manifold_scale; there is "
            f"{cut(', '.join(sorted(tensors))) or 'nothing'}."
        )
    calibration, scale = tensors["calibration"], tensors["off_manifold_scale"]
    if calibration.ndim != 2 or calibration.dtype != torch.float32 or calibration.shape[1] != searched_dim:
        raise ModelFileError(
            f"the features of the calibration should be rows of {searched_dim} float32 numbers; got "
            f"{tuple(calibration.shape)} of {calibration.dtype}."
        )
    if not len(calibration):
        raise ModelFileError("the calibration has no features.")
    if scale.shape != () or scale.dtype != torch.float64 or not float(scale) > 0:
        raise ModelFileError("off_manifold_scale should be one positive float64 number.")
    require_finite(tensors, "the calibration")
    return calibration, float(scale)


def fit_feature_model(
    train: torch.Tensor,
    train_labels: torch.Tensor,
    held_out: torch.Tensor,
    held_out_labels: torch.Tensor,
    *,
    class_names: tuple[str, ...],
    manifold_config: ManifoldConfig,
    classifier_config: ClassifierConfig,
    projection: ProjectionConfig,
    normalise: bool,
    seed: int,
    device: torch.device,
    domains: FeatureGroups | None = None,
    reporter: ProgressReporter | None = None,
    pooled: tuple[torch.Tensor, torch.Tensor] | None = None,
    head: nn.Module | None = None,
    rehearsed: Rehearsed | None = None,
) -> FeatureModel:
    """Stages 2 and 3 on raw source features `(n, d)` with labels `(n,)`, selected on the held-out ones.

    Where `manifold_config.space` is backbone, `pooled` are the backbone's outputs for both, and `head` makes z of them.
    The source domains are needed only for a manifold of each domain and for a VAE that denoises, and
    `rehearsed` (prepared, in the space of the manifold) only for one that rehearses.
    """
    _require_head(manifold_config, head)
    projection.require_manifold(manifold_config.per)
    classes = FeatureGroups(train_labels, held_out_labels, class_names)
    groups = component_groups(manifold_config, classes, domains)
    train, held_out = train.to(device).float(), held_out.to(device).float()
    train_labels, held_out_labels = train_labels.to(device), held_out_labels.to(device)
    if normalise:
        train, held_out = to_sphere(train), to_sphere(held_out)
    modelled, modelled_held_out, raw = train, held_out, None
    if pooled is not None:
        raw, raw_held_out = (part.to(device).float() for part in pooled)
        modelled, modelled_held_out = (to_sphere(raw), to_sphere(raw_held_out)) if normalise else (raw, raw_held_out)
    with one_thread(device):
        manifold = fit_manifold(
            manifold_config,
            modelled,
            modelled_held_out,
            labels=train_labels,
            groups=groups,
            shifts=denoising_shifts(manifold_config, modelled, classes, domains),
            rehearsed=rehearsed,
            seed=seed,
            device=device,
            reporter=reporter,
        )
        manifold.require_usable()
        classifier = fit_classifier(
            classifier_config,
            train,
            train_labels,
            held_out,
            held_out_labels,
            num_classes=len(class_names),
            reconstruct=reconstructor(manifold, projection, seed, head=head, normalise=normalise),
            reconstruct_from=raw,
            seed=seed,
            device=device,
            reporter=reporter,
        )
    in_domains = None if domains is None else domains.held_out
    calibration = calibration_features(modelled_held_out, held_out_labels, in_domains, seed)
    return FeatureModel(manifold, classifier, projection, normalise, class_names, seed, calibration, head)


def _require_head(config: ManifoldConfig, head: nn.Module | None) -> None:
    """Refuse a manifold of the backbone's output where there are features and no network."""
    if config.space == "backbone" and head is None:
        raise ConfigError(
            "manifold.space=backbone needs the network whose head follows the projection, and here are features "
            "without a network; set space to feature, or fit a Homefold on images."
        )


def with_lengths_of(directions: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Every row of `directions: (n, d)` at the length of the same row of `z: (n, d)`."""
    return cosine_normalise(directions) * torch.linalg.vector_norm(z, dim=1, keepdim=True)


def reconstructor(
    manifold: Manifold,
    projection: ProjectionConfig,
    seed: int,
    *,
    head: nn.Module | None = None,
    normalise: bool = True,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Brings prepared features `(n, d)` to the manifold: by its encoder, or by the search where it has none.

    With a head it takes raw features of the backbone, and gives prepared features z `(n, k)` of what it finds for them.
    """

    def reconstruct(z: torch.Tensor) -> torch.Tensor:
        if manifold.has_encoder or not manifold.is_continuous:
            return manifold.decode(manifold.encode(z))
        return project(manifold, z, projection, seed=seed).features

    def reconstruct_pooled(h: torch.Tensor) -> torch.Tensor:
        assert head is not None
        if not normalise:
            return head(reconstruct(h))
        return to_sphere(head(with_lengths_of(reconstruct(to_sphere(h)), h)))

    return reconstruct if head is None else reconstruct_pooled


def calibration_features(
    held_out: torch.Tensor, labels: torch.Tensor, domains: torch.Tensor | None, seed: int
) -> torch.Tensor:
    """Enough of the prepared held-out features, `(m, d)`, to calibrate the off-manifold score.

    Args:
        held_out: `(n, d)` features.
        labels: `(n,)` class of each.
        domains: `(n,)` source domain of each, where it is known.
        seed: of the draw.
    """
    groups = labels.cpu() if domains is None else torch.stack([labels.cpu(), domains.cpu()], dim=1)
    rows = stratified_rows(groups.numpy(), _CALIBRATION_ROWS, seed)
    return held_out[torch.from_numpy(rows).to(held_out.device)].contiguous()
