"""One grammar of settings: flags become words of --set, and what is said last counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from scene import Homefold, content

from homefold.cli.ending import UsageError
from homefold.cli.fit import read_options
from homefold.cli.given_settings import (
    chosen_look_and_search,
    inference_settings,
    setting_flags,
    setting_types,
    settings_as_words,
)
from homefold.config import HomefoldConfig, LookConfig, SearchConfig, look_preset, preset_config, search_preset
from homefold.errors import ConfigError

KEPT = ["photos", "--out", "m"]


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("--features.epochs 5", ["features.epochs=5"]),
        ("--features.epochs=5", ["features.epochs=5"]),
        ("--features.batch_size 64 --features.batch-size 32", ["features.batch_size=64", "features.batch_size=32"]),
        ("--features.mix-style-probability .5", ["features.mix_style_probability=0.5"]),
        ("--features.learning-rate 1e-3", ["features.learning_rate=1e-3"]),
        ("--features.learning-rate -1e-3", ["features.learning_rate=-1e-3"]),
        ("--features.learning-rate inf", ["features.learning_rate=Infinity"]),
        ("--features.epochs many", ["features.epochs=many"]),
        ("--features.epochs 2.5", ["features.epochs=2.5"]),
        ("--features.weights 5", ['features.weights="5"']),
        ("--features.weights model.pth", ["features.weights=model.pth"]),
        ("--manifold.epochs none", ["manifold.epochs=none"]),
        ("--manifold.epochs None", ["manifold.epochs=None"]),
        ("--manifold.kind gan", ["manifold.kind=gan"]),
        ("--manifold.hidden 64", ["manifold.hidden=64"]),
        ("--manifold.hidden 64 32", ["manifold.hidden=[64,32]"]),
        ("--style.blocks", ["style.blocks=[]"]),
        ("--style.blocks=layer1/layer2", ["style.blocks=layer1/layer2"]),
        ("--style.blocks layer1 layer2 --look.mirror", ['style.blocks=["layer1","layer2"]', "look.mirror=true"]),
        ("--look.styles", ["look.styles=true"]),
        ("--look.no-styles", ["look.styles=false"]),
        ("--look.no_styles", ["look.styles=false"]),
        ("--look.styles=false", ["look.styles=false"]),
        ("--look.styles false", ["look.styles=false"]),
        (
            "--search.no-encoder-start --search.random-starts 1",
            ["search.encoder_start=false", "search.random_starts=1"],
        ),
        ("--features.augmentation.flip-probability 0", ["features.augmentation.flip_probability=0"]),
    ],
)
def test_a_flag_with_a_dot_is_a_word_of_set(words: str, settings: list[str]) -> None:
    expected = [f"--set={setting}" for setting in settings]
    assert settings_as_words([*KEPT, *words.split()]) == [*KEPT, *expected]
    assert settings_as_words([*words.split(), "--json", *KEPT]) == [*expected, "--json", *KEPT]


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("--epochs 5", ["features.epochs=5"]),
        ("--batch_size=5", ["features.batch_size=5"]),
        ("--backbone alexnet --weights none", ["features.backbone=alexnet", "features.weights=none"]),
        ("--image-size 32 --learning-rate 0.1", ["preprocessing.image_size=32", "features.learning_rate=0.1"]),
        ("--seed 3 --no-normalise-features", ["seed=3", "normalise_features=false"]),
        ("--normalise-features", ["normalise_features=true"]),
    ],
)
def test_short_names_are_flags_where_a_command_has_them(words: str, settings: list[str]) -> None:
    found = settings_as_words([*words.split(), *KEPT], short=True)
    assert found == [*(f"--set={setting}" for setting in settings), *KEPT]
    assert settings_as_words(words.split()) == words.split()


def test_a_value_is_not_followed_by_what_is_not_its_own() -> None:
    words = ["--features.epochs", "5", "photos", "--look.no-styles", "more", "--", "--look.views", "5"]
    assert settings_as_words(words) == [
        *("--set=features.epochs=5", "photos", "--set=look.styles=false", "more", "--", "--look.views", "5")
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--features.epoch", "5"], "there is no setting 'features.epoch'; there are "),
        (["--features.epoch", "5"], "Did you mean features.epochs?"),
        (["--featurs.epochs", "5"], "Did you mean features?"),
        (["--seed.x"], "there is no setting 'seed.x'."),
        (["--projection.race", "2"], "there is no setting 'projection'; there are "),
        (["--features.augmentation", "x"], "--features.augmentation is a part of the settings"),
        (["--search.steps"], "--search.steps needs a value."),
        (["--search.steps", "--json"], "--search.steps needs a value."),
        (["--search.no-encoder-start=1"], "--search.no-encoder-start takes no value."),
        (["--features.no-epochs"], "there is no setting 'features.no_epochs'"),
    ],
)
def test_a_flag_that_makes_no_sense_is_a_usage_error(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as told:
        settings_as_words(words)
    assert sentence in str(told.value)


def test_every_setting_has_a_flag() -> None:
    assert len(setting_types()) > 80
    flags = {name for name, _ in setting_flags().values()}
    assert flags == set(setting_types())
    off = {name for name, is_off in setting_flags().values() if is_off}
    assert off == {name for name, hint in setting_types().items() if hint is bool}


def settings_of(*words: object) -> HomefoldConfig:
    return read_options(["x", "--out", "y", *map(str, words)])[1]


def test_the_last_of_several_values_counts_whether_flag_or_word() -> None:
    assert settings_of("--epochs", "3", "--set", "features.epochs=4").features.epochs == 4
    assert settings_of("--set", "features.epochs=4", "seed=1", "--features.epochs=3").features.epochs == 3
    same = ("--set", "seed=1", "seed=2", "--set", "seed=1")
    assert settings_of(*same).seed == 1


def test_what_is_named_anywhere_outlives_what_leaves_no_room_for_it(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[features]\nlearning_rate = 0.25\n")
    assert settings_of("--config", file, "--backbone", "alexnet").features.learning_rate == 0.25
    file.write_text('[features]\nbackbone = "alexnet"\n')
    assert settings_of("--config", file) == preset_config("default", {"features.backbone": "alexnet"})
    assert settings_of("--config", file, "--backbone", "resnet50").features.learning_rate == 0.1


def test_only_given_settings_of_look_and_search_replace_the_models_own() -> None:
    own = HomefoldConfig(
        look=LookConfig(views=4), search=SearchConfig(encoder_start=False, random_starts=3, rate=0.2, steps=77)
    )
    look, search = chosen_look_and_search(own, None, inference_settings(["search.steps=5"], "predict"))
    assert (look, search.steps, search.rate, search.random_starts) == (own.look, 5, 0.2, 3)
    assert chosen_look_and_search(own, None, {}) == (own.look, own.search)
    assert chosen_look_and_search(own, "authors", {}) == (look_preset("authors"), search_preset("authors"))
    assert chosen_look_and_search(own, "paper", {"look.views": 2})[0] == LookConfig(views=2, styles=False)
    with pytest.raises(ConfigError, match="needs a start"):
        chosen_look_and_search(own, None, {"search.random_starts": 0})


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("features.epochs=3", "homefold predict cannot change features.epochs, because the model was trained with it;"),
        ("seed=3", "homefold predict cannot change seed, because the model was trained with it;"),
        (
            "look.view=3",
            "there is no setting 'look.view'; there are views, mirror, textures, styles, leave_familiar. Did you mean",
        ),
        ("look.views=99", "look.views must be 1 to 12; got 99."),
        ("search.steps=many", "search.steps must be a whole number; got 'many'."),
        ("search.step", "'search.step' is no setting; write name=value"),
    ],
)
def test_what_a_finished_model_cannot_change_is_told_before_it_is_read(
    homefold: Homefold, tmp_path: Path, word: str, sentence: str
) -> None:
    with pytest.raises(UsageError) as told:
        inference_settings([word], "predict")
    assert str(told.value).startswith(sentence)
    ended = homefold("evaluate", "nowhere", "photos", "--set", word)
    assert (ended.code, ended.out) == (2, "")
    assert ended.error.startswith(sentence.replace("predict", "evaluate"))


@pytest.mark.parametrize("words", [["--epochs", "3"], ["--features.epochs", "3"], ["--set", "features.epochs=3"]])
def test_predict_says_why_it_takes_no_setting_of_the_training(homefold: Homefold, words: list[str]) -> None:
    ended = homefold("predict", "nowhere", "photos", *words)
    assert (ended.code, ended.out) == (2, "")
    assert "cannot change features.epochs, because the model was trained with it" in ended.error


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_flag_and_a_word_say_the_same_to_a_finished_model(
    homefold: Homefold, shared_model: Path, shared_photos: Path, command: str
) -> None:
    asked = (command, shared_model, shared_photos, "--json")
    flags = homefold(*asked, "--look.views", "2", "--search.steps=4")
    words = homefold(*asked, "--set", "look.views=2", "search.steps=4")
    assert flags.code == words.code == 0
    assert flags.out == words.out != homefold(*asked).out


@pytest.mark.slow
def test_bench_takes_flags_of_settings_too(homefold: Homefold, tmp_path: Path) -> None:
    plan = ("bench", "digits-mini", "--out", tmp_path / "runs", "--plan", "--preset", "quick", "--json")
    flags = homefold(*plan, "--features.epochs", "1", "--look.no-styles", "--style.blocks")
    words = homefold(*plan, "--set", "features.epochs=1", "look.styles=false", "style.blocks=[]")
    assert flags.code == words.code == 0
    assert flags.json == words.json
    assert content(tmp_path) == {}
    assert "no setting 'features.epoch'" in homefold(*plan, "--features.epoch", "1").error
    assert homefold(*plan, "--seed", "1").error == "homefold bench has no flag --seed. Did you mean --seeds?"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit"], "homefold fit lacks what is required: DATA, --out MODEL."),
        (["fit", "x", "--oot", "y"], "homefold fit has no flag --oot. Did you mean --out?"),
        (["fit", "x", "--out"], "homefold fit: --out expected one argument."),
        (["fit", "x", "--out", "y", "--epoch", "3"], "homefold fit has no flag --epoch. Did you mean --epochs?"),
        (["fit", "x", "--out", "y", "--skip_bed"], "homefold fit has no flag --skip_bed. Did you mean --skip-bad?"),
        (["fit", "x", "y", "--out", "z"], "homefold fit: unrecognized arguments: y."),
        (["fit", "x", "--out", "y", "--epochs", "0"], "features.epochs must be at least 1; got 0."),
        (["fit", "x", "--out", "y", "--json=3"], "homefold fit: --json ignored explicit argument '3'."),
        (["bench", "pacs", "--out", "r", "--seeds", "x"], "--seeds must be a whole number; got 'x'."),
        (["bench", "pcas", "--out", "r"], "SUITE must be one of pacs, "),
        (
            ["info", "m", "--look.views", "3"],
            "homefold info has no flag --look.views. homefold info --help lists them.",
        ),
        (["predict", "m", "i", "--json", "--csv"], "homefold predict prints one format: --json or --csv."),
    ],
)
def test_what_cannot_be_read_is_one_plain_line(homefold: Homefold, words: list[str], sentence: str) -> None:
    ended = homefold(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {sentence}")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(("command", "most"), [("fit", 50), ("predict", 50), ("evaluate", 40), ("bench", 68)])
def test_the_help_fits_on_a_screen_and_says_where_all_settings_are(
    homefold: Homefold, monkeypatch: pytest.MonkeyPatch, command: str, most: int
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = homefold(command, "--help").out.splitlines()
    assert len(lines) <= most
    assert max(map(len, lines)) <= 100
    assert "--set NAME=VALUE" in "\n".join(lines)
    assert "homefold settings" in " ".join(" ".join(lines).split())
