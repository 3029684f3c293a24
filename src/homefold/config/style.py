"""Every setting of the projection of styles."""

from __future__ import annotations

from typing import Literal

from homefold.config.values import Share, dataclass
from homefold.errors import ConfigError, shown

__all__ = ["EARLY", "StyleConfig"]

EARLY = "early"


@dataclass(frozen=True)
class StyleConfig:
    """How the style of an unseen image is brought to the source styles inside the network; by default not at all."""

    blocks: tuple[str, ...] = ()
    """Blocks of the backbone after which it is done, such as layer1 layer2; early means the first two with fine
    maps after the stem. Without a name styles stay as they are."""
    manifold: Literal["mean", "domains"] = "mean"
    """What stands for the source styles: their mean, or the mean of each source domain in turn (domains: the backbone's
    outputs for all of them and for the image as it is are averaged, so that an answer takes one pass more than there
    are source domains)."""
    weight: Share = 1.0
    """How far a style is moved: 0 leaves it, 1 takes the source style."""

    def __post_init__(self) -> None:
        if len(set(self.blocks)) < len(self.blocks):
            raise ConfigError(f"style.blocks names a block twice; got {shown(' '.join(self.blocks))}.")
        if EARLY in self.blocks and len(self.blocks) > 1:
            raise ConfigError(
                f"style.blocks must be {EARLY} alone or names of blocks; got {shown(' '.join(self.blocks))}."
            )
