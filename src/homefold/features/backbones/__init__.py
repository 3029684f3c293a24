"""Building a backbone by its name, with the weights it starts from; each lies in a file of this folder."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from homefold.config.backbones import BACKBONES
from homefold.errors import ConfigError, ModelFileError, cut
from homefold.features.backbones.towers import (
    build_tower,
    cached_weights,
    download_tower,
    own_names,
    trained_size,
)

__all__ = ["build_backbone", "find_weights", "list_backbones", "output_dim", "output_for_one_image"]

_LARGE_PX = 512


def list_backbones() -> list[str]:
    """Every name that `build_backbone` knows, beside `timm:<name>`.

    >>> "resnet18" in list_backbones() and "wrn-16-4" in list_backbones()
    True
    """
    return list(BACKBONES)


def build_backbone(name: str, weights: str = "none", image_size: tuple[int, int] | None = None) -> nn.Module:
    """The network called `name` without its last layer, ready to give `(n, d)` features for images.

    Args:
        name: one of `list_backbones()`, or `timm:<name>` with the `timm` extra installed.
        weights: `none`; `torchvision` or `timm` for the published ones, downloaded on first use; or a path to a
            safetensors or torch file; `auto` takes the published ones if they lie in the local cache, and asks
            otherwise.
        image_size: `(height, width)` that it will be given, for networks that are built for one; by default the size
            that they were trained at.
    """
    if name.startswith("timm:"):
        return _timm_backbone(name.removeprefix("timm:"), weights, image_size)
    backbone = BACKBONES[name]
    model: nn.Module = backbone.build()
    if weights == "none" or (weights == "auto" and not backbone.pretrained):
        return model
    if weights == "torchvision" and not backbone.pretrained:
        raise ConfigError(f"torchvision has no weights for {name!r}; choose weights none or a file.")
    path = find_weights(name, weights)
    _load_weights(model, _torchvision_state(name) if path is None else _read_weights(path), name, str(path or weights))
    return model


def _torchvision_weights(name: str) -> tuple[str, Path]:
    """The address of torchvision's default weights for `name`, and the file that torch.hub keeps them in."""
    import torchvision

    url = torchvision.models.get_model_weights(name).IMAGENET1K_V1.url
    return url, Path(torch.hub.get_dir()) / "checkpoints" / Path(url).name


def find_weights(name: str, weights: str) -> Path | None:
    """The local file that `weights` stands for; None when published ones must be downloaded, as the user asked."""
    if name.startswith("timm:"):
        if weights in ("auto", "timm"):
            return _cached_by_timm(name, download=weights == "timm")
    elif weights in ("auto", "torchvision"):
        _, cached = _torchvision_weights(name)
        if cached.exists():
            return cached
        if weights == "torchvision":
            return None
        raise ConfigError(
            f"{name} starts from ImageNet weights, and none lie in {cached.parent}. Set features.weights to "
            f"torchvision to download them once, to a safetensors or .pth file of yours, or to none to train from "
            f"scratch (needs far more images); or features.backbone to another network."
        )
    path = Path(weights)
    if not path.is_file():
        raise ConfigError(
            f"the weights file {weights} does not exist; give a safetensors or .pth file, "
            f"{'timm' if name.startswith('timm:') else 'torchvision'}, or none."
        )
    return path


def _cached_by_timm(name: str, *, download: bool) -> Path | None:
    found = cached_weights(name.removeprefix("timm:"))
    if found is None and not download:
        raise ConfigError(
            f"{name} starts from published weights, and none lie in the cache of this machine. Set features.weights to "
            f"timm to download them once, to a safetensors or .pth file of yours, or to none to start at random."
        )
    return found


def _torchvision_state(name: str) -> dict[str, torch.Tensor]:
    url, cached = _torchvision_weights(name)
    try:
        return torch.hub.load_state_dict_from_url(url, progress=False, check_hash=True, weights_only=True)
    except OSError as error:
        raise ModelFileError(
            f"torchvision's weights for {name} could not be downloaded from {url} ({error}). Put the file at {cached}, "
            f"or set features.weights to another one."
        ) from None


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name from a safetensors file, or from a torch file read without running code."""
    try:
        if path.suffix == ".safetensors":
            return load_file(str(path))
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, RuntimeError, OSError, ValueError, EOFError, KeyError) as error:
        raise ModelFileError(f"the weights file {path} cannot be read ({error}).") from None
    except Exception as error:  # torch raises pickle errors of several kinds for files that are no plain state
        raise ModelFileError(f"the weights file {path} is not a plain state dict of tensors ({error}).") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ModelFileError(f"the weights file {path} does not hold tensors by name.")
    return {key.removeprefix("module."): value for key, value in state.items()}


def _load_weights(model: nn.Module, state: dict[str, torch.Tensor], name: str, origin: str) -> None:
    own = model.state_dict()
    usable = {key: value.to(own[key].dtype) for key, value in state.items() if key in own}
    absent = [key for key in own if key not in usable and not key.endswith("num_batches_tracked")]
    wrong = [key for key in usable if usable[key].shape != own[key].shape]
    if absent or wrong:
        example, first = (absent or wrong)[0], next(iter(state), None)
        raise ModelFileError(
            f"{origin} does not hold weights of {name}: {len(absent)} tensors are missing and {len(wrong)} have "
            f"another shape (for example {example!r}); it has {len(state)} tensors, such as {first!r}. Give a file of "
            f"{name}, or set features.backbone to the network that this one belongs to."
        )
    model.load_state_dict(usable, strict=False)


def _timm_backbone(name: str, weights: str, image_size: tuple[int, int] | None) -> nn.Module:
    if weights == "none":
        return build_tower(name, image_size)
    path = find_weights(f"timm:{name}", weights)
    if path is None:
        return download_tower(name, image_size)
    model = build_tower(name, image_size)
    _load_weights(model, own_names(model, _read_weights(path)), f"timm:{name}", str(path))
    return model


def output_dim(backbone: nn.Module, image_size: tuple[int, int]) -> int:
    """How many features `backbone` gives for images of `(height, width)`, found by asking it."""
    try:
        features = output_for_one_image(backbone, image_size)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"the backbone cannot take images of {image_size[0]}×{image_size[1]} pixels ({cut(str(error))})"
            f"{trained_size(backbone)}; choose another preprocessing.image_size."
        ) from None
    if features.ndim != 2 or features.shape[1] == 0:
        raise ConfigError(
            f"a backbone must turn (n, 3, h, w) images into (n, d) features; for {image_size[0]}×{image_size[1]} "
            f"pixels it gave shape {tuple(features.shape)}."
        )
    return int(features.shape[1])


@torch.no_grad()
def output_for_one_image(backbone: nn.Module, image_size: tuple[int, int]) -> torch.Tensor:
    """What `backbone` gives for one image, for its shape; the network is left as it was.

    A large image takes gigabytes on its way, so that only the outline of the network is asked, where that can answer.
    """
    if max(image_size) > _LARGE_PX:
        try:
            outline = copy.deepcopy(backbone).to("meta").eval()
            return _forward(outline, image_size)
        except RuntimeError:  # a network of the user's own may look at values on its way
            pass
    was_training = backbone.training
    backbone.eval()
    try:
        return _forward(backbone, image_size)
    finally:
        backbone.train(was_training)


def _forward(network: nn.Module, image_size: tuple[int, int]) -> torch.Tensor:
    parameter = next(network.parameters(), torch.zeros(()))
    output: torch.Tensor = network(torch.zeros(1, 3, *image_size, device=parameter.device, dtype=parameter.dtype))
    return output
