"""The images of a dataset before any is decoded: where each lies, what it shows, where it belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from homefold.data.names import check_names
from homefold.data.sources import ImageSource
from homefold.errors import DataError

__all__ = ["ImageIndex"]


@dataclass(frozen=True, eq=False)
class ImageIndex:
    """Images found but not decoded; those of one domain stand together.

    Args:
        name: what the dataset is called in records.
        root: where it was looked for.
        sources: where each image lies.
        labels: `(n,)` integers that index `class_names`.
        domains: `(n,)` integers that index `domain_names`, never falling.
        class_names: one name a class, in label order.
        domain_names: one name a domain.
        splits: the official split of each image (`"train"`, `"val"`, `"test"`); empty when there is none.
        ignored: how many files were passed over because they belong to no class and domain.
        warnings: sentences about what can be used but may not be meant.
    """

    name: str
    root: Path
    sources: Sequence[ImageSource]
    labels: np.ndarray
    domains: np.ndarray
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    splits: tuple[str, ...] = ()
    ignored: int = 0
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.sources)
        assert self.labels.shape == self.domains.shape == (n,)
        assert not self.splits or len(self.splits) == n
        assert (np.diff(self.domains) >= 0).all()
        check_names("class", self.class_names, self.root)
        check_names("domain", self.domain_names, self.root)

    def __len__(self) -> int:
        return len(self.sources)

    def counts(self) -> np.ndarray:
        """`(domains, classes)`: how many images each cell has."""
        counts = np.zeros((len(self.domain_names), len(self.class_names)), dtype=np.int64)
        np.add.at(counts, (self.domains, self.labels), 1)
        return counts

    def named_counts(self) -> dict[str, dict[str, int]]:
        """`counts` as `{domain: {class: images}}`."""
        return {
            domain: dict(zip(self.class_names, row, strict=True))
            for domain, row in zip(self.domain_names, self.counts().tolist(), strict=True)
        }

    def positions_of(self, domain: int) -> range:
        """Where the images of a domain stand."""
        first, last = np.searchsorted(self.domains, [domain, domain + 1])
        return range(int(first), int(last))

    def only(self, names: Sequence[str]) -> ImageIndex:
        """The images of the named domains, in the order given."""
        if not names or len(set(names)) < len(names):
            raise DataError(f"The domains to load must be at least one, each named once; got {list(names)}.")
        for name in names:
            if name not in self.domain_names:
                raise DataError(
                    f"There is no domain {name!r} of {self.name} in {self.root}; there are "
                    f"{', '.join(self.domain_names) or 'none'}."
                )
        ranges = [self.positions_of(self.domain_names.index(name)) for name in names]
        kept = [i for positions in ranges for i in positions]
        return replace(
            self,
            sources=[self.sources[i] for i in kept],
            labels=self.labels[kept],
            domains=np.repeat(np.arange(len(names)), [len(positions) for positions in ranges]),
            domain_names=tuple(names),
            splits=tuple(self.splits[i] for i in kept) if self.splits else (),
        )
