"""Model folders of earlier formats still load, and answer as they did."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from homefold import Homefold, ManifoldProjector

SAVED = Path(__file__).parent / "saved"
ANSWERS = np.load(SAVED / "format_1_answers.npz")
PRESETS = ("default", "thorough", "small", "small-thorough", "paper")
MANIFOLDS = ("vae", "gan", "nearest")
# On the processor that made them the answers are the same bytes; others sum in another order.
TOLERANCE = 1e-4


def unpacked(name: str, folder: Path) -> Path:
    """A model folder of format 1, as version 0.1.0 wrote it."""
    with tarfile.open(SAVED / f"format_1_{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def loaded(folder: Path, name: str) -> Homefold | ManifoldProjector:
    return (Homefold if name in PRESETS else ManifoldProjector).load(folder, device="cpu")


def require_answers(model: Homefold | ManifoldProjector, name: str) -> None:
    """The model answers as the version that made it did."""
    images = isinstance(model, Homefold)
    found = model.predict(ANSWERS["images"]) if images else model.explain(ANSWERS["features"])
    assert np.abs(found.probabilities - ANSWERS[f"{name} probabilities"]).max() < TOLERANCE
    np.testing.assert_allclose(found.off_manifold, ANSWERS[f"{name} off_manifold"], rtol=100 * TOLERANCE)


@pytest.mark.parametrize("name", (*PRESETS, *MANIFOLDS))
def test_a_folder_of_format_1_answers_as_it_did(name, tmp_path):
    require_answers(loaded(unpacked(name, tmp_path), name), name)
