"""The source styles after some blocks of a network, and the network that looks through them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from homefold.config.whole import EARLY, StyleConfig
from homefold.errors import ConfigError, ModelFileError
from homefold.features.batches import ImageStore
from homefold.features.blocks import backbone_blocks, block_outputs, early_blocks, last_modules
from homefold.features.extraction import image_tile
from homefold.features.network import FeatureNet
from homefold.runtime.module_state import rebuilt
from homefold.runtime.tiles import apply_in_tiles
from homefold.runtime.triton_ready import why_no_triton
from homefold.style.statistics import map_style, restyle

__all__ = [
    "StyleModel",
    "collect_styles",
    "fit_style",
    "named_blocks",
    "require_channels",
    "style_modules",
    "styled_net",
]

_SMALLEST_DEVIATION = 1e-3
_OF_THE_KERNEL = (torch.float32, torch.bfloat16, torch.float16)


def named_blocks(config: StyleConfig, backbone: nn.Module, size: tuple[int, int]) -> StyleConfig:
    """`config` with the names that `early` stands for in this network: none where it has no such maps."""
    return replace(config, blocks=early_blocks(backbone, size)) if config.blocks == (EARLY,) else config


def style_modules(backbone: nn.Module, names: Sequence[str]) -> list[nn.Module]:
    """The last module of each named block, in their order."""
    modules = last_modules(backbone, names, "blocks of style")
    passed = [name for name in backbone_blocks(backbone) if name in names]
    if passed != list(names):
        raise ConfigError(
            f"blocks of style must stand in the order in which an image passes them, {' '.join(passed)}; got "
            f"{' '.join(names)}."
        )
    return modules


def _require_map(name: str, output: torch.Tensor) -> None:
    if output.ndim != 4:
        raise ConfigError(
            f"blocks of style names {name}, whose output of shape {tuple(output.shape)} is no feature map "
            f"(n, c, h, w); name earlier blocks."
        )


def kernel_fits(maps: torch.Tensor) -> bool:
    """Whether the kernel can move the styles of these maps to a fixed one."""
    return (
        maps.device.type == "cuda"
        and maps.ndim == 4
        and maps.dtype in _OF_THE_KERNEL
        and maps.is_contiguous(memory_format=torch.channels_last)
        and not maps.requires_grad
        and maps.numel() > 0
        and not why_no_triton(maps.device)
    )


class BlockStyle(nn.Module):
    """Moves styles after one block to the mean source style `(2 c,)` there, as far as `weight` says.

    The deviation `(2 c,)` of the source styles is saved with them, and not needed to move any.
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, mean: torch.Tensor, deviation: torch.Tensor, weight: float) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.weight = weight

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        if kernel_fits(maps):
            from homefold.style.kernel import move  # Triton is not there on every platform

            return move(maps, self.mean, self.weight)
        own = map_style(maps)
        return restyle(maps, own, torch.lerp(own, self.mean.expand_as(own), self.weight))


class StyleModel(nn.Module):
    """Source styles after each of `config.blocks`: one part a block, in their order.

    Where each source domain has its own, those of the first domain come first, then those of the next.
    """

    def __init__(self, config: StyleConfig, parts: Sequence[BlockStyle]) -> None:
        super().__init__()
        self.config = config
        self.parts = nn.ModuleList(parts)

    @property
    def sizes(self) -> list[int]:
        """How many numbers a style has after each block."""
        return [len(mean) for name, mean in self.named_buffers() if name.endswith(".mean")][: len(self.config.blocks)]

    @property
    def destinations(self) -> list[list[nn.Module]]:
        """One part a block for each place that styles are brought to: one place, or as many as source domains."""
        blocks = max(1, len(self.config.blocks))
        return [list(self.parts[start : start + blocks]) for start in range(0, len(self.parts), blocks)]

    @staticmethod
    def from_tensors(tensors: Mapping[str, torch.Tensor], config: StyleConfig) -> StyleModel:
        """What `state_dict` was taken from; what does not fit the settings is refused."""
        names = config.blocks
        if config.manifold == "domains":
            names *= max(1, sum(name.endswith(".mean") for name in tensors) // len(names))
        sizes = [_size_of_style(tensors, i, name) for i, name in enumerate(names)]

        def build() -> StyleModel:
            return StyleModel(config, [BlockStyle(torch.zeros(n), torch.ones(n), config.weight) for n in sizes])

        model = rebuilt(build, tensors, "the model of styles")
        for name, part in zip(names, model.parts, strict=True):
            if not bool((part.get_buffer("deviation") > 0).all()):
                raise ModelFileError(f"the styles after {name} have deviations that are not positive.")
        return model


def _size_of_style(tensors: Mapping[str, torch.Tensor], index: int, name: str) -> int:
    mean = tensors.get(f"parts.{index}.mean")
    if mean is None:
        raise ModelFileError(f"the styles after {name} are missing.")
    if mean.ndim != 1 or not len(mean):
        raise ModelFileError(f"the styles after {name} should be a row of numbers; got shape {tuple(mean.shape)}.")
    return len(mean)


def require_channels(style: StyleModel, backbone: nn.Module, size: tuple[int, int]) -> None:
    """Refuse styles that are not those of the maps after their blocks; of the backbone its outline will do."""
    blocks = style.config.blocks
    outputs = block_outputs(backbone, blocks, size, "blocks of style")
    for parts in style.destinations:
        for name, part in zip(blocks, parts, strict=True):
            output, mean = outputs.get(name), part.get_buffer("mean")
            if not isinstance(output, torch.Tensor) or output.ndim != 4 or 2 * output.shape[1] != len(mean):
                raise ModelFileError(f"the styles after {name} are not of this network: they have other channels.")


@torch.no_grad()
def collect_styles(
    net: FeatureNet,
    images: np.ndarray,
    device: torch.device,
    blocks: Sequence[str],
    rows: np.ndarray | None = None,
) -> list[torch.Tensor]:
    """After each of `blocks` the styles `(n, 2 c)` of `images: (n, h, w, 3)` uint8 or of some rows, on `device`."""
    store = ImageStore(images, device)
    seen: dict[str, torch.Tensor] = {}

    def look(name: str, output: torch.Tensor) -> None:
        _require_map(name, output)
        seen[name] = map_style(output)

    handles = [
        module.register_forward_hook(lambda _module, _inputs, output, name=name: look(name, output))
        for name, module in zip(blocks, style_modules(net.backbone, blocks), strict=True)
    ]

    def styles(rows: torch.Tensor) -> torch.Tensor:
        net.backbone((store.batch(rows) - net.mean) / net.std)
        return torch.cat([seen[name] for name in blocks], dim=1)

    net.eval()
    try:
        asked = torch.arange(len(images)) if rows is None else torch.from_numpy(rows)
        found = apply_in_tiles(styles, asked, image_tile(images.shape[1:3], device))
    finally:
        for handle in handles:
            handle.remove()
    return list(found.split([seen[name].shape[1] for name in blocks], dim=1))


def fit_style(
    config: StyleConfig,
    net: FeatureNet,
    images: np.ndarray,
    train: np.ndarray,
    *,
    domains: np.ndarray | None = None,
    device: torch.device,
) -> StyleModel:
    """Model the styles of source images.

    Args:
        config: which blocks, and how styles are modelled.
        net: f after stage 1.
        images: `(n, h, w, 3)` uint8, of the sources alone.
        train: indices to model.
        domains: `(n,)` the domain of each image, where each domain has a style of its own.
        device: where to compute.
    """
    style_modules(net.backbone, config.blocks)
    together = [train]
    if config.manifold == "domains":
        if domains is None:
            raise ConfigError("style.manifold=domains needs the source domain of every image.")
        together = [train[domains[train] == domain] for domain in np.unique(domains[train])]
    parts = [part for rows in together for part in _fit_blocks(config, net, images, rows, device)]
    return StyleModel(config, parts).to(device).eval().requires_grad_(False)


def _fit_blocks(
    config: StyleConfig, net: FeatureNet, images: np.ndarray, rows: np.ndarray, device: torch.device
) -> list[BlockStyle]:
    """One part a block for the images at `rows`."""
    parts: list[BlockStyle] = []
    for name in config.blocks:
        # As a later block will see them: after the earlier ones have moved their styles.
        before = StyleModel(replace(config, manifold="mean", blocks=config.blocks[: len(parts)]), parts)
        seen = styled_net(net, before) if parts else net
        (given,) = collect_styles(seen, images, device, [name], rows)
        mean, deviation = given.mean(dim=0), given.std(dim=0).clamp_min(_SMALLEST_DEVIATION)
        parts.append(BlockStyle(mean, deviation, config.weight).to(device).eval().requires_grad_(False))
    return parts


class MeanBackbone(nn.Module):
    """The mean of what several backbones make of the same images."""

    def __init__(self, backbones: Sequence[nn.Module]) -> None:
        super().__init__()
        self.backbones = nn.ModuleList(backbones)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.stack([backbone(images) for backbone in self.backbones]).mean(dim=0)


def styled_net(net: FeatureNet, style: StyleModel) -> FeatureNet:
    """A copy of `net` in which the style of every image is brought to the source styles after each block.

    Where each source domain has a style of its own, the backbone's outputs for all of them, and for the image as it is,
    are averaged.
    """
    copied = copy.deepcopy(net).eval()
    moved = [_moving_backbone(net.backbone, style.config.blocks, parts) for parts in style.destinations]
    several = style.config.manifold == "domains"
    copied.backbone = MeanBackbone([copied.backbone, *moved]).eval() if several else moved[0]
    return copied


def _moving_backbone(backbone: nn.Module, blocks: Sequence[str], parts: Sequence[nn.Module]) -> nn.Module:
    """A copy of a backbone that moves styles after each of `blocks`."""

    def move(part: nn.Module, name: str, output: torch.Tensor) -> Any:
        _require_map(name, output)
        return part(output)

    copied = copy.deepcopy(backbone).eval()
    for name, module, part in zip(blocks, style_modules(copied, blocks), parts, strict=True):
        module.register_forward_hook(lambda _module, _inputs, output, part=part, name=name: move(part, name, output))
    return copied
