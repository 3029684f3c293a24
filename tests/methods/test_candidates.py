"""Settings that are drawn for a method, and settings that are given to it as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homefold.config import preset_config
from homefold.config.ranges import SearchRange
from homefold.errors import ConfigError
from homefold.methods import find_method
from homefold.methods.candidates import drawn_settings, tunable_settings, with_candidate
from homefold.methods.registry import METHODS

CONFIG = preset_config("small")


@given(
    st.floats(0, 1, exclude_max=True),
    st.floats(1e-6, 1e3),
    st.floats(1.5, 1e4),
    st.booleans(),
    st.one_of(st.floats(1e-3, 10), st.integers(1, 1000)),
)
def test_a_draw_lies_in_its_range(u, low, ratio, log, now):
    scaled = SearchRange(low, low * ratio, log=log, times=True).draw(u, now)
    plain = SearchRange(low, low * ratio, log=log).draw(u, now)
    slack = 0.5 if isinstance(now, int) else 0.0
    for value, unit in ((scaled, now), (plain, 1)):
        assert type(value) is type(now)
        assert low * unit * 0.994 - slack <= value <= low * ratio * unit * 1.006 + slack


def test_a_logarithmic_draw_is_even_in_the_exponent_and_a_choice_even_among_all():
    logarithmic = SearchRange(1e-4, 1, log=True)
    assert [logarithmic.draw(u, 0.1) for u in (0, 0.25, 0.5, 0.75)] == [1e-4, 1e-3, 1e-2, 1e-1]
    assert [SearchRange(choices=("a", "b")).draw(u, "a") for u in (0, 0.49, 0.5, 0.99)] == ["a", "a", "b", "b"]


def test_every_method_runs_with_what_is_drawn_for_it_and_the_text_says_it_all():
    """Typed again, a drawn candidate is the same method with the same settings."""
    for name in METHODS:
        method = find_method(name)
        text = drawn_settings(method, method.starting(CONFIG), 0, 1)
        if name == "linear-probe":
            assert text == ""
            continue
        changed = with_candidate(method, text)
        config = changed.configure(changed.starting(CONFIG), "default")
        now = {setting.name: setting.value for setting in tunable_settings(changed, config)}
        drawn = dict(word.split("=") for word in text.split())
        assert drawn.keys() == now.keys()
        for setting, value in now.items():
            written = "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
            assert drawn[setting] == written, (name, setting)


def test_methods_that_share_a_setting_draw_the_same_value_of_it():
    """So candidates of one number share trainings of f."""
    texts = {name: drawn_settings(find_method(name), CONFIG, 7, 3).split() for name in ("vae", "nearest", "deep-all")}
    assert set(texts["deep-all"]) < set(texts["nearest"]) < set(texts["vae"])


def test_the_same_draw_on_every_machine():
    assert drawn_settings(find_method("irm"), CONFIG, 0, 1) == (
        "weight=2.21 warm_up=0.451 features.learning_rate=0.0109 features.weight_decay=3.19e-06 features.batch_size=84"
    )


def test_the_optimiser_that_goes_with_a_learning_rate_is_not_drawn():
    names = {setting.name for setting in tunable_settings(find_method("coral"), CONFIG)}
    assert "optimiser" not in names
    assert "weight" in names


def test_a_candidate_reaches_what_a_test_time_method_wraps_and_wins_over_what_was_typed():
    typed = find_method("memo:steps=2+jigen:weight=0.9,features.epochs=7")
    changed = with_candidate(typed, "steps=3 jigen:weight=0.3 features.epochs=5 manifold.hidden=[8,4]")
    assert (changed.settings()["steps"], changed.settings()["base_settings"]["weight"]) == (3, 0.3)
    assert changed.configure(changed.starting(CONFIG), "default").features.epochs == 5
    assert changed.configure(changed.starting(CONFIG), "default").manifold.hidden == (8, 4)
    assert with_candidate(typed, "") == typed


@pytest.mark.parametrize(
    ("method", "text", "words"),
    [
        ("vae", "weight=3", "vae has no settings of its own"),
        ("jigen", "wait=3", "jigen has no setting 'wait=3'"),
        ("jigen", "weight=many", "weight of jigen is a number"),
        ("tent+jigen", "coral:weight=3", r"the candidate 'coral:weight=3' sets coral, which is no part of tent\+jigen"),
        ("vae", "features.epoch=3", r"there is no setting 'features\.epoch'"),
        ("vae", "features.epochs=3 features.epochs=4", "features.epochs is set more than once for vae"),
        ("vae", "seed=3", "seed cannot be set for vae alone"),
        ("vae", "features.select=last", "features.select cannot be set for vae alone"),
    ],
)
def test_a_candidate_that_does_not_fit(method, text, words):
    with pytest.raises(ConfigError, match=words):
        with_candidate(find_method(method), text)
