"""When the projection is trusted: below a score, in part, and what a prediction tells of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homefold.config import config_from_dict, config_to_dict
from homefold.errors import ConfigError
from homefold.evaluation.artifacts import artifact_path, read_artifact
from homefold.evaluation.bench import run_bench
from homefold.evaluation.options import BenchOptions
from homefold.files import plain_json
from homefold.projection import ProjectionConfig


@pytest.fixture(scope="module")
def images(few_digits):
    return few_digits.only("street").images[:40]


@pytest.fixture(scope="module")
def both(fitted, images):
    """Answers with and without projection."""
    return fitted.predict(images), fitted.predict(images, projected=False)


def test_by_default_every_answer_is_the_projections(both):
    projected, plain = both
    assert projected.projected.all()
    assert not plain.projected.any()
    assert [projected[0].projected, plain[0].projected] == [True, False]


@settings(deadline=None, max_examples=15)
@given(quantile=st.floats(0, 1), blend=st.floats(0, 1))
def test_it_is_what_a_loop_over_the_images_finds(fitted, images, both, quantile, blend):
    projected, plain = both
    threshold = float(np.quantile(projected.off_manifold, quantile))
    search = replace(fitted.config.projection, trust_below=threshold, blend=blend)
    found = fitted.predict(images, projection=search)
    for index, answer in enumerate(found):
        trusted = projected.off_manifold[index] <= np.float32(threshold)
        share = blend if trusted else 0.0
        expected = share * projected.probabilities[index] + (1 - share) * plain.probabilities[index]
        assert found.probabilities[index] == pytest.approx(expected, abs=1e-6)
        assert answer.projected == (trusted and blend > 0)
    assert np.array_equal(found.off_manifold, projected.off_manifold)
    assert np.array_equal(found.similarity_after, projected.similarity_after)


def test_a_score_that_none_reaches_leaves_the_features_as_they_are_and_one_above_all_changes_nothing(
    fitted, images, both
):
    projected, plain = both
    own = fitted.config.projection
    below = fitted.predict(images, projection=replace(own, trust_below=0.0))
    assert np.array_equal(below.probabilities, plain.probabilities)
    assert not below.projected.any()
    above = fitted.predict(images, projection=replace(own, trust_below=1e9))
    assert np.array_equal(above.probabilities, projected.probabilities)
    assert above.projected.all()
    nothing = fitted.predict(images, projection=replace(own, blend=0.0))
    assert np.array_equal(nothing.probabilities, plain.probabilities)
    assert not nothing.projected.any()


def test_an_answer_depends_on_no_other_image(fitted, images, both):
    threshold = float(np.median(both[0].off_manifold))
    search = replace(fitted.config.projection, trust_below=threshold, blend=0.7)
    together = fitted.predict(images, projection=search)
    backwards = fitted.predict(images[::-1], projection=search)
    assert np.array_equal(backwards.probabilities[::-1], together.probabilities)
    assert np.array_equal(backwards.projected[::-1], together.projected)
    assert np.array_equal(fitted.predict(images[4:5], projection=search).probabilities[0], together.probabilities[4])


def test_the_scale_of_the_score_does_not_depend_on_the_trust(fitted):
    model, own = fitted.feature_model, fitted.config.projection
    assert model.off_manifold_scale(replace(own, trust_below=1.0, blend=0.5)) == model.off_manifold_scale(own)


@pytest.mark.parametrize("changed", [{}, {"trust_below": 1.25, "blend": 0.5}])
def test_the_settings_survive_json(changed):
    search = ProjectionConfig(**changed)
    assert config_from_dict(ProjectionConfig, plain_json(config_to_dict(search))) == search


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"trust_below": -1.0}, "or none to trust always; got -1.0"),
        ({"trust_below": math.nan}, "trust_below must be a finite number; got nan"),
        ({"trust_below": math.inf}, "trust_below must be a finite number; got inf"),
        ({"blend": 1.5}, "0 to 1; got 1.5"),
        ({"blend": math.nan}, "blend must be a finite number; got nan"),
    ],
)
def test_what_cannot_be_gets_a_sentence(changed, words):
    with pytest.raises(ConfigError, match=words):
        ProjectionConfig(**changed)


def test_the_benchmark_records_how_many_were_trusted(few_digits, tmp_path):
    methods = (
        "without-projection", "nearest", "nearest:projection.trust_below=1", "nearest:projection.trust_below=0",
        "nearest:projection.blend=0.5",
    )  # fmt: skip
    options = BenchOptions(
        "digits-mini", tmp_path, preset="quick", seeds=1, targets=("street",), device="cpu", methods=methods,
        settings=(
            "preprocessing.image_size=16", "features.epochs=2", "features.batch_size=32", "features.feature_dim=16",
            "classifier.epochs=3",
        ),
        images_per_class=20,
    )  # fmt: skip
    records = run_bench(options, dataset=few_digits)
    assert [record.error for record in records] == [""] * 5
    plain, always, near, never, blended = records
    assert [record.facts["projected_share"] for record in (plain, always, never, blended)] == [None, 1, 0, 1]
    assert never.accuracy == plain.accuracy
    assert len({tuple(record.facts["stages"]) for record in (always, near, never, blended)}) == 1
    arrays = read_artifact(artifact_path(tmp_path, near.run))
    assert np.array_equal(arrays["projected"], arrays["off_manifold"] <= 1)
    assert near.facts["projected_share"] == pytest.approx(arrays["projected"].mean())
    halves = read_artifact(artifact_path(tmp_path, blended.run))["probabilities"].astype(float)
    parts = (read_artifact(artifact_path(tmp_path, record.run))["probabilities"] for record in (plain, always))
    assert halves == pytest.approx(sum(part.astype(float) for part in parts) / 2, abs=2e-3)
