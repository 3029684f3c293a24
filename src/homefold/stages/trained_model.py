"""All stages together: the only way from images to answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from homefold.config import HomefoldConfig, LookConfig, SearchConfig
from homefold.config.views import WHOLE
from homefold.errors import ConfigError
from homefold.features.network import FeatureNet
from homefold.projection import Projection
from homefold.stages.encoder import Encoder
from homefold.stages.familiar import Familiarity
from homefold.stages.feature_model import FeatureModel
from homefold.stages.predictions import Predictions
from homefold.stages.task import ImageSet
from homefold.store.stage_store import Stage
from homefold.style import StyleModel

__all__ = ["Answer", "TrainedModel"]


@dataclass(frozen=True, eq=False)
class Answer:
    """The answers for a set of images, and what led to them."""

    predictions: Predictions
    seconds: float
    """That they took, features included."""
    features: torch.Tensor
    """`(n, d)` raw features, the mean of all views."""
    found: Projection | None = None
    """Where the projection brought them."""
    plain: Answer | None = None
    """The answer without projection, where that was asked to compare with."""


@dataclass(eq=False)
class TrainedModel:
    """f, G, C and the source styles."""

    config: HomefoldConfig
    """Every setting, the blocks of style by their names in this network."""
    encoder: Encoder
    feature_model: FeatureModel
    domains: tuple[str, ...]
    reports: dict[str, Any] = field(default_factory=dict)
    """What each stage measured on held-out source images."""
    style: StyleModel | None = None
    """The source styles; None where styles are left as they are."""
    styled: Encoder | None = None
    """f, where an image's style is brought to the sources' on its way; None where `style` is."""
    familiarity: Familiarity | None = None
    """Which images are left as they are; None where all are projected."""
    stages: tuple[Stage, ...] = ()
    """What it stands on, where it was trained here."""

    def encode(
        self, images: ImageSet, look: LookConfig | None = None, *, styled: bool = True
    ) -> tuple[torch.Tensor, float]:
        """What the search is given: raw features `(n, d)`, and the seconds that they took.

        Where `styled`, styles are brought to the sources' before, if the model does so.
        """
        asked = look or self.config.look
        moved = self.styled if styled and asked.styles else None
        return (moved or self.encoder).of(images, self.config.views(asked))

    def answer(
        self,
        images: ImageSet,
        *,
        projected: bool = True,
        styled: bool | None = None,
        look: LookConfig | None = None,
        search: SearchConfig | None = None,
        project_by: Callable[[torch.Tensor], Projection] | None = None,
        compare: bool = False,
    ) -> Answer:
        """Answers for images of any domain and of the model's size.

        Args:
            images: to answer for.
            projected: bring each feature to the source manifold first; False is the control.
            styled: bring styles to the sources' first; by default where `projected`.
            look, search: other settings than the model's own.
            project_by: another way to bring raw features to the manifold than the model's own.
            compare: answer without projection too, which takes another pass of f where styles are brought home.
        """
        if projected and styled is None and (look or self.config.look).leave_familiar:
            return self._answer_unfamiliar(images, look or self.config.look, search, project_by)
        z, seconds = self.encode(images, look, styled=projected if styled is None else styled)
        model = self.feature_model
        if not projected:
            began = time.perf_counter()
            predictions = model.predict(z, projected=False)
            return Answer(predictions, seconds + time.perf_counter() - began, z)
        model.off_manifold_scale(search or model.search)  # of the model rather than of these images
        began = time.perf_counter()
        found = model.project(z, search) if project_by is None else project_by(z)
        predictions = model.classify(found, search)
        seconds += time.perf_counter() - began
        if not compare:
            return Answer(predictions, seconds, z, found)
        plain = self._without_projection(images, z, look)
        return Answer(replace(predictions, unprojected=plain.predictions.indices), seconds, z, found, plain)

    @cached_property
    def watcher(self) -> Encoder:
        """f, which tells the styles of images beside their features."""
        if self.familiarity is None:
            raise ConfigError(
                "this model does not know which images are familiar; fit it with look.leave_familiar=true and "
                "with styles (style.blocks)."
            )
        assert isinstance(self.encoder.net, FeatureNet)
        return self.familiarity.watcher(self.encoder.net, self.config.style.blocks, self.encoder.device)

    def style_distances(self, images: ImageSet) -> np.ndarray:
        """`(n, domains)` how far the style of each image is from each source domain's; see `Familiarity`."""
        watcher, familiarity = self.watcher, self.familiarity
        assert familiarity is not None
        rows = watcher.of(images)[0]
        styles = rows[:, rows.shape[1] - familiarity.means.shape[1] :]
        found: np.ndarray = familiarity.distances_to_each(styles).cpu().numpy()
        return found

    def _answer_unfamiliar(
        self,
        images: ImageSet,
        look: LookConfig,
        search: SearchConfig | None,
        project_by: Callable[[torch.Tensor], Projection] | None,
    ) -> Answer:
        """`answer` where familiar images keep the answer without projection."""
        watcher, familiarity, model = self.watcher, self.familiarity, self.feature_model
        assert familiarity is not None
        model.off_manifold_scale(search or model.search)
        began = time.perf_counter()
        views = self.config.views(look)
        plain_z, is_familiar = familiarity.split(watcher.of(images)[0])
        if views != WHOLE:
            plain_z = self.encoder.of(images, views)[0]
        plain = Answer(model.predict(plain_z, projected=False), time.perf_counter() - began, plain_z)
        z, moved = plain_z, (~is_familiar).nonzero()[:, 0]
        if self.styled is not None and look.styles and len(moved):
            others = ImageSet(np.ascontiguousarray(images.pixels[moved.cpu().numpy()]))
            z = plain_z.index_copy(0, moved, self.styled.of(others, views)[0])
        found = model.project(z, search) if project_by is None else project_by(z)
        predictions = model.classify(found, search).left(plain.predictions, is_familiar.cpu().numpy())
        return Answer(predictions, time.perf_counter() - began, z, found, plain)

    def _without_projection(self, images: ImageSet, z: torch.Tensor, look: LookConfig | None) -> Answer:
        """What `answer` gives without projection; `z: (n, d)` are the features that were projected."""
        if self.styled is not None and (look or self.config.look).styles:
            return self.answer(images, projected=False, look=look)
        return Answer(self.feature_model.predict(z, projected=False), 0.0, z)
