"""What holds for every test-time method: it works on digits, is nothing at its null setting, and forgets."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch
from torch import nn

from homefold.errors import ConfigError
from homefold.methods import ImageSet, find_method, list_methods, wrapped_by_default

FAST = {
    "1-nn": {},
    "class-means": {},
    "t3a": {"batch_size": 16},
    "tent": {"batch_size": 24},
    "ttt": {"steps": 2, "copies": 2},
    "shot-im": {"epochs": 3, "batch_size": 24},
    "memo": {"copies": 8},
}
NULL = {
    "1-nn": {"share": 0.0},
    "class-means": {"share": 0.0},
    "t3a": {"supports": 0},
    "tent": {"statistics": "source", "learning_rate": 0.0},
    "ttt": {"learning_rate": 0.0},
    "shot-im": {"epochs": 0},
    "memo": {"learning_rate": 0.0},
}
STATELESS = ("1-nn", "class-means", "ttt", "memo")
BASE = {name: "rotation" if name == "ttt" else "deep-all" for name in FAST}


def ask(trained, dataset, key="scan"):
    return trained.answer(ImageSet(dataset.images, key)).predictions.probabilities


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_it_answers_well_above_chance_for_a_domain_it_has_never_seen(name, finished, scan):
    wrapped = finished(BASE[name]).wrapped_by(name, **FAST[name])
    wrapped.reset()
    answers = wrapped.answer(ImageSet(scan.images, "scan"))
    assert (answers.predictions.indices == scan.labels).mean() > 0.7  # one in three by chance
    assert answers.predictions.probabilities.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert answers.features.shape == (len(scan), 32)
    assert answers.seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_at_its_null_setting_it_answers_as_the_wrapped_model_does(name, finished, scan):
    base = finished(BASE[name])
    expected = ask(base.trained, scan)
    assert ask(base.wrapped_by(name, **{**FAST[name], **NULL[name]}), scan) == pytest.approx(expected, abs=1e-5)
    active = base.wrapped_by(name, **FAST[name])
    assert np.abs(ask(active, scan) - expected).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("base", ["mmd-aae", "d-sam"])
def test_networks_whose_answer_is_put_together_can_be_wrapped_by_all(base, finished, scan):
    trained = finished(base, features__epochs=1)
    expected = ask(trained.trained, scan)
    for name in FAST:
        assert ask(trained.wrapped_by(name, **{**FAST[name], **NULL[name]}), scan) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", FAST)
def test_no_image_has_no_answer(name, finished, scan):
    wrapped = finished(BASE[name]).wrapped_by(name, **FAST[name])
    assert ask(wrapped, scan.subset(np.array([], dtype=np.int64))).shape == (0, 3)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tent:learning_rate=nan", "must be a finite number; got nan"),
        ("memo:learning_rate=inf", "must be a finite number; got inf"),
        ("shot-im:diversity=-5", "must be zero or a positive number; got -5.0"),
    ],
)
def test_settings_that_are_no_numbers_are_refused(name, words):
    with pytest.raises(ConfigError, match=words):
        find_method(name)


def test_a_test_time_method_wraps_no_other():
    with pytest.raises(ConfigError, match="t3a wraps a training-time method, and tent is a test-time method itself"):
        find_method("t3a+tent")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_it_leaves_the_wrapped_model_as_it_was(name, finished, scan):
    base = finished(BASE[name])
    before = {key: value.clone() for key, value in base.trained.classifier_network().state_dict().items()}
    expected = ask(base.trained, scan)
    ask(base.wrapped_by(name, **FAST[name]), scan)
    after = base.trained.classifier_network().state_dict()
    assert all(torch.equal(after[key], before[key]) for key in before)
    assert np.array_equal(ask(base.trained, scan, "again"), expected)


@pytest.mark.parametrize("name", STATELESS)
def test_a_stateless_answer_depends_on_no_other_image(name, finished, scan):
    wrapped = finished(BASE[name]).wrapped_by(name, **FAST[name])
    some = scan.subset(np.arange(0, len(scan), 5))
    together = ask(wrapped, some)
    backwards = np.arange(len(some))[::-1]
    assert np.array_equal(ask(wrapped, some.subset(backwards), "backwards")[backwards], together)
    alone = [ask(wrapped, some.subset([index]), f"{index}")[0] for index in (0, 7)]
    assert np.array_equal(np.stack(alone), together[[0, 7]])


@pytest.mark.parametrize("name", ["t3a", "tent", "shot-im"])
def test_a_stateful_one_remembers_until_it_is_reset(name, finished, scan):
    wrapped = finished(BASE[name]).wrapped_by(name, **FAST[name])
    wrapped.reset()
    first, second = ask(wrapped, scan), ask(wrapped, scan)
    assert not np.array_equal(first, second)
    wrapped.reset()
    assert np.array_equal(ask(wrapped, scan), first)


@pytest.mark.slow
def test_the_network_of_the_full_method_answers_as_it_does_without_projection(finished, scan):
    for kind, layer in (("linear", nn.Linear), ("hidden", nn.Sequential)):
        home = finished("without-projection", features__epochs=1, classifier__kind=kind, classifier__epochs=3)
        network = home.trained.classifier_network()
        assert isinstance(network.layer, layer)
        assert ask(home.wrapped_by("memo", learning_rate=0.0, copies=1), scan) == pytest.approx(
            ask(home.trained, scan), abs=1e-5
        )


def test_registered_info_says_what_each_touches_and_remembers():
    infos = {info.name: info for info in list_methods()}
    assert [(name, infos[name].touches_target, infos[name].stateless) for name in FAST] == [
        ("1-nn", False, True), ("class-means", False, True), ("t3a", True, False), ("tent", True, False),
        ("ttt", True, True), ("shot-im", True, False), ("memo", True, True),
    ]  # fmt: skip
    assert infos["rotation"].stateless
    assert not infos["rotation"].touches_target
    defaults = wrapped_by_default()
    assert {name: defaults[name] for name in FAST} == BASE
    assert find_method("ttt").info.name == "ttt+rotation"
    assert find_method("t3a+vae").info.title == "T3A on Full method (VAE)"


@pytest.mark.parametrize("name", FAST)
def test_every_hyper_parameter_has_a_default_and_a_search_range(name):
    method = find_method(name)
    own = [item for item in fields(method) if item.name != "base"]
    assert own
    for item in own:
        search = item.metadata["search"]
        inside = item.default in search.choices or search.low <= item.default <= search.high
        assert inside, item.name


@pytest.mark.parametrize("name", FAST)
def test_a_method_without_a_network_cannot_be_wrapped(name, toy):
    with pytest.raises(ConfigError, match=rf"{name} cannot wrap toy, .* can be wrapped: deep-all, rotation, vae"):
        toy(None, None).wrapped_by(name)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("1-nn", {"share": 1.5}, "0 to 1; got 1.5"),
        ("class-means", {"share": 1.5}, "0 to 1; got 1.5"),
        ("class-means", {"temperature": 0.0}, "temperature of class-means must be a positive number; got 0.0"),
        ("t3a", {"supports": -1}, "supports of t3a must be zero or a positive number"),
        ("tent", {"statistics": "target"}, "one of batch, source"),
        ("tent", {"batch_size": 0}, "batch_size of tent must be at least 1; got 0"),
        ("ttt", {"copies": 0}, "copies of ttt must be at least 1; got 0"),
        ("shot-im", {"epochs": -1}, "epochs of shot-im must be zero or a positive number"),
        ("memo", {"learning_rate": -0.1}, "learning_rate of memo must be zero or a positive number"),
    ],
)
def test_a_setting_out_of_range_gets_a_sentence(name, settings, words, toy):
    with pytest.raises(ConfigError, match=words):
        toy(nn.Flatten(), nn.Linear(3, 2)).wrapped_by(name, **settings)
