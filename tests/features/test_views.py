"""Several views of one image: which they are, and that projecting their mean is projecting them jointly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from homefold import Homefold, preset_config
from homefold.config import LookConfig, SearchConfig
from homefold.config.views import WHOLE, View, fixed_views
from homefold.data.random_texture import NUMBERS, filter_repeatedly, random_filters
from homefold.errors import ConfigError
from homefold.evaluation.artifacts import artifact_path
from homefold.evaluation.bench import run_bench
from homefold.evaluation.options import BenchOptions
from homefold.features import extract_features
from homefold.features.extraction import extract_views
from homefold.features.views import apply_view, mean_of_views
from homefold.projection import project
from homefold.report.artifacts import read_artifact_file
from homefold.runtime.seeding import generator
from homefold.stages.feature_model import to_sphere

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def street(few_digits):
    return few_digits.only("street")


def test_the_image_its_mirror_image_then_crops_with_theirs():
    assert fixed_views(1, mirror=True) == WHOLE == (View("whole", False),)
    assert fixed_views(5, mirror=True) == (
        View("whole"), View("whole", True), View("centre"), View("centre", True), View("top left"),
    )  # fmt: skip
    assert len(set(fixed_views(12, mirror=True))) == 12
    six = fixed_views(6, mirror=False)
    assert [view.part for view in six] == ["whole", "centre", "top left", "top right", "bottom left", "bottom right"]
    assert not any(view.mirrored for view in six)


@pytest.mark.parametrize(
    ("part", "top", "left"),
    [("centre", 1, 1), ("top left", 0, 0), ("top right", 0, 2), ("bottom left", 2, 0), ("bottom right", 2, 2)],
)
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_crop_is_seven_eighths_of_a_side_stretched_to_the_whole(part, top, left, mirrored):
    images = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    expected = F.interpolate(images[:, :, top : top + 14, left : left + 14], (16, 16), mode="bilinear")
    found = apply_view(images, View(part, mirrored))
    torch.testing.assert_close(found, expected.flip(3) if mirrored else expected)


def test_a_mirror_image_by_hand():
    image = torch.arange(6.0).view(1, 1, 2, 3).expand(1, 3, 2, 3)
    assert apply_view(image, View("whole", True))[0, 0].tolist() == [[2, 1, 0], [5, 4, 3]]
    assert torch.equal(apply_view(image, View()), image)


def test_textures_follow_the_other_views_and_are_always_the_same():
    views = fixed_views(2, mirror=False, textures=3)
    assert views == (View(), View("centre"), View(texture=1), View(texture=2), View(texture=3))
    images = torch.rand(2, 3, 9, 11, generator=torch.Generator().manual_seed(0))
    for number, times in ((1, 1), (2, 2), (3, 1)):
        filters = random_filters(torch.rand((NUMBERS, 1), generator=generator(0, "texture view", number)))
        passes = torch.tensor([times, times])
        expected = filter_repeatedly(images, filters.expand(2, -1, -1), passes, times)
        assert torch.equal(apply_view(images, View(texture=number)), expected)


def test_a_texture_is_that_of_the_mirrored_crop():
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    crop = apply_view(images, View("centre", True))
    assert torch.equal(apply_view(images, View("centre", True, 1)), apply_view(crop, View(texture=1)))


def test_the_mean_is_of_directions_at_the_mean_length():
    first, second = torch.tensor([[10.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    half = 0.5**0.5
    assert mean_of_views([first, second]).tolist() == [pytest.approx([6 * half, 6 * half])]


@settings(deadline=None, max_examples=50)
@given(views=st.integers(2, 12), dim=st.integers(2, 9), seed=st.integers(0, 10**6))
def test_the_joint_loss_is_that_of_the_mean_scaled_and_shifted(views, dim, seed):
    random = torch.Generator().manual_seed(seed)
    z = torch.randn(views, 1, dim, generator=random, dtype=torch.float64) * 5
    g = torch.randn(1, dim, generator=random, dtype=torch.float64)
    joint = sum(1 - F.cosine_similarity(z[v], g) for v in range(views)) / views
    mean = sum(z[v] / z[v].norm() for v in range(views)) / views
    assert float(joint) == pytest.approx(float(1 - mean.norm() * F.cosine_similarity(mean, g)), abs=1e-9)
    found = mean_of_views(list(z))
    assert float(F.cosine_similarity(found, mean)) == pytest.approx(1, abs=1e-9)


def test_projecting_the_mean_ends_where_the_joint_search_over_all_views_ends(fitted, street):
    model, views = fitted.feature_model, fixed_views(4, mirror=False)
    raw = [extract_features(fitted.net, street.images[:5], CPU, view=view) for view in views]
    mean = mean_of_views(raw)
    found = project(model.manifold, to_sphere(mean), SearchConfig(steps=300, rate=0.02), seed=0)
    u = model.manifold.encode(to_sphere(mean)).clone().requires_grad_(True)
    optimizer = torch.optim.Adam([u], lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        g = model.manifold.decode(u)
        loss = torch.stack([1 - F.cosine_similarity(z, g) for z in raw]).mean(dim=0)
        loss.sum().backward()
        optimizer.step()
    joint = model.manifold.decode(u.detach())
    assert F.cosine_similarity(joint, found.features).min() > 0.9999
    at_mean = torch.stack([1 - F.cosine_similarity(z, found.features) for z in raw]).mean(dim=0)
    assert (at_mean - loss.detach()).abs().max() < 1e-4


def test_predictions_are_of_the_mean_over_the_views_with_and_without_projection(fitted, street):
    images, several = street.images[:6], replace(fitted.config.look, views=4)
    raw = [extract_features(fitted.net, images, CPU, view=view) for view in fixed_views(4, mirror=False)]
    expected = mean_of_views(raw)
    assert fitted.searched_features(images, look=several) == pytest.approx(expected.numpy(), abs=1e-6)
    for projected in (True, False):
        found = fitted.predict(images, projected=projected, look=several).probabilities
        by_hand = fitted.feature_model.predict(expected, projected=projected).probabilities
        assert np.array_equal(found, by_hand)
        assert not np.array_equal(found, fitted.predict(images, projected=projected).probabilities)


def test_one_view_is_the_image_as_it_is(fitted, street):
    images = street.images[:6]
    assert np.array_equal(fitted.searched_features(images), fitted.features(images))
    one = extract_views(fitted.net, images, CPU, WHOLE)
    assert torch.equal(one, extract_features(fitted.net, images, CPU))


def test_an_answer_depends_on_no_other_image(fitted, street):
    images, several = street.images[:21], replace(fitted.config.look, views=3)
    together = fitted.predict(images, look=several).probabilities
    backwards = fitted.predict(images[::-1], look=several).probabilities
    assert np.array_equal(backwards[::-1], together)
    assert np.array_equal(fitted.predict(images[4:5], look=several).probabilities[0], together[4])


def test_textures_are_averaged_with_the_views_whatever_comes_with_an_image(fitted, street):
    images, several = street.images[:13], replace(fitted.config.look, views=2, textures=2)
    z = torch.from_numpy(fitted.searched_features(images, look=several))
    views = fitted.config.views(several)
    assert len(views) == 4
    expected = mean_of_views([extract_features(fitted.net, images, CPU, view=view) for view in views])
    assert torch.equal(z, expected)
    together = fitted.predict(images, look=several).probabilities
    assert np.array_equal(fitted.predict(images[4:5], look=several).probabilities[0], together[4])
    assert not np.array_equal(fitted.predict(images, look=replace(several, textures=0)).probabilities, together)


def test_what_training_did_not_mirror_is_not_mirrored():
    digits = preset_config("small", {"look.views": 2})
    assert [view.part for view in digits.views()] == ["whole", "centre"]
    photos = preset_config("default", {"look.views": 2})
    assert photos.views() == (View(), View(mirrored=True))
    assert [view.mirrored for view in photos.views(LookConfig(views=3, mirror=False))] == [False] * 3


def test_too_many_views_get_a_sentence(few_digits, quick_config):
    with pytest.raises(ConfigError, match=r"look\.views must be 1 to 12; got 13"):
        LookConfig(views=13)
    with pytest.raises(ConfigError, match="got 0"):
        LookConfig(views=0)
    with pytest.raises(ConfigError, match=r"look\.textures must be 0 to 16; got 17"):
        LookConfig(textures=17)
    digits = replace(quick_config, look=LookConfig(views=7))
    with pytest.raises(ConfigError, match=r"views must be 1 to 6 where nothing is mirrored .* got 7"):
        Homefold(digits, device="cpu").fit(few_digits)


def test_the_scale_under_other_settings_is_of_rows_of_every_kind(fitted):
    own = fitted.feature_model
    kinds = own.calibration[:1].repeat(200, 1)
    # Of four kinds that take turns, one is far from the manifold.
    kinds[1::4] = torch.randn(50, kinds.shape[1], generator=torch.Generator().manual_seed(0))
    model = replace(own, calibration=kinds)
    near = replace(own, calibration=kinds[::4].contiguous()).off_manifold_scale(own.search)
    whole = model.off_manifold_scale(own.search)
    assert whole > 3 * near
    assert model.off_manifold_scale(replace(own.search, steps=own.search.steps + 1)) > whole / 2


def test_a_loaded_model_sees_the_same_views(few_digits, quick_config, street, tmp_path):
    config = replace(
        quick_config,
        features=replace(quick_config.features, epochs=2, head="linear"),
        look=replace(quick_config.look, views=3),
    )
    model = Homefold(config, device="cpu").fit(few_digits, holdout="street")
    model.save(tmp_path / "model")
    loaded = Homefold.load(tmp_path / "model", device="cpu")
    expected = model.predict_proba(street.images[:7])
    assert loaded.predict_proba(street.images[:7]).tobytes() == expected.tobytes()
    one = model.predict(street.images[:7], look=replace(config.look, views=1)).probabilities
    assert not np.array_equal(one, expected)


def test_the_benchmark_has_views_and_their_control(few_digits, tmp_path):
    methods = ("without-projection", "without-projection:look.views=3", "nearest:look.views=3")
    options = BenchOptions(
        "digits-mini", tmp_path, preset="quick", seeds=1, targets=("street",), device="cpu", methods=methods,
        settings=(
            "preprocessing.image_size=16", "features.epochs=2", "features.batch_size=32", "features.feature_dim=16",
            "classifier.epochs=3",
        ),
        images_per_class=20,
    )  # fmt: skip
    plain, control, nearest = run_bench(options, dataset=few_digits)
    assert [record.error for record in (plain, control, nearest)] == [""] * 3
    assert nearest.facts["accuracy_before_projection"] == control.accuracy
    assert plain.facts["stages"] == control.facts["stages"]
    assert control.config["look"]["views"] == 3
    kept = [read_artifact_file(artifact_path(tmp_path, record.run)) for record in (plain, control)]
    one, three = (artifact["probabilities"] for artifact in kept)
    assert not np.array_equal(one, three)
