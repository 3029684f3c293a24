"""Homefold with rehearsal: a network without each source domain, resumable, and a model like any other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from homefold import Homefold, rehearsal
from homefold.cli.info import _manifold_line
from homefold.config import HomefoldConfig
from homefold.errors import ConfigError, DataError


class Listening:
    """Hears every message and every epoch of stage 1; ends the fit in the second one after a message if told to."""

    def __init__(self, stop_after: str = "") -> None:
        self.said: list[str] = []
        self.epochs: list[str] = []
        self.stop_after = stop_after

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Listening]:
        self.counted = description == "Features"
        yield self

    def advance(self, steps: int = 1, **facts: float | str) -> None:
        if not self.counted or "loss" not in facts:
            return
        self.epochs.append(self.said[-1] if self.said else "")
        if self.stop_after and len([text for text in self.epochs if self.stop_after in text]) == 2:
            raise KeyboardInterrupt

    def message(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def config(quick_config) -> HomefoldConfig:
    features = replace(quick_config.features, epochs=2)
    return replace(quick_config, features=features, manifold=replace(quick_config.manifold, epochs=100, rehearse=0.5))


@pytest.fixture(scope="module")
def rehearsing(few_digits, config) -> tuple[Homefold, Listening, list[dict[str, torch.Tensor]]]:
    """A model that never saw `street`, what was said, and the weights of the networks that rehearsed."""
    heard, networks, original = Listening(), [], rehearsal.extract_features
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            rehearsal,
            "extract_features",
            lambda net, *a, **k: (networks.append(net.state_dict()), original(net, *a, **k))[1],
        )
        model = Homefold(config, device="cpu", reporter=heard).fit(few_digits, holdout="street")
    return model, heard, networks


def same_bytes(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_every_source_domain_is_left_out_once_and_that_is_said(rehearsing):
    said = [f"Rehearsal: features trained without {name}." for name in ("scan", "photo", "print")]
    assert rehearsing[1].said == said
    assert rehearsing[1].epochs == ["", "", *(text for text in said for _ in range(2))]


def test_the_network_that_rehearses_a_domain_is_that_of_a_fit_on_the_others(rehearsing, few_digits, config):
    plain = replace(config, manifold=replace(config.manifold, rehearse=0.0))
    other = Homefold(plain, device="cpu").fit(few_digits, holdout=("street", "photo"))
    assert same_bytes(rehearsing[2][1], other.net.state_dict())
    whole = Homefold(plain, device="cpu").fit(few_digits, holdout="street")
    assert same_bytes(whole.net.state_dict(), rehearsing[0].net.state_dict())
    assert "rehearsed_cosine" not in whole.reports["manifold"]


def test_a_saved_model_holds_what_was_measured_and_gives_the_same_bytes(rehearsing, few_digits, tmp_path):
    model = rehearsing[0]
    report = model.reports["manifold"]
    assert -1 < report["rehearsed_cosine"] < 1
    assert report["rehearsed_home_cosine"] > report["rehearsed_cosine"]
    model.save(tmp_path / "model")
    loaded = Homefold.load(tmp_path / "model", device="cpu")
    images = few_digits.only("street").images[:9]
    assert loaded.predict_proba(images).tobytes() == model.predict_proba(images).tobytes()
    assert loaded.reports["manifold"] == report
    assert f"rehearsed features {report['rehearsed_cosine']:.3f}, brought home" in _manifold_line(
        {"kind": "vae", "latent_dim": 8}, report
    )


def test_a_fit_killed_while_it_rehearses_goes_on_to_the_same_bytes(rehearsing, few_digits, config, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        Homefold(config, device="cpu", reporter=Listening("without photo")).fit(
            few_digits, holdout="street", work_dir=tmp_path
        )
    heard = Listening()
    again = Homefold(config, device="cpu", reporter=heard).fit(few_digits, holdout="street", work_dir=tmp_path)
    photo, last = (f"Rehearsal: features trained without {name}." for name in ("photo", "print"))
    assert heard.epochs == [photo, last, last], "f, the first network and half of the second were there"
    assert same_bytes(again.feature_model.tensors(), rehearsing[0].feature_model.tensors())
    assert again.reports == rehearsing[0].reports


def test_a_network_of_ones_own_and_the_backbones_output_rehearse_too(few_digits, config):
    torch.manual_seed(0)
    mine = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, 4), torch.nn.ReLU(), torch.nn.Flatten())
    own = replace(config, manifold=replace(config.manifold, space="backbone"))
    model = Homefold(own, backbone=mine, device="cpu").fit(few_digits, holdout="street")
    assert model.feature_model.manifold.feature_dim == model.net.backbone_dim != model.net.feature_dim
    report = model.reports["manifold"]
    # So little training brings nothing home, but what is measured lies in the wider space.
    assert 0.5 < report["rehearsed_cosine"] < 1
    assert 0.5 < report["rehearsed_home_cosine"] < 1
    probabilities = model.predict_proba(few_digits.only("street").subset(range(9)))
    assert probabilities.shape == (9, len(few_digits.class_names))
    assert probabilities.sum(axis=1) == pytest.approx(1)


def test_what_leaves_too_little_is_refused_before_training(few_digits, config):
    def fit(data):
        heard = Listening()
        try:
            Homefold(config, device="cpu", reporter=heard).fit(data)
        finally:
            assert heard.epochs == []

    with pytest.raises(ConfigError, match="needs two source domains or more: give a second one, or set rehearse to 0"):
        fit(few_digits.only("scan"))
    two = few_digits.only("scan", "photo")
    uneven = two.subset([i for i in range(len(two)) if two.domains[i] == 0 or two.labels[i] == 1])
    with pytest.raises(DataError, match="without scan the source domains of few digits have images of one class only"):
        fit(uneven)
