"""The learning rate as a plain function of the step, so that a resumed run needs no scheduler state."""

from __future__ import annotations

import math
from collections.abc import Sequence

from homefold.config.features import Schedule

__all__ = ["learning_rate_factor"]

_WARM_UP = 0.3
_START = 1 / 25
_END = 1e-4


def learning_rate_factor(
    schedule: Schedule, step: int, total_steps: int, *, milestones: Sequence[float] = (), decay: float = 0.2
) -> float:
    """What the base rate is multiplied by at `step` of `total_steps`.

    Args:
        schedule: `one-cycle` rises from 1/25 over the first 30 % and falls to 1/10,000, both along a cosine; `step`
            multiplies by `decay` at each milestone; `constant` is 1.
        step: from 0.
        total_steps: of the whole training.
        milestones: fractions of the training at which `step` decays.
        decay: factor of each milestone.

    >>> [round(learning_rate_factor("one-cycle", s, 101), 4) for s in (0, 30, 100)]
    [0.04, 1.0, 0.0001]
    """
    if schedule == "constant":
        return 1.0
    if schedule == "step":
        return decay ** sum(step >= milestone * total_steps for milestone in milestones)
    progress = step / max(total_steps - 1, 1)
    if progress <= _WARM_UP:
        low, high, t = _START, 1.0, progress / _WARM_UP
    else:
        low, high, t = 1.0, _END, (progress - _WARM_UP) / (1 - _WARM_UP)
    return high + (low - high) * (1 + math.cos(math.pi * t)) / 2
