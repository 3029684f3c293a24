"""Every setting of the projection, and what the named presets stand for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from homefold.choices import require_types
from homefold.errors import ConfigError
from homefold.features.views import MOST_TEXTURES, MOST_TINTS, MOST_VIEWS
from homefold.projection.steps import Adam, Gradient, Normalised, StepRule
from homefold.projection.stopping import Elbow, Fixed, Plateau, StoppingRule

__all__ = ["ProjectionConfig", "projection_preset"]


@dataclass(frozen=True)
class ProjectionConfig:
    """Stage 4: how an unseen feature is brought to the source manifold."""

    encoder_start: bool = True
    """Start from the manifold's encoder; where it has none (GAN), from its nearest known point."""
    random_starts: int = 0
    """Further starts drawn from N(0, I), the same ones for every sample."""
    nearest_starts: int = 0
    """Further starts from the latents of the most similar known points of the manifold."""
    step: Literal["gradient", "normalised", "adam"] = "adam"
    """Step rule: gradient (plain), normalised (constant relative length with momentum) or adam."""
    rate: float = 0.05
    """Step size β."""
    momentum: float = 0.9
    """Momentum of the normalised rule."""
    steps: int = 50
    """Steps at most (M)."""
    stop: Literal["elbow", "plateau", "fixed"] = "fixed"
    """Stopping rule: elbow (sharpest bend of the smoothed loss curve), plateau, or fixed (after all steps)."""
    window: int = 5
    """Losses that are averaged before the elbow is looked for; odd."""
    patience: int = 20
    """Steps without improvement that make a plateau."""
    tolerance: float = 1e-4
    """Least fall of the loss that counts as improvement."""
    prior: float = 0.0
    """Weight of a latent prior: the search minimises 1 − cos(z, G(u)) + prior · |u|² / (2 · latent_dim), so that a
    latent far from N(0, I) must be worth it; 0 looks at the cosine alone."""
    component: Literal["nearest", "average"] = "nearest"
    """Of a mixture's components: nearest (the classifier sees the most similar projection) or average (its
    probabilities for the projections on all of them, weighted by softmax(similarity / temperature))."""
    answer: Literal["classifier", "residuals"] = "classifier"
    """Where the answer comes from: the classifier, or the residuals of a mixture with one manifold for each class (the
    probabilities are softmax(similarity / temperature) and the classifier is not asked)."""
    temperature: float = 0.05
    """Of the softmax over the components' similarities (component average, answer residuals)."""
    engine: Literal["auto", "reference", "batched", "compiled", "fused"] = "auto"
    """What runs the search: reference (one sample and one start at a time, everything stored), batched (all at once),
    compiled (CUDA graphs), fused (one CUDA kernel for the whole search); auto takes the fastest that can run."""
    precision: Literal["auto", "highest", "high", "medium"] = "auto"
    """Of matrix products on a GPU: highest (float32), high (TF32, or two bfloat16 parts), medium (bfloat16); auto is
    high. The CPU always computes in float32."""
    views: int = 1
    """Views of each image whose mean direction is projected (or classified, without projection): the image, its mirror
    image, then crops of 7/8 side at the centre and the corners with theirs; 1 to 12, or to 6 without mirror images."""
    mirror: bool = True
    """Let mirror images be among the views; they never are where training images were not mirrored, as for digits."""
    textures: int = 0
    """So many views more: the image after fixed random filters, as training varies it with texture_probability; 0 to
    16, and each takes as long as another view."""
    tints: int = 0
    """And so many more: the image brighter, darker, with more and with less contrast, grey, and more coloured; 0 to 6,
    and each takes as long as another view."""
    styles: bool = True
    """Bring the style of an image to the sources' before the search, where the model was fitted to do so."""
    trust_below: float | None = None
    """Trust the projection only of images whose off-manifold score is not above this (1 is usual for source images),
    and classify the features of the others as they are; none trusts it always."""
    blend: float = 1.0
    """Share of the projected feature's probabilities in the answer; the rest is those of the feature as it is."""
    race: int = 0
    """After so many steps only the best start of a sample goes on; 0 lets all run to the end."""
    tile: int = 0
    """Samples computed together, always filled up to this number; 0 takes what suits the device."""

    def __post_init__(self) -> None:
        require_types(self)
        for name in ("random_starts", "nearest_starts", "steps"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative; got {getattr(self, name)}.")
        if not self.rate > 0:
            raise ConfigError(f"rate must be positive; got {self.rate}.")
        if not self.temperature > 0:
            raise ConfigError(f"temperature must be a positive number, such as 0.05; got {self.temperature}.")
        if self.answer == "residuals" and self.component == "average":
            raise ConfigError(
                "the residuals answer without the classifier, whose probabilities are what component average averages; "
                "set component to nearest, or answer to classifier."
            )
        if not self.prior >= 0:
            raise ConfigError(
                f"prior must be zero (no latent prior) or a positive number, such as 0.01; got {self.prior}."
            )
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"momentum must be in [0, 1); got {self.momentum}.")
        if self.starts == 0:
            raise ConfigError("the projection needs a start: set encoder_start, random_starts or nearest_starts.")
        if self.window < 1 or self.window % 2 == 0:
            raise ConfigError(f"window must be odd and positive, so that it has a centre; got {self.window}.")
        if self.stop == "elbow" and self.steps < self.window + 2:
            raise ConfigError(
                f"an elbow needs at least window + 2 = {self.window + 2} steps to be seen; got {self.steps}."
            )
        if self.race < 0 or (self.race and self.stop != "fixed"):
            raise ConfigError(
                f"race must not be negative, and needs stop fixed; got race {self.race} with stop {self.stop}."
            )
        if not 1 <= self.views <= MOST_VIEWS:
            raise ConfigError(f"views must be 1 (the image alone) to {MOST_VIEWS}; got {self.views}.")
        if not 0 <= self.textures <= MOST_TEXTURES:
            raise ConfigError(f"textures must be 0 (none) to {MOST_TEXTURES}; got {self.textures}.")
        if not 0 <= self.tints <= MOST_TINTS:
            raise ConfigError(f"tints must be 0 (none) to {MOST_TINTS}; got {self.tints}.")
        if self.trust_below is not None and not self.trust_below >= 0:
            raise ConfigError(
                f"trust_below must be zero or a positive number, or none to trust always; got {self.trust_below}."
            )
        if self.tolerance < 0:
            raise ConfigError(f"tolerance must not be negative; got {self.tolerance}.")
        if not 0 <= self.blend <= 1:
            raise ConfigError(f"blend is the projection's share in the answer, 0 to 1; got {self.blend}.")
        if self.patience < 1 or self.tile < 0:
            raise ConfigError(f"patience must be positive and tile not negative; got {self.patience} and {self.tile}.")

    @property
    def search(self) -> ProjectionConfig:
        """These settings with all at its default that decides nothing about the search for one feature."""
        return replace(self.one_look, mirror=True, styles=True, trust_below=None, blend=1.0)

    @property
    def one_look(self) -> ProjectionConfig:
        """These settings for each image as it is, without further views."""
        return replace(self, views=1, textures=0, tints=0)

    @property
    def answers_for_all(self) -> bool:
        """Whether every answer is that of the projection alone."""
        return self.trust_below is None and self.blend == 1

    @property
    def starts(self) -> int:
        """How many latents are tried for a sample."""
        return int(self.encoder_start) + self.random_starts + self.nearest_starts

    @property
    def resolved_precision(self) -> Literal["highest", "high", "medium"]:
        """`precision`, with auto settled."""
        return "high" if self.precision == "auto" else self.precision

    def require_manifold(self, per: str) -> None:
        """Refuse settings that a manifold with one component for each `per` (or one for all) cannot serve."""
        if self.answer == "residuals" and per != "class":
            raise ConfigError(
                "an answer can be read from the residuals only where every class has a manifold of its own: take "
                "--manifold.per class, or --projection.answer classifier."
            )

    def search_only(self) -> ProjectionConfig:
        """The same with what only decides how ends of searches become an answer at its default."""
        return replace(self, component="nearest", answer="classifier", temperature=ProjectionConfig.temperature)

    def step_rule(self) -> StepRule:
        """A fresh step rule."""
        if self.step == "gradient":
            return Gradient(self.rate)
        if self.step == "normalised":
            return Normalised(self.rate, self.momentum)
        return Adam(self.rate)

    def stopping_rule(self) -> StoppingRule:
        """A fresh stopping rule."""
        if self.stop == "elbow":
            return Elbow(self.window)
        if self.stop == "plateau":
            return Plateau(self.patience, self.tolerance)
        return Fixed()


_PRESETS = {
    "default": ProjectionConfig(),
    "paper": ProjectionConfig(
        encoder_start=False,
        random_starts=1,
        step="gradient",
        rate=0.01,
        steps=20_000,
        stop="elbow",
        window=5,
        styles=False,
    ),
    "authors": ProjectionConfig(
        encoder_start=False,
        random_starts=1,
        step="normalised",
        rate=0.01,
        steps=1_000,
        stop="elbow",
        window=5,
        styles=False,
    ),
    "restarts": ProjectionConfig(encoder_start=False, random_starts=8, steps=200),
}


def projection_preset(name: str) -> ProjectionConfig:
    """The settings called `name`.

    `default`: one encoder start and a fixed number of Adam steps. `paper`: Algorithm 1 to the letter. `authors`: the
    normalised steps that the released scripts take; both leave styles as they are. `restarts`: eight random starts, the
    best kept.

    >>> projection_preset("paper").steps
    20000
    """
    if name not in _PRESETS:
        raise ConfigError(f"there is no projection preset {name!r}; choose one of {', '.join(_PRESETS)}.")
    return _PRESETS[name]
