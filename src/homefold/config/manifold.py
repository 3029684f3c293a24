"""Every setting of stage 2, and the manifolds by name: one record each, registered in the file that fits it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass as plain_dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from homefold.config.ranges import SearchRange
from homefold.config.values import Count, CountOrNone, FromZero, FromZeroBelowOne, PositiveOrNone, dataclass
from homefold.errors import ConfigError
from homefold.runtime.registry import Registry

__all__ = ["MANIFOLDS", "ManifoldConfig", "ManifoldEntry", "manifold_named", "paper_manifold_config"]

_MOST_LAYERS = 100

F = TypeVar("F", bound=Callable[..., Any])


@plain_dataclass(frozen=True)
class ManifoldEntry:
    """What there is to know of a kind of manifold; see `manifold_named`."""

    build: Callable[[Any, int, int], Any]
    fit: Callable[..., Any]
    epochs: int
    learning_rate: float
    has_settings: bool


MANIFOLDS: Registry[ManifoldEntry] = Registry("manifold", "homefold.manifold", also="or one that a plugin registers")


def manifold_named(
    name: str,
    *,
    build: Callable[[Any, int, int], Any],
    epochs: int = 0,
    learning_rate: float = 1e-3,
    has_settings: bool = True,
) -> Callable[[F], F]:
    """Register the manifold that the decorated function fits: from settings and features, as `fit_manifold` has them,
    to a manifold that is frozen and has a report.

    Args:
        name: what people type.
        build: from its settings, the size of a feature and that of the bank to one into which a saved state loads.
        epochs, learning_rate: where the settings name none.
        has_settings: whether any setting beside the kind decides what it is.
    """

    def keep(fit: F) -> F:
        MANIFOLDS.add(name, ManifoldEntry(build, fit, epochs, learning_rate, has_settings), fit)
        return fit

    return keep


@dataclass(frozen=True)
class ManifoldConfig:
    """How the manifold of the source features is modelled and trained."""

    kind: str = "vae"
    """vae (an MLP), conv-vae (the paper's small convolutional one), gan, nearest (the nearest source feature, 1-NN), or
    one that a plugin registers."""
    latent_dim: Count = 32
    """Dimensions of the latent u (1-NN ignores it: its latent is an index)."""
    hidden: Annotated[tuple[Count, ...], Field(min_length=1, max_length=_MOST_LAYERS)] = (128, 128)
    """Widths of the decoder's hidden layers; the encoder or the discriminator has them mirrored."""
    kl_weight: Annotated[FromZero, SearchRange(1e-4, 1e-2, log=True)] = 1e-3
    """Weight of the KL term per sample, in nats, against a reconstruction error per coordinate (VAE)."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """Optimiser of the training; the GAN takes adamw only."""
    learning_rate: PositiveOrNone = None
    """Peak learning rate; none takes the default of the kind: vae 0.004, conv-vae 0.01, gan 0.001."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """How the learning rate moves: a short warm-up then a cosine down to zero, or constant."""
    momentum: FromZeroBelowOne = 0.9
    """Momentum of SGD."""
    weight_decay: FromZero = 0.0
    """Weight decay of the optimiser."""
    epochs: CountOrNone = None
    """Passes over the source features; none takes the default of the kind: vae 100, conv-vae 100, gan 150."""
    batch_size: Count = 128
    """Features per step."""
    gradient_penalty: FromZero = 0.1
    """Weight of R1, the discriminator's squared gradient at real features scaled to unit length (GAN)."""
    bank_size: Count = 2048
    """At most so many decoded source points are kept to start a projection from (1-NN keeps all features)."""

    def __post_init__(self) -> None:
        if self.kind == "gan" and self.optimizer != "adamw":
            raise ConfigError("manifold.kind=gan does not train with sgd; set manifold.optimizer=adamw.")

    @property
    def resolved_epochs(self) -> int:
        """`epochs`, or the default of the kind."""
        return MANIFOLDS[self.kind].epochs if self.epochs is None else self.epochs

    @property
    def resolved_learning_rate(self) -> float:
        """`learning_rate`, or the default of the kind."""
        return MANIFOLDS[self.kind].learning_rate if self.learning_rate is None else self.learning_rate


def paper_manifold_config(kind: str = "conv-vae", feature_dim: int = 256) -> ManifoldConfig:
    """The settings that the paper prints for its VAE (any network) or its GAN (VLCS).

    The features of ResNet and digits have 256 dimensions, those of AlexNet 1024, whose latent is 64 instead of 32.
    """
    if kind == "gan":
        return ManifoldConfig(
            kind="gan", latent_dim=64, learning_rate=2e-4, schedule="constant", epochs=450, batch_size=64
        )
    return ManifoldConfig(
        kind=kind,
        latent_dim=64 if feature_dim >= 1024 else 32,
        optimizer="sgd",
        learning_rate=0.005,
        momentum=0.9,
        schedule="constant",
        epochs=350,
        batch_size=64,
    )
