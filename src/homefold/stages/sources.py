"""What a model keeps of its source images so that others can be compared with them: numbers, no pixels and no paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch

from homefold.data.splits import stratified_rows
from homefold.errors import ModelFileError, cut
from homefold.stages.feature_model import to_sphere
from homefold.stages.features import FeatureStage
from homefold.stages.task import ImageSet, TrainingTask
from homefold.stages.trained_model import Answer, TrainedModel

__all__ = ["KeptSources", "keep_sources"]

_MOST_KNOWN = 1000


@dataclass(frozen=True, eq=False)
class KeptSources:
    """Some training images, and some held-out ones with the answers they get; all are arrays.

    Features are prepared as the stages want them, before styles are moved. Rows count the images of the source domains
    in the order in which they were given to `fit`.
    """

    features: np.ndarray
    """`(k, d)` of training images."""
    labels: np.ndarray
    """`(k,)` indices of classes."""
    domains: np.ndarray
    """`(k,)` indices of source domains."""
    rows: np.ndarray
    """`(k,)`."""
    held_features: np.ndarray
    """`(m, d)` of held-out images."""
    held_labels: np.ndarray
    held_domains: np.ndarray
    held_rows: np.ndarray
    held_probabilities: np.ndarray
    """`(m, classes)` of the answers as `predict` gives them."""
    held_plain: np.ndarray
    """`(m, classes)` of the answers without projection."""
    held_off_manifold: np.ndarray
    """`(m,)`."""
    held_styles: np.ndarray
    """`(m, domains)` distance of each style to each source domain's; `(m, 0)` where the model knows no styles."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """Everything by name, to be saved."""
        return {item.name: torch.from_numpy(np.ascontiguousarray(getattr(self, item.name))) for item in fields(self)}

    @staticmethod
    def from_tensors(
        tensors: Mapping[str, torch.Tensor], *, feature_dim: int, classes: int, domains: int
    ) -> KeptSources:
        """What `tensors` gave; what does not fit the model is refused."""
        names = {item.name for item in fields(KeptSources)}
        if set(tensors) != names:
            raise ModelFileError(
                f"what is kept of the sources should hold {', '.join(sorted(names))}; it holds "
                f"{cut(', '.join(sorted(tensors))) or 'nothing'}."
            )
        k, m = (len(tensors[name]) if tensors[name].ndim else 0 for name in ("features", "held_features"))
        styles = tensors["held_styles"].shape[-1:]
        shapes = {
            "features": (k, feature_dim),
            "held_features": (m, feature_dim),
            "held_probabilities": (m, classes),
            "held_plain": (m, classes),
            "held_off_manifold": (m,),
            "held_styles": (m, domains if styles == (domains,) else 0),
        }
        for name, value in tensors.items():
            is_index = name not in shapes
            wanted = shapes.get(name, (m if name.startswith("held_") else k,))
            kind = torch.int64 if is_index else torch.float32
            if tuple(value.shape) != wanted or value.dtype != kind:
                raise ModelFileError(
                    f"{name} of the sources should be {wanted} of {kind}; got {tuple(value.shape)} of {value.dtype}."
                )
            highest = {"labels": classes, "domains": domains}.get(name.removeprefix("held_"), 2**62)
            if is_index and len(value) and not (int(value.min()) >= 0 and int(value.max()) < highest):
                raise ModelFileError(f"{name} of the sources has values that name nothing.")
            if not is_index and not bool(torch.isfinite(value).all()):
                raise ModelFileError(f"{name} of the sources has values that are not finite.")
        if not k or not m:
            raise ModelFileError("what is kept of the sources has no images.")
        return KeptSources(**{name: value.numpy() for name, value in tensors.items()})


def keep_sources(task: TrainingTask, trained: TrainedModel, rows: np.ndarray, answer: Answer) -> KeptSources:
    """What is kept of a finished training; `answer` is that of the held-out source images at `rows`, compared."""
    source, (train, _) = task.source, task.split
    assert answer.plain is not None
    assert isinstance(trained.encoder, FeatureStage)
    groups = np.stack([source.domains[train], source.labels[train]], axis=1)
    known = train[stratified_rows(groups, _MOST_KNOWN, task.config.seed)]
    z, prepare = trained.encoder.source(), to_sphere if task.config.normalise_features else torch.Tensor.float

    def features(rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = prepare(z[torch.from_numpy(rows)]).cpu().numpy()
        return found

    styles = np.empty((len(rows), 0), np.float32)
    if trained.familiarity is not None:
        styles = trained.style_distances(ImageSet(np.asarray(source.images[rows])))
    return KeptSources(
        features=features(known),
        labels=source.labels[known],
        domains=source.domains[known],
        rows=known.astype(np.int64),
        held_features=features(rows),
        held_labels=source.labels[rows],
        held_domains=source.domains[rows],
        held_rows=rows.astype(np.int64),
        held_probabilities=answer.predictions.probabilities.astype(np.float32),
        held_plain=answer.plain.predictions.probabilities.astype(np.float32),
        held_off_manifold=answer.predictions.off_manifold.astype(np.float32),
        held_styles=styles,
    )
