"""L2-SP (Li et al. 2018): weights are pulled back to where they started instead of to zero."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from homefold.module_state import require_same

__all__ = ["StartingPoint"]


class StartingPoint:
    """Where parameters started, and what it costs them to have moved.

    Args:
        parameters: by name, at their start.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = dict(parameters)
        self._start = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    def distance(self) -> torch.Tensor:
        """½ Σ ‖w − w₀‖², whose gradient is w − w₀."""
        squares = [(parameter - self._start[name]).square().sum() for name, parameter in self._parameters.items()]
        return torch.stack(squares).sum() / 2

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What a checkpoint must keep."""
        return dict(self._start)

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from a checkpoint."""
        require_same(self._start, state, "the start")
        for name, start in self._start.items():
            start.copy_(state[name])
