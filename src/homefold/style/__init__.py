"""The style of an unseen image brought to the styles of the sources, inside the network, its content kept."""

from homefold.config.whole import StyleConfig
from homefold.style.model import (
    StyleModel,
    collect_styles,
    fit_style,
    named_blocks,
    require_channels,
    style_modules,
    styled_net,
)
from homefold.style.statistics import map_style, restyle

__all__ = [
    "StyleConfig",
    "StyleModel",
    "collect_styles",
    "fit_style",
    "map_style",
    "named_blocks",
    "require_channels",
    "restyle",
    "style_modules",
    "styled_net",
]
