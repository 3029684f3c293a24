"""What a report shows beyond an accuracy, kept as one compressed file a run, without pickles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from homefold.data.dataset import DomainDataset
from homefold.data.decoding.image import resize_images
from homefold.manifold import nearest_index
from homefold.methods.base import Answers
from homefold.runtime.seeding import derive_seed
from homefold.stages.predictions import Predictions
from homefold.store.files import write_atomically
from homefold.store.stage_store import Stage

__all__ = ["artifact_arrays", "artifact_path", "history_arrays", "write_artifact"]

_LOSSES = ("loss", "held_out_loss")
_FEATURES, _THUMBNAILS, _THUMBNAIL_PX = 500, 64, 64


def artifact_path(out: Path | str, run: str) -> Path:
    """Where the artifact of a run lies."""
    return Path(out) / "artifacts" / f"{run}.npz"


def write_artifact(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays of numbers and text, whole or not at all."""
    for name, values in arrays.items():
        if values.dtype.hasobject:
            raise TypeError(f"the array {name} holds Python objects, which only a pickle could keep")
    with write_atomically(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def artifact_arrays(
    answers: Answers,
    source: DomainDataset,
    source_features: torch.Tensor | None,
    target: DomainDataset,
    *,
    seed: int,
) -> dict[str, np.ndarray]:
    """All arrays of a run's artifact; those that a method does not have are left out.

    `labels`, `predicted`, `probabilities` (float16), `similarity_before`, `similarity_after`, `iterations`, `start`,
    `start_names`, `off_manifold`, `class_names`; `predicted_before` and `probabilities_before` without projection.

    `source_features`, `source_labels`, `source_domains` (at most 500 a domain), `target_features`,
    `target_projected`, `target_index` (at most 500), `domain_names` of the sources: as the classifier sees them.

    `thumb_index` with `thumb_target`, `thumb_source_before`, `thumb_source_after` and the labels and domains of the
    latter two: target images, first those that the projection corrected or spoiled, with their nearest source images.

    `curve_loss` `(samples, steps)`, `curve_index` and `curve_elbow`: the search of single samples.

    Args:
        answers: for all target images.
        source: source images.
        source_features: `(n, d)` of all of them; without them neither features nor thumbnails are kept.
        target: target images with their labels.
        seed: decides which features are kept.
    """
    arrays = _answer_arrays(answers, target)
    for name, values in answers.curves.items():
        arrays[f"curve_{'index' if name == 'samples' else name}"] = values
    if source_features is not None and answers.features is not None:
        arrays |= _feature_arrays(answers, source, source_features, target, seed)
        arrays |= _thumbnail_arrays(answers, source, source_features, target, seed)
    return arrays


def history_arrays(stages: Sequence[Stage]) -> dict[str, np.ndarray]:
    """`epoch_loss` and `epoch_held_out_loss` `(epochs,)` of the trainings of f, one after the other; or nothing.

    A stage that was made from another without training has the other's report.
    """
    reports = [stage.state.get("report") for stage in stages if isinstance(stage.state, dict)]
    histories = [report.get("history") or () for report in reports if isinstance(report, dict)]
    epochs = [epoch for history, _ in groupby(histories) for epoch in history]
    if not epochs or any(not isinstance(epoch, dict) or not epoch.keys() >= set(_LOSSES) for epoch in epochs):
        return {}
    return {f"epoch_{name}": np.array([epoch[name] for epoch in epochs], np.float32) for name in _LOSSES}


def _answer_arrays(answers: Answers, target: DomainDataset) -> dict[str, np.ndarray]:
    found = answers.predictions
    arrays: dict[str, np.ndarray] = {
        "labels": target.labels,
        "predicted": found.indices,
        "probabilities": found.probabilities.astype(np.float16),
        "similarity_before": found.similarity_before,
        "similarity_after": found.similarity_after,
        "iterations": found.iterations,
        "start": found.start,
        "start_names": np.asarray(found.start_names),
        "off_manifold": found.off_manifold,
        "class_names": np.asarray(found.class_names),
    }
    if answers.before is not None:
        arrays["predicted_before"] = answers.before.indices
        arrays["probabilities_before"] = answers.before.probabilities.astype(np.float16)
    return arrays


def _draw(members: np.ndarray, count: int, seed: int, *names: str) -> np.ndarray:
    random = np.random.default_rng(derive_seed(seed, "artifact", *names))
    return np.sort(random.permutation(members)[:count])


def _rows(z: torch.Tensor, rows: np.ndarray) -> np.ndarray:
    kept: np.ndarray = z[torch.from_numpy(rows).to(z.device)].cpu().numpy().astype(np.float16)
    return kept


def _feature_arrays(
    answers: Answers, source: DomainDataset, source_features: torch.Tensor, target: DomainDataset, seed: int
) -> dict[str, np.ndarray]:
    assert answers.features is not None
    domains = enumerate(source.domain_names)
    kept = np.concatenate(
        [_draw(np.flatnonzero(source.domains == index), _FEATURES, seed, name) for index, name in domains]
    )
    shown = _draw(np.arange(len(target)), _FEATURES, seed, "target")
    arrays: dict[str, np.ndarray] = {
        "source_features": _rows(source_features, kept),
        "source_labels": source.labels[kept],
        "source_domains": source.domains[kept],
        "domain_names": np.asarray(source.domain_names),
        "target_features": _rows(answers.features, shown),
        "target_index": shown,
    }
    if answers.projected is not None:
        arrays["target_projected"] = _rows(answers.projected, shown)
    return arrays


def _thumbnail_arrays(
    answers: Answers, source: DomainDataset, source_features: torch.Tensor, target: DomainDataset, seed: int
) -> dict[str, np.ndarray]:
    assert answers.features is not None
    chosen = _examples(answers.predictions, answers.before, target.labels, seed)
    rows = torch.from_numpy(chosen).to(answers.features.device)
    arrays: dict[str, np.ndarray] = {"thumb_index": chosen, "thumb_target": _thumbnails(target.images[chosen])}
    places = {"before": answers.features, "after": answers.projected}
    for when, z in places.items():
        if z is None:
            continue
        nearest = nearest_index(z[rows], source_features).cpu().numpy()
        arrays[f"thumb_source_{when}"] = _thumbnails(source.images[nearest])
        arrays[f"thumb_labels_{when}"] = source.labels[nearest]
        arrays[f"thumb_domains_{when}"] = source.domains[nearest]
    return arrays


def _examples(after: Predictions, before: Predictions | None, truth: np.ndarray, seed: int) -> np.ndarray:
    """Target images to show: a third each of corrected and spoiled ones at most, then others, without repeats."""
    everything = np.arange(len(truth))
    picked: list[int] = []
    if before is not None:
        was, now = before.indices == truth, after.indices == truth
        for kind, members in (("corrected", ~was & now), ("spoiled", was & ~now)):
            picked += _draw(everything[members], _THUMBNAILS // 3, seed, kind).tolist()
    others = _draw(np.setdiff1d(everything, picked), _THUMBNAILS - len(picked), seed, "others")
    return np.asarray([*picked, *others.tolist()], dtype=np.int64)


def _thumbnails(images: np.ndarray) -> np.ndarray:
    """Images no larger than 64 px on their longer side."""
    height, width = images.shape[1:3]
    scale = _THUMBNAIL_PX / max(height, width)
    if scale >= 1:
        return np.ascontiguousarray(images)
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    return resize_images(np.ascontiguousarray(images), size)
