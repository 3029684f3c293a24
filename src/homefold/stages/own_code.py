"""Backbones and manifolds that plugins register: their code counts, and a model of theirs needs them to load."""

from __future__ import annotations

from typing import Any

from homefold.config import HomefoldConfig
from homefold.config.backbones import BACKBONES
from homefold.config.manifold import MANIFOLDS
from homefold.errors import ModelFileError, shown
from homefold.runtime.code import joined_keys, key_of_thing
from homefold.runtime.registry import Registry

__all__ = ["backbone_code", "config_code", "manifold_code", "require_registered"]


def backbone_code(name: str) -> str:
    """Stands for the code of a plugin's backbone; empty for any other."""
    return key_of_thing(BACKBONES[name].build) if name in BACKBONES else ""


def manifold_code(name: str) -> str:
    """Stands for the code of a plugin's manifold; empty for any other."""
    return key_of_thing(MANIFOLDS[name].fit) if name in MANIFOLDS else ""


def config_code(config: HomefoldConfig) -> str:
    """Stands for all code of plugins that a configuration names."""
    return joined_keys([backbone_code(config.features.backbone), manifold_code(config.manifold.kind)])


def require_registered(name: str, registry: Registry[Any], where: object) -> None:
    """Refuse to load the model at `where`, of which nobody registered the backbone or the manifold."""
    if name not in registry:
        raise ModelFileError(
            f"the model in {where} has the {registry.kind} {shown(name)}, which is none of homefold's own "
            f"({', '.join(registry)}): it came from a plugin. Loading a model runs no code by itself; name its file "
            f"again: by plugin in a command, by homefold.load_plugin in Python."
        )
