"""Low-rank adapters (LoRA, Hu et al. 2022): all that learns in a backbone, and merged into its weights afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from homefold.errors import ConfigError
from homefold.features.backbones import output_for_one_image
from homefold.runtime.seeding import isolated_seed

__all__ = ["adapted", "linear_layers"]

# Of ΔW = (α / r) B A, as published for transformers.
_ALPHA_OVER_RANK = 2


@contextmanager
def adapted(backbone: nn.Module, rank: int, image_size: tuple[int, int], seed: int) -> Iterator[None]:
    """Inside the block the linear layers of `backbone` learn by adapters of this rank, and nothing else in it does.

    When the block ends well, the adapters are merged and gone: the network has the layers that it had. With rank 0
    nothing is changed.
    """
    if not rank:
        yield
        return
    layers = _add_adapters(backbone, rank, image_size, seed)
    yield
    for name in layers:
        layer = backbone.get_submodule(name)
        layer.merge()  # type: ignore[operator]
        backbone.set_submodule(name, layer.get_base_layer())  # type: ignore[operator]
    backbone.requires_grad_(True)


def linear_layers(backbone: nn.Module, image_size: tuple[int, int]) -> list[str]:
    """Names of the linear layers that an image passes as such.

    Some attention reads the weights of a layer without calling it, so that an adapter there would do nothing.
    """
    called: dict[str, None] = {}
    handles = [
        module.register_forward_hook(lambda *_, name=name: called.setdefault(name))
        for name, module in backbone.named_modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        output_for_one_image(backbone, image_size)
    finally:
        for handle in handles:
            handle.remove()
    return list(called)


def _add_adapters(backbone: nn.Module, rank: int, image_size: tuple[int, int], seed: int) -> list[str]:
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise ConfigError(
            "features.adapter_rank needs the peft package: pip install 'homefold[peft]'; or set it to 0."
        ) from None
    names = linear_layers(backbone, image_size)
    if not names:
        raise ConfigError(
            f"features.adapter_rank adapts the linear layers of a transformer, and a {type(backbone).__name__} has "
            f"none; set features.adapter_rank=0, or choose another features.backbone."
        )
    settings = LoraConfig(r=rank, lora_alpha=_ALPHA_OVER_RANK * rank, target_modules=names)
    with isolated_seed(seed, "adapters"):
        inject_adapter_in_model(settings, backbone)
    for name, parameter in backbone.named_parameters():
        parameter.requires_grad_("lora_" in name)
    return names
