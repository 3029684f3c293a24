"""What a finished model does on held-out source images, beside a yardstick: is it worth using?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from homefold.data.splits import stratified_rows
from homefold.stages.features import weights_identity
from homefold.stages.linear_probe import probe_stage
from homefold.stages.task import ImageSet, TrainingTask
from homefold.stages.trained_model import Answer, TrainedModel

__all__ = ["answer_held_out", "judgement", "measure_held_out"]

_MOST_IMAGES = 2000
_STANDARD_ERRORS = 2.0


def answer_held_out(task: TrainingTask, trained: TrainedModel) -> tuple[np.ndarray, Answer]:
    """Rows of at most 2,000 held-out source images, and the answers for them with and without projection."""
    source, (_, held_out) = task.source, task.split
    groups = np.stack([source.domains[held_out], source.labels[held_out]], axis=1)
    rows = held_out[stratified_rows(groups, _MOST_IMAGES, task.config.seed)]
    return rows, trained.answer(ImageSet(np.asarray(source.images[rows])), compare=True)


def measure_held_out(task: TrainingTask, rows: np.ndarray, answer: Answer) -> dict[str, Any]:
    """Accuracies on held-out source images: of answers as `predict` gives them, without projection, of the yardstick.

    The yardstick is logistic regression on the features of the backbone as it started, or on small copies of the
    images where the backbone started from nothing. `chance` is the share of the most frequent class.

    Args:
        task: what was trained.
        rows, answer: as `answer_held_out` gives them.
    """
    source, (train, _) = task.source, task.split
    truth = source.labels[rows]
    assert answer.plain is not None
    from_scratch = weights_identity(task.config.features) == "none"
    return {
        "images": len(rows),
        "with_projection": float((answer.predictions.indices == truth).mean()),
        "without_projection": float((answer.plain.predictions.indices == truth).mean()),
        "yardstick": float(probe_stage(task).part("held_out_accuracy")),
        "yardstick_sees": "pixels" if from_scratch else "starting features",
        "chance": float(np.bincount(source.labels[train]).max() / len(train)),
    }


def judgement(measured: dict[str, Any]) -> str:
    """A sentence where the model is no better than chance or worse than the yardstick; else nothing."""
    accuracy, images = measured["with_projection"], measured["images"]
    error = math.sqrt(max(accuracy * (1 - accuracy), 0.25 / max(1, images)) / max(1, images))
    if accuracy - _STANDARD_ERRORS * error < measured["chance"]:
        return (
            f"On held-out source images this model is right in {accuracy:.1%}, hardly better than always saying the "
            f"most frequent class ({measured['chance']:.1%}). Look at the labels and a few images; then train longer "
            f"(features.epochs) or with a lower features.learning_rate."
        )
    if accuracy + _STANDARD_ERRORS * error < measured["yardstick"]:
        return (
            f"On held-out source images this model is right in {accuracy:.1%}, and logistic regression on the "
            f"{measured['yardstick_sees']} in {measured['yardstick']:.1%}. Train longer (features.epochs), keep "
            f"more of the starting weights (features.keep_pretrained), or train the head alone "
            f"(features.freeze=backbone)."
        )
    return ""
