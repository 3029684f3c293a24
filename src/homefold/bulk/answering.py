"""From encoded images to answers, a chunk at a time: what `homefold predict` and the workers of a job both do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from homefold.bulk.question import Question
from homefold.data import BadImageError
from homefold.data.decoding.many import compact, decode_into
from homefold.data.index import Decodable, LoadRequest
from homefold.stages.predictions import Predictions

if TYPE_CHECKING:
    from homefold.model import Homefold

__all__ = ["answered", "decoded"]


def decoded(
    model: Homefold, sources: Sequence[Decodable], workers: int | None = None
) -> tuple[np.ndarray, dict[int, BadImageError]]:
    """`(n, side, side, 3)` bytes of those that can be decoded, and what is wrong with the others, by position.

    Args:
        model: takes images of its size.
        sources: of the images.
        workers: threads that decode; by default as `LoadRequest` has it.
    """
    side, resize = model.config.preprocessing.image_size, model.config.preprocessing.resize
    images = np.empty((len(sources), side, side, 3), np.uint8)
    failures = decode_into(images, sources, range(len(sources)), LoadRequest(resize=resize, workers=workers))
    return images[: len(compact(images, failures))], failures


def answered(model: Homefold, images: np.ndarray, question: Question) -> tuple[Predictions, np.ndarray]:
    """The predictions of decoded images, and which of them are to be abstained from."""
    predictions = model.predict(
        images, projected=question.projected, look=question.look, search=question.search, compare=question.compare
    )
    return predictions, question.abstained(predictions)
