"""Images small enough to train on in a second, and how a command ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = ("across", "upright")
DOMAINS = {"day": (230, 40), "dusk": (130, 20), "night": (30, 220)}
QUICK = ["--preset", "small", "--device", "cpu", "--epochs", "3", "--batch-size", "16", "--manifold.epochs", "60"]


def draw_bar(path: Path, label: str, paper: int, ink: int, seed: int) -> None:
    """A bar that lies or stands somewhere on noisy paper: what the two classes differ in."""
    random = np.random.default_rng(seed)
    pixels = np.full((32, 32, 3), paper, dtype=np.int64) + random.integers(-15, 16, size=(32, 32, 3))
    place = random.integers(8, 20)
    rows, columns = (slice(place, place + 5), slice(2, 30))
    pixels[(rows, columns) if label == "across" else (columns, rows)] = ink
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


def make_photos(root: Path, images: int = 10) -> Path:
    for domain_index, (domain, (paper, ink)) in enumerate(DOMAINS.items()):
        for class_index, label in enumerate(CLASSES):
            for i in range(images):
                seed = 1000 * domain_index + 100 * class_index + i
                draw_bar(root / domain / label / f"{i:02d}.png", label, paper, ink, seed)
    return root


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as exactly one JSON value."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        """Standard output as one JSON value a line."""
        assert self.out == "" or self.out.endswith("\n")
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> str:
        """The one sentence on standard error that begins with `error:`; no traceback beside it."""
        assert "Traceback" not in self.err
        (sentence,) = [line for line in self.err.splitlines() if line.startswith("error: ")]
        return sentence.removeprefix("error: ")


Homefold = Callable[..., Ended]


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
