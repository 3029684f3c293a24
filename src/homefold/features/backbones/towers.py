"""Image models of timm: built for a size, with weights from its cache, a download or a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from homefold.errors import ConfigError, ModelFileError, cut, shown

__all__ = ["build_tower", "cached_weights", "download_tower", "own_names", "trained_size"]

_FILES_OF_A_REPOSITORY = (
    "model.safetensors",
    "pytorch_model.bin",
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.bin",
)


def build_tower(name: str, image_size: tuple[int, int] | None = None, *, download: bool = False) -> nn.Module:
    """The model that timm calls `name`, without its last layer.

    Args:
        name: as timm has it, with or without the tag of its weights.
        image_size: `(height, width)` that it will be given; position embeddings have this size then. None takes the
            size that it was trained at.
        download: start from the weights that timm publishes instead of random ones.
    """
    timm = _timm(name)
    published = timm.get_pretrained_cfg(name)
    # Of a convolutional network no layer depends on the size.
    sized = image_size is not None and published is not None and published.fixed_input_size
    try:
        if not sized:
            model: nn.Module = timm.create_model(name, pretrained=download, num_classes=0)
        else:
            model = timm.create_model(name, pretrained=download, num_classes=0, img_size=image_size)
    except (AssertionError, TypeError, ValueError) as error:
        if not sized:
            raise
        raise ConfigError(
            f"timm:{name} cannot be built for images of {_by(image_size)} pixels ({cut(str(error))}); it was trained "
            f"at {_by(published.input_size[1:])}. Choose another preprocessing.image_size."
        ) from None
    if image_size is not None:
        _require_whole_patches(model, name, image_size)
    return model


def download_tower(name: str, image_size: tuple[int, int] | None) -> nn.Module:
    """The model with the weights that timm publishes, which are fetched and kept in the cache of their library."""
    try:
        return build_tower(name, image_size, download=True)
    except ConfigError:
        raise
    except Exception as error:  # of the network, of the hub's library, of timm where it has no weights
        raise ModelFileError(
            f"the weights of timm:{name} could not be downloaded ({cut(str(error) or type(error).__name__)}). Set "
            f"features.weights to a file that you have, or to none to start at random."
        ) from None


def cached_weights(name: str) -> Path | None:
    """The file of published weights that lies in the cache already; None where there is none."""
    published = _timm(name).get_pretrained_cfg(name)
    if published is None:
        return None
    if published.hf_hub_id:
        from huggingface_hub import try_to_load_from_cache

        repository, _, revision = published.hf_hub_id.partition("@")
        for file in (published.hf_hub_filename,) if published.hf_hub_filename else _FILES_OF_A_REPOSITORY:
            found = try_to_load_from_cache(repository, file, revision=revision or None)
            if isinstance(found, str):
                return Path(found)
    if published.url:
        found = Path(torch.hub.get_dir()) / "checkpoints" / Path(published.url).name
        return found if found.is_file() else None
    return None


def trained_size(model: nn.Module) -> str:
    """In words for a message, at what size a model of timm was trained; empty for any other."""
    published = getattr(model, "pretrained_cfg", None)
    size = published.get("input_size") if isinstance(published, dict) else None
    return f"; it was trained at {_by(size[1:])}" if size else ""


def own_names(model: nn.Module, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights as their authors published them, by the names that `model` has, position embeddings at its size.

    timm knows how; what it cannot make out comes back as it was.
    """
    convert: Callable[..., Any] | None = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return state
    try:
        converted = convert(dict(state), model)
    except Exception:  # weights of something else: whatever its lines stumble over
        return state
    return converted if isinstance(converted, dict) else state


def _timm(name: str) -> Any:
    try:
        import timm
    except ImportError:
        raise ConfigError(f"timm:{name} needs the timm package: pip install 'homefold[timm]'.") from None
    if not timm.is_model(name):
        known, word = sorted(timm.list_models(), key=len), name.split("_")[0]
        near = [other for end in range(len(name), 2, -1) for other in known if other.startswith(name[:end])]
        near = list(dict.fromkeys([*near, *(other for other in known if word in other)]))[:5]
        raise ConfigError(f"timm has no model {shown(name)}; close names: {', '.join(near) or 'none'}.")
    return timm


def _require_whole_patches(model: nn.Module, name: str, image_size: tuple[int, int]) -> None:
    """Refuse a size of which a transformer would leave out the last pixels, or which it would refuse itself."""
    patch = getattr(getattr(model, "patch_embed", None), "patch_size", None)
    if not isinstance(patch, tuple | list):
        return
    for side, step in zip(image_size, patch, strict=True):
        if side % step:
            below, above = side // step * step, (side // step + 1) * step
            near = f"{below} or {above}" if below else f"{above}"
            raise ConfigError(
                f"timm:{name} reads an image in patches of {step} pixels, and preprocessing.image_size={side} is no "
                f"multiple of {step}; set it to {near}."
            )


def _by(size: Any) -> str:
    return f"{size[0]}×{size[1]}"
