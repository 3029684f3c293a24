"""How the authors of a method run it: declared once in its file, followed by the benchmark unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from homefold.config import HomefoldConfig
from homefold.config.augmentation import AugmentationConfig, augmentation_preset
from homefold.config.backbones import BACKBONES
from homefold.config.features import Head, Sampling, Schedule

__all__ = [
    "COLOUR_AND_CROP",
    "DIGITS",
    "DIGITS_BY_DOMAIN",
    "DOMAIN_BED",
    "DOMAIN_BED_ON_PACS",
    "PRETRAINED",
    "SMALL",
    "ZHOU_ON_PACS",
    "Recipe",
    "Training",
    "kind_of_network",
]

PRETRAINED, SMALL = "pretrained", "small"
"""Kinds of networks that recipes are for: those that start from published weights, and those trained from scratch."""


@dataclass(frozen=True)
class Training:
    """SGD with momentum 0.9, as the authors of a method set it; another `optimiser` is a setting of the method's own.

    Momentum is Nesterov's, as in all trainings here; that of many authors is the plain one.

    Args:
        learning_rate: at the start.
        epochs: passes over the training images.
        batch_size: images a step.
        milestones: shares of the training at which the rate falls; none for a constant rate.
        decay: what it is multiplied by there.
        schedule: how else the rate runs; None for that.
        weight_decay: L2 penalty on all weights.
        sampling: what a batch is made of.
        head: between the backbone and the classifier; `none` leaves the backbone's pooled features as they are.
        augmentation: how images are varied; None for that of the preset.
        average_from: share of the training after which the weights of every step are averaged; 1 for no averaging.
    """

    learning_rate: float
    epochs: int
    batch_size: int
    milestones: tuple[float, ...] = ()
    decay: float = 0.1
    schedule: Schedule | None = None
    weight_decay: float = 5e-4
    sampling: Sampling = "shuffled"
    head: Head = "none"
    augmentation: AugmentationConfig | None = None
    average_from: float = 1.0

    def applied(self, config: HomefoldConfig) -> HomefoldConfig:
        """`config` with f trained so."""
        features = config.features
        features = replace(
            features,
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            batch_size=self.batch_size,
            schedule=self.schedule or ("step" if self.milestones else "constant"),
            milestones=self.milestones or features.milestones,
            decay=self.decay,
            momentum=0.9,
            weight_decay=self.weight_decay,
            sampling=self.sampling,
            head=self.head,
            feature_dim=0 if self.head == "none" else features.feature_dim,
            augmentation=self.augmentation or features.augmentation,
            average_from=self.average_from,
            average_every=1 if self.average_from < 1 else 0,
        )
        return replace(config, features=features)


@dataclass(frozen=True)
class Recipe:
    """How a method's authors run it on one kind of network.

    Args:
        training: how the network is trained; None where the method does not train it.
        own: hyper-parameters of the method's own that differ from its defaults.
    """

    training: Training | None = None
    own: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


COLOUR_AND_CROP = AugmentationConfig(crop_min_area=0.8, hue=0.4, grey_probability=0.0)
"""What most comparisons on PACS vary images by: crops of 80 % and more, mirroring, and colours by 0.4 each."""

DIGITS = Training(learning_rate=0.05, epochs=50, batch_size=128, milestones=(0.4, 0.8))
"""How Zhou et al. trained every method of their Digits-DG table. They varied no images; here all methods have the
preset's augmentation, so that none is weaker for want of it."""


ZHOU_ON_PACS = Training(
    learning_rate=0.0005,
    epochs=25,
    batch_size=16,
    milestones=(0.8,),
    # They enlarge an image by an eighth and cut it out anywhere.
    augmentation=replace(augmentation_preset("none"), crop_min_area=0.8, flip_probability=0.5),
)
"""How Zhou et al. trained DDAIG and its rivals on PACS with ResNet-18."""


DOMAIN_BED_ON_PACS = Training(
    learning_rate=5e-5,
    epochs=72,  # about 5,000 steps on PACS
    batch_size=96,
    weight_decay=0.0,
    sampling="domains",
    augmentation=AugmentationConfig(brightness=0.3, contrast=0.3, saturation=0.3, hue=0.3),
)
DOMAIN_BED_ON_DIGITS = Training(
    learning_rate=1e-3,
    epochs=60,  # about 5,000 steps on Digits-DG
    batch_size=192,
    weight_decay=0.0,
    sampling="domains",
)
DIGITS_BY_DOMAIN = replace(DIGITS, sampling="domains")
DOMAIN_BED = {
    PRETRAINED: Recipe(DOMAIN_BED_ON_PACS, {"optimiser": "adam", "statistics": "kept"}),
    SMALL: Recipe(DOMAIN_BED_ON_DIGITS, {"optimiser": "adam"}),
}
"""How DomainBed trains by default: Adam, 32 images of each domain a step and batch normalisation by the statistics that
the pretrained network came with; 64 on its digits, here with the preset's augmentation, where it has none."""


def kind_of_network(backbone: str) -> str:
    """Which kind of recipe a backbone is trained by.

    >>> kind_of_network("resnet18"), kind_of_network("digits-bn")
    ('pretrained', 'small')
    """
    own = backbone in BACKBONES and not BACKBONES[backbone].pretrained
    return SMALL if own else PRETRAINED
