"""What a run kept for pictures, under the names that the benchmark writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Artifact", "read_artifact_file"]


@dataclass(frozen=True, eq=False)
class Artifact:
    """What a run kept for pictures.

    Args:
        arrays: by name; see `docs/bench.md` for what each holds.
    """

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

    def target_feature_labels(self) -> np.ndarray:
        """`(m,)` labels of the rows of `target_features`."""
        labels: np.ndarray = self.arrays["labels"][self.arrays["target_index"].astype(int)]
        return labels


def read_artifact_file(path: Path) -> Artifact:
    """Every array of a file; one that only a pickle could hold is an error."""
    with np.load(path, allow_pickle=False) as file:
        return Artifact({name: file[name] for name in file.files})
