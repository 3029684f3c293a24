"""Why one image gets its answer: both answers, how the search went, where it led, what it is like."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, Field

from homefold.projection.rules.objective import gradient_function
from homefold.projection.rules.starts import starting_latents
from homefold.projection.rules.steps import step_rule, walk
from homefold.runtime.device import one_thread
from homefold.serving.answers import Answer, answer_fields
from homefold.serving.explorer.explorer import Surveyed
from homefold.stages.feature_model import FeatureModel
from homefold.stages.predictions import Predictions
from homefold.stages.task import ImageSet
from homefold.stages.trained_model import TrainedModel

__all__ = ["Explanation", "explain", "usual_scores"]

_NEIGHBOURS = 6
_MOST_POINTS = 200


class Plain(BaseModel):
    """An answer without more about it."""

    label: str
    confidence: float
    probabilities: dict[str, float]


class Curve(BaseModel):
    """The loss of the search that won."""

    steps: list[int] = Field(description="taken so far; not every one where there are many")
    losses: list[float] = Field(description="1 − cosine after so many steps")
    stop: int = Field(description="the step whose result was taken")


class Near(BaseModel):
    """A source image."""

    row: int
    similarity: float = Field(description="cosine of the features")


class Explanation(BaseModel):
    """What is behind an answer; what needs the source images is null without --data."""

    answer: Answer
    without_projection: Plain
    with_projection: Plain = Field(description="what projection alone says, also where it was not used")
    curve: Curve | None = Field(description="null where nothing is searched for")
    place_before: tuple[float, float] | None = Field(description="of its feature on the map")
    place_after: tuple[float, float] | None = Field(description="of its projection on the map")
    nearest_before: list[Near] | None = Field(description="source images most like its feature")
    nearest_after: list[Near] | None = Field(description="source images most like its projection")


def explain(model: TrainedModel, pixels: np.ndarray, surveyed: Surveyed | None) -> dict[str, Any]:
    """The fields of an `Explanation` of an image `(side, side, 3)`."""
    answer = model.answer(ImageSet(pixels[None]), compare=True)
    assert answer.plain is not None
    assert answer.found is not None
    features = model.feature_model
    before = features.prepare(answer.plain.features)
    after = answer.found.features
    return {
        "answer": answer_fields(answer.predictions[0], None),
        "without_projection": _plain(answer.plain.predictions),
        "with_projection": _plain(features.classify(answer.found)),
        "curve": _curve(features, features.prepare(answer.features), int(answer.found.start[0]), answer.predictions),
        "place_before": None if surveyed is None else surveyed.layout.place(before.cpu())[0].tolist(),
        "place_after": None if surveyed is None else surveyed.layout.place(after.cpu())[0].tolist(),
        "nearest_before": _near(surveyed, before),
        "nearest_after": _near(surveyed, after),
    }


def usual_scores(model: TrainedModel) -> list[float]:
    """Off-manifold scores of held-out source features, in order."""
    features = model.feature_model
    found = features.project(features.calibration)
    return sorted(((1 - found.similarity_after) / features.off_manifold_scale(features.search)).tolist())


def _plain(answers: Predictions) -> dict[str, Any]:
    answer = answers[0]
    return {"label": answer.label, "confidence": answer.confidence, "probabilities": answer.probabilities}


def _near(surveyed: Surveyed | None, z: torch.Tensor) -> list[dict[str, Any]] | None:
    return None if surveyed is None else [vars(found) for found in surveyed.nearest_sources(z, _NEIGHBOURS)]


def _curve(features: FeatureModel, z: torch.Tensor, start: int, answers: Predictions) -> dict[str, Any] | None:
    """The search of one feature `(1, d)` again from the start that won, this time step by step."""
    manifold, search = features.manifold, features.search
    if not manifold.is_continuous:
        return None
    with torch.no_grad(), one_thread(z.device):
        u = starting_latents(search, manifold, z, features.seed)[:, start]
        measure = gradient_function(getattr(manifold, "decoder", manifold.decode), z)
        losses = []
        for loss, after in walk(step_rule(search), measure, u, search.steps):
            losses.append(loss)
            u = after
        losses.append(measure(u)[0])
    found = torch.cat(losses).tolist()
    stop = int(answers.iterations[0])
    steps = sorted({*range(0, len(found), -(-len(found) // _MOST_POINTS)), stop, len(found) - 1})
    return {"steps": steps, "losses": [found[step] for step in steps], "stop": stop}
