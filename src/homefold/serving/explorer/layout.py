"""Where a feature lies on the map, in two dimensions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch.nn import functional as F

from homefold.errors import ConfigError

__all__ = ["LAYOUTS", "Layout", "LayoutName", "PrincipalComponents", "Umap", "nearest"]

LayoutName = Literal["pca", "umap"]

_NEIGHBOURS = 5
_ROWS_AT_ONCE = 4096


class Layout(ABC):
    """A map of source features.

    Args:
        features: `(n, d)` of source images.
    """

    @abstractmethod
    def __init__(self, features: torch.Tensor) -> None: ...

    @abstractmethod
    def place(self, features: torch.Tensor) -> torch.Tensor:
        """Where features `(n, d)` lie, `(n, 2)` float32; each on its own."""


class PrincipalComponents(Layout):
    """The two directions in which source features vary most."""

    def __init__(self, features: torch.Tensor) -> None:
        rows = features.double()
        self._mean = rows.mean(dim=0)
        centred = rows - self._mean
        _, vectors = torch.linalg.eigh(centred.T @ centred)
        main = vectors[:, -2:].flip(1)
        # Either sign would do; one that depends on the data alone gives the same map every time.
        largest = main.gather(0, main.abs().argmax(dim=0, keepdim=True))
        self._main = F.pad(main * largest.sign(), (0, 2 - main.shape[1]))

    def place(self, features: torch.Tensor) -> torch.Tensor:
        return ((features.double() - self._mean) @ self._main).float()


class Umap(Layout):
    """UMAP of source features; any other lies amid its nearest source features."""

    def __init__(self, features: torch.Tensor) -> None:
        try:
            from umap import UMAP
        except ModuleNotFoundError:
            raise ConfigError("--map umap needs the extra 'umap': pip install 'homefold[umap]'.") from None
        neighbours = min(15, len(features) - 1)
        found = UMAP(n_neighbors=neighbours, metric="cosine", random_state=0, n_jobs=1).fit_transform(features.numpy())
        self._known, self._places = F.normalize(features, dim=1), torch.from_numpy(np.asarray(found, np.float32))

    def place(self, features: torch.Tensor) -> torch.Tensor:
        parts = []
        for part in features.split(_ROWS_AT_ONCE):
            rows, similarity = nearest(part, self._known, _NEIGHBOURS)
            # A feature that is known lies where it lies; the others among those most like them.
            weight = 1 / (1 - similarity).clamp_min(1e-6)
            weight = weight / weight.sum(dim=1, keepdim=True)
            parts.append((self._places[rows] * weight[..., None]).sum(dim=1))
        return torch.cat(parts) if parts else features.new_empty(0, 2)


LAYOUTS: dict[str, Callable[[torch.Tensor], Layout]] = {"pca": PrincipalComponents, "umap": Umap}


def nearest(z: torch.Tensor, known: torch.Tensor, most: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of unit vectors `known: (m, d)` most similar to each of `z: (n, d)`, `(n, k)`, and their cosines."""
    found = (F.normalize(z, dim=1) @ known.T).topk(min(most, len(known)), dim=1)
    return found.indices, found.values
