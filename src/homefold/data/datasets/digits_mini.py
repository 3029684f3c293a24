"""`digits-mini`: four domains of digits made only from what the installed packages ship.

| domain | what it shows |
|---|---|
| `scan` | scikit-learn's handwritten digits, grey |
| `photo` | other handwritten digits of the same set, blended into scikit-learn's two sample photographs |
| `print` | digits rendered from matplotlib's fonts, rotated, in colours |
| `street` | a rendered digit between parts of its neighbours, coloured, blurred, noisy |

Every domain has the ten digits in turn (0, 1, … 9, 0, 1, …): an image's place tells its label and domain.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import PIL
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from homefold.data.dataset import DomainDataset
from homefold.data.decoding.image import resize_images
from homefold.data.index import LoadRequest
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.errors import DataError
from homefold.runtime.seeding import derive_seed

__all__ = ["DIGITS_MINI_CLASSES", "DIGITS_MINI_DOMAINS", "DIGITS_MINI_FONTS", "load_digits_mini"]

DIGITS_MINI_DOMAINS = ("scan", "photo", "print", "street")
DIGITS_MINI_CLASSES = tuple("0123456789")
_NAMES = """
    DejaVuSans DejaVuSans-Bold DejaVuSans-BoldOblique DejaVuSans-Oblique DejaVuSansMono DejaVuSansMono-Bold
    DejaVuSansMono-BoldOblique DejaVuSansMono-Oblique DejaVuSerif DejaVuSerif-Bold DejaVuSerif-BoldItalic
    DejaVuSerif-Italic STIXGeneral STIXGeneralBol STIXGeneralBolIta STIXGeneralItalic cmb10 cmmi10 cmr10 cmss10 cmti10
    cmtt10
"""
DIGITS_MINI_FONTS = tuple(_NAMES.split())
"""The fonts shipped with matplotlib that draw digits for digits; the others draw symbols or nothing."""

_RECIPE = 1  # raise it whenever the pictures change, so that no cache serves the old ones
_SIDE = 32
_PER_CLASS = 87  # the rarest handwritten digit has 174 images, shared by two domains
_PER_DOMAIN = _PER_CLASS * len(DIGITS_MINI_CLASSES)
_OVERSAMPLING = 4
_CANVAS = _SIDE * _OVERSAMPLING
_BRIGHTNESS = np.array([0.299, 0.587, 0.114])


def load_digits_mini(seed: int = 0, *, cache_dir: Path | None = None, use_cache: bool = True) -> DomainDataset:
    """The embedded dataset: 870 images of 32×32 px in each of four domains, 87 of each digit.

    Args:
        seed: decides who of the handwritten digits goes where, and every colour, font and patch.
        cache_dir, use_cache: where the finished images are kept, by default `cache_directory()`, and whether.
    """
    # Here and below: what takes seconds to import, and whoever lists the datasets imports this file.
    from homefold.data.cache.directory import cache_directory

    images = _cached_images(seed, cache_dir or cache_directory()) if use_cache else _draw(seed)
    return DomainDataset(
        images=images,
        labels=np.tile(_labels(), len(DIGITS_MINI_DOMAINS)),
        domains=np.repeat(np.arange(len(DIGITS_MINI_DOMAINS)), _PER_DOMAIN),
        class_names=DIGITS_MINI_CLASSES,
        domain_names=DIGITS_MINI_DOMAINS,
        name="digits-mini",
    )


@register_dataset(
    DatasetEntry(
        name="digits-mini",
        description="Digits in four domains (handwriting, photo, print, street): 3,480 images of 32 px.",
        source="made on this machine from scikit-learn's digits and photographs and matplotlib's fonts",
        licence="scikit-learn's (BSD-3-Clause; the photographs CC BY 2.0) and that of matplotlib's fonts",
        layout="none: it needs no files",
        domains=DIGITS_MINI_DOMAINS,
        classes=DIGITS_MINI_CLASSES,
        usual_size=(_SIDE, _SIDE),
        embedded=True,
    )
)
def _requested(request: LoadRequest) -> DomainDataset:
    dataset = load_digits_mini(request.seed)
    if request.domains is not None:
        dataset = dataset.only(*request.domains)
    if request.size is not None:
        dataset = replace(dataset, images=resize_images(dataset.images, request.size, request.resize))
    return dataset


def _labels() -> np.ndarray:
    """`(870,)` labels of one domain: the ten digits in turn."""
    return np.tile(np.arange(len(DIGITS_MINI_CLASSES)), _PER_CLASS)


def _cached_images(seed: int, directory: Path) -> np.ndarray:
    """The finished images, drawn where there are none that can be used; a read-only or full disk costs only time."""
    from homefold.store.files import write_atomically

    path = directory / f"digits-mini-{_cache_key(seed)}.npz"
    # Whatever is wrong with the file, it can be made again.
    with suppress(Exception), np.load(path, allow_pickle=False) as archive:
        kept: np.ndarray = archive["images"]
        if kept.shape == (len(DIGITS_MINI_DOMAINS) * _PER_DOMAIN, _SIDE, _SIDE, 3) and kept.dtype == np.uint8:
            return kept
    images = _draw(seed)
    with suppress(OSError), write_atomically(path) as temporary, temporary.open("wb") as file:
        np.savez(file, images=images)
    return images


def _cache_key(seed: int) -> str:
    """What the pixels depend on: another version of a drawing library may draw another pixel."""
    import matplotlib
    import sklearn

    versions = {library.__name__: library.__version__ for library in (matplotlib, np, PIL, sklearn)}
    text = json.dumps({"recipe": _RECIPE, "seed": seed, "versions": versions}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _draw(seed: int) -> np.ndarray:
    """`(3480, 32, 32, 3)` uint8: the domains one after the other."""
    scan, photo = (_handwriting()[rows] for rows in _share_handwriting(seed))
    domains = (
        _to_bytes(np.repeat(scan[..., None] * 255, 3, axis=-1)),
        _draw_photo(photo, _random(seed, "photo")),
        _draw_print(_labels(), _random(seed, "print")),
        _draw_street(_labels(), _random(seed, "street")),
    )
    return np.concatenate(domains)


def _random(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng(derive_seed(seed, "digits-mini", purpose))


def _share_handwriting(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of scikit-learn's digits for `scan` and for `photo`, `(870,)` each, without a row in common."""
    from sklearn.datasets import load_digits

    random, target = _random(seed, "handwriting"), load_digits().target
    rows = [random.permutation(np.flatnonzero(target == digit))[: 2 * _PER_CLASS] for digit in range(10)]
    shares = np.stack(rows, axis=1)
    return shares[:_PER_CLASS].ravel(), shares[_PER_CLASS:].ravel()


def _handwriting() -> np.ndarray:
    """`(1797, 32, 32)` floats in [0, 1], 1 where there is ink: the 8×8 digits enlarged smoothly."""
    from sklearn.datasets import load_digits

    small = load_digits().images.astype(np.float32) / 16
    large = [np.asarray(Image.fromarray(image).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)) for image in small]
    clipped: np.ndarray = np.clip(np.stack(large), 0, 1)
    return clipped


def _draw_photo(ink: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Handwriting and a patch of a photograph blended by absolute difference, as MNIST-M was made."""
    from sklearn.datasets import load_sample_images

    photographs = [Image.fromarray(image) for image in load_sample_images().images]
    patches = np.stack([_random_patch(photographs, random) for _ in ink]).astype(np.float32)
    return _to_bytes(np.abs(patches - ink[..., None] * 255))


def _random_patch(photographs: list[Image.Image], random: np.random.Generator) -> np.ndarray:
    """`(32, 32, 3)` of a random place of a random photograph at a random scale, on which ink can be read."""
    while True:
        photograph = photographs[random.integers(len(photographs))]
        side = int(random.integers(_SIDE // 2, 2 * _SIDE))
        left = int(random.integers(photograph.width - side + 1))
        top = int(random.integers(photograph.height - side + 1))
        box = (left, top, left + side, top + side)
        patch = np.asarray(photograph.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC, box=box))
        # The difference turns p into 255 - p: on a middling grey the ink would vanish.
        if np.abs(255 - 2 * (patch @ _BRIGHTNESS)).mean() >= 80:
            return patch


def _draw_print(labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One rendered digit on plain paper, turned up to 25 degrees either way."""
    masks = np.stack([_print_mask(int(label), random) for label in labels])
    paper, ink = _contrasting_colours(len(labels), least=90, random=random)
    return _to_bytes(_paint(masks, paper, ink))


def _print_mask(digit: int, random: np.random.Generator) -> np.ndarray:
    font = DIGITS_MINI_FONTS[random.integers(len(DIGITS_MINI_FONTS))]
    return _place(
        _glyph(font, digit),
        height_px=random.uniform(17, 25),
        stretch=random.uniform(0.85, 1.2),
        turn_degrees=random.uniform(-25, 25),
        shift_px=random.uniform(-2.5, 2.5, size=2),
    )


def _draw_street(labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A digit and the inner parts of its two neighbours on a shaded wall, out of focus and noisy."""
    masks = np.stack([_street_mask(int(label), random) for label in labels])
    wall, ink = _contrasting_colours(len(labels), least=55, random=random)
    lit = _paint(masks, wall, ink) + _shading(len(labels), random)
    sigmas_px = random.uniform(0.3, 1.2, size=len(labels)).tolist()
    sharp = [Image.fromarray(image) for image in _to_bytes(lit)]
    soft = [image.filter(ImageFilter.GaussianBlur(sigma)) for image, sigma in zip(sharp, sigmas_px, strict=True)]
    blurred = np.stack([np.asarray(image) for image in soft])
    noise = random.normal(size=blurred.shape) * random.uniform(3, 16, size=(len(labels), 1, 1, 1))
    return _to_bytes(blurred + noise)


def _street_mask(digit: int, random: np.random.Generator) -> np.ndarray:
    font = DIGITS_MINI_FONTS[random.integers(len(DIGITS_MINI_FONTS))]
    left, right = (_glyph(font, int(neighbour)) for neighbour in random.integers(10, size=2))
    height_px, stretch = random.uniform(18, 27), random.uniform(0.8, 1.2)
    half_width = _SIDE / 2 / height_px / stretch
    return _place(
        _glyph_row(left, _glyph(font, digit), right, half_width, random),
        height_px=height_px,
        stretch=stretch,
        turn_degrees=random.uniform(-10, 10),
        shift_px=random.uniform(-1.5, 1.5, size=2),
    )


def _glyph_row(
    left: Image.Image, middle: Image.Image, right: Image.Image, half_width: float, random: np.random.Generator
) -> Image.Image:
    """The middle glyph centred between two neighbours of its height, each mostly out of sight.

    `half_width` is how far one sees from the middle, in units of the middle glyph's height.
    """
    height, centre = middle.height, round(2 * half_width * middle.height)
    row = Image.new("L", (2 * centre, height))
    row.paste(middle, (centre - middle.width // 2, 0))
    for neighbour, side in ((left, -1), (right, 1)):
        neighbour = neighbour.resize((round(neighbour.width * height / neighbour.height), height))
        in_sight = random.uniform(0.15, 0.65) * neighbour.width
        gap = random.uniform(0.06, 0.2) * height
        near_edge = round(max(middle.width / 2 + gap, half_width * height - in_sight))
        row.paste(neighbour, (centre + near_edge if side > 0 else centre - near_edge - neighbour.width, 0))
    return row


@cache
def _glyph(font: str, digit: int) -> Image.Image:
    """The digit alone, white on black, cropped to its ink."""
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"
    try:
        face = ImageFont.truetype(str(path), _CANVAS, layout_engine=ImageFont.Layout.BASIC)
    except OSError:
        raise DataError(f"digits-mini needs the font {path}, which matplotlib ships; reinstall matplotlib.") from None
    sheet = Image.new("L", (2 * _CANVAS, 2 * _CANVAS))
    ImageDraw.Draw(sheet).text((_CANVAS // 2, _CANVAS // 4), str(digit), fill=255, font=face)
    return sheet.crop(sheet.getbbox())


def _place(
    glyph: Image.Image, *, height_px: float, stretch: float, turn_degrees: float, shift_px: np.ndarray
) -> np.ndarray:
    """`(32, 32)` floats in [0, 1]: the glyph resized, turned about its centre and shifted from the middle."""
    height = height_px * _OVERSAMPLING
    scale = glyph.height / height
    cosine, sine = np.cos(np.radians(turn_degrees)), np.sin(np.radians(turn_degrees))
    # Pillow wants the map from an output pixel to the glyph's pixel.
    across, down = scale / stretch, scale
    matrix = np.array([[across * cosine, across * sine], [-down * sine, down * cosine]])
    centre = np.array([_CANVAS / 2, _CANVAS / 2]) + shift_px * _OVERSAMPLING
    origin = np.array([glyph.width / 2, glyph.height / 2]) - matrix @ centre
    coefficients = (*matrix[0], origin[0], *matrix[1], origin[1])
    canvas = glyph.transform(
        (_CANVAS, _CANVAS), Image.Transform.AFFINE, coefficients, resample=Image.Resampling.BILINEAR
    )
    return np.asarray(canvas.reduce(_OVERSAMPLING), dtype=np.float32) / 255


def _contrasting_colours(n: int, least: float, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """`n` pairs of RGB colours, `(n, 3)` each, whose brightness differs by at least `least` of 255."""
    first, second = random.uniform(0, 255, size=(n, 3)), random.uniform(0, 255, size=(n, 3))
    while (faint := np.abs((first - second) @ _BRIGHTNESS) < least).any():
        second[faint] = random.uniform(0, 255, size=(int(faint.sum()), 3))
        first[faint] = random.uniform(0, 255, size=(int(faint.sum()), 3))
    return first, second


def _paint(masks: np.ndarray, paper: np.ndarray, ink: np.ndarray) -> np.ndarray:
    """`(n, 32, 32, 3)`: `ink` where the mask is 1, `paper` where it is 0."""
    cover = masks[..., None]
    drawn: np.ndarray = paper[:, None, None] * (1 - cover) + ink[:, None, None] * cover
    return drawn


def _shading(n: int, random: np.random.Generator) -> np.ndarray:
    """`(n, 32, 32, 1)` brightness added: it grows in a random direction, by up to 35 towards the rim."""
    angle = random.uniform(0, 2 * np.pi, size=(n, 1, 1))
    strength = random.uniform(0, 35, size=(n, 1, 1))
    rows, columns = np.meshgrid(np.linspace(-1, 1, _SIDE), np.linspace(-1, 1, _SIDE), indexing="ij")
    return (strength * (np.cos(angle) * columns + np.sin(angle) * rows))[..., None]


def _to_bytes(values: np.ndarray) -> np.ndarray:
    rounded: np.ndarray = np.rint(np.clip(values, 0, 255)).astype(np.uint8)
    return rounded
