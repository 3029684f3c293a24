"""Every setting of stage 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from homefold.choices import require_types
from homefold.data.augmentation import AugmentationConfig
from homefold.device import Precision
from homefold.errors import ConfigError
from homefold.features.agreement import NEEDS_CROSS_ENTROPY
from homefold.features.gradient_step import Compile, CudaGraph
from homefold.features.network import Head
from homefold.features.sampling import Sampling
from homefold.features.schedule import Schedule

__all__ = ["FeatureConfig"]


@dataclass(frozen=True)
class FeatureConfig:
    """Stage 1: the network f and how it is trained."""

    backbone: Annotated[str, tyro.conf.arg(aliases=["--backbone"])] = "resnet18"
    """resnet18, resnet34, resnet50, resnet101, alexnet, digits, digits-bn, wrn-16-4, or timm:NAME."""
    weights: Annotated[str, tyro.conf.arg(aliases=["--weights"])] = "auto"
    """Start of the backbone: auto (published weights, if cached), torchvision or timm (download), a file, or none."""
    head: Head = "mlp"
    """Layers between backbone and feature: none, linear, mlp (one hidden layer), office-home (two)."""
    feature_dim: int = 256
    """Size of the feature z; 0 keeps the backbone's own size."""

    metric_weight: float = 1.0
    """Weight of the pairwise metric loss L_A."""
    temperature: float = 0.1
    """τ: the pair logit is cosine similarity / τ."""
    learn_temperature: bool = False
    """Train τ and the bias of the pair logit along with the network."""
    pair_bias: float = 0.0
    """Added to the pair logit; negative values start from "most pairs differ"."""
    balanced_pairs: bool = False
    """Weigh same-label and different-label pairs half each instead of by their number."""
    cross_domain_weight: float = 1.0
    """Weight of same-label pairs from two domains relative to those of one; all same-label pairs weigh as before."""
    hard_pairs: float = 0.0
    """Exponent γ: a pair weighs in proportion to its error |p − y|^γ; 0 weighs easy and hard pairs alike."""
    cross_entropy_weight: float = 0.0
    """Weight of an added cross-entropy loss on a linear layer; helps L_A to get going from scratch."""
    cross_entropy_until: float = 1.0
    """Fraction of the training after which the cross entropy has faded out linearly; 1 keeps it to the end."""
    agreement_weight: float = 0.0
    """Weight of an added loss that draws the answers to all images of one label in a batch together; those are the
    answers that cross entropy trains, which must be on."""
    agreement_temperature: float = 4.0
    """T of that loss: answers are compared as softmax(logits / T)."""

    epochs: Annotated[int, tyro.conf.arg(aliases=["--epochs"])] = 30
    """Passes over the training images."""
    batch_size: Annotated[int, tyro.conf.arg(aliases=["--batch-size"])] = 128
    """Images a step; L_A sees all pairs of them."""
    learning_rate: Annotated[float, tyro.conf.arg(aliases=["--learning-rate"])] = 0.05
    """Highest learning rate of SGD."""
    momentum: float = 0.9
    """Nesterov momentum."""
    weight_decay: float = 5e-4
    """L2 penalty on all weights."""
    schedule: Schedule = "one-cycle"
    """How the learning rate runs: one-cycle, step or constant."""
    milestones: tuple[float, ...] = (0.25, 0.5, 0.75)
    """Fractions of the training at which the step schedule decays."""
    decay: float = 0.2
    """Factor of the step schedule at each milestone."""
    precision: Precision = "auto"
    """auto (bfloat16 on a GPU that has it, float32 elsewhere), float32, bfloat16 or float16."""
    sampling: Sampling = "shuffled"
    """shuffled (every image once an epoch) or balanced (batches even over domain × class)."""
    average_from: float = 1.0
    """Fraction of the training from which the weights are averaged at every epoch; 1 means no averaging."""
    average_every: int = 0
    """Average the weights every so many steps instead, from the same point on (in a shorter training, the last ones
    alone); 0 averages once an epoch."""
    runs: int = 1
    """Train so many times from the same start, each in an order of its own, and average the weights of all."""
    held_out: float = 0.1
    """Fraction of each source domain and class kept out of training, to select on."""
    select: Literal["best", "last"] = "best"
    """Keep the epoch with the lowest held-out L_A (best), or the last one."""
    checkpoint_seconds: float = 60.0
    """Least time between two checkpoints, which are written at the end of an epoch."""
    compile: Compile = "auto"
    """Compile network and augmentation: on, off, or auto (on CUDA for 20,000 steps or more; about half a minute)."""
    cuda_graph: CudaGraph = "auto"
    """Record the training step once and replay it on CUDA (auto), for the same numbers faster; or off."""
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    """How training images are varied."""

    mix_style_probability: float = 0.0
    """How often a training image takes on some of another's style inside the network (MixStyle); 0 turns it off."""
    mix_style_alpha: float = 0.1
    """The share of the own style is drawn from Beta(α, α): small values keep most of one of the two styles."""
    mix_style_layers: tuple[str, ...] = ()
    """Blocks after which styles are mixed, such as layer1 layer2; none named means the first two after the stem."""
    style_noise_probability: float = 0.0
    """How often a training image's style is moved at random, as far as those of the batch differ (DSU); 0: never."""
    style_noise_layers: tuple[str, ...] = ()
    """Blocks after which styles are moved at random; none named means the first two after the stem."""
    backbone_rate: float = 1.0
    """Learning rate of the backbone's last block as a multiple of the head's; earlier blocks follow by layer_decay."""
    layer_decay: float = 1.0
    """Each block of the backbone learns at this factor of the next one's rate; 1 lets all learn alike."""
    frozen_blocks: int = 0
    """So many first blocks of the backbone keep their weights; the stem counts as one."""
    frozen_batch_norm: bool = False
    """Let the backbone's batch norm normalise by the statistics it starts with, and keep them."""
    pretrained_pull: float = 0.0
    """L2 penalty on how far the backbone's weights move from their start (L2-SP), there instead of weight_decay."""

    def __post_init__(self) -> None:
        require_types(self)
        positive = (
            "temperature",
            "epochs",
            "batch_size",
            "learning_rate",
            "mix_style_alpha",
            "runs",
            "agreement_temperature",
        )
        for name in positive:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive; got {getattr(self, name)}.")
        for name in ("cross_entropy_until", "average_from"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is a fraction of the training, 0 to 1; got {getattr(self, name)}.")
        for name in ("mix_style_probability", "style_noise_probability"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is a probability, 0 to 1; got {getattr(self, name)}.")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"layer_decay is a factor above 0 and at most 1; got {self.layer_decay}.")
        if not 0 < self.held_out < 1:
            raise ConfigError(f"held_out is a fraction between 0 and 1; got {self.held_out}.")
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"momentum must be in [0, 1); got {self.momentum}.")
        not_negative = (
            "weight_decay",
            "metric_weight",
            "cross_entropy_weight",
            "checkpoint_seconds",
            "backbone_rate",
            "frozen_blocks",
            "pretrained_pull",
            "cross_domain_weight",
            "hard_pairs",
            "average_every",
            "agreement_weight",
            "decay",
        )
        for name in not_negative:
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must not be negative; got {getattr(self, name)}.")
        for name in ("mix_style_layers", "style_noise_layers"):
            layers = getattr(self, name)
            twice = [layer for layer in layers if layers.count(layer) > 1]
            if twice:
                raise ConfigError(f"{name} names {twice[0]} more than once; name every block once.")
        if self.batch_size < 2:
            raise ConfigError("batch_size must be at least 2: L_A compares pairs.")
        if self.feature_dim < 0:
            raise ConfigError(f"feature_dim must not be negative; got {self.feature_dim}.")

    def require_consistent(self) -> None:
        """Refuse settings that contradict each other; called when all of them are known."""
        for layers, probability in (
            ("mix_style_layers", "mix_style_probability"),
            ("style_noise_layers", "style_noise_probability"),
        ):
            if getattr(self, layers) and not getattr(self, probability):
                raise ConfigError(
                    f"{layers} names blocks, but {probability} is 0, so that nothing would happen there; set "
                    f"{probability} above 0, or name no blocks."
                )
        if self.agreement_weight and not self.cross_entropy_weight:
            raise ConfigError(NEEDS_CROSS_ENTROPY)
