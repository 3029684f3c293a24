"""Every setting of stage 1."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from homefold.config.augmentation import AugmentationConfig
from homefold.config.ranges import SearchRange
from homefold.config.values import (
    LARGEST_COUNT,
    Count,
    CountFromZero,
    Finite,
    FromZero,
    FromZeroBelowOne,
    Positive,
    Share,
    dataclass,
)
from homefold.errors import ConfigError

__all__ = ["Compile", "CudaGraph", "FeatureConfig", "Head", "Precision", "Sampling", "Schedule"]

Head = Literal["none", "linear", "mlp", "office-home"]
Schedule = Literal["one-cycle", "cosine", "step", "constant"]
Sampling = Literal["shuffled", "balanced", "domains"]
Compile = Literal["auto", "on", "off"]
CudaGraph = Literal["auto", "off"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class FeatureConfig:
    """Stage 1: the network f and how it is trained."""

    backbone: str = "resnet18"
    """resnet18, resnet34, resnet50, resnet101, alexnet, digits, digits-bn, wrn-16-4, or timm:NAME."""
    weights: str = "auto"
    """Start of the backbone: auto (published weights, if cached), torchvision or timm (download), a file, or none."""
    head: Head = "mlp"
    """Layers between backbone and feature: none, linear, mlp (one hidden layer), office-home (two)."""
    feature_dim: CountFromZero = 256
    """Size of the feature z; 0 keeps the backbone's own size."""
    freeze: Literal["none", "backbone"] = "none"
    """What keeps its weights: none, or backbone (only the head learns, on features of the images computed once;
    augmentation and MixStyle are off)."""
    adapter_rank: CountFromZero = 0
    """Rank of the low-rank adapters (LoRA) by which alone the layers of a transformer learn, and which are merged into
    its weights after training; needs homefold[peft]. 0 trains all weights."""

    metric_weight: FromZero = 1.0
    """Weight of the pairwise metric loss L_A."""
    temperature: Annotated[Positive, SearchRange(0.5, 2, log=True, times=True)] = 0.1
    """τ: the pair logit is cosine similarity / τ."""
    cross_entropy_weight: FromZero = 0.0
    """Weight of an added cross-entropy loss on a linear layer; helps L_A to get going from scratch."""

    epochs: Count = 30
    """Passes over the training images."""
    batch_size: Annotated[int, Field(ge=2, le=LARGEST_COUNT), SearchRange(0.5, 2, log=True, times=True)] = 128
    """Images a step; L_A sees all pairs of them."""
    learning_rate: Annotated[Positive, SearchRange(0.2, 5, log=True, times=True)] = 0.05
    """Highest learning rate of SGD."""
    momentum: FromZeroBelowOne = 0.9
    """Nesterov momentum."""
    weight_decay: Annotated[FromZero, SearchRange(1e-6, 1e-2, log=True)] = 5e-4
    """L2 penalty on all weights."""
    schedule: Schedule = "one-cycle"
    """How the learning rate runs: one-cycle, cosine, step or constant."""
    milestones: tuple[Finite, ...] = (0.25, 0.5, 0.75)
    """Fractions of the training at which the step schedule decays."""
    decay: FromZero = 0.2
    """Factor of the step schedule at each milestone."""
    precision: Precision = "auto"
    """auto (bfloat16 on a GPU that has it, float32 elsewhere), float32, bfloat16 or float16."""
    sampling: Sampling = "shuffled"
    """shuffled (every image once an epoch), balanced (batches even over domain × class) or domains (over domains)."""
    average_from: Share = 1.0
    """Fraction of the training from which the weights are averaged at every epoch; 1 means no averaging."""
    average_every: CountFromZero = 0
    """Average the weights every so many steps instead, from the same point on (in a shorter training, the last ones
    alone); 0 averages once an epoch."""
    runs: Count = 1
    """Train so many times from the same start, each in an order of its own, and average the weights of all."""
    keep_pretrained: Share = 0.0
    """Share of its starting weights that the backbone is given back after training: 0 keeps what was learned, 1 is the
    start. A small share keeps what was pretrained from being forgotten, and costs nothing at inference."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Fraction of each source domain and class kept out of training, to select on."""
    select: Literal["best", "last"] = "best"
    """Keep the epoch with the lowest held-out L_A (best), or the last one."""
    checkpoint_seconds: FromZero = 60.0
    """Least time between two checkpoints, which are written at the end of an epoch."""
    compile: Compile = "auto"
    """Compile network and augmentation: on, off, or auto (on CUDA for 20,000 steps or more; about half a minute)."""
    cuda_graph: CudaGraph = "auto"
    """Capture the training step once and replay it on CUDA (auto), for the same numbers faster; or off."""
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    """How training images are varied."""

    mix_style_probability: Share = 0.0
    """How often a training image takes on some of another's style inside the network (MixStyle); 0 turns it off."""
    mix_style_alpha: Positive = 0.1
    """The share of the own style is drawn from Beta(α, α): small values keep most of one of the two styles."""
    mix_style_layers: tuple[str, ...] = ()
    """Blocks after which styles are mixed, such as layer1 layer2; none named means the first two after the stem."""

    def __post_init__(self) -> None:
        twice = [layer for layer in self.mix_style_layers if self.mix_style_layers.count(layer) > 1]
        if twice:
            raise ConfigError(f"features.mix_style_layers names {twice[0]} more than once; name every block once.")

    def require_consistent(self) -> None:
        """Refuse settings that contradict each other; called when all of them are known."""
        if self.mix_style_layers and not self.mix_style_probability:
            raise ConfigError(
                "features.mix_style_layers names blocks, but features.mix_style_probability is 0, so that nothing "
                "would happen there; set features.mix_style_probability above 0, or name no blocks."
            )
        if self.keep_pretrained and self.weights == "none":
            raise ConfigError(
                "features.keep_pretrained gives back starting weights, and with features.weights=none they are random; "
                "set features.keep_pretrained=0, or start from pretrained weights."
            )
        if self.freeze == "backbone":
            self._require_frozen()
        if self.adapter_rank and self.runs > 1:
            raise ConfigError(
                "features.runs averages weights, and the mean of adapters is not the adapter of the mean; set "
                "features.runs=1 with features.adapter_rank."
            )

    def _require_frozen(self) -> None:
        """Refuse what needs a backbone that sees images in training."""
        if self.head == "none":
            raise ConfigError(
                "features.freeze=backbone trains the head alone, and features.head=none has none; set features.head to "
                "linear or mlp. (To use features as they are, give them to ManifoldProjector.)"
            )
        if self.keep_pretrained:
            raise ConfigError(
                "features.freeze=backbone leaves the backbone as it started, so there is nothing to give back; set "
                "features.keep_pretrained=0."
            )
        if self.adapter_rank:
            raise ConfigError(
                "features.freeze=backbone lets nothing in the backbone learn, and features.adapter_rank lets adapters "
                "in it; set one of them back (features.freeze=none, or features.adapter_rank=0)."
            )
        off = {f"augmentation.{name}": value for name, value in self.augmentation.to_turn_off().items()}
        if self.mix_style_probability:
            off["mix_style_probability"] = 0
        if off:
            listed = ", ".join(f"features.{name}={value}" for name, value in off.items())
            raise ConfigError(
                f"features.freeze=backbone sees every image once and as it is, so nothing can vary it in training; set "
                f"{listed}."
            )
