"""D-SAM: every source domain has its own module that gathers what all levels of the shared backbone see."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.level_maps import level_maps
from homefold.features.network import FeatureNet
from homefold.methods.recipe import COLOUR_AND_CROP, DIGITS_BY_DOMAIN, PRETRAINED, SMALL, Recipe, Training
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["AggregationModule", "DSam", "DSamLearner", "block_maps", "map_shapes", "own_domain"]

_PLACES = 2


@method_named(
    "d-sam",
    "D-SAM",
    2018,
    "D'Innocente and Caputo, GCPR 2018",
    "Domain-specific modules gather the backbone's levels; their answers are averaged.",
    needs_domain_labels=True,
)
@dataclass(frozen=True)
class DSam(LearnerMethod):
    """min of mean_i CE(W_d A_d(s(x_i)), y_i), d the domain of x_i; the answer for any image is the mean over all d.

    s(x) are the maps of the blocks of one backbone, which all domains train; A_d, one for each source domain, takes the
    place of the layers after the backbone (`AggregationModule`), and only images of its domain train it. Maps are those
    after each of a residual network's blocks (eight in ResNet-18), after each level of other networks.

    The epoch is selected by the mean of all modules, as those of all methods here are, where the authors ask for each
    held-out image only the modules of the other domains. Batches are even over domains and hold 32 images of each of
    three, as theirs; smaller networks have no published recipe and take that of Digits-DG.

    Figure to reach: 80.72 % on PACS with ResNet-18. Ours with modules of a twentieth of their size: 68.8 % on
    Digits-DG, 3.6 below our Deep All.

    Null setting: `width` 0. Cost of a step: that of Deep All and a module for each domain.
    """

    least_domains = 2
    null = {"width": 0.0}  # noqa: RUF012 - a constant
    recipes = {  # noqa: RUF012 - a constant
        PRETRAINED: Recipe(
            Training(
                0.001,
                30,
                96,
                milestones=(1 / 3, 2 / 3),
                decay=0.2,
                sampling="domains",
                augmentation=replace(COLOUR_AND_CROP, crop_min_area=0.08),
            )
        ),
        SMALL: Recipe(DIGITS_BY_DOMAIN),
    }

    width: float = tunable(2.0, choices=(0.5, 1.0, 2.0))
    """Channels of a node, as a multiple of those of the map it takes in; with 0 there are no modules, and the network's
    own head and layer answer."""
    dropout: float = tunable(0.5, 0.0, 0.8, most=0.99)
    """How often a channel before a node, or a value before the last layer, is left out in training."""

    def learner(self, net: FeatureNet, task: LearningTask) -> DSamLearner:
        return DSamLearner(net, task, self)


class AggregationModule(nn.Module):
    """Nodes along the backbone: a_i = ReLU(conv1×1(dropout([a_{i-1}, s_i]))), a_0 = s_0, the last one averaged.

    Where a map s_i is smaller than the one before it, a_{i-1} first passes a strided 1×1 convolution and a ReLU. The
    last node is averaged over places × places parts of the image.

    Args:
        shapes: `(c, h, w)` of the maps s_0, s_1, …, at least two.
        width: channels of a node, as a multiple of those of s_i.
        places: parts of the image each way that are kept apart.
        dropout: how often a channel before a node is left out.
    """

    def __init__(self, shapes: Sequence[torch.Size], width: float, places: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.places = places
        self.smaller, self.nodes = nn.ModuleList(), nn.ModuleList()
        held = shapes[0][0]
        for before, shape in pairwise(shapes):
            stride = [max(1, round(side / wanted)) for side, wanted in zip(before[1:], shape[1:], strict=True)]
            same = before[1:] == shape[1:]
            strided = nn.Sequential(nn.Conv2d(held, held, 1, stride=(stride[0], stride[1])), nn.ReLU())
            self.smaller.append(nn.Identity() if same else strided)
            out = max(1, round(width * shape[0]))
            self.nodes.append(nn.Sequential(nn.Dropout2d(dropout), nn.Conv2d(held + shape[0], out, 1), nn.ReLU()))
            held = out
        self.size = held * places**2

    def forward(self, maps: Sequence[torch.Tensor]) -> torch.Tensor:
        """`(n, size)` from maps `(n, c_i, h_i, w_i)`."""
        held = maps[0]
        for smaller, node, own in zip(self.smaller, self.nodes, maps[1:], strict=True):
            held = smaller(held)
            if held.shape[-2:] != own.shape[-2:]:  # sides that no stride divides
                held = F.interpolate(held, own.shape[-2:])
            held = node(torch.cat([held, own], dim=1))
        part = [-(-side // self.places) for side in held.shape[-2:]]
        return F.avg_pool2d(held, part, ceil_mode=True).flatten(1)


def own_domain(outputs: torch.Tensor, domains: torch.Tensor) -> torch.Tensor:
    """Of the modules' `outputs: (domains, n, c)` each sample's from that of its own domain, `(n, c)`."""
    return outputs[domains, torch.arange(len(domains), device=domains.device)]


class DSamLearner(Learner[DSam]):
    """The loss of `DSam` and its answer; the features are those of all modules side by side."""

    capturable = True

    def __init__(self, net: FeatureNet, task: LearningTask, settings: DSam) -> None:
        super().__init__(net, task, settings)
        self.size = 0
        self.aggregation, self.layers = nn.ModuleList(), nn.ModuleList()
        if settings.width:
            shapes = map_shapes(net, task.image_size)
            # A backbone that averages its last map keeps no places; one that does not gets a few here too.
            places = 1 if net.backbone_dim == shapes[-1][0] else min(_PLACES, *shapes[-1][1:])
            for _ in range(task.num_domains):
                module = AggregationModule(shapes, settings.width, places, settings.dropout)
                self.size = module.size
                self.aggregation.append(module)
                self.layers.append(nn.Linear(self.size, task.num_classes))

    def features(self, images: torch.Tensor) -> torch.Tensor:
        if not self.size:
            return super().features(images)
        maps = block_maps(self.net, images)
        return torch.cat([module(maps) for module in self.aggregation], dim=1)

    def outputs(self, z: torch.Tensor) -> torch.Tensor:
        """Logits `(domains, n, classes)` of every module from `z: (n, domains · size)`."""
        with torch.autocast(z.device.type, enabled=False):
            parts = z.float().split(self.size, dim=1)
            return torch.stack([layer(part) for layer, part in zip(self.layers, parts, strict=True)])

    def classify(self, z: torch.Tensor) -> torch.Tensor:
        return self.outputs(z).mean(dim=0) if self.size else super().classify(z)

    def linear_layer(self) -> nn.Linear:
        if not self.size:
            return super().linear_layer()
        layers = [layer for layer in self.layers if isinstance(layer, nn.Linear)]
        joined = nn.Linear(len(layers) * self.size, self.task.num_classes)
        weight = torch.cat([layer.weight.detach() for layer in layers], dim=1) / len(layers)
        bias = torch.stack([layer.bias.detach() for layer in layers]).mean(dim=0)
        joined.load_state_dict({"weight": weight, "bias": bias})
        return joined.to(weight.device)

    def loss(self, batch: Batch) -> torch.Tensor:
        if not self.size:
            return super().loss(batch)
        z = F.dropout(self.features(batch.images), self.settings.dropout, self.training)
        return self.cross_entropy(own_domain(self.outputs(z), batch.domains), batch.labels)


def block_maps(net: FeatureNet, images: torch.Tensor) -> list[torch.Tensor]:
    """The map after each block of a residual network, after each level of another. images: `(n, 3, h, w)` in [0, 1]."""
    layers = [getattr(net.backbone, f"layer{number}", None) for number in range(1, 5)]
    blocks = {id(block) for layer in layers if isinstance(layer, nn.Sequential) for block in layer}
    if not blocks:
        return level_maps(net, images)
    maps: list[torch.Tensor] = []
    hooks = [
        module.register_forward_hook(lambda _module, _given, made: maps.append(made))
        for module in net.backbone.modules()
        if id(module) in blocks
    ]
    try:
        level_maps(net, images)
    finally:
        for hook in hooks:
            hook.remove()
    return maps


def map_shapes(net: FeatureNet, image_size: tuple[int, int]) -> list[torch.Size]:
    """`(c, h, w)` of each of `block_maps`, found by asking the network."""
    with torch.no_grad():
        asked = copy.deepcopy(net).eval()
        return [made.shape[1:] for made in block_maps(asked, net.mean.expand(1, 3, *image_size))]
