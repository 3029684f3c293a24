"""Why images get their answers: both answers, how the search went, where it led, what they are like."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, Field

from homefold.projection import Projection
from homefold.projection.rules.objective import gradient_function
from homefold.projection.rules.starts import starting_latents
from homefold.projection.rules.steps import step_rule, walk
from homefold.runtime.device import one_thread
from homefold.serving.answers import Answer, answer_fields
from homefold.serving.explorer.explorer import Surveyed
from homefold.stages.feature_model import FeatureModel
from homefold.stages.predictions import Prediction
from homefold.stages.style_move import style_moves
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


class Style(BaseModel):
    """What styles are moved towards, where the answer is one with projection."""

    distances: dict[str, float] = Field(description="of its style to each place; 1 is usual for a source image there")
    weight: float = Field(description="share of the way that is gone")
    as_it_is: bool = Field(description="whether it is seen as it is too, and the features of all are averaged")


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
    style: Style | None = Field(description="null where the model leaves styles as they are")
    place_before: tuple[float, float] | None = Field(description="of its feature on the map")
    place_after: tuple[float, float] | None = Field(description="of its projection on the map")
    nearest_before: list[Near] | None = Field(description="source images most like its feature")
    nearest_after: list[Near] | None = Field(description="source images most like its projection")


def explain(model: TrainedModel, pixels: np.ndarray, surveyed: Surveyed | None) -> list[dict[str, Any]]:
    """The fields of an `Explanation` of each image in `pixels: (n, side, side, 3)`."""
    images = ImageSet(pixels)
    answer = model.answer(images, compare=True)
    assert answer.plain is not None
    assert answer.found is not None
    features = model.feature_model
    before, after = features.prepare(answer.plain.features), answer.found.features
    columns = {
        "answer": [answer_fields(each, None) for each in answer.predictions],
        "without_projection": [_plain(each) for each in answer.plain.predictions],
        "with_projection": [_plain(each) for each in features.classify(answer.found)],
        "curve": _curves(features, features.prepare(answer.features), answer.found),
        "style": [None if move is None else move.as_dict() for move in style_moves(model, images)],
    }
    for name, z in (("before", before.cpu()), ("after", after.cpu())):
        columns[f"place_{name}"] = [None] * len(z) if surveyed is None else surveyed.layout.place(z).tolist()
        columns[f"nearest_{name}"] = [None] * len(z) if surveyed is None else _near(surveyed, z)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def usual_scores(model: TrainedModel) -> list[float]:
    """Off-manifold scores of held-out source features, in order."""
    features = model.feature_model
    found = features.project(features.calibration)
    return sorted(((1 - found.similarity_after) / features.off_manifold_scale(features.search)).tolist())


def _plain(answer: Prediction) -> dict[str, Any]:
    return {"label": answer.label, "confidence": answer.confidence, "probabilities": answer.probabilities}


def _near(surveyed: Surveyed, z: torch.Tensor) -> list[list[dict[str, Any]]]:
    return [[vars(found) for found in row] for row in surveyed.nearest_sources(z, _NEIGHBOURS)]


def _curves(features: FeatureModel, z: torch.Tensor, found: Projection) -> list[dict[str, Any] | None]:
    """The searches of features `(n, d)` again from the starts that won, this time step by step."""
    manifold, search = features.manifold, features.search
    if not manifold.is_continuous:
        return [None] * len(z)
    with torch.no_grad(), one_thread(z.device):
        starts = starting_latents(search, manifold, z, features.seed)
        u = starts[torch.arange(len(z)), found.start.to(starts.device)]
        measure = gradient_function(getattr(manifold, "decoder", manifold.decode), z)
        losses = []
        for loss, after in walk(step_rule(search), measure, u, search.steps):
            losses.append(loss.clone())
            u = after
        losses.append(measure(u)[0])
    stops = found.iterations.tolist()
    return [_curve(row, stop) for row, stop in zip(torch.stack(losses, dim=1).tolist(), stops, strict=True)]


def _curve(losses: list[float], stop: int) -> dict[str, Any]:
    steps = sorted({*range(0, len(losses), -(-len(losses) // _MOST_POINTS)), stop, len(losses) - 1})
    return {"steps": steps, "losses": [losses[step] for step in steps], "stop": stop}
