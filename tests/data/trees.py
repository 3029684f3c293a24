"""Small datasets in the layouts that are found in the wild, as folders, tars and zips."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from homefold.data import DomainDataset, ImageIndex, LoadRequest, VerificationReport, load_dataset, verify_dataset
from homefold.data.datasets.folder import find_folder
from homefold.data.paths import given_path


def png(seed: int, side: int = 6) -> bytes:
    """A noise image that no other seed gives."""
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def pixels_of(seed: int, side: int = 6) -> np.ndarray:
    """What `png` shows."""
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def numbered(names: Iterable[str]) -> dict[str, bytes]:
    """An image for each path, the seed being its place."""
    return {name: png(seed) for seed, name in enumerate(names)}


def write_folder(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def write_tar(path: Path, files: dict[str, bytes], form: int = tarfile.DEFAULT_FORMAT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=form) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_zip(path: Path, files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


class Listener:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.decoded = 0

    @contextmanager
    def task(self, description, total):
        self.decoding = description == "decoding images"
        yield self

    def advance(self, steps: int = 1, **facts: object) -> None:
        self.decoded += steps * self.decoding

    def message(self, text: str) -> None:
        self.messages.append(text)


def load_folder(root: Path | str, **wanted: Any) -> DomainDataset:
    """A folder of domains, decoded into memory."""
    return load_dataset("folder", root=root, use_cache=False, **wanted)


def scan_folder(root: Path | str, **wanted: Any) -> ImageIndex:
    """What lies in a folder of domains."""
    return find_folder(LoadRequest(root=given_path(root), **wanted))


def verify_folder(root: Path | str, **wanted: Any) -> VerificationReport:
    """What is wrong with a folder of domains."""
    return verify_dataset("folder", root, **wanted)
