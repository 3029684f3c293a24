"""Arrays and tensors as datasets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from homefold.data.arrays import dataset_from_arrays, images_from_array
from homefold.errors import DataError


def _pixels(n: int = 4, height: int = 5, width: int = 6) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


@given(n=st.integers(1, 4), height=st.integers(1, 9), width=st.integers(1, 9), seed=st.integers(0, 99))
def test_bytes_survive_the_way_through_every_form(n, height, width, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)
    for dtype in (np.float16, np.float32, np.float64):
        assert (images_from_array((pixels / 255).astype(dtype)) == pixels).all()
    assert (images_from_array(pixels) == pixels).all()
    assert (images_from_array(pixels.astype(np.int64)) == pixels).all()
    assert (images_from_array(torch.tensor(pixels)) == pixels).all()
    assert (images_from_array(pixels.tolist()) == pixels).all()
    if width not in (1, 3):
        assert (images_from_array(pixels.transpose(0, 3, 1, 2)) == pixels).all()
        assert (images_from_array(torch.tensor(pixels / 255).permute(0, 3, 1, 2)) == pixels).all()


def test_three_rows_of_three_colours_are_read_with_the_colour_last():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 5, 3), dtype=np.uint8)
    assert (images_from_array(pixels) == pixels).all()


@pytest.mark.parametrize("shape", [(2, 5, 6), (2, 5, 6, 1), (2, 1, 5, 6)])
def test_a_grey_is_repeated_in_every_channel(shape):
    grey = np.random.default_rng(0).integers(0, 256, (2, 5, 6), dtype=np.uint8)
    images = images_from_array(grey.reshape(shape))
    assert images.shape == (2, 5, 6, 3)
    assert all((images[..., channel] == grey).all() for channel in range(3))


def test_half_precision_tensors_that_numpy_lacks_are_taken():
    images = images_from_array(torch.tensor([0.0, 0.5, 1.0], dtype=torch.bfloat16).reshape(1, 1, 3, 1))
    assert images[0, 0, :, 0].tolist() == [0, 128, 255]


def test_a_tensor_with_a_gradient_is_taken():
    assert images_from_array(torch.ones(1, 3, 4, 4, requires_grad=True)).min() == 255


def test_values_that_occur_become_the_names_in_their_order():
    dataset = dataset_from_arrays(_pixels(), [10, 9, 10, 2], ["b", "a", "b", "b"])
    assert dataset.class_names == ("2", "9", "10")
    assert dataset.labels.tolist() == [2, 1, 2, 0]
    assert dataset.domain_names == ("a", "b")
    assert dataset.domains.tolist() == [1, 0, 1, 1]
    assert (dataset.images == _pixels()).all()


def test_names_that_are_given_keep_their_order_and_may_lack_images():
    dataset = dataset_from_arrays(
        _pixels(),
        torch.tensor([2, 0, 0, 2]),
        np.array(["lab", "field", "lab", "lab"], dtype=object),
        class_names=["z", "y", "x"],
        domain_names=["lab", "field"],
        name="mine",
    )
    assert (dataset.class_names, dataset.labels.tolist()) == (("z", "y", "x"), [2, 0, 0, 2])
    assert (dataset.domain_names, dataset.domains.tolist()) == (("lab", "field"), [0, 1, 0, 0])
    assert dataset.name == "mine"


def test_whole_numbers_in_floats_and_truth_values_count_as_integers():
    dataset = dataset_from_arrays(_pixels(), np.array([1.0, 0.0, 1.0, 3.0]), [True, False, True, True])
    assert dataset.class_names == ("0", "1", "3")
    assert dataset.domain_names == ("0", "1")


@given(labels=st.lists(st.sampled_from(["cat", "dog", "fox", "9", "10"]), min_size=1, max_size=30))
def test_names_and_indices_lead_back_to_the_labels(labels):
    images = np.zeros((len(labels), 2, 2, 3), np.uint8)
    dataset = dataset_from_arrays(images, labels, [0] * len(labels))
    assert [dataset.class_names[i] for i in dataset.labels] == labels


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((0, 4, 4, 3)), "at least one pixel"),
        (np.zeros((4, 4)), r"got \(4, 4\)"),
        (np.zeros((2, 4, 4, 4)), r"\(n, height, width, 3\).*got \(2, 4, 4, 4\)"),
        (np.full((2, 4, 4, 3), 200.0), "float64 images must run from 0 to 1; these run from 200 to 200"),
        (np.full((2, 4, 4, 3), -0.1), "from -0.1 to"),
        (np.full((2, 4, 4, 3), 256), "from 0 to 255; these run from 256"),
        (np.full((2, 4, 4, 3), "x"), "uint8 or floats"),
        (np.ones((2, 4, 4, 3), dtype=complex), "uint8 or floats"),
        ([[1, 2], [3]], "must form one array"),
    ],
)
def test_images_that_are_none_get_a_sentence(images, message):
    with pytest.raises(DataError, match=message):
        images_from_array(images)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_pixel_that_is_no_number_is_placed(value):
    images = np.zeros((5, 4, 4, 3), dtype=np.float32)
    images[3, 1, 1, 1] = value
    with pytest.raises(DataError, match="NaN or infinity, first in image 3"):
        images_from_array(images)


@pytest.mark.parametrize(
    ("labels", "class_names", "message"),
    [
        ([0, 1, 0], None, r"labels must be one value for each of the 4 images; got shape \(3,\)"),
        ([[0], [1], [0], [1]], None, r"got shape \(4, 1\)"),
        ([0, 1, 2, 3], ["a", "b", "c"], "labels run from 0 to 3, but there are 3 names.*from 0 to 2"),
        ([0, -1, 0, 1], ["a", "b"], "labels run from -1 to 1"),
        (["a", "b", "q", "a"], ["a", "b"], r"labels hold q, not among the names given \(a, b\)"),
        ([0.5, 1, 0, 1], None, "whole numbers or text, one kind throughout; got 0.5"),
        ([np.nan, 1, 0, 1], None, "got nan"),
        ([None, "a", "a", "b"], None, "whole numbers or text"),
        ([0, 1, 0, 1], ["a", "a"], "must differ from each other"),
    ],
)
def test_labels_that_do_not_fit_get_a_sentence(labels, class_names, message):
    with pytest.raises(DataError, match=message):
        dataset_from_arrays(_pixels(), labels, [0, 0, 1, 1], class_names=class_names)


def test_domains_that_do_not_fit_are_called_domains():
    with pytest.raises(DataError, match="domains run from 0 to 2, but there are 2 names"):
        dataset_from_arrays(_pixels(), [0, 1, 0, 1], [0, 1, 2, 0], domain_names=["a", "b"])


def test_labels_and_domains_that_are_no_text_are_refused():
    for labels, domains in ((["a", "b\ud800"] * 2, [0, 1] * 2), ([0, 1] * 2, ["a", "b\ud800"] * 2)):
        with pytest.raises(DataError, match=r"The (class|domain) b\\ud800 in arrays .* not valid UTF-8"):
            dataset_from_arrays(_pixels(), labels, domains)
    with pytest.raises(DataError, match="The class \\\\udcff in arrays"):
        dataset_from_arrays(_pixels(), [0, 1, 0, 1], [0, 0, 1, 1], class_names=["a", "\udcff"])
