"""Do the features still tell images apart?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from homefold.errors import FeatureCollapseError
from homefold.features.loss import cosine_normalise

__all__ = ["FeatureSpread", "feature_spread", "metric_advice", "require_spread"]

_SMALLEST_NORM = 1e-4
_SMALLEST_DEVIATION = 1e-4


@dataclass(frozen=True)
class FeatureSpread:
    """How a set of features lies on the sphere.

    Args:
        dead: share of features whose length is practically zero.
        deviation: standard deviation of the cosine similarity over pairs.
        same: mean similarity of pairs with equal labels.
        different: mean similarity of pairs with different labels; NaN-free, 0 where there is none.
    """

    dead: float
    deviation: float
    same: float
    different: float


def feature_spread(z: torch.Tensor, labels: torch.Tensor) -> FeatureSpread:
    """Measure `z: (n, d)` with `labels: (n,)`."""
    z = z.float()
    similarity = cosine_normalise(z) @ cosine_normalise(z).T
    others = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    equal = labels[:, None] == labels[None, :]

    def mean(mask: torch.Tensor) -> float:
        return float(similarity[mask].mean()) if bool(mask.any()) else 0.0

    return FeatureSpread(
        dead=float((z.norm(dim=1) < _SMALLEST_NORM).float().mean()),
        deviation=float(similarity[others].std()) if len(z) > 2 else 1.0,
        same=mean(equal & others),
        different=mean(~equal & others),
    )


def metric_advice(*, has_head: bool, has_cross_entropy: bool, learning_rate: float) -> str:
    """What to do where L_A is trained, but for what is done already."""
    steps = [] if has_head else ["use a head (features.head linear or mlp)"]
    steps += [] if has_cross_entropy else ["set features.cross_entropy_weight=1"]
    steps += [f"lower features.learning_rate (it was {learning_rate})", "or start from pretrained weights"]
    return f"L_A needs features of both signs and a start that can tell classes apart: {', '.join(steps)}."


def require_spread(spread: FeatureSpread, epoch: int, advice: str) -> None:
    """Stop with a sentence when the features of the held-out images have become one point."""
    if spread.dead > 0.5:
        found = f"{spread.dead:.0%} of the held-out images have a feature of length zero"
    elif not spread.deviation > _SMALLEST_DEVIATION:
        found = f"all held-out images point the same way (their similarities differ by {spread.deviation:.1e})"
    else:
        return
    raise FeatureCollapseError(f"the features collapsed: after epoch {epoch} {found}. {advice}")
