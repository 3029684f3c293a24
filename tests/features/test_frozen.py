"""What a frozen backbone makes of images: computed once, kept by content, and the same when read back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from homefold import Homefold, ManifoldProjector
from homefold.config import HomefoldConfig, replace_settings
from homefold.data.cache.directory import cache_directory
from homefold.features import frozen
from homefold.features.backbones import build_backbone
from homefold.features.extraction import extract_features
from homefold.features.frozen import FeatureCache, backbone_features, frozen_key, head_features
from homefold.features.network import FeatureNet
from homefold.runtime.progress import SilentReporter

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOMEFOLD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def net() -> FeatureNet:
    torch.manual_seed(0)
    return FeatureNet(build_backbone("digits-bn"), (16, 16), head="mlp", feature_dim=8, normalisation="half").eval()


@pytest.fixture
def images(few_digits) -> np.ndarray:
    return few_digits.images[:40]


@pytest.fixture
def passes(monkeypatch) -> list[int]:
    """How many images pass the backbone, call by call."""
    seen: list[int] = []

    def counted(net, images, device, *, pooled):
        seen.append(len(images))
        return extract_features(net, images, device, pooled=pooled)

    monkeypatch.setattr(frozen, "extract_features", counted)
    return seen


def files() -> list[str]:
    return sorted(path.name for path in cache_directory().rglob("*.safetensors"))


def test_a_second_look_reads_the_same_bytes_without_a_pass(net, images, passes):
    first = backbone_features(net, images, CPU)
    second = backbone_features(net, images, CPU)
    assert passes == [40]
    assert torch.equal(first, second)
    with torch.no_grad():
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
        torch.testing.assert_close(first, net.pooled(pixels), rtol=1e-4, atol=1e-5)


def test_only_images_that_were_never_seen_pass_in_whatever_order_they_come(net, images, passes):
    expected = backbone_features(net, images, CPU)
    order = np.random.default_rng(0).permutation(40)
    fewer = backbone_features(net, images[order[:10]], CPU)
    brighter = np.concatenate([255 - images[5:8], images[order]])
    mixed = backbone_features(net, brighter, CPU)
    assert passes == [40, 3]
    assert torch.equal(fewer, expected[order[:10]])
    assert torch.equal(mixed[3:], expected[order])
    assert torch.equal(mixed[:3], extract_features(net, brighter[:3], CPU, pooled=True))


def test_other_weights_or_statistics_are_another_network(net, images):
    keys = {frozen_key(net, CPU)}
    net.backbone.state_dict()["0.weight"].add_(1e-3)
    keys.add(frozen_key(net, CPU))
    net.mean.add_(0.1)
    keys.add(frozen_key(net, CPU))
    keys.add(frozen_key(net, torch.device("cuda")))
    assert len(keys) == 4
    with torch.no_grad():
        net.head[0].weight.add_(1.0)
    assert frozen_key(net, CPU) in keys, "the head is trained, and is no part of it"


class OwnBackbone(nn.Module):
    """A network of the user's own, whose code may change while its weights stay."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3))


def test_of_a_network_of_the_users_own_nothing_is_kept(images, passes):
    net = FeatureNet(OwnBackbone(), (16, 16), head="linear", feature_dim=4)
    for _ in range(2):
        backbone_features(net, images, CPU)
    assert passes == [40, 40]
    assert not files()


@pytest.mark.parametrize("damage", [b"", b"nothing like it", None])
def test_a_damaged_file_is_made_again(net, images, passes, damage):
    expected = backbone_features(net, images, CPU)
    (path,) = cache_directory().rglob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-7] if damage is None else damage)
    assert torch.equal(backbone_features(net, images, CPU), expected)
    assert torch.equal(backbone_features(net, images, CPU), expected)
    assert passes == [40, 40]


def test_features_of_another_size_or_kind_are_not_taken(net, images, passes):
    expected = backbone_features(net, images, CPU)
    (path,) = cache_directory().rglob("*.safetensors")
    names = [bytes([row]) * 16 for row in range(3)]
    FeatureCache(path.parent.name).write(names, torch.zeros(3, 5, dtype=torch.float64))
    assert torch.equal(backbone_features(net, images, CPU), expected)
    assert passes == [40]
    assert files() == [path.name]


class Listener(SilentReporter):
    def __init__(self):
        self.messages = []

    def message(self, text):
        self.messages.append(text)


def test_a_cache_that_cannot_be_written_is_told_once(net, images, monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    monkeypatch.setattr(frozen, "_SEEN_AT_ONCE", 16)
    listener = Listener()
    features = backbone_features(net, images, CPU, listener)
    assert features.shape == (40, net.backbone_dim)
    assert len(listener.messages) == 1
    assert "features are not kept" in listener.messages[0]


def test_the_head_on_kept_features_is_the_whole_network(net, images):
    whole = extract_features(net, images, CPU)
    assert torch.equal(head_features(net, backbone_features(net, images, CPU), (16, 16)), whole)


@pytest.fixture(scope="module")
def foundation(quick_config) -> HomefoldConfig:
    return replace_settings(quick_config, {"features.freeze": "backbone", "features.epochs": 8})


@pytest.mark.slow
def test_a_second_fit_passes_no_image_and_ends_with_the_same_model(foundation, few_digits, passes):
    first = Homefold(foundation, device="cpu").fit(few_digits, holdout="street")
    sources = few_digits.without("street")
    assert passes == [len(sources)]
    second = Homefold(foundation, device="cpu").fit(few_digits, holdout="street")
    assert passes == [len(sources)]
    street = few_digits.only("street")
    assert np.array_equal(first.predict(street).probabilities, second.predict(street).probabilities)
    other = replace_settings(foundation, {"features.feature_dim": 16})
    Homefold(other, device="cpu").fit(few_digits, holdout="print")
    assert len(passes) == 2
    assert passes[1] == len(street), "of other sources only the domain that is new passes"


@pytest.mark.slow
def test_a_projector_of_the_same_features_gives_the_same_answers(foundation, few_digits):
    model = Homefold(foundation, device="cpu").fit(few_digits, holdout="street")
    sources, street = few_digits.without("street"), few_digits.only("street")
    projector = ManifoldProjector(
        latent_dim=foundation.manifold.latent_dim,
        manifold_epochs=foundation.manifold.epochs,
        held_out=foundation.features.held_out,
        device="cpu",
    )
    projector.fit(model.features(sources), sources.labels, sources.domains)
    expected, found = model.predict(street), projector.explain(model.features(street))
    assert np.array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-5)
    np.testing.assert_allclose(found.off_manifold, expected.off_manifold, rtol=1e-3)
