"""What a run kept for pictures, under the names that the benchmark writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Artifact", "read_artifact_file"]


_WHOLE, _NUMBER, _TEXT = "iu", "iuf", "U"
_ARRAYS = {
    "class_names": (_TEXT, ("classes",), ""),
    "domain_names": (_TEXT, ("domains",), ""),
    "probabilities": (_NUMBER, ("images", "classes"), "finite"),
    "probabilities_before": (_NUMBER, ("images", "classes"), "finite"),
    **dict.fromkeys(("labels", "predicted", "predicted_before"), (_WHOLE, ("images",), "classes")),
    **dict.fromkeys(("similarity_before", "similarity_after", "off_manifold"), (_NUMBER, ("images",), "")),
    "source_features": (_NUMBER, ("source features", "dimensions"), "finite"),
    "source_labels": (_WHOLE, ("source features",), "classes"),
    "source_domains": (_WHOLE, ("source features",), "domains"),
    "target_features": (_NUMBER, ("target features", "dimensions"), "finite"),
    "target_projected": (_NUMBER, ("target features", "dimensions"), "finite"),
    "target_index": (_WHOLE, ("target features",), "images"),
    "thumb_index": (_WHOLE, ("thumbnails",), "images"),
    **{
        f"thumb_{name}": ("u", ("thumbnails", "any", "any", "colours"), "")
        for name in ("target", "source_before", "source_after")
    },
    **{f"thumb_labels_{when}": (_WHOLE, ("thumbnails",), "classes") for when in ("before", "after")},
    **{f"thumb_domains_{when}": (_WHOLE, ("thumbnails",), "domains") for when in ("before", "after")},
    **dict.fromkeys(("epoch_loss", "epoch_held_out_loss"), (_NUMBER, ("epochs",), "finite")),
    "curve_loss": (_NUMBER, ("curves", "any"), "finite"),
    "curve_elbow": (_WHOLE, ("curves",), ""),
}
"""Of each array that a figure reads: the kinds it may have, its axes, and what its numbers count or must be."""


@dataclass(frozen=True, eq=False)
class Artifact:
    """What a run kept for pictures: arrays by name; `docs/bench-files.md` says what each holds."""

    arrays: dict[str, np.ndarray]

    def has(self, *names: str) -> bool:
        """Whether all these arrays are there and not empty."""
        return all(name in self.arrays and self.arrays[name].size > 0 for name in names)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def class_name(self, label: int) -> str:
        """The name of a class, or its number."""
        return self._named("class_names", label) or str(label)

    def source_name(self, domain: int) -> str:
        """The name of a source domain, or its number."""
        return self._named("domain_names", domain) or f"source {domain}"

    def _named(self, array: str, index: int) -> str:
        names = self.arrays.get(array, np.array([]))
        return str(names[index]) if 0 <= index < len(names) else ""


def read_artifact_file(path: Path) -> Artifact:
    """Every array of a file; one that only a pickle could hold, or that does not fit the others, is an error."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    _require_fitting(arrays)
    return Artifact(arrays)


def _require_fitting(arrays: dict[str, np.ndarray]) -> None:
    """Refuse arrays of other kinds and shapes than a run keeps, and numbers that point outside of what they number."""
    sizes: dict[str, int] = {}
    for name, (kinds, axes, _) in _ARRAYS.items():
        if name not in arrays:
            continue
        values = arrays[name]
        if values.dtype.kind not in kinds or values.ndim != len(axes):
            raise ValueError(f"{name} is an array of {values.dtype} with {values.ndim} axes, which no run keeps")
        for axis, size in zip(axes, values.shape, strict=True):
            if size != {"any": size, "colours": 3}.get(axis, sizes.setdefault(axis, size)):
                raise ValueError(f"{name} has the shape {values.shape}, which does not fit the other arrays")
    for name, (_, _, numbered) in _ARRAYS.items():
        values = arrays.get(name, np.zeros(0))
        if numbered == "finite" and not np.isfinite(values).all():
            raise ValueError(f"{name} holds numbers that are not finite")
        if numbered in sizes and values.size and not 0 <= values.min() <= values.max() < sizes[numbered]:
            raise ValueError(f"{name} points outside of the {sizes[numbered]} {numbered}")
