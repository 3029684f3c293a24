"""Images whose style the sources show keep the answer without projection; all others are projected as ever."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold import Homefold
from homefold.data.splits import selection_split
from homefold.errors import ConfigError, ModelFileError
from homefold.stages.familiar import Familiarity
from homefold.stages.task import ImageSet
from homefold.style import collect_styles

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["mean", "domains"])
def fitted(request, few_digits, quick_config) -> Homefold:
    config = replace(
        quick_config,
        features=replace(quick_config.features, epochs=3),
        style=replace(quick_config.style, blocks=("early",), manifold=request.param, weight=0.5),
        look=replace(quick_config.look, leave_familiar=True),
    )
    return Homefold(config, device="cpu").fit(few_digits.only("scan", "photo"))


@pytest.fixture(scope="module")
def images(few_digits) -> np.ndarray:
    return np.asarray(few_digits.images[::5])


def test_distances_are_those_to_the_nearest_domain_at_the_farthest_block():
    torch.manual_seed(0)
    means, deviations = torch.randn(3, 7), torch.rand(3, 7) + 0.1
    known = Familiarity(means, deviations, torch.tensor([4, 3]), torch.tensor(1.0))
    styles = torch.randn(5, 7)
    expected = []
    for style in styles.tolist():
        blocks = []
        for first, last in ((0, 4), (4, 7)):
            to_each = []
            for mean, deviation in zip(means.tolist(), deviations.tolist(), strict=True):
                squares = [((style[i] - mean[i]) / deviation[i]) ** 2 for i in range(first, last)]
                to_each.append((sum(squares) / len(squares)) ** 0.5)
            blocks.append(min(to_each))
        expected.append(max(blocks))
    torch.testing.assert_close(known.distances(styles), torch.tensor(expected))


@pytest.mark.slow
def test_three_quarters_of_held_out_source_images_are_familiar(fitted, few_digits):
    source = few_digits.only("scan", "photo")
    _, held_out = selection_split(source, fitted.config.features.held_out, fitted.config.seed)
    left = ~fitted.predict(source).projected[held_out]
    assert np.ceil(0.75 * (len(held_out) - 1)) <= left.sum() <= np.ceil(0.75 * len(held_out))


def test_the_styles_seen_in_one_pass_are_those_that_were_collected(fitted, images):
    trained = fitted.trained
    rows = trained.watcher.of(ImageSet(images))[0]
    collected = torch.cat(collect_styles(fitted.net, images, fitted.device, trained.config.style.blocks), dim=1)
    torch.testing.assert_close(rows[:, -collected.shape[1] :], collected)
    assert torch.equal(rows[:, : -collected.shape[1]], torch.from_numpy(fitted.features(images)))


def test_familiar_images_keep_the_plain_answer_and_others_get_the_projected_one(fitted, images):
    found = fitted.predict(images)
    plain = fitted.predict(images, projected=False)
    always = fitted.predict(images, look=replace(fitted.trained.config.look, leave_familiar=False))
    left = ~found.projected
    assert 0 < left.sum() < len(images)
    np.testing.assert_array_equal(found.probabilities[left], plain.probabilities[left])
    np.testing.assert_array_equal(found.probabilities[~left], always.probabilities[~left])
    np.testing.assert_array_equal(found.unprojected, plain.indices)
    assert np.isfinite(found.off_manifold).all()


@pytest.mark.slow
def test_an_answer_depends_on_its_image_alone(fitted, images):
    together = fitted.predict(images)
    alone = [fitted.predict(images[i : i + 1]) for i in range(len(images))]
    np.testing.assert_array_equal(together.probabilities, np.concatenate([one.probabilities for one in alone]))
    np.testing.assert_array_equal(together.projected, np.concatenate([one.projected for one in alone]))
    np.testing.assert_array_equal(together.off_manifold, np.concatenate([one.off_manifold for one in alone]))


def test_a_saved_model_answers_alike(fitted, images, tmp_path):
    fitted.save(tmp_path / "model")
    again = Homefold.load(tmp_path / "model", device="cpu").predict(images)
    np.testing.assert_array_equal(again.probabilities, fitted.predict(images).probabilities)
    (tmp_path / "model" / "familiar.safetensors").unlink()
    with pytest.raises(ModelFileError, match="familiar"):
        Homefold.load(tmp_path / "model", device="cpu")


def test_views_are_those_of_both_kinds_of_answer(fitted, images):
    look = replace(fitted.trained.config.look, views=3)
    found, plain = fitted.predict(images, look=look), fitted.predict(images, look=look, projected=False)
    left = ~found.projected
    np.testing.assert_array_equal(left, ~fitted.predict(images).projected)
    np.testing.assert_array_equal(found.probabilities[left], plain.probabilities[left])


def test_a_model_that_does_not_know_what_is_familiar_says_so(few_digits, quick_config, images):
    model = Homefold(replace(quick_config, features=replace(quick_config.features, epochs=1)), device="cpu")
    model.fit(few_digits.only("scan", "photo"))
    with pytest.raises(ConfigError, match="does not know which images are familiar"):
        model.predict(images, look=replace(model.config.look, leave_familiar=True))


@pytest.mark.parametrize("damage", ["missing", "shape", "nan"])
def test_damaged_tensors_are_refused(damage):
    tensors = {
        "means": torch.zeros(2, 3),
        "deviations": torch.ones(2, 3),
        "sizes": torch.tensor([3]),
        "threshold": torch.tensor(1.0),
    }
    if damage == "missing":
        del tensors["threshold"]
    elif damage == "shape":
        tensors["sizes"] = torch.tensor([2])
    else:
        tensors["means"][0, 0] = torch.nan
    with pytest.raises(ModelFileError, match="the familiar styles"):
        Familiarity.from_tensors(tensors)
