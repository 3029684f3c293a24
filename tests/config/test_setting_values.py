"""Every setting of the library: what is no number of its kind is refused where the settings are made, by name."""

from __future__ import annotations

import dataclasses
import math
import pickle
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from homefold.config import (
    AugmentationConfig,
    HomefoldConfig,
    SearchConfig,
    config_from_dict,
    config_to_dict,
    preset_config,
    replace_settings,
)
from homefold.config.values import LARGEST_COUNT, checked_value, hints_of
from homefold.errors import ConfigError, shown
from homefold.methods import find_method, list_methods
from homefold.methods.settings import method_settings

HUGE = 10**30
DIGITS = 10**5000  # more than Python writes as text
NOT_A_FLOAT = (math.nan, math.inf, -math.inf, 1e300, DIGITS, "0.5", True, [0.5], {}, np.float32("nan"), np.True_)
NOT_AN_INT = (math.nan, math.inf, HUGE, -HUGE, DIGITS, 2.5, "3", True, [3], {})
NOT_TEXT = (3, True, None, ["a"], {}, b"a")
NOT_A_BOOL = (0, 1.0, "true", None, [])
NOT_A_TUPLE = (3, 0.5, "layer1", {"a": 1}, [[]], [{}], [None], [math.nan])
NOT_A_CHOICE = ("", "no such thing", 3, None, [], "x" * 100_000)
NO_SETTINGS = (3, None, "x", [], {})


def leaves(kind: type, within: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted name and type of every setting that has no parts."""
    for name, hint in hints_of(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from leaves(hint, f"{within}{name}.")
        else:
            yield within + name, hint


def odd_values(hint: Any) -> tuple[Any, ...]:
    origin = typing.get_origin(hint)
    if origin is Literal:
        return NOT_A_CHOICE
    if origin is tuple:
        return NOT_A_TUPLE
    if origin is not None:  # optional
        inner = next(item for item in typing.get_args(hint) if item is not type(None))
        return odd_values(inner)
    return {float: NOT_A_FLOAT, int: NOT_AN_INT, str: NOT_TEXT, bool: NOT_A_BOOL}[hint]


def parts(kind: type, within: str = "") -> Iterator[str]:
    for name, hint in hints_of(kind).items():
        if dataclasses.is_dataclass(hint):
            yield within + name
            yield from parts(hint, f"{within}{name}.")


LEAVES = dict(leaves(HomefoldConfig))


def test_all_settings_are_looked_at():
    written = config_to_dict(HomefoldConfig())
    assert {name.split(".")[0] for name in LEAVES} == set(written)
    assert len(LEAVES) > 40
    assert {odd_values(hint)[0] is not None for hint in LEAVES.values()} == {True}


def assert_one_sentence(told: pytest.ExceptionInfo[ConfigError], name: str) -> None:
    sentence = str(told.value)
    assert name in sentence
    assert "\n" not in sentence
    assert len(sentence) < 400


@pytest.mark.parametrize("name", LEAVES)
def test_what_is_no_value_of_a_setting_is_refused_where_it_is_made(name):
    for value in odd_values(LEAVES[name]):
        with pytest.raises(ConfigError) as told:
            replace_settings(HomefoldConfig(), {name: value})
        assert_one_sentence(told, name)


@pytest.mark.parametrize("name", LEAVES)
def test_what_is_no_value_of_a_setting_is_refused_where_it_is_read(name):
    plain = config_to_dict(HomefoldConfig())
    for value in odd_values(LEAVES[name]):
        part = values = {key: dict(item) if isinstance(item, dict) else item for key, item in plain.items()}
        *outer, last = name.split(".")
        for key in outer:
            part[key] = dict(part[key])
            part = part[key]
        part[last] = value
        with pytest.raises(ConfigError) as told:
            config_from_dict(HomefoldConfig, values)
        assert_one_sentence(told, name)


@pytest.mark.parametrize("name", list(parts(HomefoldConfig)))
def test_a_part_is_settings_and_nothing_else(name):
    for value in NO_SETTINGS:
        with pytest.raises(ConfigError, match=f"^{name} must be settings of"):
            replace_settings(HomefoldConfig(), {name: value})


@pytest.mark.parametrize("name", [name for name, hint in LEAVES.items() if hint is int and name != "seed"])
def test_numbers_below_zero_are_no_counts(name):
    with pytest.raises(ConfigError, match=rf"^{name} must be .*; got -1\.$"):
        replace_settings(HomefoldConfig(), {name: -1})


def test_a_seed_may_be_any_64_bit_integer():
    for seed in (-(2**63) + 1, -1, 2**63 - 1):
        assert HomefoldConfig(seed=seed).seed == seed


def test_numpys_numbers_and_lists_become_plain_values_that_json_can_hold():
    given = {
        "seed": np.int64(3),
        "features.epochs": np.int32(5),
        "features.learning_rate": np.float32(0.5),
        "features.momentum": 0,
        "features.milestones": [np.float64(0.5), 1],
        "features.weights": Path("weights.safetensors"),
        "manifold.hidden": np.array([64, 32]),
        "style.blocks": ["layer1"],
        "normalise_features": False,
    }
    config = replace_settings(HomefoldConfig(), given)
    found = {"seed": config.seed, "epochs": config.features.epochs, "hidden": config.manifold.hidden}
    assert found == {"seed": 3, "epochs": 5, "hidden": (64, 32)}
    assert {type(config.seed), type(config.features.epochs), type(config.manifold.hidden[0])} == {int}
    assert {type(config.features.learning_rate), type(config.features.momentum)} == {float}
    assert config.features.milestones == (0.5, 1.0)
    assert config.features.weights == "weights.safetensors"
    assert config.style.blocks == ("layer1",)


def test_presets_are_left_as_they_are():
    for name in ("default", "thorough", "small", "small-thorough", "paper"):
        config = preset_config(name)
        assert dataclasses.replace(config) == config
        assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("value", "text"),
    [("x" * 1000, "'xxx"), (DIGITS, "a value of type int too large"), (np.zeros((3, 3)), "array([[0., 0., 0.],")],
    ids=("long", "digits", "array"),
)
def test_values_are_shown_in_one_short_line(value, text):
    assert shown(value).startswith(text)
    assert "\n" not in shown(value)
    assert len(shown(value)) < 100


def test_none_stays_none_where_it_may_be():
    assert checked_value(float | None, None, "rate") is None
    with pytest.raises(ConfigError, match="rate must be a finite number; got None"):
        checked_value(float, None, "rate")


METHODS = [info.name for info in list_methods()]
OF_METHODS = [(name, setting) for name in METHODS for setting in method_settings(find_method(name))]


@pytest.mark.parametrize(("name", "setting"), OF_METHODS, ids=lambda item: getattr(item, "name", item))
def test_what_is_no_value_of_a_methods_own_setting_is_refused(name, setting):
    kind = type(setting.default)
    odd: tuple[Any, ...] = {float: NOT_A_FLOAT, int: NOT_AN_INT, tuple: NOT_A_TUPLE, str: NOT_A_CHOICE}[kind]
    if kind is not str:
        odd += (-1, None)
    if kind is tuple:
        odd += ((-1.0,), (math.inf,), ())
    for value in odd:
        with pytest.raises(ConfigError) as told:
            find_method(name).varied(**{setting.name: value})
        assert_one_sentence(told, setting.name)


@pytest.mark.parametrize(("name", "setting"), OF_METHODS, ids=lambda item: getattr(item, "name", item))
def test_the_same_as_text_after_the_methods_name(name, setting):
    whole = (str(HUGE), "9" * 5000) if type(setting.default) is int else ()
    for text in ("nan", "inf", "-inf", "1e999", "-1", "", *whole):
        with pytest.raises(ConfigError) as told:
            find_method(f"{name}:{setting.name}={text}")
        assert_one_sentence(told, setting.name)


def test_counts_go_up_to_what_an_index_can_be():
    assert preset_config("small", {"features.epochs": LARGEST_COUNT}).features.epochs == LARGEST_COUNT
    with pytest.raises(ConfigError, match="epochs must be a whole number of at most 2147483647; got 2147483648"):
        preset_config("small", {"features.epochs": LARGEST_COUNT + 1})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"features.epochs": 0}, "features.epochs must be at least 1; got 0."),
        ({"features.held_out": 1.0}, "features.held_out must be above 0 and below 1; got 1.0."),
        ({"features.augmentation.hue": 0.6}, "features.augmentation.hue must be 0 to 0.5; got 0.6."),
        ({"search.rate": 0}, "search.rate must be above 0; got 0."),
        ({"manifold.hidden": []}, "manifold.hidden must be a list of 1 to 100 values; got []."),
        ({"manifold.hidden": [64, 0]}, "manifold.hidden must be at least 1; got 0."),
        ({"features.milestones": [np.True_]}, "features.milestones must be a finite number; got np.True_."),
        (
            {"style.manifold": "domain"},
            "style.manifold must be one of mean, domains; got 'domain'. Did you mean domains?",
        ),
        (
            {"look.view": 2},
            "there is no setting 'look.view'; there are views, mirror, textures, styles, leave_familiar. Did you mean "
            "look.views?",
        ),
    ],
)
def test_the_whole_setting_is_named_with_what_it_may_be(settings, sentence):
    with pytest.raises(ConfigError) as told:
        replace_settings(HomefoldConfig(), settings)
    assert str(told.value) == sentence


def test_a_part_made_alone_is_named_as_in_the_whole():
    with pytest.raises(ConfigError, match=r"^features\.augmentation\.blur_kernel_px must be at least 1; got 0\.$"):
        AugmentationConfig(blur_kernel_px=0)
    with pytest.raises(ConfigError, match=r"^there is no setting 'search\.stepss'; .*Did you mean search\.steps\?$"):
        SearchConfig(stepss=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"^search\.random_starts must be a whole number; got 'x'\.$"):
        SearchConfig(True, "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="multiple values"):
        SearchConfig(True, encoder_start=True)  # type: ignore[misc]
