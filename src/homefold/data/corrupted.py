"""Making CIFAR-10-C: the published layout, file by file, from CIFAR-10's test images."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from homefold.data.cifar10 import CIFAR10_FORMS, cifar10_images
from homefold.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from homefold.data.decoding.many import decode_all, map_images
from homefold.data.index import LoadRequest
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.seeding import derive_seed
from homefold.store.files import naming, read_json, write_atomically, write_json

__all__ = ["make_cifar10_c"]

_CHUNK = 250
"""Images that are made at once, with draws of their own."""
_ABOUT = "made.json"
_NOTE = (
    "Made by homefold with CIFAR-10-C's strengths. Single pixels differ from the published files: the random numbers "
    "and the libraries are others, and frost is drawn where those took photographs."
)


def make_cifar10_c(
    root: Path,
    to: Path | None = None,
    *,
    corruptions: Sequence[str] = tuple(CORRUPTIONS),
    severities: Sequence[int] = SEVERITIES,
    seed: int = 0,
    reporter: ProgressReporter | None = None,
) -> tuple[Path, list[Path]]:
    """Corrupt CIFAR-10's test images; what a stopped run has finished is kept, and what is there is never replaced.

    Args:
        root: where CIFAR-10 lies.
        to: the folder to make; by default `CIFAR-10-C` in the root.
        corruptions: those to make.
        severities: all five make one file a corruption, as published; fewer make one file each,
            `<corruption>-<severity>.npy`.
        seed: of all draws; the same seed makes the same files.
        reporter: is told the progress.

    Returns:
        The folder, and the files of it that were made by this call.
    """
    folder, request = to or root / "CIFAR-10-C", LoadRequest(root=root, reporter=reporter)
    images, labels = _clean(request)
    about = {"note": _NOTE, "seed": seed, "images": hashlib.sha256(images.tobytes()).hexdigest()}
    _require_own(folder, about)
    whole = tuple(severities) == SEVERITIES
    blocks = [SEVERITIES] if whole else [(severity,) for severity in severities]
    wanted = {
        folder / (f"{name}.npy" if whole else f"{name}-{block[0]}.npy"): (name, block)
        for name in corruptions
        for block in blocks
    }
    missing = {path: what for path, what in wanted.items() if not path.exists()}
    _require_room(folder, sum(len(block) for _, block in missing.values()) * images.nbytes)
    write_json(folder / _ABOUT, about)
    _save(folder / "labels.npy", np.tile(labels.astype(np.uint8), len(SEVERITIES)))
    for path, (name, block) in missing.items():
        parts = [_made(images, name, severity, seed, request) for severity in block]
        _save(path, np.concatenate(parts))
    return folder, list(missing)


def _clean(request: LoadRequest) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-10's test images `(n, 32, 32, 3)` and labels."""
    parts = cifar10_images(request.folder, "test")
    if not parts:
        raise DataError(f"There are no test images of CIFAR-10 in {request.folder}. Expected {CIFAR10_FORMS}.")
    images, _, _ = decode_all([source for part in parts for source in part.images], (32, 32), request)
    return images, np.concatenate([part.labels for part in parts])


def _made(images: np.ndarray, name: str, severity: int, seed: int, request: LoadRequest) -> np.ndarray:
    """All images under one corruption; a chunk's draws depend on its place alone, whichever thread makes it."""

    def make(start: int) -> np.ndarray:
        draws = np.random.default_rng(derive_seed(seed, "cifar10-c", name, severity, start))
        return corrupt(images[start : start + _CHUNK], name, severity, draws)

    starts = range(0, len(images), _CHUNK)
    # Only reading an image can find it bad, and these have been read.
    return np.concatenate(list(map_images(make, starts, f"{name} {severity}", request)))


def _require_own(folder: Path, about: dict[str, Any]) -> None:
    """Files of another origin are not mixed with these, nor those of another seed or other images."""
    if (folder / _ABOUT).exists():
        if {**read_json(folder / _ABOUT), "note": _NOTE} != about:
            raise DataError(
                f"{folder} was made from other images or with another seed ({folder / _ABOUT}); give another folder "
                "with --to, or delete that one."
            )
    elif folder.exists() and any(folder.glob("*.npy")):
        raise DataError(
            f"{folder} holds files that homefold has not made, perhaps the published ones; give another folder with "
            "--to."
        )


def _require_room(folder: Path, wanted: int) -> None:
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if (free := shutil.disk_usage(there).free) < wanted:
        raise DataError(
            f"{folder} needs {wanted / 1e9:.1f} GB and the disk has {free / 1e9:.1f} GB free; make room, give another "
            "disk with --to, or make a part with --corruptions or --severities."
        )


def _save(path: Path, array: np.ndarray) -> None:
    if path.exists():
        return
    with write_atomically(path) as temporary, naming(path), temporary.open("wb") as file:
        np.save(file, array)
