"""A model as ONNX: the same answers as the model's own, whatever its settings; or a sentence, and nothing left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from homefold import Homefold, SearchConfig
from homefold.config import LookConfig
from homefold.errors import ConfigError
from homefold.export import Exported, export_onnx
from homefold.export.onnx import largest_differences, session
from homefold.export.predictor import Predictor
from homefold.export.preprocessor import preprocessor
from homefold.manifold import build_manifold

pytest.importorskip("onnxruntime", reason="needs homefold[onnx]")
pytestmark = pytest.mark.slow

ADAM = SearchConfig(steps=8)
SEARCHES = {
    "elbow": replace(ADAM, steps=12, step="normalised", stop="elbow"),
    "gradient from random and nearest starts": replace(ADAM, step="gradient", random_starts=2, nearest_starts=1),
    "no steps": replace(ADAM, steps=0),
}


def with_settings(model: Homefold, search: SearchConfig = ADAM, look: LookConfig | None = None) -> Homefold:
    """The model with another search, and other views."""
    changed = Homefold(model.config, device="cpu")
    trained = model.trained
    config = replace(trained.config, search=search, look=look or trained.config.look)
    changed._trained = replace(trained, config=config, feature_model=replace(trained.feature_model, search=search))
    return changed


@pytest.fixture(scope="module")
def fitted(few_digits, quick_config) -> Homefold:
    features = replace(quick_config.features, epochs=3, feature_dim=64)
    model = Homefold(replace(quick_config, features=features), device="cpu").fit(few_digits.only("scan", "photo"))
    assert model.feature_model.manifold.report.kind == "vae"
    return model


@pytest.fixture(scope="module")
def written(fitted, tmp_path_factory) -> Exported:
    """The plain model's export, not to be changed: torch takes seconds for each."""
    return export_onnx(with_settings(fitted), tmp_path_factory.mktemp("written") / "onnx")


@pytest.fixture
def same_graph(written, monkeypatch) -> None:
    """For whoever exports that model again, torch's part is done."""

    def copied(_: Homefold, file: Path) -> tuple[bool, int]:
        shutil.copy(written.folder / "model.onnx", file)
        return written.loop, written.nodes

    monkeypatch.setattr("homefold.export.onnx._write_graph", copied)


def exported(model: Homefold, folder: Path) -> tuple[object, float, float]:
    """The session, and the largest differences over images that were not compared before."""
    found = export_onnx(model, folder)
    assert found.loop == (model.feature_model.search.steps > 0)
    runtime = session(folder / "model.onnx", threads=1)
    images = np.random.default_rng(1).integers(0, 256, (9, 16, 16, 3), dtype=np.uint8)
    probability, distance, labels = largest_differences(model, runtime, images, 4)
    assert labels == 0
    return runtime, probability, distance


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_gives_the_models_answers(fitted, tmp_path, name: str) -> None:
    _, probability, distance = exported(with_settings(fitted, SEARCHES[name]), tmp_path / "onnx")
    assert probability < 2e-4
    assert distance < 2e-4


@pytest.mark.parametrize("kind", ["nearest", "gan", "conv-vae"])
def test_every_manifold_gives_the_models_answers(fitted, tmp_path, kind: str) -> None:
    torch.manual_seed(0)
    manifold = build_manifold(replace(fitted.config.manifold, kind=kind), fitted.net.feature_dim, bank_size=30).eval()
    manifold.report = fitted.feature_model.manifold.report
    with torch.no_grad():
        manifold.bank_latents.normal_()
        manifold.bank_features.copy_(
            torch.randn(30, 64) if kind == "nearest" else manifold.decode(manifold.bank_latents)
        )
    model = with_settings(fitted)
    trained = model.trained
    model._trained = replace(trained, feature_model=replace(trained.feature_model, manifold=manifold))
    _, probability, distance = exported(model, tmp_path / "onnx")
    assert probability < 2e-4
    assert distance < 2e-4


def test_views_filters_and_styles_are_in_the_graph(few_digits, quick_config, tmp_path) -> None:
    features = replace(quick_config.features, epochs=1)
    style = replace(quick_config.style, blocks=("early",), manifold="domains", weight=0.5)
    config = replace(quick_config, features=features, style=style, search=ADAM)
    model = with_settings(
        Homefold(config, device="cpu").fit(few_digits.only("scan", "photo")), look=LookConfig(views=2, textures=1)
    )
    _, probability, distance = exported(model, tmp_path / "onnx")
    assert probability < 2e-4
    assert distance < 2e-4


@pytest.mark.parametrize("views", [1, 2])
def test_familiar_images_are_left_as_they_are_in_the_graph_too(few_digits, quick_config, tmp_path, views) -> None:
    features = replace(quick_config.features, epochs=1)
    style = replace(quick_config.style, blocks=("early",), manifold="mean", weight=0.5)
    look = LookConfig(views=views, leave_familiar=True)
    config = replace(quick_config, features=features, style=style, search=ADAM, look=look)
    model = Homefold(config, device="cpu").fit(few_digits.only("scan", "photo"))
    export_onnx(model, tmp_path / "onnx")
    runtime = session(tmp_path / "onnx" / "model.onnx", threads=1)
    images = np.asarray(few_digits.images[::9])
    assert 0 < model.predict(images).projected.sum() < len(images)
    probability, distance, labels = largest_differences(model, runtime, images, 7)
    assert max(probability, distance) < 2e-4
    assert labels == 0


def test_the_search_is_one_loop_and_any_batch_is_taken(fitted, written, tmp_path) -> None:
    assert written.loop
    runtime = session(written.folder / "model.onnx", threads=1)
    images = np.random.default_rng(0).integers(0, 256, (17, 16, 16, 3), dtype=np.uint8)
    together = runtime.run(None, {"images": images})[0]
    alone = np.concatenate([runtime.run(None, {"images": image[None]})[0] for image in images])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    plain = replace(ADAM, step="gradient")
    short = export_onnx(with_settings(fitted, plain), tmp_path / "short")
    assert export_onnx(with_settings(fitted, replace(plain, steps=500)), tmp_path / "long").nodes == short.nodes


def test_where_torch_cannot_export_a_loop_the_steps_stand_one_after_the_other(fitted, tmp_path, monkeypatch) -> None:
    def no_loop(*_: object) -> None:
        raise RuntimeError("no loops here")

    monkeypatch.setattr("homefold.export.onnx.one_loop", no_loop)
    found = export_onnx(with_settings(fitted), tmp_path / "onnx")
    assert not found.loop
    assert found.probability_difference < 2e-4
    with pytest.raises(ConfigError, match=r"no loops here.*at most 400 steps needs no loop"):
        export_onnx(with_settings(fitted, replace(ADAM, steps=401)), tmp_path / "long")
    assert not (tmp_path / "long").exists()


def test_an_export_that_answers_otherwise_is_refused_and_leaves_nothing(fitted, tmp_path, monkeypatch) -> None:
    class Wrong(Predictor):
        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            probabilities, off_manifold = super().forward(images)
            return probabilities + 1e-3, off_manifold

    monkeypatch.setattr("homefold.export.onnx.Predictor", Wrong)
    with pytest.raises(ConfigError, match=r"answers otherwise.*up to 1.0e-03.*Nothing was written"):
        export_onnx(with_settings(fitted), tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_the_check_is_given_is_prepared_as_the_preprocessor_says(
    fitted, same_graph, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(
        "homefold.export.onnx.preprocessor",
        lambda model: (told := preprocessor(model)) | {"input": told["input"] | {"resize": "crop"}},
    )
    with pytest.raises(ConfigError, match=r"answers otherwise.*Nothing was written"):
        export_onnx(with_settings(fitted), tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_card_tells_differences_and_speed(written) -> None:
    card = " ".join((written.folder / "README.md").read_text(encoding="utf-8").split())
    assert 0 < written.times_eager < 100
    assert f"Speed: {written.times_eager:.2f} times the time of torch for 13 images at once, on one thread" in card
    assert f"Compared with torch on {written.images} images at batches of 1 and 13" in card
    assert f"probabilities within {written.probability_difference:.1e}" in card


def test_a_decoder_without_a_known_gradient_is_refused(fitted, tmp_path) -> None:
    model = with_settings(fitted)
    manifold = model.feature_model.manifold
    before, manifold.decoder = manifold.decoder, nn.Sequential(*manifold.decoder, nn.Softplus())
    try:
        with pytest.raises(ConfigError, match="the gradient of Softplus"):
            export_onnx(model, tmp_path / "onnx")
    finally:
        manifold.decoder = before
    assert list(tmp_path.iterdir()) == []


def test_only_an_export_is_replaced_and_only_when_asked(fitted, same_graph, tmp_path) -> None:
    model, folder = with_settings(fitted), tmp_path / "onnx"
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"a photo")
    with pytest.raises(ConfigError, match="is not empty and no export"):
        export_onnx(model, tmp_path / "photos", overwrite=True)
    assert (tmp_path / "photos" / "cat.jpg").read_bytes() == b"a photo"
    export_onnx(model, folder)
    with pytest.raises(ConfigError, match="holds an export already"):
        export_onnx(model, folder)
    export_onnx(model, folder, overwrite=True)
    assert sorted(os.listdir(folder)) == ["README.md", "model.onnx", "preprocessor.json"]


def environment_of(folder: Path, *packages: str) -> Path:
    """The Python of a new environment that has these packages alone, borrowed from this one."""
    venv.create(folder, symlinks=os.name != "nt")
    (site,) = folder.rglob("site-packages")
    for package in packages:
        found = distribution(package)
        for name in {file.parts[0] for file in found.files or ()} - {".."}:
            try:
                (site / name).symlink_to(Path(str(found.locate_file(name))))
            except OSError as error:
                pytest.skip(f"this system makes no links: {error}")
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def ran(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-I", *words], capture_output=True, text=True, check=False)


def test_the_example_answers_without_torch_as_predict_does(fitted, written, few_digits, tmp_path) -> None:
    from PIL import Image

    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path, image in zip(paths, few_digits.only("street").images[:3], strict=True):
        Image.fromarray(np.asarray(image)).resize((40, 28)).save(path)
    script = Path(__file__).parents[2] / "examples" / "onnx_predict.py"
    python = environment_of(tmp_path / "venv", "numpy", "pillow", "onnxruntime")
    for absent in ("torch", "homefold"):
        assert f"No module named '{absent}'" in ran(python, "-c", f"import {absent}").stderr
    run = ran(python, str(script), str(written.folder), *map(str, paths))
    assert run.returncode == 0, run.stderr
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    expected = with_settings(fitted).predict([str(path) for path in paths])
    assert [row["label"] for row in rows] == expected.labels.tolist()
    np.testing.assert_allclose([row["confidence"] for row in rows], expected.confidences, atol=2e-4)
