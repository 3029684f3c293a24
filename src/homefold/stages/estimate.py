"""How long a fit will take, from a few images timed on the device that will do it."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from homefold.config import HomefoldConfig
from homefold.features.network import FeatureNet
from homefold.stages.encoder import build_net

__all__ = ["announcement", "estimated_seconds"]

_TIMED_IMAGES = 8
_ROUNDS = 2
_OTHER_PASSES = 2


def estimated_seconds(
    net: FeatureNet, config: HomefoldConfig, images: int, device: torch.device, domains: int = 1
) -> float:
    """Seconds of training f and of the passes over all images that follow; decoding and the small stages come on top.

    The passes: features of the sources and of the yardstick, one for each block whose styles are modelled, one for
    what is familiar, and one for the features of a frozen backbone. Where each of several domains is left out in turn,
    the others are trained on and their styles are modelled again.
    """
    side, is_frozen = config.preprocessing.image_size, config.features.freeze == "backbone"
    net = net.to(device).to(memory_format=torch.channels_last).eval()
    pixels = torch.rand(_TIMED_IMAGES, 3, side, side, device=device).contiguous(memory_format=torch.channels_last)

    def look() -> None:
        with torch.no_grad():
            net(pixels)

    def learn() -> None:
        net(pixels).sum().backward()
        net.zero_grad(set_to_none=True)

    blocks = len(config.style.blocks)
    passes = _OTHER_PASSES + blocks + (config.look.leave_familiar and blocks > 0) + is_frozen
    seconds = passes * _seconds(look, device)
    training = 0.0 if is_frozen else config.features.epochs * config.features.runs * _seconds(learn, device)
    seconds += training
    if config.calibrate == "domains":
        again = blocks + (not is_frozen)
        seconds += (domains - 1) * (training + again * _seconds(look, device)) + _seconds(look, device)
    return seconds * images / _TIMED_IMAGES


def announcement(config: HomefoldConfig, images: int, device: torch.device, domains: int = 1) -> str:
    """What was chosen for so many images of so many domains, and how long it will take."""
    features, side = config.features, config.preprocessing.image_size
    net = build_net(config, (side, side), pretrained=False)
    seconds = estimated_seconds(net, config, images, device, domains)
    frozen = ", its weights as they are" if features.freeze == "backbone" else ""
    kept = f", {features.keep_pretrained:.0%} of the starting weights kept" if features.keep_pretrained else ""
    return (
        f"Chosen for {images} images on {device.type}: {features.backbone} at {side} px{frozen}, "
        f"{features.epochs} epochs at a learning rate of {features.learning_rate:g}{kept}. Expect "
        f"about {_duration(seconds)}."
    )


def _duration(seconds: float) -> str:
    """In words, roughly."""
    if seconds < 90:
        return f"{max(10, 10 * round(seconds / 10))} seconds"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _seconds(step: Callable[[], None], device: torch.device) -> float:
    """The least of a few rounds, after one to warm up."""
    step()
    found = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        found.append(time.perf_counter() - began)
    return min(found)
