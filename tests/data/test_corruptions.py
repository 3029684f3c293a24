"""The corruptions of CIFAR-10-C, against slow or exact references."""

from __future__ import annotations

import colorsys
import io

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from homefold.data.corruptions import CORRUPTIONS, SEVERITIES, blur, corrupt, geometry, weather
from homefold.data.datasets import cifar10_c

_GROWING = """
    gaussian_noise shot_noise impulse_noise speckle_noise defocus_blur gaussian_blur motion_blur zoom_blur snow fog
    brightness contrast pixelate jpeg_compression
"""


def drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Eight smooth images in colour."""
    noise = ndimage.gaussian_filter(drawn().normal(size=(8, 32, 32, 3)), (0, 2, 2, 0))
    return np.clip(128 + 300 * noise, 0, 255).astype(np.uint8)


def floats(*values: float) -> np.ndarray:
    """One image of a single colour."""
    return np.broadcast_to(np.array(values), (1, 32, 32, 3)).copy()


def difference(images: np.ndarray, name: str, severity: int) -> float:
    return float(np.abs(corrupt(images, name, severity, drawn()).astype(float) - images).mean())


def test_the_names_are_those_of_the_dataset():
    assert tuple(CORRUPTIONS) == cifar10_c.CORRUPTIONS
    assert SEVERITIES == cifar10_c.SEVERITIES


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_corruption_changes_bytes_alone_and_the_same_way_for_a_seed(images, name):
    before = images.copy()
    for severity in SEVERITIES:
        found = corrupt(images, name, severity, drawn())
        assert (found.shape, found.dtype) == (images.shape, np.uint8)
        assert (found != images).any()
        assert (found == corrupt(images, name, severity, drawn())).all()
    assert (images == before).all()


@pytest.mark.parametrize("name", _GROWING.split())
def test_a_higher_severity_leads_farther_from_the_image(images, name):
    low, middle, high = (difference(images, name, severity) for severity in (1, 3, 5))
    assert 0 < low < middle < high


def test_noise_has_the_published_strength():
    x = floats(0.5, 0.5, 0.5).repeat(20, axis=0)
    assert np.std(CORRUPTIONS["gaussian_noise"](x, 2, drawn()) - x) == pytest.approx(0.08, rel=0.02)
    assert np.std(CORRUPTIONS["speckle_noise"](x, 4, drawn()) - x) == pytest.approx(0.1, rel=0.02)
    assert np.var(CORRUPTIONS["shot_noise"](x, 0, drawn())) == pytest.approx(0.5 / 500, rel=0.05)
    impulses = CORRUPTIONS["impulse_noise"](x, 4, drawn())
    assert np.mean(impulses == 0) == pytest.approx(0.035, rel=0.1)
    assert np.mean(impulses == 1) == pytest.approx(0.035, rel=0.1)
    assert np.isin(impulses, (0, 0.5, 1)).all()


@pytest.mark.parametrize("colour", [(0.4, 0.2, 0.1), (0.1, 0.9, 0.9), (0.3, 0.3, 0.3), (0.0, 0.0, 0.0)])
def test_brightness_and_saturation_are_changed_in_hue_saturation_and_value(colour):
    hue, saturation, value = colorsys.rgb_to_hsv(*colour)
    brighter = CORRUPTIONS["brightness"](floats(*colour), 4, drawn())[0, 0, 0]
    assert brighter == pytest.approx(colorsys.hsv_to_rgb(hue, saturation, min(1, value + 0.3)))
    for level, (factor, offset) in ((0, (0.3, 0.0)), (4, (2.5, 0.2))):
        more = min(1, saturation * factor + offset)
        found = CORRUPTIONS["saturate"](floats(*colour), level, drawn())[0, 0, 0]
        assert found == pytest.approx(colorsys.hsv_to_rgb(hue, more, value), abs=1e-9)


def test_contrast_is_taken_from_each_channels_mean():
    x = floats(0.2, 0.4, 0.6)
    x[:, :16] = (0.4, 0.4, 0.8)
    found = CORRUPTIONS["contrast"](x, 1, drawn())
    assert found[0, 0, 0] == pytest.approx([0.35, 0.4, 0.75])
    assert found[0, 31, 0] == pytest.approx([0.25, 0.4, 0.65])


def test_a_zoom_is_scipys_of_the_middle(images):
    for factor in (1.0, 1.05, 1.25, 2.25):
        part = int(np.ceil(32 / factor))
        start = (32 - part) // 2
        large = ndimage.zoom(images[0, start : start + part, start : start + part, 0].astype(float), factor, order=1)
        trim = (len(large) - 32) // 2
        found = blur.zoomed(images[:1, :, :, 0].astype(float), factor)[0]
        assert found == pytest.approx(large[trim : trim + 32, trim : trim + 32])


def test_a_defocused_point_is_a_soft_disk():
    x = np.zeros((1, 32, 32, 3))
    x[0, 16, 16] = 1
    smallest, largest = (CORRUPTIONS["defocus_blur"](x, level, drawn())[0, :, :, 0] for level in (0, 4))
    edge = np.exp(-1 / (2 * 0.4**2))
    assert smallest[16, 16] == pytest.approx(1 / (1 + 2 * edge) ** 2)
    assert smallest.sum() == largest.sum() == pytest.approx(1)
    assert largest[15:18, 15:18] == pytest.approx(1 / 9)


def test_a_moved_point_is_half_a_gaussian_in_its_direction():
    x = np.zeros((2, 32, 32))
    x[:, 16, 16] = 1
    across, down = blur.moved(x, 6, 2.0, np.array([0.0, -90.0]))
    weights = np.exp(-(np.arange(13) ** 2) / 8)
    expected = weights / weights.sum()
    assert across[16, 16:3:-1] == pytest.approx(expected, abs=1 / 255)
    assert down[16:29, 16] == pytest.approx(expected, abs=1 / 255)
    assert np.count_nonzero(across) == np.count_nonzero(across[16])


def test_glass_shows_the_colour_of_a_neighbour():
    pixels = np.arange(1024, dtype=np.uint16).reshape(32, 32)
    image = np.stack([pixels % 256, pixels // 256, 0 * pixels], axis=-1).astype(np.uint8)
    found = corrupt(image[None], "glass_blur", 1, drawn())[0].astype(int)
    places = found[..., 0] + 256 * found[..., 1]
    offsets = pixels - places
    assert set(np.unique(offsets)) == {0, 1, 32, 33}
    assert not offsets[:2].any()
    assert not offsets[:, :2].any()


def test_clouds_are_fractal_and_fill_the_range():
    clouds = weather.fractal(3, 32, 2.0, drawn())
    assert clouds.shape == (3, 32, 32)
    assert clouds.min(axis=(1, 2)).tolist() == [0, 0, 0]
    assert clouds.max(axis=(1, 2)).tolist() == [1, 1, 1]
    rough = [np.abs(np.diff(weather.fractal(3, 32, decay, drawn()), axis=1)).mean() for decay in (3.0, 1.5)]
    assert rough[0] < rough[1]


def test_fog_keeps_the_brightest_and_leaves_black_as_it_is():
    assert CORRUPTIONS["fog"](floats(0, 0, 0), 2, drawn()).max() == 0
    found = CORRUPTIONS["fog"](floats(0.8, 0.8, 0.8), 0, drawn())
    assert found.max() == pytest.approx(0.8)
    assert found.min() == pytest.approx(0.8 * 0.8)


def test_snow_and_water_brighten_and_mud_draws_nearer_to_brown():
    x = floats(0.3, 0.3, 0.3).repeat(4, axis=0)
    assert (CORRUPTIONS["snow"](x, 4, drawn()) >= x * 0.8 + 0.2 * 0.95 - 1e-9).all()
    water = CORRUPTIONS["spatter"](x, 2, drawn()) - x
    assert 0 <= water.min() < water.max() == pytest.approx(0.5 * 238 / 255)
    mud = CORRUPTIONS["spatter"](x, 4, drawn())
    shown = (x - mud) / (x - np.array([63, 42, 20]) / 255)
    assert np.unique(shown.round(6)).min() == 0
    assert 0.8 <= shown[shown > 0].min() <= shown.max() <= 1 + 1e-9
    assert shown[..., 0] == pytest.approx(shown[..., 2])


def test_edges_of_a_drop_are_its_rim():
    drop = np.zeros((2, 32, 32))
    drop[0, 8:20, 8:20] = 0.8
    edges = weather._edges(drop)
    rim = np.zeros((32, 32), dtype=bool)
    rim[7:21, 7:21] = True
    rim[9:19, 9:19] = False
    assert not edges[1].any()
    assert not edges[0][~rim].any()
    assert edges[0][8:20, 7:9].any(axis=1).all()


def test_levels_are_spread_as_often_as_they_are_there():
    image = np.array([[2, 2, 3], [3, 7, 7]], dtype=np.uint8)
    assert weather._equalised(image).tolist() == [[0, 0, 128], [128, 255, 255]]
    assert weather._equalised(image[:, :1] * 0 + 5).tolist() == [[5], [5]]


def test_pixels_between_pixels_are_linear_and_edges_fold():
    ramp = np.broadcast_to(np.arange(4.0)[None, :, None, None], (1, 4, 4, 3))
    rows = np.array([0.0, 0.5, 2.25, 3.0])[None, :, None] + np.zeros((1, 4, 4))
    columns = np.zeros((1, 4, 4))
    assert geometry._sampled(ramp, rows, columns, geometry._mirrored)[0, :, 0, 0].tolist() == [0, 0.5, 2.25, 3]
    places = np.arange(-3, 7)
    assert geometry._mirrored(places, 4).tolist() == [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]
    assert geometry._reflected(places, 4).tolist() == [2, 1, 0, 0, 1, 2, 3, 3, 2, 1]


def test_an_elastic_transform_moves_pixels_no_farther_than_it_says(monkeypatch, images):
    monkeypatch.setattr(geometry, "_ELASTIC", ((0.0, 0.0, 0.0),))
    x = images / 255
    assert CORRUPTIONS["elastic_transform"](x, 0, drawn()) == pytest.approx(x)
    # Corners that move by at most one pixel move what lies between them by less.
    monkeypatch.setattr(geometry, "_ELASTIC", ((0.0, 0.0, 1 / 32),))
    ramp = np.broadcast_to(np.arange(32.0)[None, None, :, None], (8, 32, 32, 3))
    moved = CORRUPTIONS["elastic_transform"](ramp, 0, drawn())[:, 6:26, 6:26] - ramp[:, 6:26, 6:26]
    assert 0.2 < np.abs(moved).max() < 3


def test_jpeg_and_large_pixels_are_pillows(images):
    file = io.BytesIO()
    Image.fromarray(images[0]).save(file, "JPEG", quality=58)
    assert (corrupt(images[:1], "jpeg_compression", 3, drawn())[0] == np.asarray(Image.open(file))).all()
    box = Image.Resampling.BOX
    small = Image.fromarray(images[0]).resize((20, 20), box).resize((32, 32), box)
    assert (corrupt(images[:1], "pixelate", 5, drawn())[0] == np.asarray(small)).all()
