"""A backbone as its blocks from pixels to features, by name: where styles can be mixed or moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import ismethod

import torch
from torch import nn

from homefold.errors import ConfigError, cut
from homefold.features.backbones import output_for_one_image
from homefold.features.level_maps import NamedPart, named_cuts

__all__ = ["backbone_blocks", "block_outputs", "early_blocks", "inner_blocks", "last_modules"]

_COARSEST = 16
# What holds the layers of a transformer, or the stages of one with several: as timm calls them.
_CALLED = {"blocks": "block", "layers": "stage", "stages": "stage"}


def backbone_blocks(backbone: nn.Module) -> dict[str, tuple[nn.Module, ...]]:
    """The parts of `backbone` that learn something, by name, in the order in which an image passes them.

    Each is its layers in the order they are applied; the last one's output is the block's.

    A residual network has `stem` and `layer1` to `layer4`, the digits nets `block1` to `block4`, the wide residual
    network `stem` and `group1` to `group3`, AlexNet `features1` to `features3` (each up to a pooling) and
    `classifier`. A transformer has `stem` and its layers, `block1` to `block12` say, or its stages, `stage1` to
    `stage4`, where it has such; then its last norm. Any other network has its children that learn something, by their
    own names.

    >>> from homefold.features.backbones import build_backbone
    >>> list(backbone_blocks(build_backbone("digits")))
    ['block1', 'block2', 'block3', 'block4']
    """
    blocks: dict[str, tuple[nn.Module, ...]] = {}
    taken: set[nn.Parameter] = set()
    for name, modules in _named_parts(backbone):
        parameters = {parameter for module in modules for parameter in module.parameters()} - taken
        taken |= parameters
        if parameters:
            blocks[name] = tuple(modules)
    return blocks or {"backbone": (backbone,)}


def last_modules(backbone: nn.Module, names: Sequence[str], setting: str) -> list[nn.Module]:
    """The last module of each block called so, whose output is the block's.

    An unknown name gets a sentence, which begins with the `setting` that asks.
    """
    blocks = backbone_blocks(backbone)
    unknown = [name for name in names if name not in blocks]
    if unknown:
        raise ConfigError(
            f"{setting} names {cut(', '.join(unknown))}, which a {type(backbone).__name__} does not have; its blocks "
            f"are {', '.join(blocks)}."
        )
    return [blocks[name][-1] for name in names]


def inner_blocks(blocks: Iterable[str]) -> tuple[str, ...]:
    """Names of the first two blocks after the stem, where a map still shows its image's style."""
    return tuple(name for name in blocks if name != "stem")[:2]


def early_blocks(backbone: nn.Module, size: tuple[int, int]) -> tuple[str, ...]:
    """Those of the first two blocks after the stem that give fine maps: of a sixteenth of an image's side or more.

    A vision transformer's blocks give no such maps, and where a network comes in few large parts, the map after one of
    them says what is in an image rather than how it looks.

    >>> from homefold.features.backbones import build_backbone
    >>> early_blocks(build_backbone("digits"), (32, 32))
    ('block1', 'block2')
    """
    names = inner_blocks(backbone_blocks(backbone))
    outputs = block_outputs(backbone, names, size, "the search for early blocks")
    return tuple(
        name
        for name, output in outputs.items()
        if isinstance(output, torch.Tensor) and output.ndim == 4 and _is_fine(output.shape[2:], size)
    )


def block_outputs(backbone: nn.Module, names: Sequence[str], size: tuple[int, int], setting: str) -> dict[str, object]:
    """What some blocks give for one image, by their names: it is sent through the network, which is left as it was.

    A block through which it does not pass is left out. `setting` is what asks, as for `last_modules`.
    """
    found: dict[str, object] = {}
    handles = [
        module.register_forward_hook(lambda _module, _inputs, output, name=name: found.update({name: output}))
        for name, module in zip(names, last_modules(backbone, names, setting), strict=True)
    ]
    try:
        output_for_one_image(backbone, size)
    finally:
        for handle in handles:
            handle.remove()
    return {name: found[name] for name in names if name in found}


def _is_fine(shape: Sequence[int], size: tuple[int, int]) -> bool:
    """Whether a map has the image's proportions, as one with its channels last has not, and is not too coarse."""
    height, width = shape
    proportional = abs(height * size[1] - width * size[0]) <= max(size)
    return proportional and _COARSEST * min(shape) >= min(size)


def _named_parts(backbone: nn.Module) -> list[NamedPart]:
    own = getattr(backbone, "named_parts", None)
    if ismethod(own):
        parts: list[NamedPart] = own()
        return parts
    children = dict(backbone.named_children())
    if "layer1" in children:
        names = list(children)
        stem, rest = names[: names.index("layer1")], names[names.index("layer1") :]
        return [("stem", [children[name] for name in stem]), *((name, [children[name]]) for name in rest)]
    if "patch_embed" in children:
        return _parts_of_transformer(children)
    features = children.get("features")
    if isinstance(features, nn.Sequential) and any(isinstance(layer, nn.MaxPool2d) for layer in features):
        rest = [name for name in children if name != "features"]
        return [*named_cuts(features, nn.MaxPool2d, "features"), *((name, [children[name]]) for name in rest)]
    return [(name, [child]) for name, child in children.items()]


def _parts_of_transformer(children: dict[str, nn.Module]) -> list[NamedPart]:
    """What comes before the layers, each layer, and what comes after them by its own name."""
    parts: list[NamedPart] = []
    before: list[nn.Module] = []
    for name, child in children.items():
        called = _CALLED.get(name)
        if called and not parts and isinstance(child, nn.Sequential | nn.ModuleList):
            parts = [("stem", before), *((f"{called}{number}", [layer]) for number, layer in enumerate(child, start=1))]
        elif parts:
            parts.append((name, [child]))
        else:
            before.append(child)
    return parts or [(name, [child]) for name, child in children.items()]
