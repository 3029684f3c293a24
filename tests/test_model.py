"""Homefold end to end: fit, answer, keep; stateless, resumable, never touching the target."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from homefold import Homefold, preset_config, search_preset
from homefold.config import replace_settings
from homefold.errors import ConfigError, DataError, ModelFileError
from homefold.features import backbones
from homefold.runtime.device import resolve_device
from homefold.runtime.progress import RichReporter
from homefold.store.files import plain_json


def folder_digest(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def street(few_digits):
    return few_digits.only("street")


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model"
    fitted.save(path)
    return path


@pytest.mark.slow
def test_it_answers_for_an_unseen_domain_well_above_chance(sharp_digits, sharp_config):
    model = Homefold(sharp_config, device="cpu").fit(sharp_digits, holdout="street")
    assert model.source_domains == ("scan", "photo", "print")
    street = sharp_digits.only("street")
    assert model.score(street) > 0.6
    assert model.score(street, projected=False) > 0.6


def test_what_a_prediction_carries(fitted, street):
    predictions = fitted.predict(street)
    assert predictions.probabilities.shape == (len(street), 3)
    np.testing.assert_allclose(predictions.probabilities.sum(axis=1), 1, rtol=1e-5)
    one = predictions[0]
    assert one.label in ("0", "1", "2")
    assert one.confidence == max(one.probabilities.values())
    assert -1 <= one.similarity_before <= one.similarity_after <= 1 + 1e-6
    assert (one.iterations, one.start) == (50, "encoder")
    assert one.off_manifold >= 0
    assert np.asarray(predictions).tolist() == predictions.labels.tolist()
    assert set(one.as_dict()) == {
        "label",
        "confidence",
        "probabilities",
        "similarity_before",
        "similarity_after",
        "iterations",
        "start",
        "off_manifold",
        "projected",
    }


@pytest.mark.slow
def test_the_same_image_gets_the_same_bytes_alone_in_a_batch_and_in_another_order(fitted, street):
    images = street.images[:64]
    together = fitted.predict(images)
    order = np.random.default_rng(0).permutation(64)
    permuted = fitted.predict(images[order])
    for name in ("probabilities", "similarity_before", "similarity_after", "iterations", "start", "off_manifold"):
        whole = getattr(together, name)
        assert getattr(permuted, name).tobytes() == whole[order].tobytes()
        for i in (0, 31, 63):
            assert getattr(fitted.predict(images[i : i + 1]), name).tobytes() == whole[i : i + 1].tobytes()


def test_a_model_that_gets_ready_meanwhile_gives_the_same_bytes(saved, street):
    model, expected = (Homefold.load(saved, device="cpu") for _ in range(2))
    other = replace(model.config.search, steps=7, random_starts=1)
    for search in (None, other):
        model.feature_model.get_ready(search)
        found = model.predict(street.images[:20], search=search)
        known = expected.predict(street.images[:20], search=search)
        for name in ("probabilities", "similarity_before", "similarity_after", "iterations", "start", "off_manifold"):
            assert getattr(found, name).tobytes() == getattr(known, name).tobytes()


def test_what_goes_wrong_while_a_model_gets_ready_is_told_by_the_first_projection(saved, street):
    model = Homefold.load(saved, device="cpu")
    model.feature_model.get_ready(replace(model.config.search, engine="fused"))
    model.predict(street.images[:2], projected=False)
    with pytest.raises(ConfigError, match="the fused engine cannot run: it needs a CUDA device"):
        model.predict(street.images[:2])
    assert len(model.predict(street.images[:2])) == 2


def test_predicting_leaves_no_trace(fitted, street):
    before = {k: v.clone() for k, v in fitted.net.state_dict().items()}
    first = fitted.predict_proba(street.images[:8])
    fitted.predict(np.random.default_rng(0).integers(0, 255, (40, 16, 16, 3), dtype=np.uint8))
    assert fitted.predict_proba(street.images[:8]).tobytes() == first.tobytes()
    assert all(torch.equal(before[k], v) for k, v in fitted.net.state_dict().items())


def test_the_off_manifold_score_is_higher_for_noise_and_for_images_of_another_kind(few_digits, fitted):
    model = fitted
    source = few_digits.without("street")
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (100, 16, 16, 3), dtype=np.uint8)
    y, x = np.mgrid[0:16, 0:16]
    stripes = [(np.sin(x * f + y * g) > 0) * 255 for f, g in random.uniform(0.2, 2.5, (100, 2))]
    other_kind = np.repeat(np.stack(stripes)[..., None], 3, axis=3).astype(np.uint8)
    usual = model.predict(source.images).off_manifold
    for images in (noise, other_kind):
        assert np.median(model.predict(images).off_manifold) > np.median(usual)
    assert (usual > 1).mean() < 0.25


def test_without_projection_it_is_the_classifier_alone(fitted, street):
    plain = fitted.predict(street, projected=False)
    home = fitted.feature_model
    with torch.no_grad():
        logits = home.classifier(home.prepare(torch.from_numpy(fitted.features(street))))
    np.testing.assert_allclose(plain.probabilities, torch.softmax(logits, 1).numpy(), atol=1e-5)
    assert plain.start_names == ("none",)
    assert np.isnan(plain.off_manifold).all()


def test_projected_features_are_the_decoders(fitted, street):
    found = fitted.project(street.images[:5])
    decoded = fitted.feature_model.manifold.decode(found.latents)
    torch.testing.assert_close(found.features, decoded, atol=1e-5, rtol=1e-4)


def test_another_search_at_inference_needs_no_training(fitted, street):
    restarts = replace(search_preset("restarts"), steps=20)
    predictions = fitted.predict(street.images[:6], search=restarts)
    assert set(predictions.start_names) == {f"random {i}" for i in range(1, 9)}
    assert fitted.config.search.encoder_start


@pytest.mark.slow
def test_numbers_as_labels_are_names_not_positions(few_digits, quick_config):
    config = replace(quick_config, features=replace(quick_config.features, epochs=2))
    shifted = few_digits.labels + 1
    model = Homefold(config, device="cpu").fit(few_digits.images, shifted, few_digits.domains)
    assert model.class_names == ("1", "2", "3")
    accuracy = (model.predict(few_digits.images).labels == shifted.astype(str)).mean()
    assert model.score(few_digits.images, shifted) == pytest.approx(accuracy)
    with pytest.raises(DataError, match="labels 4 are no classes"):
        model.score(few_digits.images, shifted + 1)


def test_paths_bytes_and_images_get_the_same_answers_to_the_bit(fitted, street, tmp_path):
    paths = []
    for i, image in enumerate(street.images[:4]):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(image).save(paths[-1])
    expected = fitted.predict(paths)
    assert expected.paths == tuple(map(str, paths))
    opened = [Image.open(path) for path in paths]
    for given in (opened, [path.read_bytes() for path in paths], [image.convert("RGB") for image in opened]):
        found = fitted.predict(given)
        assert found.paths == ()
        assert np.array_equal(found.probabilities, expected.probabilities)
        assert np.array_equal(found.off_manifold, expected.off_manifold)
    mixed = fitted.predict([opened[3], str(paths[1]), paths[0].read_bytes()])
    assert mixed.paths == ("", str(paths[1]), "")
    assert np.array_equal(mixed.probabilities, expected.probabilities[[3, 1, 0]])
    assert np.array_equal(fitted.predict(paths[2].read_bytes()).probabilities, expected.probabilities[2:3])
    assert fitted.predict([b"", paths[0].read_bytes()], skip_bad=True).probabilities.shape == (1, 3)
    with pytest.raises(DataError, match="image 1 of 2 is empty"):
        fitted.predict([b"", paths[0].read_bytes()])
    with pytest.raises(DataError, match="or a list of these; got int"):
        fitted.predict(3)


def test_compared_answers_tell_what_they_would_be_without_projection(fitted, street):
    compared, plain = fitted.predict(street, compare=True), fitted.predict(street, projected=False)
    alone = fitted.predict(street)
    assert np.array_equal(compared.probabilities, alone.probabilities)
    assert compared.unprojected.tolist() == plain.indices.tolist()
    assert compared.changed.tolist() == (plain.indices != alone.indices).tolist()
    assert len(alone.unprojected) == 0


def test_a_temperature_changes_confidence_and_no_label_and_is_kept(fitted, saved, street, tmp_path):
    model = Homefold.load(saved, device="cpu")
    expected = model.predict(street)
    model.feature_model.temperature = 2.5
    found = model.predict(street)
    logits = np.log(expected.probabilities.astype(np.float64)) / 2.5
    by_hand = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.probabilities, by_hand, atol=1e-5)
    assert found.labels.tolist() == expected.labels.tolist()
    assert np.array_equal(found.off_manifold, expected.off_manifold)
    model.save(tmp_path / "calibrated")
    again = Homefold.load(tmp_path / "calibrated", device="cpu")
    assert again.feature_model.temperature == 2.5
    assert np.array_equal(again.predict(street).probabilities, found.probabilities)
    # At 1 the folder is what earlier versions wrote.
    Homefold.load(saved, device="cpu").save(tmp_path / "plain")
    assert folder_digest(tmp_path / "plain")["home.safetensors"] == folder_digest(saved)["home.safetensors"]


def test_one_image_gives_one_answer(fitted, street):
    assert len(fitted.predict(street.images[0])) == 1


class TestSavingAndLoading:
    def test_a_loaded_model_gives_the_same_bytes(self, fitted, saved, street):
        loaded = Homefold.load(saved, device="cpu")
        assert loaded.config == fitted.config
        assert loaded.class_names == fitted.class_names
        assert loaded.source_domains == fitted.source_domains
        assert loaded.predict_proba(street).tobytes() == fitted.predict_proba(street).tobytes()

    def test_the_folder_holds_no_pickle_and_all_that_rebuilds_it(self, saved):
        assert sorted(p.name for p in saved.iterdir()) == [
            "README.md",
            "features.safetensors",
            "home.safetensors",
            "model.json",
            "sources.safetensors",
        ]
        description = json.loads((saved / "model.json").read_text())
        assert description["classes"] == ["0", "1", "2"]
        assert description["source_domains"] == ["scan", "photo", "print"]
        assert description["settings"]["preprocessing"]["image_size"] == 16
        assert description["settings"]["seed"] == 0
        assert "torch" in description["versions"]
        assert "0, 1, 2" in (saved / "README.md").read_text()

    def test_no_weights_are_looked_for_when_loading(self, saved, monkeypatch):
        looked = []
        monkeypatch.setattr(backbones, "find_weights", lambda *names: looked.append(names))
        assert Homefold.load(saved, device="cpu").is_fitted
        assert looked == []

    @pytest.mark.parametrize("name", ["features.safetensors", "home.safetensors"])
    def test_truncated_tensors(self, saved, tmp_path, name):
        broken = copy_of(saved, tmp_path)
        (broken / name).write_bytes((broken / name).read_bytes()[:-100])
        with pytest.raises(ModelFileError, match=f"{name} is truncated or was changed"):
            Homefold.load(broken)

    def test_missing_tensors(self, saved, tmp_path):
        broken = copy_of(saved, tmp_path)
        (broken / "home.safetensors").unlink()
        with pytest.raises(ModelFileError, match=r"home\.safetensors is missing"):
            Homefold.load(broken)

    def test_tampered_description(self, saved, tmp_path):
        broken = copy_of(saved, tmp_path)
        text = (broken / "model.json").read_text()
        (broken / "model.json").write_text(text.replace('"digits-bn"', '"digits"'))
        with pytest.raises(ModelFileError, match="was changed after it was written"):
            Homefold.load(broken)

    def test_truncated_description(self, saved, tmp_path):
        broken = copy_of(saved, tmp_path)
        text = (broken / "model.json").read_text()
        (broken / "model.json").write_text(text[: len(text) // 2])
        with pytest.raises(ModelFileError, match="not valid JSON"):
            Homefold.load(broken)

    def test_a_newer_format(self, saved, tmp_path):
        broken = copy_of(saved, tmp_path)
        content = json.loads((broken / "model.json").read_text())
        (broken / "model.json").write_text(json.dumps({**content, "format_version": 99}))
        with pytest.raises(ModelFileError, match=r"format 99.*newer version.*pip install -U homefold"):
            Homefold.load(broken)

    def test_not_a_model(self, tmp_path):
        with pytest.raises(ModelFileError, match=r"no model at .*homefold fit"):
            Homefold.load(tmp_path / "nothing")
        with pytest.raises(ModelFileError, match="is not a homefold model"):
            Homefold.load(tmp_path)

    def test_a_full_disk_leaves_the_old_model_intact(self, fitted, saved, tmp_path, monkeypatch):
        target = copy_of(saved, tmp_path)
        before = folder_digest(target)

        def full(*_args, **_kwargs):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("homefold.store.model_folder.write_tensors", full)
        with pytest.raises(OSError, match="No space left"):
            fitted.save(target)
        assert folder_digest(target) == before
        assert [p.name for p in tmp_path.iterdir()] == [target.name]

    def test_saving_over_a_model_replaces_it(self, fitted, saved, tmp_path):
        target = copy_of(saved, tmp_path)
        (target / "README.md").write_text("old")
        fitted.save(target)
        assert folder_digest(target) == folder_digest(saved)
        assert [p.name for p in tmp_path.iterdir()] == [target.name]


class TestNothingOfTheUsersIsReplaced:
    def test_a_folder_of_photos_is_left_alone(self, fitted, tmp_path):
        photos = tmp_path / "photos"
        photos.mkdir()
        (photos / "cat.jpg").write_text("cat")
        with pytest.raises(ModelFileError, match="photos exists and is not a homefold model, so it is not replaced"):
            fitted.save(photos)
        assert (photos / "cat.jpg").read_text() == "cat"
        assert list(tmp_path.iterdir()) == [photos]

    def test_a_file_is_left_alone(self, fitted, tmp_path):
        (tmp_path / "notes").write_text("mine")
        with pytest.raises(ModelFileError, match="notes exists and is not a homefold model"):
            fitted.save(tmp_path / "notes")
        assert (tmp_path / "notes").read_text() == "mine"

    @pytest.mark.parametrize("here", [".", ""])
    def test_the_current_folder_is_left_alone(self, fitted, tmp_path, monkeypatch, here):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ModelFileError, match="is the current folder, which cannot be replaced"):
            fitted.save(here)
        (tmp_path / "thesis.tex").write_text("mine")
        with pytest.raises(ModelFileError, match="is not a homefold model"):
            fitted.save(here)
        assert [item.name for item in tmp_path.iterdir()] == ["thesis.tex"]

    def test_what_lies_beside_a_model_is_left_alone(self, fitted, saved, tmp_path):
        target = copy_of(saved, tmp_path)
        (target / "patients.csv").write_text("mine")
        with pytest.raises(ModelFileError, match=r"holds more than a model \(patients\.csv\), so it is not replaced"):
            fitted.save(target)
        assert (target / "patients.csv").read_text() == "mine"

    def test_an_empty_folder_gives_way(self, fitted, saved, tmp_path):
        (tmp_path / "model").mkdir()
        fitted.save(tmp_path / "model")
        assert folder_digest(tmp_path / "model") == folder_digest(saved)

    def test_a_damaged_model_gives_way(self, fitted, saved, tmp_path):
        target = copy_of(saved, tmp_path)
        (target / "home.safetensors").write_bytes(b"damaged")
        fitted.save(target)
        assert folder_digest(target) == folder_digest(saved)


def copy_of(folder: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    for item in folder.iterdir():
        (copy / item.name).write_bytes(item.read_bytes())
    return copy


class TestData:
    @pytest.mark.slow
    def test_arrays_with_labels_and_domains(self, few_digits, quick_config):
        names = np.asarray(few_digits.class_names)[few_digits.labels]
        domains = np.asarray(few_digits.domain_names)[few_digits.domains]
        config = replace(quick_config, features=replace(quick_config.features, epochs=2))
        model = Homefold(config, device="cpu").fit(few_digits.images, names, domains, holdout="photo")
        assert model.class_names == ("0", "1", "2")
        assert set(model.source_domains) == {"scan", "print", "street"}
        assert 0 <= model.score(few_digits.images[:20], names[:20]) <= 1

    @pytest.mark.slow
    def test_a_folder_whose_held_out_domain_is_never_decoded(self, few_digits, quick_config, tmp_path):
        for i in range(len(few_digits)):
            domain = few_digits.domain_names[few_digits.domains[i]]
            folder = tmp_path / domain / few_digits.class_names[few_digits.labels[i]]
            folder.mkdir(parents=True, exist_ok=True)
            if domain == "street":
                (folder / f"{i}.png").write_bytes(b"would stop the fit if anyone opened it")
            else:
                Image.fromarray(few_digits.images[i]).save(folder / f"{i}.png")
        config = replace(quick_config, features=replace(quick_config.features, epochs=2))
        model = Homefold(config, device="cpu").fit(tmp_path, holdout="street")
        assert sorted(model.source_domains) == ["photo", "print", "scan"]
        answers = model.predict(tmp_path / "scan" / "1")
        assert [Path(answer.path).parent.name for answer in answers] == ["1"] * 24
        shutil.rmtree(tmp_path / "street" / "0")
        left = model.predict([tmp_path / "scan" / "1", tmp_path / "street" / "1"], skip_bad=True)
        assert left.paths == answers.paths
        with pytest.raises(DataError, match="street"):
            model.predict(tmp_path / "street")
        shutil.rmtree(tmp_path / "street")
        assert 0 <= model.score(tmp_path) <= 1

    def test_images_of_another_size_are_resized(self, fitted):
        assert len(fitted.predict(np.zeros((2, 50, 70, 3), dtype=np.uint8))) == 2

    @pytest.mark.parametrize(
        ("holdout", "words"),
        [
            ("mars", "there is no domain 'mars' to hold out.*scan, photo, print, street"),
            (("scan", "photo", "print", "street"), "no source domain of few digits is left"),
        ],
    )
    def test_domains_that_cannot_be_held_out(self, few_digits, quick_config, holdout, words):
        with pytest.raises(DataError, match=words):
            Homefold(quick_config, device="cpu").fit(few_digits, holdout=holdout)

    def test_one_class_only(self, few_digits, quick_config):
        with pytest.raises(DataError, match="one class only"):
            Homefold(quick_config, device="cpu").fit(few_digits.subset(np.flatnonzero(few_digits.labels == 0)))

    def test_too_few_images(self, few_digits, quick_config):
        with pytest.raises(DataError, match="too few"):
            Homefold(quick_config, device="cpu").fit(few_digits.subset([0, 24, 100]))

    @pytest.mark.slow
    def test_one_source_domain_works_and_says_what_that_means(self, few_digits, quick_config):
        said = []

        class Listening:
            def __init__(self):
                from homefold.runtime.progress import SilentReporter

                self.task = SilentReporter().task

            def message(self, text):
                said.append(text)

        config = replace(quick_config, features=replace(quick_config.features, epochs=2))
        Homefold(config, device="cpu", reporter=Listening()).fit(few_digits.only("scan"))
        assert any("One source domain only (scan)" in text for text in said)

    def test_arrays_without_labels(self, quick_config):
        with pytest.raises(DataError, match="needs labels and domains"):
            Homefold(quick_config, device="cpu").fit(np.zeros((4, 8, 8, 3), dtype=np.uint8))

    def test_an_unfitted_model_says_so(self, quick_config, few_digits):
        with pytest.raises(ConfigError, match="has not been fitted"):
            Homefold(quick_config, device="cpu").predict(few_digits.images[:2])


@pytest.mark.slow
def test_a_network_of_ones_own(few_digits, quick_config, tmp_path):
    def network():
        return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, 4), torch.nn.ReLU(), torch.nn.Flatten())

    config = replace(quick_config, features=replace(quick_config.features, epochs=2))
    torch.manual_seed(0)
    mine = network()
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    model = Homefold(config, backbone=mine, device="cpu").fit(few_digits, holdout="street")
    assert all(torch.equal(before[name], value) for name, value in mine.state_dict().items())
    assert all(parameter.requires_grad for parameter in mine.parameters())
    again = Homefold(config, backbone=mine, device="cpu").fit(few_digits, holdout="street")
    assert again.predict_proba(few_digits.images[:9]).tobytes() == model.predict_proba(few_digits.images[:9]).tobytes()
    model.save(tmp_path / "model")
    with pytest.raises(ConfigError, match="pass it as backbone="):
        Homefold.load(tmp_path / "model")
    loaded = Homefold.load(tmp_path / "model", backbone=network(), device="cpu")
    images = few_digits.images[:9]
    assert loaded.predict_proba(images).tobytes() == model.predict_proba(images).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conv-vae", "gan", "nearest"])
def test_every_manifold_goes_through_fit_save_and_load(few_digits, quick_config, tmp_path, kind):
    config = replace(
        quick_config,
        features=replace(quick_config.features, epochs=2, feature_dim=64),
        manifold=replace(quick_config.manifold, kind=kind, epochs=300),
    )
    model = Homefold(config, device="cpu").fit(few_digits, holdout="street")
    model.save(tmp_path / "model")
    loaded = Homefold.load(tmp_path / "model", device="cpu")
    images = few_digits.images[-10:]
    assert loaded.predict_proba(images).tobytes() == model.predict_proba(images).tobytes()


FIT = """
import sys
from homefold import Homefold, preset_config
from homefold.data import DomainDataset
import numpy as np, torch
torch.set_num_threads(1)
data = np.load(sys.argv[1])
dataset = DomainDataset(data["x"], data["y"], data["d"], ("0", "1", "2"), ("scan", "photo", "print", "street"))
config = preset_config("small", preprocessing__image_size=16, features__epochs=5, features__batch_size=32,
                       features__checkpoint_seconds=0.0, features__feature_dim=32, manifold__epochs=200,
                       manifold__latent_dim=8)
def told(figures):
    print("epoch", int(figures["epoch"]), flush=True)
model = Homefold(config, device="cpu").fit(dataset, holdout="street", work_dir=sys.argv[2], on_epoch=told)
print("fitted", flush=True)
model.save(sys.argv[3])
"""


def fit_here(*arguments: str) -> None:
    """The same in this process, which has imported all that it needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["-c", *arguments])
        exec(FIT, {})


@pytest.mark.slow
@pytest.mark.parametrize("line", ["epoch 2", "fitted"])
def test_a_fit_killed_with_sigkill_resumes_to_the_same_bytes(tmp_path, line, uninterrupted, capsys):
    data, expected = uninterrupted
    arguments = [str(data), str(tmp_path / "work"), str(tmp_path / "model")]
    process = subprocess.Popen([sys.executable, "-c", FIT, *arguments], stdout=subprocess.PIPE, text=True)
    for said in process.stdout:
        if said.strip() == line:
            os.kill(process.pid, signal.SIGKILL)
            break
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    fit_here(*arguments)
    first = capsys.readouterr().out.split("\n")[0]
    assert first == {"epoch 2": "epoch 2", "fitted": "fitted"}[line]
    assert folder_digest(tmp_path / "model") == expected


@pytest.fixture(scope="module")
def uninterrupted(few_digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    np.savez(folder / "data.npz", x=few_digits.images, y=few_digits.labels, d=few_digits.domains)
    fit_here(*(str(folder / name) for name in ("data.npz", "work", "model")))
    return folder / "data.npz", folder_digest(folder / "model")


def test_blocks_that_are_not_there_are_refused_before_any_image_is_read(quick_config, tmp_path):
    features = replace(quick_config.features, mix_style_probability=0.5, mix_style_layers=("layer9",))
    with pytest.raises(ConfigError, match="mix_style_layers names layer9"):
        Homefold(replace(quick_config, features=features), device="cpu").fit(tmp_path / "nothing there")


@pytest.mark.slow
def test_a_work_folder_serves_several_fits(few_digits, quick_config, tmp_path):
    config = replace(quick_config, features=replace(quick_config.features, epochs=2))
    for other in (config, replace(config, seed=7), config):
        Homefold(other, device="cpu").fit(few_digits, holdout="street", work_dir=tmp_path / "work").save(
            tmp_path / f"model-{other.seed}"
        )
        alone = Homefold(other, device="cpu").fit(few_digits, holdout="street")
        alone.save(tmp_path / "alone")
        assert folder_digest(tmp_path / f"model-{other.seed}") == folder_digest(tmp_path / "alone")
    assert len(list((tmp_path / "work").glob("features-*"))) == 2


@pytest.mark.slow
def test_another_manifold_goes_on_from_the_trained_features(few_digits, quick_config, tmp_path):
    config = replace(quick_config, features=replace(quick_config.features, epochs=2))
    Homefold(config, device="cpu").fit(few_digits, holdout="street", work_dir=tmp_path)
    epochs = []
    nearest = replace(config, manifold=replace(config.manifold, kind="nearest"))
    Homefold(nearest, device="cpu").fit(few_digits, holdout="street", work_dir=tmp_path, on_epoch=epochs.append)
    assert epochs == []


def test_presets_and_their_settings():
    assert preset_config("paper").features.epochs == 200
    assert preset_config("paper").search.steps == 20_000
    assert preset_config("small", {"features.augmentation.noise_sigma": 0.1}).features.augmentation.noise_sigma == 0.1
    with pytest.raises(ConfigError, match=r"there is no setting 'features\.epoch'"):
        preset_config("small", {"features.epoch": 3})
    with pytest.raises(ConfigError, match="default, thorough, small, small-thorough, paper"):
        preset_config("large")


def test_what_a_model_is_can_be_read(fitted):
    assert repr(fitted) == (
        "<Homefold: digits-bn at 16 px, manifold vae, 3 classes (0, 1, 2) from scan, photo, print; on cpu>"
    )
    assert repr(Homefold(device="cpu")) == "<Homefold: resnet18 at 224 px, manifold vae, not fitted; on cpu>"


def test_many_classes_do_not_make_a_long_line(fitted):
    names = tuple(f"class {i}" for i in range(100))
    model = pickle.loads(pickle.dumps(fitted))
    model.feature_model.class_names = names
    assert "100 classes (class 0, class 1, class 2, class 3, class 4 and 95 more)" in repr(model)


@pytest.fixture(scope="module")
def one_by_one(street, tmp_path_factory) -> dict[str, list]:
    """Nine images in every form; their paths sort backwards."""
    folder = tmp_path_factory.mktemp("street")
    images = list(np.asarray(street.images[::8][:9]))
    paths = [folder / f"{9 - i}.png" for i in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    return {
        "paths": [*paths],
        "bytes": [path.read_bytes() for path in paths],
        "arrays": images,
        "tensors": [torch.from_numpy(image).permute(2, 0, 1) for image in images],
        "mixed": [str(paths[0]), images[1], *(Image.fromarray(image) for image in images[2:])],
    }


@pytest.mark.parametrize("form", ["paths", "bytes", "arrays", "tensors", "mixed"])
def test_images_one_by_one_in_any_form_are_scored_and_fitted_in_their_order(fitted, one_by_one, form):
    given, images = one_by_one[form], np.stack(one_by_one["arrays"])
    answers = fitted.predict(images)
    assert fitted.score(given, answers.labels) == 1
    wrong = np.roll(answers.labels, 1)
    assert fitted.score(given, wrong) == (wrong == answers.labels).mean()
    if form != "paths":
        assert fitted.predict(given).probabilities.tobytes() == answers.probabilities.tobytes()
    dataset = fitted._source_dataset(given, answers.labels, list("aaabbbccc"), "c", False, "")
    assert np.array_equal(dataset.images, images[:6])
    assert [dataset.class_names[label] for label in dataset.labels] == answers.labels[:6].tolist()


def test_lists_that_do_not_go_together_are_refused(fitted, one_by_one):
    given = one_by_one["arrays"]
    with pytest.raises(DataError, match="9 images and 8 labels or domains; give one for each"):
        fitted.score(given, ["0"] * 8)
    with pytest.raises(DataError, match="9 images and 1 labels or domains"):
        fitted.fit(given, ["0"] * 9, ["a"])
    with pytest.raises(DataError, match="image 2 of 2 is an array of 9 images; in a list each array is one image"):
        fitted.predict([given[0], np.stack(given)])
    with pytest.raises(DataError, match="is a folder, not an image"):
        fitted.score([Path(one_by_one["paths"][0]).parent], ["0"])


def test_a_pickled_model_gives_the_same_bytes(fitted, street):
    fitted.feature_model.get_ready()  # what runs meanwhile is not carried along
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict(street).probabilities.tobytes() == fitted.predict(street).probabilities.tobytes()
    assert again.predict(street).off_manifold.tobytes() == fitted.predict(street).off_manifold.tobytes()
    assert again.source_domains == fitted.source_domains
    assert again.config == fitted.config
    assert again.reports == plain_json(fitted.reports)


def test_a_copied_model_shares_nothing(fitted, street):
    before = fitted.predict(street).probabilities
    twin = copy.deepcopy(fitted)
    for weights in twin.net.parameters():
        weights.data.zero_()
    assert fitted.predict(street).probabilities.tobytes() == before.tobytes()


@pytest.mark.slow
def test_styles_are_carried_too(few_digits, quick_config, street):
    config = replace_settings(quick_config, {"style.blocks": ("early",)})
    model = Homefold(config, device="cpu").fit(few_digits, holdout="street")
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(street).probabilities.tobytes() == model.predict(street).probabilities.tobytes()


def test_a_model_that_is_not_fitted_is_carried_with_its_settings(quick_config):
    again = pickle.loads(pickle.dumps(Homefold(quick_config, device="cpu", deterministic=True, verbose=True)))
    assert (again.config, again.deterministic, again.is_fitted) == (quick_config, True, False)
    assert isinstance(again.reporter, RichReporter)


def test_a_device_that_is_not_there_is_replaced(fitted, street, monkeypatch):
    state = fitted.__getstate__() | {"device": "cuda:63"}
    again = Homefold.__new__(Homefold)
    again.__setstate__(state)
    assert again.device == resolve_device("auto")


class OwnNet(torch.nn.Module):
    """A network of one's own that a pickle finds by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=4), torch.nn.Flatten(), torch.nn.LazyLinear(16)
        )
        self(torch.zeros(1, 3, 16, 16))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


@pytest.mark.slow
def test_a_network_of_ones_own_is_carried_too(few_digits, quick_config, street):
    model = Homefold(quick_config, backbone=OwnNet(), device="cpu").fit(few_digits, holdout="street")
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(street).probabilities.tobytes() == model.predict(street).probabilities.tobytes()


@pytest.mark.slow
def test_joblib_carries_a_model_into_another_process(fitted, street, tmp_path):
    joblib.dump(fitted, tmp_path / "model.joblib", compress=3)
    np.save(tmp_path / "street.npy", street.images)
    code = (
        "import joblib, numpy as np, sys; model = joblib.load(sys.argv[1]); "
        "sys.stdout.buffer.write(model.predict_proba(np.load(sys.argv[2])).tobytes())"
    )
    command = [sys.executable, "-c", code, tmp_path / "model.joblib", tmp_path / "street.npy"]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    assert found == fitted.predict_proba(street).tobytes()


class Served:
    """What MLflow's pyfunc asks of a Python model: it is pickled, and answers data frames without a context."""

    def __init__(self, model: Homefold) -> None:
        self.model = model

    def predict(self, context, model_input, params=None):
        answers = self.model.predict(model_input)
        return pd.DataFrame({"label": answers.labels, "off_manifold": answers.off_manifold})


def test_a_model_is_carried_as_mlflows_pyfunc_carries_one(fitted, street):
    served = pickle.loads(pickle.dumps(Served(fitted)))
    images = [Image.fromarray(image) for image in street.images[:5]]
    found = served.predict(None, pd.DataFrame({"image": images}))
    assert found["label"].tolist() == fitted.predict(street).labels[:5].tolist()
