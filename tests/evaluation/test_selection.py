"""Selection rules: what they change, what they choose, and what they refuse."""

from __future__ import annotations

import pytest

from homefold.config import preset_config
from homefold.config.grammar import parse_settings, with_settings
from homefold.errors import ConfigError, FeatureCollapseError
from homefold.evaluation.selection import Candidate, candidates_for, choose, select_epoch

CONFIG = preset_config("small")


def test_the_epoch_of_f_is_the_best_on_source_validation_or_the_last():
    chosen = {rule: select_epoch(CONFIG, rule).features.select for rule in ("source-validation", "last", "oracle")}
    assert chosen == {"source-validation": "best", "last": "last", "oracle": "best"}


def test_an_unknown_rule():
    with pytest.raises(ConfigError, match=r"no selection rule 'best'; choose one of source-validation, last"):
        select_epoch(CONFIG, "best")


def test_settings_are_read_and_checked():
    assert parse_settings("features.epochs=3 manifold.hidden=[8,4]") == {
        "features.epochs": 3,
        "manifold.hidden": [8, 4],
    }
    changed = with_settings(CONFIG, "features.epochs=3 manifold.hidden=[8,4]")
    assert (changed.features.epochs, changed.manifold.hidden) == (3, (8, 4))
    with pytest.raises(ConfigError, match=r"^features\.epochs must be a whole number; got 'many'"):
        with_settings(CONFIG, "features.epochs=many")
    with pytest.raises(ConfigError, match=r"there is no setting 'features\.epoch'; there are backbone") as told:
        with_settings(CONFIG, "features.epoch=3")
    assert str(told.value).endswith("Did you mean features.epochs?")
    with pytest.raises(ConfigError, match=r"^style\.manifold must be one of mean, domains; got 'domain'"):
        with_settings(CONFIG, "style.manifold=domain")
    with pytest.raises(ConfigError, match=r"'features\.epochs' is no setting"):
        parse_settings("features.epochs")


def test_none_is_no_value_where_there_may_be_none():
    given = with_settings(CONFIG, "manifold.learning_rate=1 manifold.epochs=7")
    for none in ("none", "None", "null"):
        taken_back = with_settings(given, f"manifold.learning_rate={none} manifold.epochs={none}")
        assert (taken_back.manifold.learning_rate, taken_back.manifold.epochs) == (None, None)
    with pytest.raises(ConfigError, match="rate must be a finite number; got 'none'"):
        with_settings(CONFIG, "search.rate=none")
    assert with_settings(CONFIG, "features.weights=none").features.weights == "none"


def test_three_learning_rates_unless_candidates_are_given():
    rates = [item.config.features.learning_rate for item in candidates_for(CONFIG, "leave-one-source-out", ())]
    assert rates == pytest.approx([0.05, 0.05 / 3, 0.15], rel=1e-5)
    (given,) = candidates_for(CONFIG, "oracle", ["features.temperature=0.3"])
    assert given.config.features.temperature == 0.3


def test_candidates_make_no_sense_under_a_rule_that_chooses_only_the_epoch():
    with pytest.raises(ConfigError, match="candidates are for leave-one-source-out and oracle"):
        candidates_for(CONFIG, "last", ["features.temperature=0.3"])


def test_the_highest_mean_wins_and_a_failed_training_cannot():
    scores = {"a": {"x": 0.9, "y": 0.1}, "b": {"x": 0.5, "y": 0.6}, "c": {"x": 1.0, "y": None}}

    def score(candidate: Candidate, judge: str) -> float:
        value = scores[candidate.settings][judge]
        if value is None:
            raise FeatureCollapseError("it collapsed.")
        return value

    choice = choose([Candidate(name, CONFIG) for name in "abc"], ["x", "y"], score)
    assert choice.candidate.settings == "b"
    assert choice.as_dict() == {"chosen": "b", "scores": scores}


def test_when_all_fail_the_reason_is_told():
    def score(candidate: Candidate, judge: str) -> float:
        raise FeatureCollapseError("it collapsed.")

    with pytest.raises(ConfigError, match=r"every candidate failed.*it collapsed"):
        choose([Candidate("a", CONFIG)], ["x"], score)


@pytest.mark.parametrize("word", ["inf", "nan", "NaN", "-Infinity", "1e999", "9" * 5000, "[" * 100_000])
def test_numbers_that_json_does_not_have_are_refused_as_numbers(word):
    with pytest.raises(ConfigError, match=r"^features\.learning_rate must be a finite number; got") as told:
        with_settings(CONFIG, f"features.learning_rate={word}")
    assert len(str(told.value)) < 200
