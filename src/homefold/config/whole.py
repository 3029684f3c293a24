"""The whole configuration of a model."""

from __future__ import annotations

from dataclasses import field

from homefold.config.classifier import ClassifierConfig
from homefold.config.features import FeatureConfig
from homefold.config.look import LookConfig
from homefold.config.manifold import ManifoldConfig
from homefold.config.preprocessing import PreprocessingConfig
from homefold.config.search import SearchConfig
from homefold.config.style import StyleConfig
from homefold.config.values import Seed, dataclass
from homefold.config.views import View, fixed_views

__all__ = ["HomefoldConfig"]


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

    def views(self, look: LookConfig | None = None) -> tuple[View, ...]:
        """How each image is seen at prediction, by other settings of the look if they are given."""
        asked = look or self.look
        mirror = asked.mirror and self.features.augmentation.flip_probability > 0
        return fixed_views(asked.views, mirror=mirror, textures=asked.textures)

    def require_consistent(self) -> None:
        """Refuse settings that contradict each other; called when all of them are known."""
        self.views()
        self.features.require_consistent()
