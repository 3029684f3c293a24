"""D-SAM: every source domain has its own module that gathers what all stages of the shared backbone see."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.network import FeatureNet
from homefold.features.stage_maps import stage_maps
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["AggregationModule", "DSam", "DSamLearner", "own_domain", "shrink", "stage_shapes"]

_PLACES = 2


@method_named(
    "d-sam",
    "D-SAM",
    2018,
    "D'Innocente and Caputo, GCPR 2018",
    "Domain-specific modules gather the backbone's stages; their answers are averaged.",
    needs_domain_labels=True,
)
@dataclass(frozen=True)
class DSam(LearnerMethod):
    """min of mean_i CE(W_d A_d(s(x_i)), y_i), d the domain of x_i; the answer for any image is the mean over all d.

    s(x) are the maps of the stages of one backbone, which all domains train; A_d, one for each source domain, takes
    the place of the layers after the backbone (`AggregationModule`), and only images of its domain train it; the
    statistics of its batch norm are of all images.

    Null setting: `width` 0. Cost of a step: that of Deep All and a module for each domain.
    """

    least_domains = 2
    null = {"width": 0}  # noqa: RUF012 - a constant

    width: int = tunable(128, choices=(64, 128, 256))
    """Channels of every node; with 0 there are no modules, and the network's own head and layer answer."""

    def learner(self, net: FeatureNet, task: LearningTask) -> DSamLearner:
        return DSamLearner(net, task, self)


class AggregationModule(nn.Module):
    """Nodes along the backbone: a_i = ReLU(BN(conv1×1([s_i, pool(a_{i-1})]))), all of `width` channels.

    The last of them is averaged over places × places parts of the image. `channels` are those of s_1, s_2, …
    """

    def __init__(self, channels: Sequence[int], width: int, places: int) -> None:
        super().__init__()
        self.places = places
        before = [0] + [width] * (len(channels) - 1)
        self.nodes = nn.ModuleList(
            nn.Sequential(nn.Conv2d(stage + held, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
            for stage, held in zip(channels, before, strict=True)
        )

    def forward(self, maps: Sequence[torch.Tensor]) -> torch.Tensor:
        """`(n, width · places²)` from maps `(n, c_i, h_i, w_i)`."""
        held: torch.Tensor | None = None
        for node, stage in zip(self.nodes, maps, strict=True):
            given = stage
            if held is not None:
                given = torch.cat([stage, shrink(held, stage.shape[-2:])], dim=1)
            held = node(given)
        assert held is not None
        part = [-(-side // self.places) for side in held.shape[-2:]]
        return F.avg_pool2d(held, part, ceil_mode=True).flatten(1)


def shrink(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """The largest values of `x: (n, c, h, w)` in windows, `(n, c, *size)`."""
    # Torch's own pooling to a given size has no deterministic gradient on a GPU.
    window = [max(1, round(side / wanted)) for side, wanted in zip(x.shape[-2:], size, strict=True)]
    pooled = F.max_pool2d(x, window, ceil_mode=True)
    return pooled if pooled.shape[-2:] == tuple(size) else F.interpolate(pooled, tuple(size))


def own_domain(outputs: torch.Tensor, domains: torch.Tensor) -> torch.Tensor:
    """Of the modules' `outputs: (domains, n, c)` each sample's from that of its own domain, `(n, c)`."""
    return outputs[domains, torch.arange(len(domains), device=domains.device)]


class DSamLearner(Learner[DSam]):
    """The loss of `DSam` and its answer; the features are those of all modules side by side."""

    recordable = True

    def __init__(self, net: FeatureNet, task: LearningTask, settings: DSam) -> None:
        super().__init__(net, task, settings)
        self.size = 0
        self.aggregation, self.layers = nn.ModuleList(), nn.ModuleList()
        if settings.width:
            shapes = stage_shapes(net, task.image_size)
            channels = [shape[0] for shape in shapes]
            # A backbone that averages its last map keeps no places; one that does not gets a few here too.
            places = 1 if net.backbone_dim == channels[-1] else min(_PLACES, *shapes[-1][1:])
            self.size = settings.width * places**2
            for _ in range(task.num_domains):
                self.aggregation.append(AggregationModule(channels, settings.width, places))
                self.layers.append(nn.Linear(self.size, task.num_classes))

    def features(self, images: torch.Tensor) -> torch.Tensor:
        if not self.size:
            return super().features(images)
        maps = stage_maps(self.net, images)
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
        outputs = self.outputs(self.features(batch.images))
        return self.cross_entropy(own_domain(outputs, batch.domains), batch.labels)


def stage_shapes(net: FeatureNet, image_size: tuple[int, int]) -> list[torch.Size]:
    """`(c, h, w)` of each of `stage_maps`, found by asking the network."""
    with torch.no_grad():
        return [stage.shape[1:] for stage in stage_maps(copy.deepcopy(net).eval(), net.mean.expand(1, 3, *image_size))]
