"""An answer depends on the model, the image and the seed alone: not on the images it came with, nor on its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from homefold import Homefold, Predictions, preset_config
from homefold.cli import main
from homefold.config import list_presets, replace_settings
from homefold.data import DomainDataset
from homefold.features.views import mean_of_views

pytestmark = pytest.mark.slow

NUMBERS = ("probabilities", "similarity_before", "similarity_after", "iterations", "start", "off_manifold")
SPLITS = ([1, 63], [33, 31])
FEW = {
    "preprocessing.image_size": 16,
    "features.weights": "none",
    "features.epochs": 2,
    "features.batch_size": 64,
    "features.learning_rate": 0.02,
    "features.average_from": 1.0,
    "manifold.kl_weight": 1e-5,
}
ALSO = {
    "paper": {"features.momentum": 0.9, "normalise_features": True, "manifold.kind": "vae", "search.steps": 40},
    "thorough": {"look.views": 3},
}


def in_parts(predict: Callable[[np.ndarray], Predictions], images: np.ndarray, sizes: list[int]) -> dict[str, bytes]:
    """What `predict` says of `images`, given so many at a time."""
    ends = np.cumsum(sizes)
    parts = [predict(images[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    return {name: b"".join(getattr(part, name).tobytes() for part in parts) for name in NUMBERS}


@pytest.fixture(scope="module")
def street(few_digits: DomainDataset) -> np.ndarray:
    return few_digits.only("street").images[:64]


@pytest.fixture(scope="module", params=list_presets())
def of_preset(request, few_digits: DomainDataset) -> Iterator[Homefold]:
    """A model of each preset, hardly trained; towers are as wide as ever, and two layers deep."""
    changes = {**FEW, **ALSO.get(request.param, {})}
    config = replace_settings(preset_config(request.param), changes)
    with pytest.MonkeyPatch.context() as patch:
        if config.features.backbone.startswith("timm:"):
            timm = pytest.importorskip("timm")
            patch.setattr(timm, "create_model", partial(timm.create_model, depth=2))
        yield Homefold(config, device="cpu").fit(few_digits, holdout="street")


@pytest.mark.parametrize("dim", [16, 33, 100, 513])
@pytest.mark.parametrize("views", range(1, 13))
def test_the_mean_of_views_of_one_image_is_the_same_in_any_batch(views, dim):
    random = torch.Generator().manual_seed(views)
    features = [torch.randn(64, dim, generator=random) * 3 for _ in range(views)]
    together = mean_of_views(features)
    for size in (1, 7, 33, 63):
        for start in {0, 1, 64 - size}:
            part = mean_of_views([z[start : start + size].clone() for z in features])
            assert torch.equal(part, together[start : start + size])


@pytest.mark.slow
def test_every_preset_answers_alike_in_any_batch(of_preset, street):
    together = in_parts(of_preset.predict, street, [64])
    for sizes in SPLITS:
        assert in_parts(of_preset.predict, street, sizes) == together


@pytest.mark.slow
def test_the_command_of_every_preset_answers_alike_in_any_batch(of_preset, street, tmp_path, capsys):
    of_preset.save(tmp_path / "model")
    paths = [tmp_path / "images" / f"{number:02}.png" for number in range(5)]
    paths[0].parent.mkdir()
    for path, image in zip(paths, street, strict=False):
        Image.fromarray(image).save(path)

    def answers(*images: Path) -> list[dict[str, object]]:
        assert main(["predict", str(tmp_path / "model"), *map(str, images), "--json", "--device", "cpu"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    together = answers(tmp_path / "images")
    assert together == answers(paths[0]) + answers(*paths[1:])
    probabilities = [list(answer["probabilities"].values()) for answer in together]
    assert np.array(probabilities, np.float32).tobytes() == of_preset.predict(street[:5]).probabilities.tobytes()


@pytest.fixture(scope="module")
def mirrored(fitted: Homefold, tmp_path_factory) -> Homefold:
    """A model that may look at mirror images too, and so has all twelve views."""
    folder = tmp_path_factory.mktemp("mirrored") / "model"
    fitted.save(folder)
    model = Homefold.load(folder, device="cpu")
    model.trained.config = replace_settings(model.config, {"features.augmentation.flip_probability": 0.5})
    return model


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data())
def test_any_settings_answer_alike_in_any_batch(mirrored, street, data):
    seen = {"views": data.draw(st.integers(1, 12)), "textures": data.draw(st.integers(0, 5))}
    changes = {
        "step": data.draw(st.sampled_from(["gradient", "normalised", "adam"])),
        "stop": data.draw(st.sampled_from(["elbow", "fixed"])),
        "steps": data.draw(st.integers(7, 25)),
        "random_starts": data.draw(st.integers(0, 3)),
        "nearest_starts": data.draw(st.integers(0, 2)),
        "tile": data.draw(st.sampled_from([0, 1, 5, 32])),
    }
    look, search = replace(mirrored.config.look, **seen), replace(mirrored.config.search, **changes)
    images = street[: data.draw(st.integers(2, 40))]
    cuts = sorted({0, len(images), *data.draw(st.lists(st.integers(1, len(images) - 1), max_size=3))})
    sizes = np.diff(cuts).tolist()
    order = np.array(data.draw(st.permutations(range(len(images)))))

    def predict(part: np.ndarray) -> Predictions:
        return mirrored.predict(part, look=look, search=search)

    assert in_parts(predict, images, sizes) == in_parts(predict, images, [len(images)])
    assert predict(images[order]).probabilities.tobytes() == predict(images).probabilities[order].tobytes()
