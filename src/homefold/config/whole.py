"""The whole configuration of a model, and those of its parts that have no file of their own."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, Literal

from pydantic import Field

from homefold.config.features import FeatureConfig
from homefold.config.manifold import ManifoldConfig
from homefold.config.normalisation import Normalisation
from homefold.config.search import SearchConfig
from homefold.config.values import Count, FromZero, FromZeroBelowOne, Positive, Seed, Share, dataclass
from homefold.config.views import MOST_TEXTURES, MOST_VIEWS, View, fixed_views
from homefold.errors import ConfigError, shown

__all__ = [
    "EARLY",
    "ClassifierConfig",
    "HomefoldConfig",
    "LookConfig",
    "PreprocessingConfig",
    "StyleConfig",
    "look_preset",
]

EARLY = "early"

_LARGEST_IMAGE_PX = 10_000


@dataclass(frozen=True)
class PreprocessingConfig:
    """How an image becomes the network's input."""

    image_size: Annotated[int, Field(ge=1, le=_LARGEST_IMAGE_PX)] = 224
    """Side of the square, in pixels, that every image is resized to."""
    resize: Literal["squash", "crop"] = "squash"
    """squash ignores the aspect ratio and keeps every pixel in view; crop cuts out the centre square."""
    normalisation: Normalisation = "imagenet"
    """Statistics that the backbone expects: imagenet, half (to −1…1), none, or clip, dpn or satellite, as timm
    has them."""


@dataclass(frozen=True)
class ClassifierConfig:
    """Form and training of the classifier."""

    kind: Literal["linear", "hidden"] = "linear"
    """A single fully connected layer, or one with a hidden layer before it."""
    hidden_dim: Count = 256
    """Width of the hidden layer."""
    learning_rate: Positive = 0.003
    """Learning rate of Adam."""
    epochs: Count = 20
    """Passes over the source features."""
    batch_size: Count = 64
    """Features per step."""
    weight_decay: FromZero = 0.0
    """Weight decay."""
    label_smoothing: FromZeroBelowOne = 0.0
    """Probability spread evenly over all classes in the target of the cross entropy."""


@dataclass(frozen=True)
class LookConfig:
    """How each image is seen at prediction: its views, and whether its style is brought to the sources'."""

    views: Annotated[int, Field(ge=1, le=MOST_VIEWS)] = 1
    """Views of each image whose mean direction is projected (or classified, without projection): the image, its mirror
    image, then crops of 7/8 side at the centre and the corners with theirs; 1 to 12, or to 6 without mirror images."""
    mirror: bool = True
    """Let mirror images be among the views; they never are where training images were not mirrored, as for digits."""
    textures: Annotated[int, Field(ge=0, le=MOST_TEXTURES)] = 0
    """So many views more: the image after fixed random filters, as training varies it with texture_probability; 0 to
    16, and each takes as long as another view."""
    styles: bool = True
    """Bring the style of an image to the sources' before the search, where the model was fitted to do so."""
    leave_familiar: bool = False
    """Answer without projection for images whose style is as near to a source domain's as that of three quarters of
    held-out source images; takes another pass of the network for the others."""

    @property
    def plain(self) -> LookConfig:
        """These settings for each image as it is, without further views."""
        return replace(self, views=1, textures=0)


def look_preset(name: str) -> LookConfig:
    """How images are seen with the search of that name: `paper` and `authors` leave styles as they are.

    >>> look_preset("paper").styles
    False
    """
    return LookConfig(styles=name not in ("paper", "authors"))


@dataclass(frozen=True)
class StyleConfig:
    """How the style of an unseen image is brought to the source styles inside the network; by default not at all."""

    blocks: tuple[str, ...] = ()
    """Blocks of the backbone after which it is done, such as layer1 layer2; early means the first two with fine
    maps after the stem. Without a name styles stay as they are."""
    manifold: Literal["mean", "domains"] = "mean"
    """What stands for the source styles: their mean, or the mean of each source domain in turn (domains: the backbone's
    outputs for all of them and for the image as it is are averaged, so that an answer takes one pass more than there
    are source domains)."""
    weight: Share = 1.0
    """How far a style is moved: 0 leaves it, 1 takes the source style."""

    def __post_init__(self) -> None:
        if len(set(self.blocks)) < len(self.blocks):
            raise ConfigError(f"style.blocks names a block twice; got {shown(' '.join(self.blocks))}.")
        if EARLY in self.blocks and len(self.blocks) > 1:
            raise ConfigError(
                f"style.blocks must be {EARLY} alone or names of blocks; got {shown(' '.join(self.blocks))}."
            )


@dataclass(frozen=True)
class HomefoldConfig:
    """Everything that decides what a fit gives, but the data."""

    seed: Seed = 0
    """All randomness of the fit and of the random starts follows from it."""
    preprocessing: PreprocessingConfig = field(default_factory=PreprocessingConfig)
    """How an image becomes the network's input."""
    features: FeatureConfig = field(default_factory=FeatureConfig)
    """Stage 1: the network f and how it is trained."""
    normalise_features: bool = True
    """Scale every feature to length √d before stages 2 and 3: similarity is cosine, so length carries nothing."""
    manifold: ManifoldConfig = field(default_factory=ManifoldConfig)
    """Stage 2: the generative model G of the source features."""
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    """Stage 3: the classifier C."""
    look: LookConfig = field(default_factory=LookConfig)
    """How each image is seen at inference."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Stage 4: the search at inference."""
    style: StyleConfig = field(default_factory=StyleConfig)
    """How the style of an unseen image is brought to the source styles inside the network."""
    calibrate: Literal["none", "images", "domains"] = "none"
    """Where the temperature of the confidences is fitted: nowhere, on held-out source images, or on source domains
    left out in turn (domains trains as many more networks as there are source domains, and tells their accuracy)."""

    def views(self, look: LookConfig | None = None) -> tuple[View, ...]:
        """How each image is seen at prediction, by other settings of the look if they are given."""
        asked = look or self.look
        mirror = asked.mirror and self.features.augmentation.flip_probability > 0
        return fixed_views(asked.views, mirror=mirror, textures=asked.textures)

    def require_consistent(self) -> None:
        """Refuse settings that contradict each other; called when all of them are known."""
        self.views()
        self.features.require_consistent()
