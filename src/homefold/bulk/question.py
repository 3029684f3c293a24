"""What is asked about each image."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from homefold.config import LookConfig, SearchConfig
from homefold.stages.predictions import Predictions
from homefold.store.files import plain_json

__all__ = ["Question"]


@dataclass(frozen=True)
class Question:
    """How images are answered, as `homefold predict` is told by its flags.

    Args:
        look, search: the settings to answer with.
        projected: bring each feature to the source manifold first.
        compare: tell the label without projection too.
        abstain_above: mark images with a higher off-manifold score.
        abstain_below: mark images with a lower confidence.
    """

    look: LookConfig
    search: SearchConfig
    projected: bool = True
    compare: bool = False
    abstain_above: float | None = None
    abstain_below: float | None = None

    def abstained(self, predictions: Predictions) -> np.ndarray:
        """`(n,)` which answers are to be abstained from."""
        return predictions.abstained(self.abstain_above, confidence_below=self.abstain_below)

    def as_dict(self) -> dict[str, Any]:
        """It as JSON has it."""
        found: dict[str, Any] = plain_json(asdict(self))
        return found
