"""manifold.space=backbone: what f's head is given is projected, goes through the head, and is classified."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from homefold import Homefold, preset_config
from homefold.classifier import ClassifierConfig, build_classifier, fit_classifier
from homefold.config import HomefoldConfig
from homefold.errors import ConfigError
from homefold.feature_model import FeatureModel, fit_feature_model, reconstructor, to_sphere, with_lengths_of
from homefold.features import extract_features
from homefold.manifold import ManifoldConfig, fit_manifold
from homefold.projection import ProjectionConfig


@pytest.fixture(scope="module")
def street(few_digits):
    return few_digits.only("street")


@pytest.fixture(scope="module")
def config(quick_config) -> HomefoldConfig:
    manifold = replace(quick_config.manifold, space="backbone")
    return replace(quick_config, features=replace(quick_config.features, head="mlp"), manifold=manifold)


@pytest.fixture(scope="module")
def backbone(few_digits, config) -> Homefold:
    return Homefold(config, device="cpu").fit(few_digits, holdout="street")


def test_the_head_makes_z_of_the_pooled_features(backbone, street):
    images = street.images[:5]
    h = extract_features(backbone.net, images, torch.device("cpu"), space="backbone")
    assert h.shape == (5, backbone.net.backbone_dim)
    torch.testing.assert_close(backbone.net.head(h), extract_features(backbone.net, images, torch.device("cpu")))
    assert np.array_equal(backbone.searched_features(images), h.numpy())


def test_the_manifold_is_of_the_backbones_output_and_the_classifier_of_z(backbone):
    model = backbone.feature_model
    assert model.manifold.feature_dim == backbone.net.backbone_dim != backbone.net.feature_dim
    assert model.classifier.feature_dim == backbone.net.feature_dim


def test_it_answers_well_above_chance(sharp_digits, sharp_config):
    manifold = replace(sharp_config.manifold, space="backbone")
    config = replace(sharp_config, features=replace(sharp_config.features, head="mlp"), manifold=manifold)
    model = Homefold(config, device="cpu").fit(sharp_digits, holdout="street")
    assert model.score(sharp_digits.only("street")) > 0.6


def test_without_projection_the_space_makes_no_difference(few_digits, config, backbone, street):
    other = replace(config, manifold=replace(config.manifold, space="feature"))
    feature = Homefold(other, device="cpu").fit(few_digits, holdout="street")
    expected = feature.predict(street, projected=False).probabilities
    assert backbone.predict(street, projected=False).probabilities == pytest.approx(expected, abs=1e-5)
    assert np.abs(backbone.predict(street).probabilities - expected).max() > 1e-3


def test_an_answer_is_the_classifiers_of_the_projected_direction_at_the_images_own_length(backbone, street):
    model, images = backbone.feature_model, street.images[:6]
    h = extract_features(backbone.net, images, torch.device("cpu"), space="backbone")
    found = backbone.project(images)
    decoded = model.manifold.decode(found.latents)
    with torch.no_grad():
        back = torch.stack([h[i].norm() * decoded[i] / decoded[i].norm() for i in range(6)])
        z = backbone.net.head(back)
        unit = torch.stack([row / row.norm() * z.shape[1] ** 0.5 for row in z])
        expected = torch.softmax(model.classifier(unit), dim=1)
    torch.testing.assert_close(found.features, back, atol=1e-5, rtol=1e-4)
    answers = backbone.predict(images)
    assert answers.probabilities == pytest.approx(expected.numpy(), abs=1e-5)
    cosine = F.cosine_similarity(h, decoded, dim=1)
    assert answers.similarity_after == pytest.approx(cosine.numpy(), abs=1e-5)


def test_the_score_is_calibrated_in_the_manifolds_space(few_digits, backbone):
    assert backbone.feature_model.calibration.shape[1] == backbone.net.backbone_dim
    usual = backbone.predict(few_digits.only("scan")).off_manifold
    assert (usual > 1).mean() < 0.25
    noise = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
    assert np.median(backbone.predict(noise).off_manifold) > np.median(usual)


def test_an_answer_depends_on_no_other_image(backbone, street):
    images = street.images[:21]
    together = backbone.predict_proba(images)
    assert np.array_equal(backbone.predict_proba(images[::-1])[::-1], together)
    assert np.array_equal(backbone.predict_proba(images[4:5])[0], together[4])


def test_a_loaded_model_gives_the_same_bytes(backbone, street, tmp_path):
    backbone.save(tmp_path / "model")
    loaded = Homefold.load(tmp_path / "model", device="cpu")
    assert loaded.predict_proba(street.images[:9]).tobytes() == backbone.predict_proba(street.images[:9]).tobytes()
    assert loaded.predict(street.images[:9]).off_manifold.tobytes() == (
        backbone.predict(street.images[:9]).off_manifold.tobytes()
    )


def test_the_nearest_pooled_feature_by_hand():
    head = nn.Linear(2, 2)
    head.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]]), "bias": torch.tensor([1.0, 0.0])})
    bank = torch.tensor([[3.0, 4.0], [4.0, 3.0], [-1.0, 0.0], [0.0, -1.0]])
    config = ManifoldConfig(kind="nearest", space="backbone")
    manifold = fit_manifold(config, to_sphere(bank), to_sphere(bank), seed=0)
    classifier = build_classifier(ClassifierConfig(), 2, 2)
    classifier.load_state_dict({"layers.0.weight": torch.eye(2), "layers.0.bias": torch.zeros(2)})
    model = FeatureModel(manifold, classifier, ProjectionConfig(), True, ("a", "b"), 0, to_sphere(bank), head.eval())
    h = torch.tensor([[0.6, 9.98]])  # nearest to (3, 4) / 5, and about 10 long
    length = float(h.norm())
    found = model.project(h)
    assert found.features.tolist() == [pytest.approx([0.6 * length, 0.8 * length], rel=1e-5)]
    z = np.array([0.6 * length + 1, 2 * 0.8 * length])
    logits = z / np.hypot(*z) * 2**0.5
    expected = np.exp(logits) / np.exp(logits).sum()
    assert model.predict(h).probabilities[0] == pytest.approx(expected, rel=1e-5)
    plain = np.array([1.6, 2 * 9.98])
    logits = plain / np.hypot(*plain) * 2**0.5
    expected = np.exp(logits) / np.exp(logits).sum()
    assert model.predict(h, projected=False).probabilities[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("normalise", [True, False])
def test_the_classifier_can_train_on_reconstructions_that_went_through_the_head(backbone, few_digits, normalise):
    net, manifold = backbone.net, backbone.feature_model.manifold
    h = extract_features(net, few_digits.only("scan").images, torch.device("cpu"), space="backbone")
    rebuilt = reconstructor(manifold, ProjectionConfig(), 0, head=net.head, normalise=normalise)(h)
    if normalise:
        decoded = manifold.decode(manifold.encode(to_sphere(h)))
        expected = to_sphere(net.head(with_lengths_of(decoded, h)))
    else:
        expected = net.head(manifold.decode(manifold.encode(h)))
    torch.testing.assert_close(rebuilt, expected)


def test_what_is_reconstructed_from_stands_for_the_features(backbone):
    generator = torch.Generator().manual_seed(0)
    z, y = torch.randn(40, 4, generator=generator), torch.arange(40) % 2
    pooled = torch.cat([z, torch.ones(40, 1)], dim=1)
    both = ClassifierConfig(train_on="both", epochs=2)

    def fit(reconstruct, given):
        return fit_classifier(
            both, z, y, z, y, num_classes=2, reconstruct=reconstruct, reconstruct_from=given, seed=0
        ).state_dict()

    expected, found = fit(lambda rows: 2 * rows, None), fit(lambda rows: 2 * rows[:, :4], pooled)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_whole_model_trains_on_both(few_digits, config):
    classifier = replace(config.classifier, train_on="both")
    model = Homefold(replace(config, classifier=classifier), device="cpu").fit(few_digits, holdout="street")
    assert model.score(few_digits.only("scan")) > 0.5


def test_without_a_head_there_is_no_second_space(few_digits):
    config = preset_config("small", features__head="none", features__feature_dim=0, manifold__space="backbone")
    with pytest.raises(ConfigError, match=r"features.head=none has no head: .* set manifold.space=feature"):
        Homefold(config, device="cpu").fit(few_digits)


def test_features_without_a_network_have_one_space():
    z, y = torch.randn(20, 4), torch.arange(20) % 2
    with pytest.raises(ConfigError, match="features without a network; set space to feature"):
        fit_feature_model(
            z, y, z, y,
            class_names=("a", "b"), manifold_config=ManifoldConfig(space="backbone"),
            classifier_config=ClassifierConfig(), projection=ProjectionConfig(), normalise=True, seed=0,
            device=torch.device("cpu"),
        )  # fmt: skip


def test_another_space_is_refused():
    with pytest.raises(ConfigError, match="space must be one of feature, backbone; got 'pixels'"):
        ManifoldConfig(space="pixels")
