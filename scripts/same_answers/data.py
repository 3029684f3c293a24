"""What both checkouts are given: a few photographs, a few digits, made-up features."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from same_answers.checkout import Checkout

__all__ = [
    "PHOTO_FILES",
    "PHOTO_TARGET",
    "PROJECTORS",
    "appearing",
    "extract_some",
    "made_up_features",
    "prepare_digits",
    "prepare_photos",
    "real_data",
    "resnet18_weights",
]

PHOTO_TARGET = "sketch"
_PHOTO_SOURCES = ("art_painting", "cartoon", "photo")
_SOURCE_IMAGES_A_CLASS, _TARGET_IMAGES_A_CLASS = 14, 6
_RESNET18 = "weights/resnet18_imagenet.safetensors"
PHOTO_FILES = (_RESNET18, *(f"pacs/pacs_{domain}.tar" for domain in (*_PHOTO_SOURCES, PHOTO_TARGET)))
"""What the cases on photographs need of the folder HOMEFOLD_TEST_DATA."""

PROJECTORS: dict[str, dict[str, Any]] = {
    "vae": {"manifold": "vae", "manifold_epochs": 30},
    "vae-elbow": {
        "manifold": "vae",
        "manifold_epochs": 10,
        "encoder_start": False,
        "random_starts": 2,
        "step": "gradient",
        "steps": 80,
        "stop": "elbow",
    },
    "gan": {"manifold": "gan", "manifold_epochs": 20, "nearest_starts": 2, "step": "normalised"},
    "nearest": {"manifold": "nearest", "classifier": "hidden", "normalise": False},
}
"""Parameters of the projectors that are fitted to `made_up_features`."""


def made_up_features() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features of four classes in three domains with labels and domains, and features of a shifted fourth domain."""
    random = np.random.default_rng(7)
    classes, domains = np.tile(np.arange(4), 90), np.repeat(np.arange(3), 120)
    centres, shifts = random.normal(size=(4, 24)), 0.3 * random.normal(size=(4, 24))
    source = centres[classes] + shifts[domains] + 0.4 * random.normal(size=(360, 24))
    target = centres[classes[:120]] + 3 * shifts[3] + 0.4 * random.normal(size=(120, 24))
    return source, np.array(["ant", "bee", "cat", "dog"])[classes], domains, target


def real_data() -> Path | None:
    """The folder HOMEFOLD_TEST_DATA; none where it is not set."""
    folder = os.environ.get("HOMEFOLD_TEST_DATA")
    return Path(folder).resolve() if folder else None


def resnet18_weights(folder: Path) -> Path:
    """The weights that photographs are trained from."""
    return folder / _RESNET18


def prepare_digits(checkout: Checkout) -> None:
    """Write the folder `digits`: class/image."""
    if not (checkout.data / "digits").exists():
        with appearing(checkout.data / "digits") as part:
            checkout.probe("digits", part)


def prepare_photos(real: Path, data: Path) -> None:
    """Write the folder `photos`: domain/class/image."""
    if not (data / "photos").exists():
        with appearing(data / "photos") as part:
            for domain in _PHOTO_SOURCES:
                extract_some(real / f"pacs/pacs_{domain}.tar", part, _SOURCE_IMAGES_A_CLASS)
            extract_some(real / f"pacs/pacs_{PHOTO_TARGET}.tar", part, _TARGET_IMAGES_A_CLASS)


def extract_some(archive: Path, folder: Path, images_a_class: int) -> None:
    """Extract so many images of each class, evenly spread over those of the archive in the order of their names."""
    with tarfile.open(archive) as tar:
        of_class: dict[str, list[tarfile.TarInfo]] = defaultdict(list)
        for member in sorted(tar.getmembers(), key=lambda member: member.name):
            if member.isfile():
                of_class[str(Path(member.name).parent)].append(member)
        for members in of_class.values():
            for number in range(images_a_class):
                tar.extract(members[number * len(members) // images_a_class], folder, filter="data")


@contextlib.contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes its name when all went well; if another process was faster, its folder stays."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield part
        with contextlib.suppress(OSError):
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
