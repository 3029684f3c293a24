"""`homefold settings`, and settings given to `fit` by --set and by a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from scene import Homefold

from homefold.cli.fit import read_options
from homefold.cli.settings import list_settings, written
from homefold.config import change_settings, config_to_dict, list_presets, parse_setting, preset_config


def test_every_setting_is_listed_with_its_explanation_and_what_presets_set(homefold: Homefold) -> None:
    listed = {setting["name"]: setting for setting in homefold("settings", "--json").json["settings"]}
    assert {name.partition(".")[0] for name in listed} == set(config_to_dict(preset_config("default")))
    assert len(listed) > 80
    assert all(setting["about"].endswith(".") for setting in listed.values())
    assert listed["features.epochs"] == {
        "name": "features.epochs",
        "about": "Passes over the training images.",
        "values": "a whole number",
        "default": 30,
        "presets": {"paper": 200, "foundation": 10, "foundation-tuned": 10},
    }
    assert listed["features.freeze"]["values"] == "none or backbone"
    assert listed["manifold.epochs"]["values"] == "a whole number or none"
    assert (listed["style.blocks"]["default"], listed["style.blocks"]["presets"]) == (
        ["early"],
        {"paper": [], "foundation": [], "foundation-tuned": []},
    )


def test_names_and_parts_choose_what_is_shown(homefold: Homefold) -> None:
    lines = homefold("settings", "look", "features.epochs").out.splitlines()
    names = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    assert names == [
        "look.views",
        "look.mirror",
        "look.textures",
        "look.styles",
        "look.leave_familiar",
        "features.epochs",
    ]
    assert "features.epochs: a whole number (default: 30; paper: 200; foundation, foundation-tuned: 10)" in lines
    assert "    Passes over the training images." in lines
    assert homefold("settings", "projection.views") == homefold("settings", "look.views")


def test_a_name_that_is_no_setting_is_a_usage_error(homefold: Homefold) -> None:
    ended = homefold("settings", "features.epoch")
    assert (ended.code, ended.out) == (2, "")
    assert ended.error == "there is no setting 'features.epoch'. Did you mean features.epochs?"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of settings."""
    path = tmp_path / "settings.toml"
    path.write_text('seed = 4\n[features]\nepochs = 7\nbatch_size = 32\n[style]\nblocks = ["layer1", "layer2"]\n')
    return path


def settings_of(*words: object) -> object:
    return read_options(["x", "--out", "y", *map(str, words)])[1]


def test_a_file_wins_over_the_preset_and_flags_and_set_over_the_file(file: Path) -> None:
    expected = {"seed": 4, "features.epochs": 7, "features.batch_size": 32, "style.blocks": ("layer1", "layer2")}
    assert settings_of("--preset", "small", "--config", file) == preset_config("small", expected)
    assert read_options(["--config", str(file), "x", "--out", "y"])[0].data == "x"
    words = (
        "--preset=small",
        f"--config={file}",
        "--set",
        "features.epochs=9",
        "style.blocks=layer3",
        "--batch-size",
        "8",
    )
    changed = {"features.epochs": 9, "features.batch_size": 8, "style.blocks": ("layer3",)}
    assert settings_of(*words) == preset_config("small", {**expected, **changed})


def test_set_decides_defaults_as_a_flag_does() -> None:
    alexnet = preset_config("default", {"features.backbone": "alexnet"})
    assert settings_of("--set", "features.backbone=alexnet") == alexnet
    assert settings_of("--backbone", "alexnet") == alexnet
    frozen = preset_config("small", {"features.freeze": "backbone"})
    assert settings_of("--preset", "small", "--set", "features.freeze=backbone") == frozen


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("features.epoch=1", "there is no setting 'features.epoch'"),
        ("features.epochs=many", "features.epochs must be a whole number; got 'many'."),
        ("features.epochs", "'features.epochs' is no setting; write name=value"),
    ],
)
def test_a_bad_setting_is_a_usage_error(homefold: Homefold, word: str, sentence: str, tmp_path: Path) -> None:
    ended = homefold("fit", "x", "--out", tmp_path / "m", "--set", word)
    assert (ended.code, ended.out) == (2, "")
    assert ended.error.startswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[features]\nepoch = 1", "there is no setting 'features.epoch'"),
        ("[features]\nepochs = 1979-05-27", "features.epochs must be a whole number; got"),
        ("features = 1", "features must be an object of settings"),
        ("[features", "is no TOML"),
    ],
)
def test_a_bad_file_is_named(homefold: Homefold, file: Path, text: str, sentence: str) -> None:
    file.write_text(text)
    ended = homefold("fit", "x", "--out", file.parent / "m", "--config", file)
    assert (ended.code, ended.out) == (2, "")
    assert ended.error.startswith(f"{file}: {sentence}")


def test_a_file_that_is_not_there_is_named(homefold: Homefold, tmp_path: Path) -> None:
    ended = homefold("fit", "x", "--out", tmp_path / "m", "--config", tmp_path / "none.toml")
    assert ended.code == 2
    assert ended.error == f"{tmp_path / 'none.toml'}: cannot be read (No such file or directory)."


@pytest.mark.slow
@pytest.mark.parametrize("preset", list_presets())
def test_what_is_listed_can_be_given_to_set_and_is_the_preset(preset: str) -> None:
    listed = {each.name: written(each.presets.get(preset, each.default)) for each in list_settings()}
    words = [f"{name}={value}" for name, value in listed.items()]
    assert change_settings(preset_config(), dict(map(parse_setting, words))) == preset_config(preset)
