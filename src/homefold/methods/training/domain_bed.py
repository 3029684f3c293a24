"""What methods have in common that run as DomainBed trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from homefold.methods.recipe import DOMAIN_BED
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["DomainBedMethod"]


@dataclass(frozen=True)
class DomainBedMethod(LearnerMethod):
    """A method whose figures are those of DomainBed, by its recipe."""

    recipes = DOMAIN_BED

    optimiser: Literal["sgd", "adam"] = tunable("sgd", choices=("sgd", "adam"), drawn=False)
    """What steps: sgd with momentum, or adam."""
