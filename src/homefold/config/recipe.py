"""The preset `auto`: settings that follow from how many images there are, what the network starts from, and the device.

The rows for pretrained networks were chosen on held-out source domains of PACS (study/small-data.md), those for
networks from scratch on held-out source domains of Digits-DG and digits-mini (study/small-data.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["DataFacts", "recipe"]


@dataclass(frozen=True)
class DataFacts:
    """What the recipe looks at.

    Args:
        images: of all source domains.
        kinds: how many pairs of a domain and a class have images.
        pretrained: whether the network starts from weights that know something.
        accelerated: whether a GPU computes.
        tower: whether the network is one of timm.
    """

    images: int
    kinds: int
    pretrained: bool
    accelerated: bool
    tower: bool = False

    @property
    def of_each_kind(self) -> float:
        """Images of a class in a domain, on average."""
        return self.images / max(1, self.kinds)


@dataclass(frozen=True)
class _Row:
    """Epochs, the highest learning rate, and the share of the starting weights that is kept, below so many images."""

    below: float
    epochs: int
    rate: float
    kept: float


# The bounds lie halfway, by ratio, between the sizes that were measured: 10, 20, 40, 100 and all (about 350).
_PRETRAINED = (
    _Row(14, 300, 0.03, 0.6),
    _Row(28, 300, 0.03, 0.3),
    _Row(63, 100, 0.1, 0.3),
    _Row(190, 60, 0.1, 0.4),
    _Row(float("inf"), 30, 0.1, 0.2),
)
_SCRATCH_STEPS, _SCRATCH_EPOCHS, _MOST_EPOCHS = 1000, 30, 300
_BATCH = 128
_FROZEN_RATE, _FROZEN_EPOCHS = 0.03, 100
_MANY_IMAGES, _SMALLER_PX = 5000, 128


def recipe(facts: DataFacts) -> tuple[str, dict[str, Any]]:
    """The preset to start from, and the settings that are changed in it.

    Without a GPU a pretrained backbone is frozen: computing its features once takes minutes, training it takes hours.
    One of timm always is, and sees images of its own size: the rates for training were measured on ResNets.

    >>> recipe(DataFacts(images=210, kinds=21, pretrained=True, accelerated=True))[1]["features.epochs"]
    300
    """
    if not facts.pretrained:
        steps_an_epoch = max(1, facts.images // _BATCH)
        epochs = min(_MOST_EPOCHS, max(_SCRATCH_EPOCHS, -(-_SCRATCH_STEPS // steps_an_epoch)))
        # Familiar images gain by projection here (study/familiar-images.md).
        return "small", {"features.epochs": epochs}
    if facts.tower:
        return "foundation", {"features.epochs": _FROZEN_EPOCHS, "features.learning_rate": _FROZEN_RATE}
    if not facts.accelerated:
        size = {"preprocessing.image_size": _SMALLER_PX} if facts.images > _MANY_IMAGES else {}
        return "default", {
            "features.freeze": "backbone",
            "features.epochs": _FROZEN_EPOCHS,
            "features.learning_rate": _FROZEN_RATE,
            "look.leave_familiar": True,
            # The head alone is trained again for each domain that is left out: that takes seconds.
            "calibrate": "domains",
            **size,
        }
    row = next(row for row in _PRETRAINED if facts.of_each_kind < row.below)
    return "default", {
        "features.epochs": row.epochs,
        "features.learning_rate": row.rate,
        "features.keep_pretrained": row.kept,
        "look.leave_familiar": True,
        "calibrate": "images",
    }
