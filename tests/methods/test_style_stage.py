"""Styles as a stage of the methods: what is shared with and without them."""

from __future__ import annotations

import numpy as np
import pytest

from homefold.errors import ConfigError
from homefold.methods.base import ImageSet
from homefold.methods.registry import find_method


def test_a_benchmark_shares_stage_1_with_and_without_styles(task_for, few_digits):
    method = find_method("without-projection")
    task = task_for(method, features__epochs=2)
    styled = find_method("without-projection:style.blocks=block1/block2,style.manifold=nearest")
    styled_task = task_for(styled, features__epochs=2)
    plain_trained, trained = method.train(task), styled.train(styled_task)
    assert plain_trained.stages[0].folder.name == trained.stages[0].folder.name
    assert [stage.folder.name.split("-")[0] for stage in trained.stages] == ["features", "classifier", "style"]
    images = ImageSet(few_digits.images[:30], "some")
    assert not np.allclose(
        plain_trained.answer(images).predictions.probabilities, trained.answer(images).predictions.probabilities
    )
    assert {id.digest for id in styled.planned_stages(styled_task.key)} >= {
        stage.folder.name.split("-")[-1] for stage in trained.stages
    }


@pytest.mark.parametrize(
    "setting", ["projection.views=4", "projection.textures=2", "style.blocks=block1,style.manifold=mean"]
)
def test_controls_see_a_target_as_they_are_told_to(setting, task_for, few_digits):
    images = ImageSet(few_digits.images[:40], "some")
    for method in ("deep-all", "class-means+deep-all", "1-nn+without-projection", "t3a+deep-all"):
        answers = []
        for name in (method, f"{method}:{setting}"):
            found = find_method(name)
            trained = found.train(task_for(found, features__epochs=1))
            answers.append(trained.answer(images).features)
        assert not np.allclose(answers[0].numpy(), answers[1].numpy(), atol=1e-3), method


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tent:batch_size=8+deep-all:projection.views=2", "tent.* would ignore projection.views=2; give that"),
        ("tent:batch_size=8+deep-all:projection.textures=2", "tent.* would ignore projection.textures=2; give that"),
        ("memo+deep-all:style.blocks=block1", "would ignore style.blocks=block1"),
        ("jigen:style.blocks=block1", "jigen looks at target images as they are and would ignore style.blocks=block1"),
        ("vae:style.blocks=layer1", "blocks of style names layer1"),
        ("deep-all:style.blocks=layer1", "blocks of style names layer1"),
    ],
)
def test_what_would_be_ignored_is_refused_before_any_training(name, sentence, task_for):
    with pytest.raises(ConfigError, match=sentence):
        task_for(find_method(name))


def test_the_control_of_a_styled_answer_is_the_plain_one(task_for, few_digits):
    images = ImageSet(few_digits.images[:30], "some")
    plain, styled = find_method("nearest"), find_method("nearest:style.blocks=block1,style.manifold=mean")
    expected = plain.train(task_for(plain, features__epochs=2)).answer(images)
    found = styled.train(task_for(styled, features__epochs=2)).answer(images)
    assert np.array_equal(found.before.probabilities, expected.before.probabilities)
    assert not np.array_equal(found.predictions.probabilities, expected.predictions.probabilities)
