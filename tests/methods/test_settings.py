"""Settings of a method's own, changed by what follows its name."""

from __future__ import annotations

import pytest

from homefold.config import preset_config
from homefold.config.grammar import with_settings
from homefold.errors import ConfigError
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner
from homefold.methods import find_method, list_methods
from homefold.methods.settings import method_settings


def test_they_follow_the_name():
    method = find_method("jigen:weight=0.3,permutations=10")
    assert method.settings() == {"weight": 0.3, "ordered": 0.9, "permutations": 10, "grey_tiles": 0.1}
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
        ("vae:steps=3", "vae has no settings of its own; what it trains with is set by dotted names"),
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
        "linear-probe",
        "without-projection",
        "without-features",
        "nearest",
        "vae",
        "gan",
    }


def test_variants_are_runs_and_trainings_of_their_own(few_digits, tmp_path):
    names = ("ccsa", "ccsa:margin=0.5", "t3a:supports=5+ccsa")
    options = BenchOptions(
        "digits-mini", tmp_path, preset="quick", seeds=1, targets=("scan",), device="cpu", methods=names,
        settings=("preprocessing.image_size=16",),
    )  # fmt: skip
    planner = Planner(options, few_digits)
    runs = {run.method_name: run for unit in planner.units() for run in unit}
    assert tuple(runs) == names
    assert len({run.id for run in runs.values()}) == 3
    stages = {name: planner.stages_of(run) for name, run in runs.items()}
    assert stages["ccsa"] == stages["t3a:supports=5+ccsa"]
    assert stages["ccsa"] != stages["ccsa:margin=0.5"]


def test_dotted_names_change_the_common_settings_for_one_method():
    changed = find_method("vae:search.steps=100,manifold.kl_weight=0.01,manifold.hidden=64/32")
    config = preset_config("small")
    found = changed.configure(config, "default")
    expected = with_settings(config, "search.steps=100 manifold.kl_weight=0.01 manifold.hidden=[64,32]")
    assert found == find_method("vae").configure(expected, "default")
    assert changed.info.title == (
        "Full method (VAE) (search.steps=100, manifold.kl_weight=0.01, manifold.hidden=64/32)"
    )
    assert changed.settings()["changes"] == [
        "search.steps=100", "manifold.kl_weight=0.01", "manifold.hidden=64/32",
    ]  # fmt: skip
    assert find_method("vae:manifold.hidden=[64,32]").configure(config, "default").manifold.hidden == (64, 32)


def test_dotted_names_and_a_methods_own_stand_together():
    changed = find_method("jigen:weight=0.3,features.epochs=3,ordered=0.8")
    own = {"weight": 0.3, "ordered": 0.8, "permutations": 30, "grey_tiles": 0.1}
    assert changed.settings() == {**own, "changes": ["features.epochs=3"]}
    assert changed.configure(changed.starting(preset_config("small")), "default").features.epochs == 3


def test_a_list_of_what_is_no_number_is_refused_when_it_is_read():
    with pytest.raises(ConfigError, match=r"manifold\.hidden must be a whole number; got '\[1-2,3\]'"):
        find_method("vae:manifold.hidden=1-2/3").configure(preset_config("small"), "default")


@pytest.mark.parametrize(
    "name", ["t3a:supports=5+vae:features.epochs=3", "t3a:supports=5,features.epochs=3+vae", "1-nn:features.epochs=3"]
)
def test_what_a_test_time_method_wraps_is_trained_under_them(name):
    assert find_method(name).configure(preset_config("small"), "default").features.epochs == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vae:search.stepz=3", "there is no setting 'search.stepz'; there are encoder_start"),
        ("vae:search.steps", "'search.steps' is no setting; write name=value"),
        ("vae:seed=3", "seed cannot be set for vae alone; set it for all methods."),
        ("vae:features.backbone=digits", "features.backbone cannot be set for vae alone; set it for all methods."),
        ("vae:features.held_out=0.2", "features.held_out cannot be set for vae alone; set it for all methods."),
        ("nearest:preprocessing.normalisation=half", "preprocessing.normalisation cannot be set for nearest alone"),
        ("vae:search.steps=3,search.steps=4", "search.steps is set more than once for vae; give it one"),
        ("jigen:weight=0.3,weight=0.4", "weight is set more than once for jigen; give it one value"),
        ("vae:search.steps=3,weight=1", "vae has no settings of its own"),
        ("t3a+tent:features.epochs=3", "tent:features.epochs=3 is a test-time method itself"),
    ],
)
def test_a_dotted_name_that_cannot_be_is_refused_in_words(name, words):
    with pytest.raises(ConfigError, match=words):
        find_method(name)


def planned(names, few_digits, out, settings=()):
    options = BenchOptions(
        "digits-mini", out, preset="quick", seeds=1, targets=("scan",), device="cpu", methods=names,
        settings=("preprocessing.image_size=16", *settings),
    )  # fmt: skip
    planner = Planner(options, few_digits)
    runs = {run.method_name: run for unit in planner.units() for run in unit}
    return {name: (run, planner.stages_of(run)) for name, run in runs.items()}


def test_stages_that_do_not_depend_on_the_change_are_shared(few_digits, tmp_path):
    names = ("vae", "vae:search.steps=7", "vae:manifold.kl_weight=0.1", "vae:features.epochs=1")
    found = planned(names, few_digits, tmp_path)
    assert len({run.id for run, _ in found.values()}) == 4
    plain, search, manifold, features = ({stage.kind: stage for stage in found[name][1]} for name in names)
    assert search == plain
    assert {kind for kind in plain if plain[kind] != manifold[kind]} == {"manifold"}
    assert {kind for kind in plain if plain[kind] != features[kind]} == {"features", "manifold", "classifier", "style"}


@pytest.mark.parametrize("name", ["gan", "without-features", "rsc", "memo+vae"])
def test_it_runs_as_under_set(name, few_digits, tmp_path):
    changes = ("manifold.epochs=7", "features.learning_rate=0.02", "classifier.epochs=5")
    alone = f"{name}:{','.join(changes)}"
    (run, stages), (same, same_stages) = (
        planned((alone,), few_digits, tmp_path)[alone],
        planned((name,), few_digits, tmp_path, changes)[name],
    )
    assert run.config == same.config
    assert stages == same_stages


def test_a_bad_value_for_one_method_stops_the_plan(few_digits, tmp_path):
    with pytest.raises(ConfigError, match=r"search\.steps must be at least 0; got -1"):
        planned(("deep-all", "vae:search.steps=-1"), few_digits, tmp_path)


def test_what_a_suite_varies_is_varied_under_the_change():
    varied = find_method("vae:search.steps=9").varied(stop_offset=3)
    assert varied.settings() == {**find_method("vae").settings(), "stop_offset": 3, "changes": ["search.steps=9"]}
    assert varied.configure(preset_config("small"), "default").search.steps == 9
