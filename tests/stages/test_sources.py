"""What a model keeps of its source images, and the nearest of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from homefold import Homefold
from homefold.data.splits import selection_split
from homefold.errors import ModelFileError
from homefold.stages.source_images import SourceImages
from homefold.stages.sources import KeptSources


def test_the_record_is_of_the_source_images_and_their_answers(fitted, few_digits):
    source, record = few_digits.without("street"), fitted.sources
    train, held_out = selection_split(source, fitted.config.features.held_out, fitted.config.seed)
    np.testing.assert_array_equal(record.rows, train)
    np.testing.assert_array_equal(record.held_rows, held_out)
    for rows, labels, domains in (
        (record.rows, record.labels, record.domains),
        (record.held_rows, record.held_labels, record.held_domains),
    ):
        np.testing.assert_array_equal(labels, source.labels[rows])
        np.testing.assert_array_equal(domains, source.domains[rows])
    images = source.images[held_out]
    np.testing.assert_array_equal(record.held_probabilities, fitted.predict(images).probabilities)
    np.testing.assert_array_equal(record.held_plain, fitted.predict(images, projected=False).probabilities)
    raw = torch.from_numpy(fitted.features(images))
    np.testing.assert_allclose(record.held_features, fitted.feature_model.prepare(raw).numpy(), atol=1e-5)


def test_it_is_saved_with_the_model_without_pixels_and_paths(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = Homefold.load(tmp_path / "model", device="cpu").sources
    for name, value in fitted.sources.tensors().items():
        torch.testing.assert_close(again.tensors()[name], value, rtol=0, atol=0)
    assert not any(value.dtype == torch.uint8 for value in again.tensors().values())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("labels", torch.full((1,), 3), "labels"),
        ("features", torch.zeros(1), "features"),
        ("held_domains", torch.zeros(5, dtype=torch.long), "held_domains"),
        ("held_plain", None, "should hold"),
        ("paths", torch.zeros(1), "should hold"),
        ("rows", torch.tensor([-1]), "name nothing"),
        ("labels", torch.tensor([2]), "name nothing"),
        ("features", torch.full((1, 4), torch.nan), "not finite"),
        ("held_styles", torch.zeros(2, 3), "held_styles"),
    ],
)
def test_an_odd_record_is_refused(name, value, said):
    known = KeptSources(
        np.zeros((1, 4), np.float32), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64),
        np.zeros((2, 4), np.float32), np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64),
        np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32), np.zeros(2, np.float32),
        np.zeros((2, 0), np.float32),
    )  # fmt: skip
    sizes = {"feature_dim": 4, "classes": 2, "domains": 1}
    tensors = known.tensors()
    assert len(KeptSources.from_tensors(tensors, **sizes).features) == 1
    odd = {**tensors, name: value} if value is not None else {k: v for k, v in tensors.items() if k != name}
    with pytest.raises(ModelFileError, match=said):
        KeptSources.from_tensors(odd, **sizes)


def test_the_nearest_are_those_of_the_highest_cosine():
    random = np.random.default_rng(0)
    features, queries = random.normal(size=(50, 6)).astype(np.float32), random.normal(size=(7, 6)).astype(np.float32)
    names = np.array([f"n{i}" for i in range(50)], dtype=object)
    known = SourceImages(features, names, names, np.arange(50))
    places, cosines = known.nearest(queries, 3)
    for query, found, values in zip(queries, places, cosines, strict=True):
        every = [float(query @ z / np.linalg.norm(query) / np.linalg.norm(z)) for z in features]
        assert found.tolist() == sorted(range(50), key=lambda i: -every[i])[:3]
        np.testing.assert_allclose(values, sorted(every, reverse=True)[:3], atol=1e-6)
    assert known.described(places[0], cosines[0])[0].label == f"n{places[0][0]}"
