"""Selection rules: what they change, what they choose, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from homefold.config import preset_config
from homefold.config.grammar import parse_settings, with_settings
from homefold.errors import ConfigError
from homefold.evaluation.candidates import candidates_for
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.records import RunRecord
from homefold.evaluation.selection import choices, choose, mean_score, select_epoch
from homefold.evaluation.suites import SUITES
from homefold.methods import find_method

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


def candidates(tmp_path: Path, method: str = "vae", suite: str = "digits-mini", **changes: Any) -> list[str]:
    options = BenchOptions(suite, tmp_path, **changes)
    found, variation = find_method(method), SUITES[suite].variations[0]
    return [item.settings for item in candidates_for(options, method, found, CONFIG, variation)]


def test_three_learning_rates_unless_candidates_are_given(tmp_path):
    for rule in ("leave-one-source-out", "oracle"):
        rates = [float(text.removeprefix("features.learning_rate=")) for text in candidates(tmp_path, selection=rule)]
        assert rates == pytest.approx([0.05, 0.05 / 3, 0.15], rel=1e-5)
        given = ("features.temperature=0.3",)
        assert candidates(tmp_path, selection=rule, candidates=given) == [*given]
    assert candidates(tmp_path) == [], "source validation chooses the epoch alone unless it is given candidates"
    assert candidates(tmp_path, candidates=("", "features.epochs=3")) == ["", "features.epochs=3"]


def test_a_search_begins_with_the_settings_as_they_are_and_a_longer_one_with_a_shorter(tmp_path):
    five, nine = candidates(tmp_path, search=5), candidates(tmp_path, search=9)
    assert nine[:5] == five
    assert five[0] == ""
    assert len(set(nine)) == 9
    assert candidates(tmp_path, search=5, search_seed=1)[1:] != five[1:]
    names = [word.partition("=")[0] for word in five[1].split()]
    assert names == [
        "features.learning_rate",
        "features.weight_decay",
        "features.batch_size",
        "features.temperature",
        "manifold.kl_weight",
    ]


def test_a_search_leaves_alone_what_was_typed_or_is_varied(tmp_path):
    def drawn(method: str, **changes: Any) -> set[str]:
        return {word.partition("=")[0] for word in candidates(tmp_path, method, search=2, **changes)[1].split()}

    common = {"features.learning_rate", "features.weight_decay", "features.batch_size"}
    assert drawn("jigen:weight=0.3,features.batch_size=16") == {
        "ordered", "permutations", "grey_tiles", "features.learning_rate", "features.weight_decay",
    }  # fmt: skip
    assert drawn("tent+coral:weight=0.3") & {"weight", "coral:weight"} == set()
    assert drawn("t3a+coral") == {"supports", "batch_size", "coral:weight", *common}
    assert drawn("deep-all", settings=("features.learning_rate=0.1",)) == common - {"features.learning_rate"}
    assert drawn("without-projection") == {*common, "features.temperature"}


def test_a_method_with_nothing_to_draw_is_tried_once(tmp_path):
    assert candidates(tmp_path, "linear-probe", search=5) == [""]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"selection": "last", "candidates": ("features.epochs=3",)}, "the selection rule last looks at nothing"),
        ({"selection": "last", "search": 3}, "the selection rule last looks at nothing"),
        ({"search": 3, "candidates": ("features.epochs=3",)}, "search draws the candidates, and candidates names them"),
        ({"search": -1}, "search must not be negative; got -1"),
        ({"search": 10_001}, "search must be at most 10000; got 10001"),
        ({"search_seed": -1}, "search_seed must not be negative; got -1"),
    ],
)
def test_a_search_that_makes_no_sense(tmp_path, changes, words):
    with pytest.raises(ConfigError, match=words):
        BenchOptions("digits-mini", tmp_path, **changes)


def tried(
    settings: str, number: int, seed: int, accuracy: float | None, **scores: dict[str, float | None]
) -> RunRecord:
    facts = {"candidate": {"settings": settings, "number": number}}
    if scores:
        facts["candidate"]["scores"] = {name.replace("_", "-"): row for name, row in scores.items()}
    return RunRecord("d", "t", "vae", accuracy, 1, seed, "p", "source-validation", {}, "", {}, facts)


def test_each_rule_chooses_by_its_own_scores_with_one_setting_for_all_seeds():
    records = [
        # By seed alone, seed 0 would choose a and seed 1 b; over both seeds b is better.
        tried("a", 0, 0, 0.5, source_validation={"x": 0.9, "y": 0.7}, leave_one_source_out={"x": 0.2, "y": 0.4}),
        tried("a", 0, 1, 0.7, source_validation={"x": 0.4, "y": 0.4}, leave_one_source_out={"x": 0.2, "y": 0.4}),
        tried("b", 1, 0, 0.1, source_validation={"x": 0.6, "y": 0.8}, leave_one_source_out={"x": 0.1, "y": 0.1}),
        tried("b", 1, 1, 0.3, source_validation={"x": 0.7, "y": 0.9}, leave_one_source_out={"x": 0.1, "y": 0.1}),
    ]
    found = {choice.rule: choice for choice in choices(records)}
    assert {rule: choice.settings for rule, choice in found.items()} == {
        "source-validation": "b",
        "leave-one-source-out": "a",
        "oracle": "a",
    }
    assert found["source-validation"].accuracies == [0.1, 0.3]
    assert found["oracle"].accuracies == [0.5, 0.7]
    assert {(choice.candidates, choice.judged) for choice in found.values()} == {(2, 2)}
    assert mean_score(records[0], "source-validation") == pytest.approx(0.8)
    assert found["oracle"].as_dict() == {
        "backbone": "", "method": "vae", "target": "t", "rule": "oracle", "settings": "a",
        "accuracies": {"0": 0.5, "1": 0.7}, "candidates": 2, "judged": 2,
    }  # fmt: skip


def test_what_failed_for_any_seed_or_on_any_source_cannot_win():
    high, low = {"x": 1.0, "y": 1.0}, {"x": 0.1, "y": 0.1}
    records = [
        tried("a", 0, 0, 0.9, source_validation=high, leave_one_source_out={"x": 1.0, "y": None}),
        tried("a", 0, 1, None),
        tried("b", 1, 0, 0.2, source_validation=low, leave_one_source_out=low),
        tried("b", 1, 1, 0.2, source_validation=low, leave_one_source_out=low),
        tried("c", 2, 0, 0.9, source_validation=high, leave_one_source_out=high),  # seed 1 is still to do
    ]
    for rule in ("source-validation", "leave-one-source-out", "oracle"):
        choice = choose(records, rule)
        assert choice is not None
        assert (choice.settings, choice.candidates, choice.judged) == ("b", 3, 1)
    assert choose(records[:2], "oracle") is None
    assert choices(records[:2]) == []


def test_of_equals_the_first_wins():
    records = [tried(name, number, 0, 0.5, source_validation={"x": 0.5}) for number, name in ((2, "c"), (1, "b"))]
    choice = choose(records, "source-validation")
    assert choice is not None
    assert choice.settings == "b"


@pytest.mark.parametrize("word", ["inf", "nan", "NaN", "-Infinity", "1e999", "9" * 5000, "[" * 100_000])
def test_numbers_that_json_does_not_have_are_refused_as_numbers(word):
    with pytest.raises(ConfigError, match=r"^features\.learning_rate must be a finite number; got") as told:
        with_settings(CONFIG, f"features.learning_rate={word}")
    assert len(str(told.value)) < 200
