"""What predictions tell of themselves: which to withhold, and which the projection changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from homefold.errors import ConfigError
from homefold.stages.predictions import NOT_SEARCHED, Predictions


@pytest.fixture
def answers() -> Predictions:
    ones = np.ones(4, np.float32)
    return Predictions(
        class_names=("cat", "dog"),
        probabilities=np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [0.2, 0.8]], np.float32),
        similarity_before=ones,
        similarity_after=ones,
        iterations=np.zeros(4, np.int64),
        start=np.zeros(4, np.int64),
        off_manifold=np.array([0.5, 2.0, 1.0, 1.5], np.float32),
        projected=np.ones(4, bool),
        start_names=("encoder",),
        unprojected=np.array([0, 0, 0, 1]),
    )


def test_answers_are_withheld_by_score_by_confidence_or_by_either(answers: Predictions) -> None:
    assert answers.abstained(1.0).tolist() == [False, True, False, True]
    assert answers.abstained(confidence_below=0.7).tolist() == [False, True, True, False]
    assert answers.abstained(1.6, confidence_below=0.55).tolist() == [False, True, True, False]
    assert not answers.abstained(float("inf"), confidence_below=0).any()
    assert not answers.abstained().any()


@pytest.mark.parametrize("odd", [-0.1, 1.1, float("nan"), "0.5", True])
def test_what_is_no_confidence_is_refused(answers: Predictions, odd: object) -> None:
    with pytest.raises(ConfigError, match="confidence to abstain below must be a number from 0 to 1"):
        answers.abstained(confidence_below=odd)  # type: ignore[arg-type]


def test_without_projection_confidence_still_tells(answers: Predictions) -> None:
    plain = replace(answers, start_names=NOT_SEARCHED, off_manifold=np.full(4, np.nan))
    assert plain.abstained(confidence_below=0.7).tolist() == [False, True, True, False]
    with pytest.raises(ConfigError, match="no off-manifold scores"):
        plain.abstained(1.0)


def test_both_labels_are_told_where_both_are_known(answers: Predictions) -> None:
    assert answers.changed.tolist() == [False, True, False, False]
    assert answers[1].as_dict()["label_without_projection"] == "cat"
    alone = replace(answers, unprojected=np.empty(0, np.int64))
    assert "label_without_projection" not in alone[1].as_dict()
    with pytest.raises(ConfigError, match="compare=True"):
        _ = alone.changed


def test_joined_answers_keep_both_labels(answers: Predictions) -> None:
    twice = Predictions.concatenate([answers, answers])
    assert twice.changed.tolist() == answers.changed.tolist() * 2
    assert twice.confidences.tolist() == pytest.approx([0.9, 0.6, 0.5, 0.8] * 2)
