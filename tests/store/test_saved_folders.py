"""Model folders of earlier formats still load, and answer as they did."""

from __future__ import annotations

import itertools
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from homefold import Homefold, ManifoldProjector
from homefold.errors import ModelFileError
from odd_folders import ODD_VALUES, described, places, seal, with_value

pytestmark = pytest.mark.slow

SAVED = Path(__file__).parent / "saved"
ANSWERS = np.load(SAVED / "format_1_answers.npz")
PRESETS = ("default", "thorough", "small", "small-thorough", "paper")
MANIFOLDS = ("vae", "gan", "nearest")
# Several views are summed in another order since, and another processor sums everything in another.
TOLERANCE = 1e-4


def unpacked(name: str, folder: Path) -> Path:
    """A model folder of format 1, as version 0.1.0 wrote it."""
    with tarfile.open(SAVED / f"format_1_{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def loaded(folder: Path, name: str) -> Homefold | ManifoldProjector:
    return (Homefold if name in PRESETS else ManifoldProjector).load(folder, device="cpu")


def require_answers(model: Homefold | ManifoldProjector, name: str) -> None:
    """The model answers as the version that made it did."""
    found = model.predict(ANSWERS["images"]) if isinstance(model, Homefold) else model.predictions(ANSWERS["features"])
    np.testing.assert_allclose(found.probabilities, ANSWERS[f"{name} probabilities"], atol=TOLERANCE)
    np.testing.assert_allclose(found.off_manifold, ANSWERS[f"{name} off_manifold"], rtol=10 * TOLERANCE)


@pytest.mark.parametrize("name", [*PRESETS, *MANIFOLDS])
def test_a_folder_of_format_1_answers_as_it_did(name, tmp_path):
    require_answers(loaded(unpacked(name, tmp_path), name), name)


@pytest.mark.parametrize("name", ["small", "vae"])
def test_saved_again_it_is_of_format_2_and_answers_the_same(name, tmp_path):
    model = loaded(unpacked(name, tmp_path), name)
    model.save(tmp_path)
    assert not (tmp_path / "config.json").exists()
    description = described(tmp_path)
    assert description["format_version"] == 2
    assert set(description["digests"]) == ({"features", "home", "style"} if name == "small" else {"home"})
    require_answers(loaded(tmp_path, name), name)


def test_parameters_of_a_projector_of_format_1_are_those_it_was_made_with(tmp_path):
    given = {"latent_dim": 4, "hidden": (16,), "manifold_epochs": 200, "random_state": 3}
    expected = ManifoldProjector(**given, device="cpu").get_params()
    assert loaded(unpacked("vae", tmp_path), "vae").get_params() == expected


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("vae", "manifold.denoise", 0.3),
        ("vae", "classifier.train_on", "reconstructions"),
        ("vae", "projection.temperature", 0.3),
        ("small", "features.layer_decay", 0.5),
        ("small", "style.prior", 5.0),
    ],
)
def test_a_setting_that_is_gone_is_ignored_where_answers_do_not_need_it(name, setting, value, tmp_path):
    change_setting(unpacked(name, tmp_path), setting, value)
    require_answers(loaded(tmp_path, name), name)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("vae", "manifold.per", "class"),
        ("vae", "projection.race", 4),
        ("vae", "projection.stop", "plateau"),
        ("small", "projection.tints", 2),
        ("small", "style.manifold", "vae"),
    ],
)
def test_a_setting_that_is_gone_is_refused_where_answers_need_it(name, setting, value, tmp_path):
    change_setting(unpacked(name, tmp_path), setting, value)
    with pytest.raises(ModelFileError, match=rf"answers with {setting} at '?{value}'?, which this version of homefold"):
        loaded(tmp_path, name)


def change_setting(folder: Path, setting: str, value: Any) -> None:
    """Change a setting of a folder of format 1, which must have it."""
    content = described(folder, "config.json")
    part, name = setting.split(".")
    assert name in content["config"][part]
    seal(folder, with_value(content, ("config", part, name), value), "config.json")


def test_odd_values_in_a_description_of_format_1(tmp_path):
    content = described(unpacked("nearest", tmp_path), "config.json")
    refused = 0
    everywhere = list(itertools.product(places(content), ODD_VALUES))[::7]
    for place, value in everywhere:
        seal(tmp_path, with_value(content, place, value), "config.json")
        try:
            loaded(tmp_path, "nearest")
        except ModelFileError:
            refused += 1
    assert refused > len(everywhere) / 5


@pytest.mark.parametrize("file", ["config.json", "model.json"])
def test_nothing_in_a_description_makes_the_loader_touch_a_file_outside_of_the_folder(file, tmp_path):
    folder, outside = tmp_path / "model", tmp_path / "outside"
    model = loaded(unpacked("small", folder), "small")
    if file == "model.json":
        model.save(folder)
    outside.mkdir()
    for name in ("features", "home", "style"):
        (outside / f"{name}.safetensors").write_bytes((folder / f"{name}.safetensors").read_bytes())
    content = described(folder, file)
    everywhere = [place for place in places(content) if place[:2] not in ((name, "history") for name in content)]
    with opened_files() as opened:
        for i, place in enumerate(everywhere):
            value = (str(outside), f"../outside/{place[-1]}", [f"{outside}/home.safetensors"])[i % 3]
            seal(folder, with_value(content, place, value), file)
            with suppress(ModelFileError):
                loaded(folder, "small")
    assert [path for path in opened if "outside" in path] == []
    assert any(path == str(folder / file) for path in opened), "what is opened is seen"


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The names of all files that Python is asked to open or list inside the block."""
    opened: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("open", "os.listdir", "os.scandir", "glob.glob", "import"):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    yield opened
    watching = False
