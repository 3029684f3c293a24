"""How the components of a mixture compared for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

__all__ = ["Components"]


@dataclass(frozen=True, eq=False)
class Components:
    """The ends of the searches on all components of a mixture.

    Args:
        names: the class or the domain that each component was trained on.
        won: `(n,)` index of the most similar one; the first of those that tie.
        similarity: `(n, c)` cosine of the sample to its projection on each; −1 where a search came to nothing.
        features: `(n, c, d)` those projections, kept only where the answer is averaged over them.
    """

    names: tuple[str, ...]
    won: torch.Tensor
    similarity: torch.Tensor
    features: torch.Tensor | None = None

    def weights(self, temperature: float) -> torch.Tensor:
        """softmax(similarity / temperature) over the components, `(n, c)`."""
        return torch.softmax(self.similarity / temperature, dim=1)

    def cpu(self) -> Components:
        """The same on the CPU."""
        features = None if self.features is None else self.features.cpu()
        return replace(self, won=self.won.cpu(), similarity=self.similarity.cpu(), features=features)

    @staticmethod
    def concatenate(parts: Sequence[Components]) -> Components:
        """One after the other, all of the same mixture and the same settings."""
        kept = [part.features for part in parts if part.features is not None]
        return Components(
            parts[0].names,
            torch.cat([part.won for part in parts]),
            torch.cat([part.similarity for part in parts]),
            torch.cat(kept) if kept else None,
        )
