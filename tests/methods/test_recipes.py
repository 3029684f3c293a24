"""By whose recipe a method of other papers runs: declared in its file, followed by the benchmark, named in records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from homefold.config import preset_config
from homefold.errors import ConfigError
from homefold.evaluation.bench import run_bench
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner
from homefold.methods import find_method
from homefold.methods.recipe import PRETRAINED, SMALL, Recipe, Training
from homefold.methods.registry import METHODS, recipe_followed, under_our_recipe
from homefold.report.runs import read_runs
from homefold.report.tables import build_tables

TRAINING = Training(learning_rate=0.003, epochs=7, batch_size=48, milestones=(0.5,), sampling="domains")


@pytest.fixture
def jigen(monkeypatch):
    """Jigen with a recipe that no other has."""
    kind = type(find_method("jigen"))
    recipes = {PRETRAINED: Recipe(TRAINING, {"weight": 0.25}), SMALL: Recipe(own={"weight": 0.35})}
    monkeypatch.setattr(kind, "recipes", recipes)
    return kind


def test_a_method_begins_as_its_authors_trained_it_and_follows_what_is_asked_for(jigen):
    preset = preset_config("default")
    config = find_method("jigen", "resnet18").starting(preset).features
    assert (config.learning_rate, config.epochs, config.batch_size) == (0.003, 7, 48)
    assert (config.schedule, config.milestones, config.sampling) == ("step", (0.5,), "domains")
    assert (config.head, config.feature_dim, config.average_every) == ("none", 0, 0)
    asked = find_method("jigen:features.epochs=9", "resnet18")
    assert asked.configure(asked.starting(preset), "default").features.epochs == 9


def test_its_own_settings_are_its_authors_for_such_a_network_unless_they_are_typed(jigen):
    assert find_method("jigen", "resnet18").settings()["weight"] == 0.25
    assert find_method("jigen", "digits-bn").settings()["weight"] == 0.35
    assert find_method("jigen:weight=0.7", "resnet18").settings()["weight"] == 0.7
    assert find_method("tent+jigen", "resnet18").base.settings()["weight"] == 0.25


def test_our_recipe_leaves_a_method_as_it_is(jigen):
    ours = find_method("jigen:recipe=ours", "resnet18")
    assert ours == find_method("jigen") == find_method("jigen", "resnet18", "ours")
    assert ours.starting(preset_config("default")).features.epochs == 30
    assert find_method("jigen:recipe=authors", "resnet18", "ours").settings()["weight"] == 0.25


def test_the_name_says_whose_recipe_it_is(jigen):
    assert recipe_followed("jigen", "resnet18") == "authors"
    assert recipe_followed("jigen:recipe=ours", "resnet18") == "ours"
    assert recipe_followed("vae", "resnet18") == "ours"
    assert recipe_followed("class-means+jigen", "resnet18") == "authors"
    assert under_our_recipe("jigen:recipe=authors") == "jigen:recipe=authors"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vae:recipe=ours", "vae has no recipe of other authors to choose; leave out recipe=ours"),
        ("jigen:recipe=mine", "recipe of jigen is authors or ours; got recipe=mine"),
    ],
)
def test_a_recipe_that_there_is_not_gets_a_sentence(name, words):
    with pytest.raises(ConfigError, match=words):
        find_method(name)


def test_every_recipe_fits_its_method():
    for method in map(find_method, METHODS):
        for recipe in method.recipes.values():
            assert set(recipe.own) <= set(method.settings())
            assert replace(method, **recipe.own)
            if recipe.training is not None:
                method.configure(recipe.training.applied(method.starting(preset_config("default"))), "default")


@pytest.mark.parametrize(
    ("given", "names", "recipes"),
    [
        ({}, ["deep-all", "jigen"], ["ours", "authors"]),
        ({"recipe": "ours"}, ["deep-all", "jigen:recipe=ours"], ["ours", "ours"]),
        ({"preset": "quick"}, ["deep-all", "jigen"], ["ours", "ours"]),
        ({"preset": "quick", "recipe": "authors"}, ["deep-all", "jigen"], ["ours", "authors"]),
    ],
)
def test_the_benchmark_follows_authors_unless_it_is_told_otherwise_or_is_quick(given, names, recipes, few_digits):
    options = BenchOptions(
        "digits-mini", Path("unused"), methods=("deep-all", "jigen"), targets=("scan",), seeds=1, **given,
        settings=("preprocessing.image_size=16",),
    )  # fmt: skip
    planner = Planner(options, few_digits)
    runs = [run for unit in planner.units() for run in unit]
    assert [run.method_name for run in runs] == names
    assert [planner.described(run)["recipe"] for run in runs] == recipes


@pytest.mark.slow
def test_records_and_tables_say_who_followed_the_authors(few_digits, tmp_path):
    options = BenchOptions(
        "digits-mini", tmp_path, methods=("deep-all", "jigen", "jigen:recipe=ours"), targets=("scan",), seeds=1,
        preset="quick", recipe="authors", device="cpu", images_per_class=8,
        settings=("preprocessing.image_size=16", "features.epochs=1", "features.batch_size=16"),
    )  # fmt: skip
    records = run_bench(options, dataset=few_digits)
    assert [(record.status, record.recipe) for record in records] == [
        ("finished", "ours"), ("finished", "authors"), ("finished", "ours"),
    ]  # fmt: skip
    assert [record.config["features"]["head"] for record in records[1:]] == ["none", "linear"]
    table = build_tables(read_runs(tmp_path))[0]
    assert "at their authors’ recipe JiGen;" in table.caption
    assert [row.label for row in table.rows if "JiGen" in row.label] == ["JiGen", "JiGen (recipe=ours)"]


@pytest.mark.parametrize(
    "name", ["ccsa", "crossgrad", "ddaig", "mmd-aae", "d-sam", "masf", "l2a-ot", "fishr", "mldg", "tent+ccsa"]
)
def test_what_compares_domains_is_refused_where_there_is_one(name, few_digits):
    options = BenchOptions("single-source", Path("unused"), methods=(name,), seeds=1, preset="quick",
                           settings=("preprocessing.image_size=16",))  # fmt: skip
    own = name.rpartition("+")[2]
    with pytest.raises(ConfigError, match=rf"{own} compares source domains, and there is 1 here.*Leave it out"):
        Planner(options, few_digits).units()
