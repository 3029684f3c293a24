"""Model folders in which something is odd: each gets one sentence, from the library and from every command."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from homefold import Homefold, ManifoldProjector
from homefold.cli import main
from homefold.config import replace_settings
from homefold.errors import ConfigError, HomefoldError, ModelFileError
from odd_folders import ODD_VALUES, copied, described, places, seal, tensor_changes, with_tensors, with_value

pytestmark = pytest.mark.slow

# Of all combinations of a place and an odd value every so many is tried; another number tries others.
EVERY = int(os.environ.get("HOMEFOLD_TEST_EVERY", "8"))


FORMS: tuple[tuple[str, ...], ...] = ((), ("--json",))
"""How `info` can be asked."""


@pytest.fixture(scope="module")
def of_images(few_digits, quick_config, tmp_path_factory) -> Path:
    """A small model that brings styles home, as the presets do."""
    settings = {"features.epochs": 4, "style.blocks": ("early",), "manifold.latent_dim": 4, "manifold.hidden": (32,)}
    model = Homefold(replace_settings(quick_config, settings), device="cpu").fit(few_digits, holdout="street")
    path = tmp_path_factory.mktemp("odd") / "images"
    model.save(path)
    return path


def labelled_features() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    centres = random.normal(size=(3, 16))
    y = np.repeat(["cat", "dog", "owl"], 60)
    return np.repeat(centres, 60, axis=0) + 0.3 * random.normal(size=(180, 16)), y


@pytest.fixture(scope="module")
def of_features(tmp_path_factory) -> Path:
    x, y = labelled_features()
    model = ManifoldProjector(latent_dim=4, manifold_epochs=40, hidden=(16,), device="cpu").fit(x, y)
    path = tmp_path_factory.mktemp("projector") / "features"
    model.save(path)
    return path


@pytest.fixture(params=["images", "features"])
def saved(request, of_images, of_features) -> Path:
    return of_images if request.param == "images" else of_features


def load(folder: Path) -> object:
    kind = Homefold if folder.name == "images" else ManifoldProjector
    return kind.load(folder, device="cpu")


def sentence(error: HomefoldError) -> str:
    """What an error says, once it is certain that it is one short sentence."""
    text = str(error)
    assert "\n" not in text
    assert 20 < len(text) < 700
    assert text.endswith((".", "?"))
    return text


@pytest.fixture
def tell(capsys):
    """Runs a command; its exit code and all that it printed on standard error."""

    def run(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, capsys.readouterr().err

    return run


def refused(folder: Path, tell, forms: Sequence[tuple[str, ...]] = FORMS) -> bool:
    """Whether loading is refused, in one sentence; `info` must say the same, or show the model, in these forms."""
    try:
        load(folder)
    except ModelFileError as error:
        told = sentence(error)
    else:
        told = ""
    for form in forms:
        code, err = tell("info", folder, *form)
        assert (code, err) == ((1, f"error: {told}\n") if told else (0, ""))
    return bool(told)


def test_odd_values_in_the_description(saved, tmp_path, tell):
    content = described(saved)
    folder = copied(saved, tmp_path / saved.name)
    everywhere = list(itertools.product(places(content), ODD_VALUES))
    count = 0
    for number, (place, value) in enumerate(everywhere[::EVERY]):
        seal(folder, with_value(content, place, value))
        count += refused(folder, tell, [FORMS[number % 2]])
    assert count > len(everywhere) / EVERY / 3, "most odd values are refused"


def test_odd_tensors(saved, tmp_path, tell):
    stems = list(described(saved)["digests"])
    named = [(stem, name) for stem in stems for name in load_file(str(saved / f"{stem}.safetensors"))]
    everything = [(stem, name, odd) for stem, name in named for odd in tensor_changes("")]
    for stem, name, odd in everything[:: 2 * EVERY]:
        folder = copied(saved, tmp_path / saved.name)
        with_tensors(folder, stem, tensor_changes(name)[odd])
        assert refused(folder, tell), (stem, name, odd)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"manifold": "nearest"}, "labels"),
        ({"manifold": "gan", "manifold_epochs": 100}, "known features"),
    ],
)
def test_odd_tensors_of_other_manifolds(settings, words, tmp_path):
    x, y = labelled_features()
    model = ManifoldProjector(**{"latent_dim": 4, "hidden": (16,), "device": "cpu", **settings}).fit(x, y)
    model.save(tmp_path / "saved")
    names = list(load_file(str(tmp_path / "saved" / "home.safetensors")))
    everything = list(itertools.product(names, ("missing", "renamed", "added", "wider", "scalar", "float16", "nan")))
    for name, odd in everything[:: 1 + len(everything) // 40]:
        folder = copied(tmp_path / "saved", tmp_path / "features")
        with_tensors(folder, "home", tensor_changes(name)[odd])
        with pytest.raises(ModelFileError) as told:
            load(folder)
        sentence(told.value)

    def drop_known_points(tensors):
        for name in list(tensors):
            if "bank_labels" in name or ("bank_latents" in name and "labels" not in words):
                tensors[name] = tensors[name][:1]

    folder = copied(tmp_path / "saved", tmp_path / "features")
    with_tensors(folder, "home", drop_known_points)
    with pytest.raises(ModelFileError, match=words):
        load(folder)


def test_known_good_folders_load_and_are_shown(saved, tmp_path, tell):
    assert not refused(copied(saved, tmp_path / saved.name), tell)


@pytest.mark.parametrize(
    "name", ["../home", "{outside}", "/dev/zero", "sub/home", "home.safetensors", "", "HOME", "features/../home"]
)
def test_files_that_the_format_does_not_have_are_never_opened(saved, tmp_path, tell, name):
    folder = copied(saved, tmp_path / saved.name)
    outside = Path(shutil.copy(folder / "home.safetensors", tmp_path / "home.safetensors"))
    content = described(folder)
    digest = content["digests"].pop("home")
    content["digests"][name.format(outside=outside.with_suffix(""))] = digest
    seal(folder, content)
    assert refused(folder, tell)
    with pytest.raises(ModelFileError, match=r"as the parts of the model; expected .*home"):
        load(folder)


def test_a_pipe_or_a_device_in_the_place_of_a_file_is_not_read(saved, tmp_path, tell):
    for name in ("model.json", "home.safetensors"):
        for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir):
            folder = copied(saved, tmp_path / saved.name)
            (folder / name).unlink()
            make(folder / name)
            assert refused(folder, tell)
            with pytest.raises(ModelFileError, match=rf"{name} is not a plain file"):
                load(folder)
        (folder / name).rmdir()
        (folder / name).symlink_to(tmp_path / "nowhere")
        assert refused(folder, tell)


def test_links_to_plain_files_are_read_as_caches_of_downloads_keep_them(saved, tmp_path, tell):
    folder = copied(saved, tmp_path / saved.name)
    (tmp_path / "blobs").mkdir()
    for file in list(folder.iterdir()):
        file.rename(tmp_path / "blobs" / file.name)
        file.symlink_to(tmp_path / "blobs" / file.name)
    assert not refused(folder, tell)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is not valid JSON"),
        (b"{", "is not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 500 + b"]" * 500, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"format": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b"\xff\xfe{}", "is not valid JSON"),
        (b"\xef\xbb\xbf{}", "is not valid JSON"),
        (b'{"format": 1, "format": 2}', "the key 'format' twice"),
        (b"[]", "does not describe a homefold model"),
        (b"null", "does not describe a homefold model"),
        (b'{"format": "homefold-model", "format_version": true}', "the format version True; expected a positive"),
        (b'{"format": "homefold-model", "format_version": 1e400}', "the format version inf; expected a positive"),
        (b'{"format": "homefold-model", "format_version": 1}', "its checksum does not match"),
        (b'{"format": "homefold-model", "format_version": 7}', "upgrade with pip install"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_descriptions_that_cannot_be_read(saved, tmp_path, tell, text, words):
    folder = copied(saved, tmp_path / saved.name)
    (folder / "model.json").write_bytes(text)
    assert refused(folder, tell)
    with pytest.raises(ModelFileError, match=words):
        load(folder)


def test_a_description_without_end_is_not_read_to_its_end(saved, tmp_path, tell):
    folder = copied(saved, tmp_path / saved.name)
    os.truncate(folder / "model.json", 1 << 34)
    assert refused(folder, tell)
    with pytest.raises(ModelFileError, match="more than 64 MiB"):
        load(folder)


def most_memory_kb() -> int:
    import resource  # not there on every platform

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def odd_header(entry: dict[str, Any], data: bytes = b"") -> bytes:
    header = json.dumps({"a": entry}).encode()
    return len(header).to_bytes(8, "little") + header + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 64,
        (2**63).to_bytes(8, "little") + b"{}",
        odd_header({}),
        odd_header({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}),
        odd_header({"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}, b"\0" * 4),
        odd_header({"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4]}, b"\0" * 4),
        odd_header({"dtype": "F32", "shape": [2**64 - 1, 0], "data_offsets": [0, 0]}),
        odd_header({"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}, b"\0" * 4),
        odd_header({"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}, b"\0"),
        odd_header({"dtype": "F32", "shape": [1] * 70, "data_offsets": [0, 4]}, b"\0" * 4),
    ],
    ids=range(12),
)
def test_tensors_whose_header_lies(saved, tmp_path, tell, data):
    folder = copied(saved, tmp_path / saved.name)
    (folder / "home.safetensors").write_bytes(data)
    content = described(folder)
    content["digests"]["home"] = hashlib.sha256(data).hexdigest()
    seal(folder, content)
    assert refused(folder, tell)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units elsewhere")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("manifold.hidden", [60_000, 60_000]),
        ("manifold.latent_dim", 2**31 - 1),
        ("manifold.hidden", [2**31 - 1, 2**31 - 1]),
        ("manifold.hidden", [1] * 10_000),
        ("classifier.hidden_dim", 2**31 - 1),
    ],
)
def test_sizes_that_the_tensors_do_not_have_take_no_memory(saved, tmp_path, tell, name, value):
    content = described(saved)
    part, key = name.split(".")
    content["settings"][part][key] = value
    content["settings"]["classifier"]["kind"] = "hidden"
    folder = copied(saved, tmp_path / saved.name)
    seal(folder, content)
    before = most_memory_kb()
    assert refused(folder, tell)
    assert most_memory_kb() - before < 500_000


@pytest.mark.parametrize(("name", "value"), [("image_size", 10_000), ("image_size", 3), ("image_size", 17)])
def test_images_of_another_size_than_the_network_was_made_for(of_images, tmp_path, tell, name, value):
    content = described(of_images)
    content["settings"]["preprocessing"][name] = value
    folder = copied(of_images, tmp_path / "images")
    seal(folder, content)
    if value == 17:
        assert not refused(folder, tell), "the network gives as many features for it"
    else:
        assert refused(folder, tell)


def test_every_command_says_the_same_sentence(of_images, tmp_path, tell, few_digits):
    folder = copied(of_images, tmp_path / "images")
    content = described(folder)
    content["classes"] = [0, None, "2"]
    seal(folder, content)
    image = tmp_path / "data" / "street" / "0" / "0.png"
    image.parent.mkdir(parents=True)
    Image.fromarray(few_digits.images[0]).save(image)
    expected = f"error: the model in {folder} has an odd description: classes.0 must be text; got 0.\n"
    for command in (("info", folder), ("predict", folder, image), ("evaluate", folder, tmp_path / "data")):
        assert tell(*command) == (1, expected)


def test_a_projector_is_no_model_of_images(of_features, tell, tmp_path):
    expected = f"error: {of_features} holds a projector of features; load it with ManifoldProjector.load.\n"
    assert tell("predict", of_features, tmp_path) == (1, expected)
    assert tell("evaluate", of_features, tmp_path) == (1, expected)


def test_a_network_of_the_users_own_may_hold_infinite_buffers_but_no_infinite_weights(
    few_digits, quick_config, tmp_path
):
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
            self.register_buffer("mask", torch.full((2,), -torch.inf))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.layers(images)

    config = replace_settings(quick_config, {"features.epochs": 6})
    path = tmp_path / "images"
    Homefold(config, backbone=Masked(), device="cpu").fit(few_digits, holdout="street").save(path)
    assert torch.isinf(Homefold.load(path, backbone=Masked(), device="cpu").net.backbone.mask).all()
    with pytest.raises(ConfigError, match="fitted with a network of your own; pass it as backbone="):
        load(path)
    assert main(["info", str(path)]) == 0
    with_tensors(path, "features", tensor_changes("backbone.layers.0.weight")["infinite"])
    with pytest.raises(ModelFileError, match=r"'backbone\.layers\.0\.weight' holds NaN or infinite values"):
        Homefold.load(path, backbone=Masked(), device="cpu")
