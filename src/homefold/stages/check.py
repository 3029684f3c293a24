"""Will a model hold up on images that nobody labelled? What its answers and features say of that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch

from homefold.errors import DataError
from homefold.stages.accuracy_estimate import AccuracyEstimate, Judged, estimate_accuracy, tempered
from homefold.stages.advice import advice_on
from homefold.stages.duplicates import Duplicate, digest_of, find_duplicates, small_grey
from homefold.stages.predictions import Predictions, rows_named
from homefold.stages.source_images import SourceImages
from homefold.stages.sources import KeptSources
from homefold.stages.task import ImageSet
from homefold.stages.trained_model import TrainedModel
from homefold.stages.two_sample import TwoSampleTest, two_sample_test

__all__ = ["ClassShare", "DomainCheck", "UnusualImage", "check_images"]

_UNUSUAL = 12
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_NOTHING_KEPT = (
    "This model keeps nothing of held-out source images, so neither its accuracy here nor a two-sample test can be "
    "told; fit it again with this version."
)
_TOO_FEW = "The two-sample test needs at least 20 new images and 20 held-out ones."
_NO_STYLES = "The model knows no styles of its sources: fit with look.leave_familiar=true to compare styles."
_NO_SOURCES = (
    "Copies of training images were not looked for: homefold check does so where --data gives these (Python: sources=)."
)


@dataclass(frozen=True)
class ClassShare:
    """How often a class is expected; shares of one."""

    expected: float
    """The mean of its probabilities, at the temperature that held-out images ask for."""
    predicted: float
    """Answers that name it."""
    sources: float | None
    """Source images of it; None where none are kept."""


@dataclass(frozen=True, eq=False)
class UnusualImage:
    """A new image that is far from the sources.

    Args:
        image: its place among the new ones.
        path: its file; empty where it came from memory.
        label, confidence: its answer.
        off_manifold: its score.
        style: distance of its style to the nearest source domain's; None where no styles are known.
        pixels: `(h, w, 3)` uint8 as the model sees it.
    """

    image: int
    path: str
    label: str
    confidence: float
    off_manifold: float
    style: float | None
    pixels: np.ndarray = field(repr=False)

    @property
    def how_far(self) -> str:
        """Both distances in words; the larger one, beside what is usual, is what makes it unusual."""
        return f"off-manifold {self.off_manifold:.2f}" + ("" if self.style is None else f", style {self.style:.1f}")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without pixels."""
        return {name: value for name, value in vars(self).items() if name != "pixels"}


@dataclass(frozen=True, eq=False)
class DomainCheck:
    """What is known of new images without their labels.

    Args:
        predictions: the answers, with their paths.
        accuracy: what they are worth; None where no held-out images are kept.
        off_manifold: scores of the held-out images of each source domain, and of the new ones under an empty name.
        style: distances of styles to the nearest source domain's, likewise; empty where no styles are known.
        nearest_source: share of the new images that each source domain is nearest to.
        nearest_by: `style` or `features`; what that was judged by, empty where it was not.
        classes: by name.
        two_sample: None where there are too few images, or none are kept.
        unusual: the most unusual first.
        duplicates: copies of training images; None where these were not at hand.
        unknown: a sentence for each thing that could not be told.
    """

    predictions: Predictions
    accuracy: AccuracyEstimate | None
    off_manifold: dict[str, np.ndarray]
    style: dict[str, np.ndarray]
    nearest_source: dict[str, float]
    nearest_by: str
    classes: dict[str, ClassShare]
    two_sample: TwoSampleTest | None
    unusual: tuple[UnusualImage, ...]
    duplicates: tuple[Duplicate, ...] | None
    unknown: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.predictions)

    @property
    def agreement(self) -> float:
        """Share of the images whose label projection leaves as it is."""
        return float(1 - self.predictions.changed.mean())

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do next, the most pressing first."""
        return advice_on(
            images=len(self),
            accuracy=self.accuracy,
            two_sample=self.two_sample,
            far=float((self.off_manifold[""] > 1).mean()),
            duplicates=len(self.duplicates or ()),
            shares={name: (share.expected, share.sources) for name, share in self.classes.items()},
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "images": len(self),
            "accuracy": None if self.accuracy is None else asdict(self.accuracy),
            "agreement": self.agreement,
            "two_sample_test": None if self.two_sample is None else asdict(self.two_sample),
            "nearest_source": self.nearest_source,
            "nearest_by": self.nearest_by,
            "off_manifold": _distributions(self.off_manifold),
            "style_distance": _distributions(self.style),
            "classes": {name: asdict(share) for name, share in self.classes.items()},
            "unusual": [image.as_dict() for image in self.unusual],
            "duplicates": None if self.duplicates is None else [self._named(each) for each in self.duplicates],
            "next": list(self.advice),
            "unknown": list(self.unknown),
        }

    def _named(self, duplicate: Duplicate) -> dict[str, Any]:
        paths = self.predictions.paths
        return {**({"path": paths[duplicate.image]} if paths else {}), **duplicate.as_dict()}


def _distributions(groups: dict[str, np.ndarray]) -> dict[str, Any]:
    """Quantiles of the new images, and of the held-out ones of each source domain."""
    told = {
        name: {f"{quantile:g}": float(np.quantile(values, quantile)) for quantile in _QUANTILES}
        for name, values in groups.items()
        if len(values)
    }
    return {"new": told.pop(""), "held_out": told} if "" in told else {}


def check_images(
    trained: TrainedModel,
    chunks: Iterable[tuple[ImageSet, tuple[str, ...]]],
    kept: KeptSources | None,
    sources: SourceImages | None = None,
) -> DomainCheck:
    """Check new images, a chunk of them with their paths at a time.

    Args:
        trained: all stages.
        chunks: the images.
        kept: what the model keeps of its sources.
        sources: all training images with their pixels, to look for copies of them.
    """
    seen = _Seen(trained, kept, copies=sources is not None)
    for images, paths in chunks:
        seen.add(images, paths)
    new = seen.judged
    classes, domains = trained.feature_model.class_names, trained.domains
    features, styles = np.concatenate(seen.features), np.concatenate(seen.styles)
    accuracy = None
    if kept is not None:
        held = Judged(kept.held_probabilities, kept.held_plain)
        accuracy = estimate_accuracy(held, kept.held_labels, new, seed=trained.config.seed)
    predictions = Predictions.concatenate(seen.predictions)
    nearest, by = _nearest_source(features, styles, kept, domains)
    duplicates = None if sources is None else find_duplicates(features, seen.digests, seen.greys, sources)
    two_sample = None if kept is None else two_sample_test(kept.held_features, features, seed=trained.config.seed)
    unknown = [_NOTHING_KEPT if kept is None else _TOO_FEW] * (two_sample is None)
    unknown += [_NO_STYLES] * (not styles.shape[1]) + [_NO_SOURCES] * (sources is None)
    off_manifold, style = {"": predictions.off_manifold}, {}
    if kept is not None:
        off_manifold |= _by_domain(kept, domains, kept.held_off_manifold)
        if styles.shape[1]:
            style = {"": styles.min(axis=1), **_by_domain(kept, domains, kept.held_styles.min(axis=1))}
    return DomainCheck(
        predictions=predictions,
        accuracy=accuracy,
        off_manifold=off_manifold,
        style=style,
        nearest_source=nearest,
        nearest_by=by,
        classes=_class_shares(new.probabilities, 1.0 if accuracy is None else accuracy.temperature, kept, classes),
        two_sample=two_sample,
        unusual=tuple(seen.unusual),
        duplicates=duplicates,
        unknown=tuple(unknown),
    )


class _Seen:
    """What is kept of the new images while they pass; of their pixels only those of the most unusual."""

    def __init__(self, trained: TrainedModel, kept: KeptSources | None, *, copies: bool) -> None:
        self._trained, self._copies = trained, copies
        self._usual_style = 1.0
        if kept is not None and kept.held_styles.shape[1]:
            self._usual_style = max(1e-6, float(np.quantile(kept.held_styles.min(axis=1), 0.95)))
        self._has_styles = trained.familiarity is not None and kept is not None
        self.predictions: list[Predictions] = []
        self.plain: list[np.ndarray] = []
        self.features: list[np.ndarray] = []
        self.styles: list[np.ndarray] = []
        self.digests: list[bytes] = []
        self.greys: list[np.ndarray] = []
        self.unusual: list[UnusualImage] = []
        self._scores: list[float] = []

    @property
    def judged(self) -> Judged:
        """The answers with and without projection."""
        if not self.predictions:
            raise DataError("there is nothing to check: no image was given.")
        return Judged(np.concatenate([part.probabilities for part in self.predictions]), np.concatenate(self.plain))

    def add(self, images: ImageSet, paths: tuple[str, ...]) -> None:
        """Answer a chunk."""
        before = sum(map(len, self.predictions))
        with rows_named(paths, first=before):
            answer = self._trained.answer(images, compare=True)
        assert answer.plain is not None
        found, plain = answer.predictions, answer.plain.predictions
        self.predictions.append(replace(found, paths=paths, unprojected=plain.indices))
        self.plain.append(plain.probabilities)
        with torch.no_grad():
            self.features.append(self._trained.feature_model.prepare(answer.plain.features).cpu().numpy())
        count = len(images.pixels)
        styles = self._trained.style_distances(images) if self._has_styles else np.empty((count, 0), np.float32)
        self.styles.append(styles)
        if self._copies:
            self.digests += [digest_of(image) for image in images.pixels]
            self.greys += [small_grey(image) for image in images.pixels]
        self._keep_unusual(images.pixels, found, styles, paths, before)

    def _keep_unusual(
        self, pixels: np.ndarray, found: Predictions, styles: np.ndarray, paths: Sequence[str], before: int
    ) -> None:
        """Those farthest out, by off-manifold score or style, each beside what is usual, whichever is larger."""
        scores = found.off_manifold.astype(np.float64)
        if styles.shape[1]:
            scores = np.maximum(scores, styles.min(axis=1) / self._usual_style)
        for row in np.argsort(-scores, kind="stable")[:_UNUSUAL].tolist():
            one = found[row]
            self.unusual.append(
                UnusualImage(
                    image=before + row,
                    path=paths[row] if paths else "",
                    label=one.label,
                    confidence=one.confidence,
                    off_manifold=one.off_manifold,
                    style=float(styles[row].min()) if styles.shape[1] else None,
                    pixels=np.array(pixels[row]),
                )
            )
            self._scores.append(float(scores[row]))
        order = np.argsort(-np.asarray(self._scores), kind="stable")[:_UNUSUAL].tolist()
        self.unusual, self._scores = [self.unusual[i] for i in order], [self._scores[i] for i in order]


def _by_domain(kept: KeptSources, domains: Sequence[str], values: np.ndarray) -> dict[str, np.ndarray]:
    """The values of held-out images, by the name of their domain."""
    return {name: values[kept.held_domains == i] for i, name in enumerate(domains)}


def _nearest_source(
    features: np.ndarray, styles: np.ndarray, kept: KeptSources | None, domains: Sequence[str]
) -> tuple[dict[str, float], str]:
    """Share of the images that each source domain is nearest to, and by what that was judged."""
    if kept is None:
        return {}, ""
    if styles.shape[1]:
        nearest, by = styles.argmin(axis=1), "style"
    else:
        known = SourceImages(kept.features, kept.labels, kept.domains, kept.rows)
        nearest, by = kept.domains[known.nearest(features, 1)[0][:, 0]], "features"
    return {name: float((nearest == i).mean()) for i, name in enumerate(domains)}, by


def _class_shares(
    probabilities: np.ndarray, temperature: float, kept: KeptSources | None, classes: Sequence[str]
) -> dict[str, ClassShare]:
    expected, labels = tempered(probabilities, temperature).mean(axis=0), probabilities.argmax(axis=1)
    return {
        name: ClassShare(
            float(expected[i]),
            float((labels == i).mean()),
            None if kept is None else float((kept.labels == i).mean()),
        )
        for i, name in enumerate(classes)
    }
