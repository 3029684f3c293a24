"""Styles as a stage of the methods: what is shared with and without them."""

from __future__ import annotations

import numpy as np

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
