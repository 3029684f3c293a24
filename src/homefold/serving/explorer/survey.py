"""What the model says of every image of a gallery, found once and kept in the cache."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch

from homefold.data.cache.computed import explorer_directory
from homefold.errors import ModelFileError
from homefold.stages.task import ImageSet
from homefold.stages.trained_model import TrainedModel
from homefold.store.files import digest, read_state, write_state

__all__ = ["Survey", "survey_of", "survey_path"]

_FORMAT = 1
_MOST_KEPT = 8


@dataclass(frozen=True, eq=False)
class Survey:
    """Answers and features of n images.

    Args:
        features: `(n, d)` f's features of the images as they are, as the manifold is given them.
        label, plain_label: `(n,)` class of the answer, and of the answer without projection.
        confidence, plain_confidence: `(n,)` their probabilities.
        off_manifold: `(n,)` score.
        projected: `(n,)` whether the answer is that with projection.
    """

    features: torch.Tensor
    label: torch.Tensor
    plain_label: torch.Tensor
    confidence: torch.Tensor
    plain_confidence: torch.Tensor
    off_manifold: torch.Tensor
    projected: torch.Tensor

    @staticmethod
    def joined(parts: list[Survey]) -> Survey:
        """One after the other."""
        return Survey(*(torch.cat([getattr(part, name) for part in parts]) for name in _NAMES))

    def keep(self, path: Path) -> None:
        """Write it; without room for it, or leave to write, it is found again the next time."""
        with suppress(OSError):
            write_state(path, {name: getattr(self, name) for name in _NAMES})
            kept = sorted(path.parent.glob("*.safetensors"), key=lambda file: file.stat().st_mtime, reverse=True)
            for old in kept[_MOST_KEPT:]:
                old.unlink()

    @staticmethod
    def kept(path: Path, rows: int) -> Survey | None:
        """What `keep` wrote of so many images; None where there is none, or it is damaged."""
        try:
            state = read_state(path)
            found = Survey(**state)
            if all(len(getattr(found, name)) == rows for name in _NAMES):
                path.touch()
                return found
        except (ModelFileError, OSError, TypeError):
            pass
        return None


_NAMES = tuple(field.name for field in fields(Survey))


def survey_of(model: TrainedModel, pixels: np.ndarray) -> Survey:
    """Of images `(n, side, side, 3)`."""
    answer = model.answer(ImageSet(pixels), compare=True)
    assert answer.plain is not None
    answers, plain = answer.predictions, answer.plain.predictions
    return Survey(
        features=model.feature_model.prepare(answer.plain.features).cpu(),
        label=torch.from_numpy(answers.indices),
        plain_label=torch.from_numpy(plain.indices),
        confidence=torch.from_numpy(answers.confidences),
        plain_confidence=torch.from_numpy(plain.confidences),
        off_manifold=torch.from_numpy(answers.off_manifold),
        projected=torch.from_numpy(answers.projected),
    )


def survey_path(checksum: str, fingerprint: str) -> Path:
    """Where the survey of these images by this model is kept: beside other things that can be made again."""
    return explorer_directory() / f"{digest([_FORMAT, checksum, fingerprint])}.safetensors"
