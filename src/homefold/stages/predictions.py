"""What a prediction carries beside its label."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from homefold.errors import ConfigError, DataError, NotFiniteError, shown

__all__ = ["NOT_SEARCHED", "Prediction", "Predictions", "require_confidence", "require_threshold", "rows_named"]

NOT_SEARCHED = ("none",)
"""The starts of a search that did not take place."""


def require_threshold(threshold: float) -> None:
    """Refuse what no off-manifold score can be compared with: text, NaN, and what is below every score."""
    if not _is_number(threshold) or not threshold >= 0:
        raise ConfigError(f"the off-manifold score to abstain above must be a number from 0; got {shown(threshold)}.")


def require_confidence(confidence: float) -> None:
    """Refuse what no confidence can be compared with: all that is not a number from 0 to 1."""
    if not _is_number(confidence) or not 0 <= confidence <= 1:
        raise ConfigError(f"the confidence to abstain below must be a number from 0 to 1; got {shown(confidence)}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


@contextmanager
def rows_named(names: Sequence[str], first: int = 0) -> Iterator[None]:
    """Inside, an answer that is not finite is told by the name of its sample, where there are names, else by its place
    after the `first` samples, which were answered before."""
    try:
        yield
    except NotFiniteError as error:
        raise NotFiniteError(first + error.row, names[error.row] if names else "") from None


@dataclass(frozen=True)
class Prediction:
    """One sample's answer.

    Args:
        label: name of the most probable class.
        probabilities: probability of each class, by name.
        similarity_before: cosine of its feature to where the winning start of the search began.
        similarity_after: cosine of its feature to its projection.
        iterations: steps from that start to the projection.
        start: which start won.
        off_manifold: how far from the source manifold it ended, in units of what 95 % of held-out source images stay
            below: above 1 is unusual.
        path: the file it came from; empty when it came from memory.
        projected: whether it was brought to the source manifold.
        label_without_projection: what the label would be without; empty where that was not asked.
        adapted: whether it depends on the images before it, which a memory was made of.
    """

    label: str
    probabilities: dict[str, float]
    similarity_before: float
    similarity_after: float
    iterations: int
    start: str
    off_manifold: float
    path: str = ""
    projected: bool = True
    label_without_projection: str = ""
    adapted: bool = False

    @property
    def confidence(self) -> float:
        """Probability of the label."""
        return self.probabilities[self.label]

    def abstained(self, threshold: float) -> bool:
        """Whether it ended farther out than an off-manifold score, as `Predictions.abstained` has it."""
        require_threshold(threshold)
        return bool(np.float32(self.off_manifold) > threshold)  # scores are single precision

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; without a path, a label without projection or a memory, when there is none."""
        optional = ("path", "label_without_projection", "adapted")
        values = {name: value for name, value in vars(self).items() if value or name not in optional}
        return {"label": self.label, "confidence": self.confidence, **values}


@dataclass(frozen=True)
class Predictions:
    """The answers for n samples, as arrays; index or iterate for one `Prediction` each.

    Args:
        class_names: one name a class.
        probabilities: `(n, classes)`.
        similarity_before: `(n,)`.
        similarity_after: `(n,)`.
        iterations: `(n,)` integers.
        start: `(n,)` index into `start_names`.
        off_manifold: `(n,)`.
        projected: `(n,)` booleans.
        start_names: what the starts are called; `NOT_SEARCHED` when nothing was projected.
        paths: the file of each sample; empty when they came from memory.
        engine: what ran the search; `"none"` when nothing was searched for.
        unprojected: `(n,)` index of the most probable class without projection; empty where that was not asked.
        adapted: whether each depends on the images before it, which a memory was made of.
    """

    class_names: tuple[str, ...]
    probabilities: np.ndarray
    similarity_before: np.ndarray
    similarity_after: np.ndarray
    iterations: np.ndarray
    start: np.ndarray
    off_manifold: np.ndarray
    projected: np.ndarray
    start_names: tuple[str, ...]
    paths: tuple[str, ...] = ()
    engine: str = "none"
    unprojected: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    adapted: bool = False

    def __post_init__(self) -> None:
        finite = np.isfinite(self.probabilities).all(axis=1)
        if self.has_scores:
            for figures in (self.off_manifold, self.similarity_before, self.similarity_after):
                finite = finite & np.isfinite(figures)
        if not finite.all():
            row = int(finite.argmin())
            raise NotFiniteError(row, self.paths[row] if self.paths else "")

    @property
    def has_scores(self) -> bool:
        """Whether samples were projected, and so have off-manifold scores; without, those are NaN."""
        return self.start_names != NOT_SEARCHED

    @property
    def indices(self) -> np.ndarray:
        """`(n,)` index of the most probable class."""
        best: np.ndarray = self.probabilities.argmax(axis=1)
        return best

    @property
    def labels(self) -> np.ndarray:
        """`(n,)` name of the most probable class."""
        names: np.ndarray = np.asarray(self.class_names, dtype=object)[self.indices].astype(str)
        return names

    @property
    def confidences(self) -> np.ndarray:
        """`(n,)` probability of each label."""
        best: np.ndarray = self.probabilities.max(axis=1)
        return best

    @property
    def changed(self) -> np.ndarray:
        """`(n,)` whether the projection changed the label."""
        if len(self.unprojected) != len(self):
            raise ConfigError("these answers do not know the labels without projection: predict with compare=True.")
        different: np.ndarray = self.unprojected != self.indices
        return different

    def abstained(self, threshold: float | None = None, *, confidence_below: float | None = None) -> np.ndarray:
        """`(n,)` whether the answer is one to withhold: too far from the source manifold, or not sure enough.

        Args:
            threshold: withhold what ended farther out: an off-manifold score, 0 or higher; infinity withholds none.
            confidence_below: withhold what is less sure: a probability.
        """
        withheld = np.zeros(len(self), dtype=bool)
        if threshold is not None:
            require_threshold(threshold)
            if not self.has_scores:
                raise ConfigError("answers without projection have no off-manifold scores to abstain by.")
            withheld |= self.off_manifold > threshold
        if confidence_below is not None:
            require_confidence(confidence_below)
            withheld |= self.confidences < confidence_below
        return withheld

    def left(self, plain: Predictions, rows: np.ndarray) -> Predictions:
        """These answers, but at `rows: (n,)` those of `plain`, which tell what the labels are without projection."""
        probabilities = np.where(rows[:, None], plain.probabilities, self.probabilities)
        return replace(self, probabilities=probabilities, projected=self.projected & ~rows, unprojected=plain.indices)

    def __len__(self) -> int:
        return len(self.probabilities)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.labels if dtype is None else self.labels.astype(dtype)

    def __getitem__(self, index: int) -> Prediction:
        return Prediction(
            label=self.class_names[int(self.probabilities[index].argmax())],
            probabilities={
                name: float(value) for name, value in zip(self.class_names, self.probabilities[index], strict=True)
            },
            similarity_before=float(self.similarity_before[index]),
            similarity_after=float(self.similarity_after[index]),
            iterations=int(self.iterations[index]),
            start=self.start_names[int(self.start[index])],
            off_manifold=float(self.off_manifold[index]),
            projected=bool(self.projected[index]),
            path=self.paths[index] if self.paths else "",
            label_without_projection=self.class_names[int(self.unprojected[index])] if len(self.unprojected) else "",
            adapted=self.adapted,
        )

    def __iter__(self) -> Iterator[Prediction]:
        return (self[i] for i in range(len(self)))

    @staticmethod
    def concatenate(parts: list[Predictions]) -> Predictions:
        """One after the other."""
        if not parts:
            raise DataError("there is nothing to predict: no image was given.")
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name, value in vars(parts[0]).items()
            if isinstance(value, np.ndarray)
        }
        return replace(parts[0], **joined, paths=tuple(path for part in parts for path in part.paths))
