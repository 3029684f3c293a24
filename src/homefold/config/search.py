"""Every setting of the search for the projection of one feature, and what the named presets stand for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from homefold.config.values import Count, CountFromZero, FromZeroBelowOne, Positive, dataclass
from homefold.errors import ConfigError

__all__ = ["SearchConfig", "search_preset"]

_MOST_RANDOM_STARTS, _LARGEST_TILE = 4096, 65_536


@dataclass(frozen=True)
class SearchConfig:
    """Stage 4: how an unseen feature is brought to the source manifold."""

    encoder_start: bool = True
    """Start from the manifold's encoder; where it has none (GAN), from its nearest known point."""
    random_starts: Annotated[int, Field(ge=0, le=_MOST_RANDOM_STARTS)] = 0
    """Further starts drawn from N(0, I), the same ones for every sample."""
    nearest_starts: CountFromZero = 0
    """Further starts from the latents of the most similar known points of the manifold."""
    step: Literal["gradient", "normalised", "adam"] = "adam"
    """Step rule: gradient (plain), normalised (constant relative length with momentum) or adam."""
    rate: Positive = 0.05
    """Step size β."""
    momentum: FromZeroBelowOne = 0.9
    """Momentum of the normalised rule."""
    steps: CountFromZero = 50
    """Steps at most (M)."""
    stop: Literal["elbow", "fixed"] = "fixed"
    """Stopping rule: elbow (sharpest bend of the smoothed loss curve) or fixed (after all steps)."""
    window: Count = 5
    """Losses that are averaged before the elbow is looked for; odd."""
    engine: Literal["auto", "reference", "batched", "compiled", "fused"] = "auto"
    """What runs the search: reference (one sample and one start at a time, everything stored), batched (all at once),
    compiled (CUDA graphs), fused (one CUDA kernel for the whole search); auto takes the fastest that can run."""
    precision: Literal["auto", "highest", "high", "medium"] = "auto"
    """Of matrix products on a GPU: highest (float32), high (TF32, or two bfloat16 parts), medium (bfloat16); auto is
    high. The CPU always computes in float32."""
    tile: Annotated[int, Field(ge=0, le=_LARGEST_TILE)] = 0
    """Samples computed together, always filled up to this number; 0 takes what suits the device."""

    def __post_init__(self) -> None:
        if self.starts == 0:
            raise ConfigError(
                "the search needs a start; set search.encoder_start, search.random_starts or search.nearest_starts."
            )
        if self.window % 2 == 0:
            raise ConfigError(f"search.window must be odd, so that it has a centre; got {self.window}.")
        if self.stop == "elbow" and self.steps < self.window + 2:
            raise ConfigError(
                f"search.stop=elbow needs at least search.window + 2 = {self.window + 2} steps; got {self.steps}."
            )

    @property
    def starts(self) -> int:
        """How many latents are tried for a sample."""
        return int(self.encoder_start) + self.random_starts + self.nearest_starts

    @property
    def resolved_precision(self) -> Literal["highest", "high", "medium"]:
        """`precision`, with auto settled."""
        return "high" if self.precision == "auto" else self.precision


_PRESETS = {
    "default": SearchConfig(),
    "paper": SearchConfig(
        encoder_start=False, random_starts=1, step="gradient", rate=0.01, steps=20_000, stop="elbow", window=5
    ),
    "authors": SearchConfig(
        encoder_start=False, random_starts=1, step="normalised", rate=0.01, steps=1_000, stop="elbow", window=5
    ),
    "restarts": SearchConfig(encoder_start=False, random_starts=8, steps=200),
}


def search_preset(name: str) -> SearchConfig:
    """The settings called `name`.

    `default`: one encoder start and a fixed number of Adam steps. `paper`: Algorithm 1 to the letter. `authors`: the
    normalised steps that the released scripts take. `restarts`: eight random starts, the best kept.

    >>> search_preset("paper").steps
    20000
    """
    if name not in _PRESETS:
        raise ConfigError(f"there is no search preset {name!r}; choose one of {', '.join(_PRESETS)}.")
    return _PRESETS[name]
