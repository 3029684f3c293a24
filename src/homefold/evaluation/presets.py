"""What `paper`, `default`, `thorough` and `quick` mean for a backbone: the configuration a benchmark starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from homefold.config import HomefoldConfig, look_preset, preset_config, replace_settings, search_preset
from homefold.config.backbones import BACKBONES
from homefold.errors import ConfigError

__all__ = ["bench_config"]

_QUICK_SEARCH_STEPS = 150


def bench_config(preset: str, backbone: str, *, weights: str = "", elbow_search: bool = False) -> HomefoldConfig:
    """The configuration of a preset for a backbone.

    Args:
        preset: `paper` (the text to the letter), `default` (what serves users best), `thorough` (the same, and several
            looks at each image to be answered) or `quick` (minutes).
        weights: where a pretrained backbone starts; empty for the preset's own.
        elbow_search: search as the paper's tables of β and ε do, from one random start to the elbow, and let styles be.
    """
    if preset not in _PRESETS:
        raise ConfigError(f"there is no preset {preset!r}; choose one of {', '.join(_PRESETS)}.")
    config = _PRESETS[preset](backbone)
    if weights:
        config = replace_settings(config, {"features.weights": weights})
    if elbow_search and preset != "paper":
        search = search_preset("authors")
        steps = _QUICK_SEARCH_STEPS if preset == "quick" else search.steps
        look, search = look_preset("authors"), replace(search, steps=steps)
        config = replace(config, look=look, search=search, style=replace(config.style, blocks=()))
    return config


def _paper(backbone: str) -> HomefoldConfig:
    """Section 2 of the method's description: numbers that the text gives, backbone by backbone."""
    config = preset_config("paper", {"features.backbone": backbone})
    return replace_settings(config, dict(BACKBONES[backbone].paper)) if backbone in BACKBONES else config


def _is_small(backbone: str) -> bool:
    return backbone in BACKBONES and not BACKBONES[backbone].pretrained


def _default(backbone: str, small: str = "small", large: str = "default") -> HomefoldConfig:
    return preset_config(small if _is_small(backbone) else large, {"features.backbone": backbone})


def _thorough(backbone: str) -> HomefoldConfig:
    return _default(backbone, "small-thorough", "thorough")


def _quick(backbone: str) -> HomefoldConfig:
    config = _default(backbone)
    if _is_small(backbone):
        return replace_settings(config, {"features.epochs": 8, "features.feature_dim": 64, "manifold.epochs": 60})
    return replace_settings(config, {"features.epochs": 3, "manifold.epochs": 40})


_PRESETS: dict[str, Callable[[str], HomefoldConfig]] = {
    "paper": _paper,
    "default": _default,
    "thorough": _thorough,
    "quick": _quick,
}
