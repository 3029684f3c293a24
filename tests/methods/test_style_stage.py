"""Styles as a stage of the methods: what is shared with and without them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from homefold.config import preset_config
from homefold.config.views import fixed_views
from homefold.errors import ConfigError
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner
from homefold.features.extraction import extract_views
from homefold.methods.registry import find_method
from homefold.stages.features import FeatureStage, train_feature_stage
from homefold.stages.task import ImageSet

pytestmark = pytest.mark.slow

HALF = "preprocessing.image_size=16"


def test_a_benchmark_shares_stage_1_with_and_without_styles(task_for, few_digits):
    method = find_method("without-projection")
    task = task_for(method, features__epochs=2)
    styled = find_method("without-projection:style.blocks=block1/block2,style.manifold=mean")
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    ["look.views=4", "look.textures=2", "style.blocks=block1,style.manifold=mean"],
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


@pytest.mark.slow
def test_features_that_are_kept_are_those_of_the_views_asked_for(task_for, few_digits):
    task = task_for(find_method("without-projection"), features__epochs=1)
    stage, images = train_feature_stage(task), ImageSet(few_digits.images[:9], "some")
    asked = [fixed_views(count, mirror=False, textures=textures) for count in (1, 2) for textures in (0, 1, 2)]
    # Twice: the second time they come from the disk.
    for views in (*asked, *asked):
        kept, _ = stage.of(images, views=views)
        assert torch.equal(kept, extract_views(stage.net, images.pixels, task.device, views))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tent:batch_size=8+deep-all:look.views=2", "tent.* would ignore look.views=2; give that"),
        ("tent:batch_size=8+deep-all:look.textures=2", "tent.* would ignore look.textures=2; give that"),
        ("memo+deep-all:style.blocks=block1", "would ignore style.blocks=block1"),
        ("jigen:style.blocks=block1", "jigen looks at target images as they are and would ignore style.blocks=block1"),
        ("vae:style.blocks=layer1", "blocks of style names layer1"),
        ("deep-all:style.blocks=layer1", "blocks of style names layer1"),
    ],
)
def test_what_would_be_ignored_is_refused_before_any_training(name, sentence, task_for):
    with pytest.raises(ConfigError, match=sentence):
        task_for(find_method(name))


@pytest.mark.slow
def test_the_control_of_a_styled_answer_is_the_plain_one(task_for, few_digits):
    images = ImageSet(few_digits.images[:30], "some")
    plain, styled = find_method("nearest"), find_method("nearest:style.blocks=block1,style.manifold=mean")
    expected = plain.train(task_for(plain, features__epochs=2)).answer(images)
    found = styled.train(task_for(styled, features__epochs=2)).answer(images)
    assert np.array_equal(found.before.probabilities, expected.before.probabilities)
    assert not np.array_equal(found.predictions.probabilities, expected.predictions.probabilities)


def test_the_time_of_an_answer_is_that_of_the_pass_it_takes(task_for, few_digits, monkeypatch):
    of = FeatureStage.of
    monkeypatch.setattr(FeatureStage, "of", lambda self, *asked: (of(self, *asked)[0], 1000.0))
    method = find_method("nearest:style.blocks=block1,style.manifold=mean")
    found = method.train(task_for(method, features__epochs=1)).answer(ImageSet(few_digits.images[:30], "some"))
    assert found.seconds // 1000 == 1


def _configured(name: str, preset: str = "small"):
    method = find_method(name)
    return method.configure(method.starting(preset_config(preset)), "default")


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("vae", ("block1", "block2")),
        ("gan", ("block1", "block2")),
        ("nearest", ("block1", "block2")),
        ("without-features", ("block1", "block2")),
        ("vae:search.steps=3", ("block1", "block2")),
        ("vae:style.blocks=[]", ()),
        ("vae:look.styles=false", ()),
        ("without-projection", ()),
        ("without-projection:style.blocks=early", ("block1", "block2")),
        ("deep-all", ()),
        ("jigen", ()),
        ("class-means+without-projection", ()),
        ("t3a+vae", ()),
        ("tent+vae", ()),
    ],
)
def test_the_styles_of_a_preset_are_for_what_projects(name, blocks):
    assert _configured(name).style.blocks == blocks


@pytest.mark.parametrize("preset", ["small", "default"])
@pytest.mark.parametrize("name", ["without-projection", "deep-all"])
def test_a_control_that_is_given_blocks_brings_styles_as_the_preset_does(name, preset):
    blocks = ("layer1", "layer2") if preset == "default" else ("block1", "block2")
    for settings in ("style.blocks=early", f"style.blocks={'/'.join(blocks)}"):
        assert _configured(f"{name}:{settings}", preset).style == _configured("vae", preset).style
    assert _configured("vae", preset).style.weight == 0.5


def test_learners_begin_without_what_only_stage_1_follows_at_a_rate_they_are_stable_at():
    ours, plain, learner = (_configured(name, "default").features for name in ("vae", "deep-all", "jigen"))
    assert (ours.mix_style_probability, ours.learning_rate) == (plain.mix_style_probability, plain.learning_rate)
    assert (ours.mix_style_probability, ours.learning_rate) == (0.5, 0.1)
    assert (learner.mix_style_probability, learner.learning_rate) == (0.0, 0.05)
    assert learner.augmentation == ours.augmentation


@pytest.mark.parametrize("method", ["vae", "without-projection", "without-features", "deep-all", "t3a+vae"])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ("mix_style_probability=0.5", "mix_style_layers=layer9"),
            "mix_style_layers names layer9.*its blocks are block1",
        ),
        (("mix_style_layers=block1",), "mix_style_layers names blocks, but features.mix_style_probability is 0"),
        (("augmentation.hue=0.1", "augmentation.jitter_probability=1", "freeze=backbone"), "jitter_probability=0"),
    ],
)
def test_what_stage_1_would_refuse_is_refused_when_it_is_planned(method, settings, words, few_digits, tmp_path):
    options = BenchOptions(
        "digits-mini", tmp_path, preset="quick", seeds=1, targets=("street",), device="cpu",
        methods=(method,), settings=tuple(f"features.{setting}" for setting in settings),
    )  # fmt: skip
    with pytest.raises(ConfigError, match=words):
        list(Planner(options, few_digits).units())


def test_what_is_set_for_all_methods_reaches_them_all_and_what_they_would_ignore_is_refused(few_digits, tmp_path):
    def styles(*methods: str, settings: tuple[str, ...] = ()):
        options = BenchOptions(
            "digits-mini", tmp_path, preset="quick", seeds=1, targets=("street",), device="cpu",
            methods=methods, settings=(HALF, *settings),
        )  # fmt: skip
        return {run.method_name: run.config.style for unit in Planner(options, few_digits).units() for run in unit}

    found = styles("vae", "without-projection", "deep-all", "tent")
    assert [style.blocks for style in found.values()] == [("block1", "block2"), (), (), ()]
    assert found["vae"].manifold == "domains"
    found = styles("vae", "without-projection", "deep-all", settings=("style.blocks=block2",))
    assert {style.blocks for style in found.values()} == {("block2",)}
    with pytest.raises(ConfigError, match=r"tent.* would ignore style\.blocks=block2"):
        styles("tent", settings=("style.blocks=block2",))


@pytest.mark.parametrize("name", ["without-projection:style.manifold=mean", "deep-all:style.weight=1"])
def test_how_styles_are_moved_without_where_is_refused(name):
    with pytest.raises(ConfigError, match=r"leaves styles as they are.*would decide nothing; add style\.blocks"):
        _configured(name)
