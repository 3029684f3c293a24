"""`check`: what is told of images that nobody labelled."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from homefold import Homefold
from homefold.errors import DataError
from homefold.report.check_page import check_page
from homefold.runtime.json_lines import json_line
from homefold.stages.accuracy_estimate import tempered
from homefold.stages.check_words import facts_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def knowing(few_digits, quick_config) -> Homefold:
    """A model that knows the styles of its sources, and never saw `street`."""
    config = replace(quick_config, look=replace(quick_config.look, leave_familiar=True))
    config = replace(config, style=replace(config.style, blocks=("early",)))
    return Homefold(config, device="cpu").fit(few_digits, holdout="street")


@pytest.fixture(scope="module")
def unseen(knowing, few_digits):
    """What is found of `street`."""
    return knowing.check(few_digits.only("street"), sources=few_digits)


def test_the_estimate_is_near_the_truth_and_made_from_the_answers(knowing, unseen, few_digits):
    street = few_digits.only("street")
    answers = knowing.predict(street)
    np.testing.assert_array_equal(unseen.predictions.probabilities, answers.probabilities)
    sure = tempered(answers.probabilities, max(1.0, unseen.accuracy.temperature)).max(axis=1)
    assert unseen.accuracy.estimates["confidence"] == pytest.approx(sure.mean())
    assert unseen.accuracy.held_out_accuracy == knowing.reports["held_out"]["with_projection"]
    assert unseen.accuracy.low <= unseen.accuracy.estimate <= unseen.accuracy.high
    plain = knowing.predict(street, projected=False)
    assert unseen.agreement == (plain.labels == answers.labels).mean()


def test_distances_stand_beside_those_of_each_source(knowing, unseen):
    assert set(unseen.off_manifold) == set(unseen.style) == {"", "scan", "photo", "print"}
    np.testing.assert_array_equal(unseen.off_manifold[""], unseen.predictions.off_manifold)
    held = np.concatenate([unseen.style[name] for name in knowing.source_domains])
    assert np.median(unseen.style[""]) > np.median(held)
    assert sum(unseen.nearest_source.values()) == pytest.approx(1)
    assert unseen.nearest_by == "style"


def test_source_images_are_nearest_to_their_own_domain_and_another_is_told_apart(knowing, unseen, few_digits):
    found = knowing.check(few_digits.only("scan"))
    assert max(found.nearest_source, key=found.nearest_source.get) == "scan"
    assert found.accuracy.estimate > 0.7
    assert unseen.two_sample is None or unseen.two_sample.p_value < 0.2


def test_the_most_unusual_are_told_with_their_pixels(unseen, few_digits):
    scores = unseen.predictions.off_manifold
    assert len(unseen.unusual) == 12
    for each in unseen.unusual:
        assert each.off_manifold == pytest.approx(scores[each.image])
        np.testing.assert_array_equal(each.pixels, few_digits.only("street").images[each.image])
        assert each.how_far.startswith(f"off-manifold {each.off_manifold:.2f}")


def test_copies_of_training_images_are_found_where_these_are_given(knowing, unseen, few_digits):
    street, scan = np.asarray(few_digits.only("street").images), np.asarray(few_digits.only("scan").images)
    found = knowing.check(np.concatenate([street[:30], scan[4:6]]), sources=few_digits)
    exact = [(each.image, each.source.domain, each.source.row) for each in found.duplicates if each.exact]
    assert exact == [(30, "scan", 4), (31, "scan", 5)]
    assert not any(each.exact for each in unseen.duplicates)
    assert facts_of(found)["Copies of training images"] == str(len(found.duplicates))
    assert facts_of(unseen)["Copies of training images"] == str(len(unseen.duplicates) or "none found")
    without = knowing.check(street[:30])
    assert "Copies of training images" not in facts_of(without)
    assert without.duplicates is None
    assert any("Copies of training images" in sentence for sentence in without.unknown)


def test_expected_classes_add_up_and_stand_beside_the_sources(unseen):
    assert sum(share.expected for share in unseen.classes.values()) == pytest.approx(1)
    assert sum(share.predicted for share in unseen.classes.values()) == pytest.approx(1)
    assert sum(share.sources for share in unseen.classes.values()) == pytest.approx(1)


def test_chunks_change_nothing(knowing, unseen, few_digits, monkeypatch):
    monkeypatch.setattr("homefold.model._DECODED_AT_ONCE", 17)
    again = knowing.check(few_digits.only("street"), sources=few_digits)
    assert again.as_dict() == unseen.as_dict()


def test_a_model_without_styles_or_without_a_record_says_what_is_missing(fitted, few_digits, tmp_path):
    street = few_digits.only("street")
    plain = fitted.check(street)
    assert plain.nearest_by == "features"
    assert plain.as_dict()["style_distance"] == {}
    fitted.save(tmp_path / "model")
    old = Homefold.load(tmp_path / "model", device="cpu")
    old._sources = None
    found = old.check(street)
    assert found.accuracy is None
    assert any("nothing of held-out source images" in sentence for sentence in found.unknown)
    assert "cannot be estimated" in check_page(found, {})
    assert json_line(found.as_dict())


def test_the_page_is_one_file_without_foreign_addresses(unseen):
    page = check_page(unseen, {"Model": "<model>"})
    assert "&lt;model&gt;" in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert not re.findall(r"https?://", page)
    assert "<script" not in page
    assert page.count("data:image/png") == 12
    assert page.count("data:image/svg+xml") == 3
    assert check_page(unseen, {}, pictures=False).count("data:image/png") == 0
    for sentence in unseen.advice:
        assert sentence.split("(")[0].strip() in page


def test_json_holds_no_pixels(unseen):
    told = unseen.as_dict()
    assert len(json_line(told)) < 20_000
    assert set(told["off_manifold"]["held_out"]) == {"scan", "photo", "print"}


def test_nothing_to_check_is_refused(fitted, few_digits):
    with pytest.raises(DataError, match="nothing to check"):
        fitted.check(few_digits.subset([]))
