"""Settings of a method's own, changed by what follows its name."""

from __future__ import annotations

import pytest

from homefold.errors import ConfigError
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner
from homefold.methods import find_method, list_methods
from homefold.methods.settings import method_settings


def test_they_follow_the_name():
    method = find_method("jigen:weight=0.3,permutations=10")
    assert method.settings() == {"weight": 0.3, "ordered": 0.6, "permutations": 10}
    assert find_method("jigen").settings()["weight"] == 0.7, "the registered one stays as it is"


def test_a_test_time_method_and_what_it_wraps_have_their_own():
    method = find_method("memo:copies=16+jigen:weight=0.3")
    assert method.copies == 16
    assert method.base.weight == 0.3
    assert find_method("t3a:supports=5").base == find_method("deep-all")


def test_lists_have_slashes_between_their_values():
    assert find_method("mmd-aae:bandwidths=1/2").bandwidths == (1.0, 2.0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jigen:wieght=1", "jigen has no setting 'wieght=1'; write NAME=VALUE with a name among weight, ordered"),
        ("jigen:", "jigen has no setting ''"),
        ("jigen:weight=much", "weight of jigen is a number, such as 0.7; got 'much'"),
        ("jigen:permutations=1.5", "permutations of jigen is a whole number, such as 30; got '1.5'"),
        ("jigen:weight=-1", "weight of jigen must be zero or a positive number"),
        ("vae:steps=3", "vae has no settings of its own; what it trains with is changed by --set"),
        ("memo:supports=3+vae", "memo has no setting 'supports=3'"),
        ("jigen+vae", "there is no method 'jigen\\+vae'"),
        ("jign:weight=1", "there is no method 'jign'.* Did you mean jigen"),
    ],
)
def test_what_cannot_be_is_refused_in_words(name, words):
    with pytest.raises(ConfigError, match=words):
        find_method(name)


def test_every_setting_has_a_default_and_a_range():
    found = {info.name: method_settings(find_method(info.name)) for info in list_methods()}
    for name, settings in found.items():
        for setting in settings:
            assert getattr(find_method(name), setting.name) == setting.default
            assert setting.search
            assert setting.search != "0 to 0"
    assert {name for name, settings in found.items() if not settings} == {
        "deep-all",
        "without-projection",
        "without-features",
        "nearest",
        "vae",
        "gan",
    }


def test_variants_are_runs_and_trainings_of_their_own(few_digits, tmp_path):
    names = ("ccsa", "ccsa:margin=0.5", "t3a:supports=5+ccsa")
    options = BenchOptions(
        "digits-mini", tmp_path, preset="quick", seeds=1, targets=("scan",), device="cpu", methods=names
    )
    planner = Planner(options, few_digits)
    runs = {run.method_name: run for unit in planner.units() for run in unit.runs}
    assert tuple(runs) == names
    assert len({run.id for run in runs.values()}) == 3
    stages = {name: planner.stages_of(run) for name, run in runs.items()}
    assert stages["ccsa"] == stages["t3a:supports=5+ccsa"]
    assert stages["ccsa"] != stages["ccsa:margin=0.5"]
