"""`explain`: both answers for one image, and the source images it lies among."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from homefold import Homefold, ManifoldProjector
from homefold.errors import DataError
from homefold.runtime.json_lines import json_line
from homefold.style import collect_styles

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def unseen(few_digits) -> np.ndarray:
    return np.asarray(few_digits.only("street").images)


def test_both_answers_are_those_of_predict_to_the_bit(fitted, unseen):
    found = fitted.explain(unseen[:1])
    for answer, expected in (
        (found.used, fitted.predict(unseen[:1])[0]),
        (found.without_projection, fitted.predict(unseen[:1], projected=False)[0]),
    ):
        assert answer.probabilities == expected.probabilities
    assert found.off_manifold == fitted.predict(unseen[:1])[0].off_manifold
    assert found.projection_was_used
    assert found.familiar is None
    assert found.style is None


def test_an_image_that_was_trained_on_is_its_own_nearest(fitted, few_digits):
    source = few_digits.without("street")
    row = int(fitted.sources.rows[7])
    found = fitted.explain(source.images[row : row + 1])
    first = found.nearest_before[0]
    assert (first.row, first.domain) == (row, source.domain_names[source.domains[row]])
    assert first.label == source.class_names[source.labels[row]]
    assert first.cosine == pytest.approx(1, abs=1e-6)
    assert first.path == ""
    assert len(found.nearest_before) == len(found.nearest_after) == 5


def test_with_the_source_images_all_of_them_are_compared_and_shown(fitted, few_digits):
    paths = tuple(f"photos/{i}.png" for i in range(len(few_digits)))
    whole = replace(few_digits, paths=paths)
    source = whole.without("street")
    row = int(fitted.sources.held_rows[0])
    found = fitted.explain(source.images[row : row + 1], data=whole, count=2)
    assert found.known == len(source)
    assert found.nearest_before[0].path == source.paths[row]
    np.testing.assert_array_equal(found.pictures_before[0], source.images[row])
    sources = fitted.source_images(whole)
    again = fitted.explain(source.images[row : row + 1], data=sources, count=2)
    assert again.as_dict() == found.as_dict()


def test_it_is_text_json_and_a_picture(fitted, unseen, few_digits, tmp_path):
    found = fitted.explain(unseen[:1])
    assert found.used.label in str(found)
    assert "with projection" in str(found)
    assert "nearest after" in str(found)
    assert '"nearest_before"' in json_line(found.as_dict())
    for name, each in (("rows", found), ("pixels", fitted.explain(unseen[:1], data=few_digits))):
        each.save_png(tmp_path / f"{name}.png")
        picture = Image.open(tmp_path / f"{name}.png")
        assert picture.width > 800
        assert each.png() == (tmp_path / f"{name}.png").read_bytes()
        assert len(np.unique(np.asarray(picture.convert("L")))) > 20
    assert Image.open(io.BytesIO(found.png())).format == "PNG"


@pytest.fixture(scope="module")
def styled(few_digits, quick_config) -> Homefold:
    """A model of scan and photo that moves styles, but those of familiar images."""
    config = replace(quick_config, look=replace(quick_config.look, leave_familiar=True))
    config = replace(config, style=replace(config.style, blocks=("early",), manifold="domains"))
    config = replace(config, features=replace(config.features, epochs=2))
    return Homefold(config, device="cpu").fit(few_digits.only("scan", "photo"))


def test_a_familiar_image_says_that_it_was_left_as_it_is(styled, few_digits):
    source = few_digits.only("scan", "photo")
    projected = styled.predict(source).projected
    rows = [int(np.flatnonzero(projected)[0]), int(np.flatnonzero(~projected)[0])]
    found = [styled.explain(source.images[row : row + 1]) for row in rows]
    assert [each.familiar for each in found] == [False, True]
    for each in found:
        assert each.with_projection.projected
        expected = each.with_projection if each.projection_was_used else each.without_projection
        assert each.used.probabilities == expected.probabilities
    assert ["% of the way towards scan" in str(each) for each in found] == [True, False]
    assert styled.sources.held_styles.shape == (len(styled.sources.held_rows), 2)


def test_a_style_is_moved_towards_every_source_so_far_away_as_it_is(styled, few_digits, unseen):
    net, blocks = styled.trained.encoder.net, styled.trained.style.config.blocks[:1]
    source = few_digits.only("scan", "photo")
    train = np.setdiff1d(np.arange(len(source)), styled.sources.held_rows)
    (own,) = collect_styles(net, unseen[:1], styled.device, blocks)
    move = styled.explain(unseen[:1]).style
    assert list(move.distances) == ["scan", "photo"]
    for domain, name in enumerate(source.domain_names):
        (styles,) = collect_styles(net, source.images, styled.device, blocks, train[source.domains[train] == domain])
        off = (own - styles.mean(dim=0)) / styles.std(dim=0).clamp_min(1e-3)
        assert move.distances[name] == pytest.approx(float(off.square().mean().sqrt()), rel=1e-3)
    assert move.as_dict()["weight"] == styled.config.style.weight
    unstyled = styled.explain(unseen[:1], look=replace(styled.config.look, styles=False))
    assert unstyled.style is None


def test_a_model_without_a_record_says_so(fitted, unseen, tmp_path):
    fitted.save(tmp_path / "model")
    model = Homefold.load(tmp_path / "model", device="cpu")
    model._sources = None
    found = model.explain(unseen[:1])
    assert (found.known, found.nearest_before) == (0, ())
    assert "keeps nothing of its sources" in str(found)
    assert found.png()


def test_what_is_not_one_image_or_not_the_sources_is_refused(fitted, unseen, few_digits):
    with pytest.raises(DataError, match="takes one image"):
        fitted.explain(unseen[:2])
    with pytest.raises(DataError, match="none of the domains"):
        fitted.explain(unseen[:1], data=few_digits.only("street"))
    with pytest.raises(DataError, match="must be a DomainDataset"):
        fitted.explain(unseen[:1], data=unseen)


def test_the_old_explain_of_a_projector_warns_and_answers_as_predictions():
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    x = random.normal(size=(2, 8))[y] + 0.2 * random.normal(size=(80, 8))
    model = ManifoldProjector(latent_dim=2, manifold_epochs=20, device="cpu").fit(x, y)
    with pytest.warns(DeprecationWarning, match="called predictions now"):
        old = model.explain(x, projected=False)
    np.testing.assert_array_equal(old.probabilities, model.predictions(x, projected=False).probabilities)
    np.testing.assert_array_equal(model.predict(x, projected=False), model.classes_[old.indices])
    np.testing.assert_array_equal(model.predict(x), model.classes_[model.predictions(x).indices])
