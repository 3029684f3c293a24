"""Stage 3: the classifier of features, a linear layer or one hidden layer."""

from __future__ import annotations

from homefold.classifier.network import Classifier, build_classifier
from homefold.classifier.training import fit_classifier
from homefold.config import ClassifierConfig

__all__ = ["Classifier", "ClassifierConfig", "build_classifier", "fit_classifier"]
