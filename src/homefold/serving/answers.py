"""The JSON of an answer: the fields of `homefold predict --json`, with the row of the image in place of its path."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from homefold.stages.predictions import Prediction

__all__ = ["Answer", "AnswerLine", "Failure", "FailureLine", "answer_fields"]


class Answer(BaseModel):
    """The answer to one image."""

    label: str = Field(description="the most probable class")
    confidence: float = Field(description="the probability of the label")
    probabilities: dict[str, float] = Field(description="the probability of each class")
    similarity_before: float | None = Field(description="cosine of its feature to where the search began")
    similarity_after: float | None = Field(description="cosine of its feature to its projection")
    iterations: int = Field(description="steps of the search")
    start: str = Field(description="which start of the search won")
    off_manifold: float | None = Field(
        description="how far from the source images; 95 % of held-out ones stay below 1; null without projection"
    )
    projected: bool = Field(description="whether it was brought to the source manifold")
    abstained: bool = Field(description="whether the answer is one to withhold (abstain_above)")
    label_without_projection: str | None = Field(None, description="the label without projection (compare)")


class AnswerLine(Answer):
    """The answer to one of several images."""

    row: int = Field(description="which image of the request, from 0")


class Failure(BaseModel):
    """What the server says instead of an answer."""

    error: str = Field(description="what was found, what was expected and what to do")


class FailureLine(Failure):
    """Why one of several images has no answer."""

    row: int = Field(description="which image of the request, from 0")


def answer_fields(prediction: Prediction, abstain_above: float | None) -> dict[str, Any]:
    """The fields of an `Answer`.

    Args:
        prediction: to show.
        abstain_above: the off-manifold score above which it is one to withhold; None withholds none.
    """
    abstained = abstain_above is not None and prediction.abstained(abstain_above)
    return {**prediction.as_dict(), "abstained": abstained}
