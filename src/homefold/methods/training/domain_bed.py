"""What methods have in common that run as DomainBed trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from homefold.config import HomefoldConfig
from homefold.errors import ConfigError
from homefold.methods.recipe import DOMAIN_BED
from homefold.methods.training.learner import Batch
from homefold.methods.training.learner_method import LearnerMethod, tunable
from homefold.stages.features import weights_identity

__all__ = ["DomainBedMethod", "begins_at"]


@dataclass(frozen=True)
class DomainBedMethod(LearnerMethod):
    """A method whose figures are those of DomainBed, by its recipe."""

    recipes = DOMAIN_BED

    optimiser: Literal["sgd", "adam"] = tunable("sgd", choices=("sgd", "adam"), drawn=False)
    """What steps: sgd with momentum, or adam."""
    statistics: Literal["learned", "kept"] = tunable("learned", choices=("learned", "kept"), drawn=False)
    """Those of batch normalisation: learned in training, or kept as the network came with them."""

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        config = super().configure(config, preset)
        if self.statistics == "kept" and weights_identity(config.features) == "none":
            name = self.own_name
            raise ConfigError(
                f"{name} by its authors' recipe keeps the statistics of batch normalisation that the network came "
                f"with, and there are none, as features.weights is none. Give it weights, or write "
                f"{name}:statistics=learned."
            )
        return config


def begins_at(share: float, batch: Batch) -> bool:
    """Whether this is the first step at which `share` of the training is over, and not the first of all."""
    return batch.step > 0 and (batch.step - 1) / batch.steps < share <= batch.progress
