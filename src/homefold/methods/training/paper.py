"""The method of this package and its ablations: which features, which manifold, and whether they are projected."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from homefold.config import HomefoldConfig
from homefold.config.search import search_preset
from homefold.errors import ConfigError
from homefold.manifold import Manifold, ManifoldConfig, paper_manifold_config
from homefold.methods.base import Answers, ClassifierNetwork, Method, MethodInfo, TrainedMethod
from homefold.methods.registry import method_named
from homefold.methods.training.deep_all import deep_all_config, without_history
from homefold.projection import Projection, SearchConfig, cosine_distance, elbow_index, project
from homefold.projection.engines.reference import loss_curve
from homefold.projection.rules.objective import loss_and_gradient
from homefold.projection.rules.starts import starting_latents
from homefold.projection.rules.steps import step_rule, walk
from homefold.runtime.device import one_thread
from homefold.stages.feature_model import FeatureModel, to_sphere
from homefold.stages.features import FeatureStage, require_stage_1
from homefold.stages.style import with_style_blocks
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.stages.train import planned_stages, train_stages
from homefold.stages.trained_model import TrainedModel
from homefold.store.stage_store import Stage, StageId

__all__ = ["PaperMethod", "project_with_offset"]

_PAPER = "Pandey et al., CVPR 2021"
_GAN_EPOCHS_PER_VAE_EPOCH = 1.5  # the ratio of their defaults
_CURVES, _CURVE_STEPS = 6, 500
_OFFSET_ROWS = 1024


@dataclass(frozen=True)
class PaperMethod(Method):
    """z = f(x); u* = argmin 1 − cos(z, G(u)); the answer is C(G(u*)), or C(z) without projection.

    Args:
        about: what the combination is called.
        features: train f with the configured loss (L_A), or as Deep All does.
        manifold: the kind of G; None answers without projection.
        stop_offset: stop the search this many steps after n*.
    """

    about: MethodInfo  # type: ignore[misc]  # one class makes several methods
    features: Literal["metric", "deep-all"] = "metric"
    manifold: str | None = "vae"
    stop_offset: int = 0

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        return config if self.manifold is not None else super().starting(config)

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        if self.features == "deep-all":
            config = deep_all_config(config)
        require_stage_1(config)
        config.views()  # complains of too many before any work
        config = with_style_blocks(config)
        if self.manifold is None:
            return config
        config.require_consistent()
        return replace(config, manifold=_manifold_config(config, self.manifold, preset))

    @property
    def tunables(self) -> tuple[str, ...]:
        more = ("features.temperature",) if self.features == "metric" else ()
        return (*super().tunables, *more, *(("manifold.kl_weight",) if self.manifold == "vae" else ()))

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        return planned_stages(key, projected=self.manifold is not None)

    def train(self, task: TrainingTask) -> TrainedMethod:
        return TrainedPaperMethod(self, train_stages(task, projected=self.manifold is not None))


@method_named(
    "without-projection", "w/o G", 2021, _PAPER, "The features of the method and its classifier, without projection."
)
def _without_projection(about: MethodInfo) -> Method:
    return PaperMethod(about, manifold=None)


@method_named("without-features", "w/o f", 2021, _PAPER, "Projection on the features of Deep All.")
def _without_features(about: MethodInfo) -> Method:
    return PaperMethod(about, features="deep-all")


@method_named("nearest", "1-NN", 2021, _PAPER, "The nearest source feature stands for the projection.")
def _nearest(about: MethodInfo) -> Method:
    return PaperMethod(about, manifold="nearest")


@method_named("vae", "Full method (VAE)", 2021, _PAPER, "Projection onto the manifold of a VAE.")
def _vae(about: MethodInfo) -> Method:
    return PaperMethod(about)


@method_named("gan", "Full method (GAN)", 2021, _PAPER, "Projection onto the manifold of a GAN.")
def _gan(about: MethodInfo) -> Method:
    return PaperMethod(about, manifold="gan")


def _manifold_config(config: HomefoldConfig, kind: str, preset: str) -> ManifoldConfig:
    """The configured manifold where it is of this kind, else one of this kind that suits it."""
    given = config.manifold
    if kind == "vae":
        return given if given.kind in ("vae", "conv-vae") else replace(given, kind="vae")
    if kind != "gan":
        return replace(given, kind=kind)
    if preset == "paper":
        return paper_manifold_config("gan")
    epochs = None if given.epochs is None else math.ceil(given.epochs * _GAN_EPOCHS_PER_VAE_EPOCH)
    return replace(given, kind="gan", optimizer="adamw", learning_rate=None, epochs=epochs)


class TrainedPaperMethod(TrainedMethod):
    """Answers through f, G and C."""

    def __init__(self, method: PaperMethod, trained: TrainedModel) -> None:
        self.method, self.trained = method, trained

    @property
    def model(self) -> FeatureModel:
        """G, C and the search."""
        return self.trained.feature_model

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.trained.stages

    def answer(self, images: ImageSet) -> Answers:
        if self.method.manifold is None:
            plain = self.trained.answer(images, projected=False, styled=True)
            return Answers(plain.predictions, plain.seconds, self.model.prepare(plain.features))
        before = self.trained.answer(images, projected=False)
        after = self.trained.answer(images, project_by=self._search if self.method.stop_offset else None)
        assert after.found is not None
        return Answers(
            after.predictions,
            after.seconds,
            self.model.prepare(before.features),
            after.found.features,
            before.predictions,
            self._curves(self.model.prepare(after.features)),
        )

    def _search(self, z: torch.Tensor) -> Projection:
        """The search, stopped some steps after n*."""
        model, offset = self.model, self.method.stop_offset
        return project_with_offset(model.manifold, model.prepare(z), model.search, seed=model.seed, offset=offset)

    def _curves(self, prepared: torch.Tensor) -> dict[str, np.ndarray]:
        """Loss against iteration for a few evenly spaced samples, from one random start."""
        manifold, search = self.model.manifold, self.model.search
        if not manifold.is_continuous or not len(prepared):
            return {}
        if search.stop != "elbow" or search.starts != 1:
            # The default search begins almost at its end, where no elbow is to be seen.
            search = search_preset("authors")
        search = replace(search, steps=max(search.window + 2, min(search.steps, _CURVE_STEPS)))
        samples = np.unique(np.linspace(0, len(prepared) - 1, _CURVES).astype(np.int64))
        z = prepared[torch.from_numpy(samples).to(prepared.device)]
        with torch.no_grad(), one_thread(z.device):
            starts = starting_latents(search, manifold, z, self.model.seed)[:, 0]
            curve, _ = loss_curve(manifold.decode, z, starts, search)
        elbow = elbow_index(curve, search.window)
        return {"loss": curve.T.cpu().numpy(), "samples": samples, "elbow": elbow.cpu().numpy()}

    def source_features(self) -> torch.Tensor:
        assert isinstance(self.trained.encoder, FeatureStage)
        return self.model.prepare(self.trained.encoder.source())

    def classifier_network(self) -> ClassifierNetwork:
        """f with its preparation, and C: what answers without projection."""
        layers, seen = self.model.classifier.layers, self.trained.styled or self.trained.encoder
        prepare: list[nn.Module] = [_ToSphere()] if self.model.normalise else []
        layer = layers[0] if len(layers) == 1 else layers
        return copy.deepcopy(ClassifierNetwork(nn.Sequential(seen.net, *prepare), layer))

    def networks(self) -> tuple[nn.Module, ...]:
        parts = (self.trained.encoder.net, self.model.classifier)
        return parts if self.method.manifold is None else (*parts, self.model.manifold)

    def facts(self) -> dict[str, Any]:
        reports = self.trained.reports
        later: dict[str, Any] = {name: reports[name] for name in ("classifier", "manifold") if name in reports}
        return {"features": without_history(reports["features"]), **later}


class _ToSphere(nn.Module):
    """Features `(n, d)` as G and C want them."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return to_sphere(z)


def project_with_offset(
    manifold: Manifold, z: torch.Tensor, config: SearchConfig, *, seed: int, offset: int
) -> Projection:
    """The search from its one start, stopped `offset` steps after where the stopping rule would, within 0 and M.

    So one sees how much the choice of n* matters.

    Args:
        manifold: G, continuous.
        z: `(n, d)` prepared features.
        config: with a single start.
        seed: of the start.
        offset: ε, negative for earlier.
    """
    if not manifold.is_continuous or config.starts != 1:
        raise ConfigError("stopping early or late needs a continuous manifold and a projection with a single start.")
    found = project(manifold, z, config, seed=seed)
    wanted = (found.iterations + offset).clamp(0, config.steps)
    parts = []
    with torch.no_grad(), one_thread(z.device):
        for rows, taken in zip(z.split(_OFFSET_ROWS), wanted.split(_OFFSET_ROWS), strict=True):
            start = starting_latents(config, manifold, rows, seed)[:, 0]
            measure = partial(loss_and_gradient, manifold.decode, targets=rows)
            parts.append(start.clone())
            for step, (_, after) in enumerate(walk(step_rule(config), measure, start, int(taken.max())), 1):
                parts[-1] = torch.where((taken == step)[:, None], after, parts[-1])
        latents = torch.cat(parts)
        features = manifold.decode(latents)
        similarity = 1 - cosine_distance(features, z)
    return replace(found, features=features, latents=latents, similarity_after=similarity, iterations=wanted)
