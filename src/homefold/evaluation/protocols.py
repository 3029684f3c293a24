"""Protocols: who is trained on, who is tested, said in one sentence each; the name stands in every record.

A protocol turns a dataset into splits of indices. What trains is given the images of `Split.source` and nothing else.
Images that a dataset officially marks as `test` are never trained on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from typing import Any, Protocol

import numpy as np

from homefold.data.dataset import DomainDataset
from homefold.errors import DataError
from homefold.runtime.seeding import derive_seed

__all__ = [
    "Corruption",
    "EvaluationProtocol",
    "FewShot",
    "LeaveOneDomainOut",
    "LeaveTwoDomainsOut",
    "Scarce",
    "SingleSource",
    "Split",
    "Target",
    "few_of_each_class",
    "source_dataset",
    "stratified_subset",
]


@dataclass(frozen=True, eq=False)
class Target:
    """The images that a trained method is asked about; its facts stand in the record (corruption type, severity)."""

    name: str
    indices: np.ndarray
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Split:
    """One training and the targets it is tested on.

    Args:
        source: indices of the images that training is given.
        adapt: indices of labelled target images to fine-tune on; empty but for few-shot adaptation.
        facts: stand in the records (fraction, shots, source domains).
    """

    name: str
    source: np.ndarray
    targets: tuple[Target, ...]
    adapt: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    facts: dict[str, Any] = field(default_factory=dict)


class EvaluationProtocol(Protocol):
    """What every protocol offers."""

    @property
    def name(self) -> str:
        """Stands in every record."""

    @property
    def description(self) -> str:
        """One sentence on what it does."""

    def splits(self, dataset: DomainDataset, seed: int) -> list[Split]:
        """The trainings it asks for; `seed` decides what is drawn at random."""


def source_dataset(dataset: DomainDataset, indices: np.ndarray) -> DomainDataset:
    """The images at `indices` alone, with the names of their own domains only: all that training ever sees."""
    subset = dataset.subset(indices)
    present = np.unique(subset.domains)
    renumber = np.full(len(dataset.domain_names), -1)
    renumber[present] = np.arange(len(present))
    names = tuple(dataset.domain_names[i] for i in present)
    return replace(subset, domains=renumber[subset.domains], domain_names=names, skipped=())


def stratified_subset(dataset: DomainDataset, indices: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """`fraction` of `indices`, sorted: the same share, rounded and at least one, of each domain × class × split."""
    splits = dataset.splits or ("",) * len(dataset)
    cells: dict[tuple[int, int, str], list[int]] = {}
    for index in indices.tolist():
        cell = (int(dataset.domains[index]), int(dataset.labels[index]), splits[index])
        cells.setdefault(cell, []).append(index)
    counts = {cell: max(1, int(len(members) * fraction + 0.5)) for cell, members in cells.items()}
    return _drawn([(np.asarray(cells[cell]), counts[cell], ("share", *cell)) for cell in sorted(cells)], seed)


def few_of_each_class(dataset: DomainDataset, indices: np.ndarray, count: int, seed: int) -> np.ndarray:
    """`count` of `indices` of each domain and class, sorted, or all where there are no more; fewer lie within more."""
    domains, labels = dataset.domains[indices], dataset.labels[indices]
    cells = [
        (indices[(domains == domain) & (labels == label)], count, ("few", domain, label))
        for domain in np.unique(domains).tolist()
        for label in np.unique(labels).tolist()
    ]
    return _drawn(cells, seed)


def _drawn(cells: Sequence[tuple[np.ndarray, int, tuple[str | int, ...]]], seed: int) -> np.ndarray:
    """So many members of each cell, all sorted; what is drawn from a cell depends on its name and the seed alone."""
    chosen = [
        np.random.default_rng(derive_seed(seed, *name)).permutation(members)[:count] for members, count, name in cells
    ]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *chosen]))


def _of_domains(dataset: DomainDataset, names: Sequence[str]) -> np.ndarray:
    return np.flatnonzero(np.isin(dataset.domains, [dataset.domain_index(name) for name in names]))


def _trainable(dataset: DomainDataset, names: Sequence[str]) -> np.ndarray:
    """Indices of the named domains without those that are officially for testing."""
    indices = _of_domains(dataset, names)
    if not dataset.splits:
        return indices
    kept: np.ndarray = indices[np.asarray([dataset.splits[i] != "test" for i in indices], dtype=bool)]
    return kept


def _target(dataset: DomainDataset, name: str) -> Target:
    return Target(name, _of_domains(dataset, [name]))


def _require_domains(dataset: DomainDataset, least: int, protocol: str) -> None:
    if len(dataset.domain_names) < least:
        raise DataError(
            f"{protocol} needs at least {least} domains; {dataset.name} has {len(dataset.domain_names)} "
            f"({', '.join(dataset.domain_names)})."
        )


@dataclass(frozen=True)
class LeaveOneDomainOut:
    """Train on all domains but one, test on all of that one, and so on for each.

    Args:
        source_fraction: train on this share of each source where the dataset marks no images as `test` (VLCS: 0.7).
    """

    source_fraction: float = 1.0
    name: str = "leave-one-domain-out"
    description: str = "Train on all domains but one and test on all images of that one, for each domain in turn."

    def splits(self, dataset: DomainDataset, seed: int) -> list[Split]:
        """One split a domain."""
        _require_domains(dataset, 2, self.name)
        return [self._split(dataset, target, seed) for target in dataset.domain_names]

    def _split(self, dataset: DomainDataset, target: str, seed: int) -> Split:
        sources = [name for name in dataset.domain_names if name != target]
        indices = _trainable(dataset, sources)
        facts: dict[str, Any] = {"sources": sources}
        if self.source_fraction < 1 and "test" not in dataset.splits:
            indices = stratified_subset(dataset, indices, self.source_fraction, seed)
            facts["source_fraction"] = self.source_fraction
        return Split(target, indices, (_target(dataset, target),), facts=facts)


@dataclass(frozen=True)
class LeaveTwoDomainsOut:
    """Train on all domains but two, test on each of the two, and so on for each pair.

    The trainings are those that leave-one-source-out selection makes: for a target t, the mean accuracy on each source
    s of what was trained without s and t tells how a recipe may do on t, without a look at t.
    """

    name: str = "leave-two-domains-out"
    description: str = "Train on all domains but two and test on all images of each of the two, for each pair in turn."

    def splits(self, dataset: DomainDataset, seed: int) -> list[Split]:
        """One split a pair of domains."""
        _require_domains(dataset, 3, self.name)
        names = dataset.domain_names
        return [
            Split(
                f"without {' and '.join(pair)}",
                _trainable(dataset, sources),
                tuple(_target(dataset, name) for name in pair),
                facts={"sources": sources, "source": "+".join(sources)},
            )
            for pair in combinations(names, 2)
            for sources in [[name for name in names if name not in pair]]
        ]


@dataclass(frozen=True)
class SingleSource:
    """Train on one domain, test on each of the others, and so on for each."""

    name: str = "single-source"
    description: str = "Train on one domain and test on all images of each other domain, for each source in turn."

    def splits(self, dataset: DomainDataset, seed: int) -> list[Split]:
        """One split a source."""
        _require_domains(dataset, 2, self.name)
        return [
            Split(
                f"from {source}",
                _trainable(dataset, [source]),
                tuple(_target(dataset, name) for name in dataset.domain_names if name != source),
                facts={"sources": [source]},
            )
            for source in dataset.domain_names
        ]


@dataclass(frozen=True)
class Scarce:
    """Leave one domain out, and train on some fractions of each source domain and class."""

    fractions: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)
    name: str = "scarce"
    description: str = (
        "Leave one domain out, train on 20, 40, 60 or 80 % of each source domain and class, test on all of the target."
    )

    def splits(self, dataset: DomainDataset, seed: int) -> list[Split]:
        """One split a domain and fraction."""
        return [
            Split(
                f"{whole.name}, {fraction:.0%}",
                stratified_subset(dataset, whole.source, fraction, seed),
                whole.targets,
                facts={**whole.facts, "fraction": fraction},
            )
            for whole in LeaveOneDomainOut().splits(dataset, seed)
            for fraction in self.fractions
        ]


@dataclass(frozen=True)
class FewShot:
    """Train on one domain, fine-tune on a few labelled samples of another, test on the rest of it.

    Where the target has officially marked `test` images, those are the rest, and the samples come from the others.

    Args:
        shots: labelled target samples a class.
        pairs: (source, target) domains, taken where the dataset has them all; otherwise every ordered pair.
    """

    shots: tuple[int, ...] = (0, 7, 10)
    pairs: tuple[tuple[str, str], ...] = (("usps", "mnist"), ("mnist", "svhn"), ("svhn", "mnist"))
    name: str = "few-shot"
    description: str = (
        "Train on one domain, fine-tune f, G and C on 0, 7 or 10 labelled samples a class of another, test on its rest."
    )

    def splits(self, dataset: DomainDataset, seed: int) -> list[Split]:
        """One split a pair of domains and number of shots."""
        _require_domains(dataset, 2, self.name)
        named = {name for pair in self.pairs for name in pair}
        pairs = self.pairs if named <= set(dataset.domain_names) else list(permutations(dataset.domain_names, 2))
        return [self._split(dataset, *pair, shots, seed) for pair in pairs for shots in self.shots]

    def _split(self, dataset: DomainDataset, source: str, target: str, shots: int, seed: int) -> Split:
        everything, candidates = _of_domains(dataset, [target]), _trainable(dataset, [target])
        adapt = self._draw(dataset, candidates, target, shots, seed)
        # The samples of fewer shots are among those of more, and all shots are tested on the same images.
        most = self._draw(dataset, candidates, target, max(self.shots), seed)
        rest = np.setdiff1d(everything, candidates if len(candidates) < len(everything) else most)
        return Split(
            f"{source}->{target}, {shots} per class",
            _trainable(dataset, [source]),
            (Target(target, rest),),
            adapt,
            {"sources": [source], "shots": shots},
        )

    def _draw(self, dataset: DomainDataset, candidates: np.ndarray, target: str, shots: int, seed: int) -> np.ndarray:
        cells = []
        for label in np.unique(dataset.labels[candidates]).tolist():
            members = candidates[dataset.labels[candidates] == label]
            if len(members) <= max(self.shots):
                raise DataError(
                    f"{target} has {len(members)} images of class {dataset.class_names[label]} to draw from; "
                    f"{max(self.shots)} shots need more than that, so that some are left to test on."
                )
            cells.append((members, shots, ("shots", target, label)))
        return _drawn(cells, seed)


_SEVERITY = re.compile(r"^(?P<corruption>.+?)[\s_/:-]*(?:severity)?[\s_/:-]*(?P<severity>[1-5])$")


@dataclass(frozen=True)
class Corruption:
    """Train on clean images, test on each corruption at each severity.

    Where the dataset does not have the clean domain, its first one is trained on.
    """

    clean: str = "clean"
    name: str = "corruption"
    description: str = "Train on clean images and test on every corruption type at every severity."

    def splits(self, dataset: DomainDataset, seed: int) -> list[Split]:
        """One split with all corrupted domains as targets, and the clean test images where there are any."""
        _require_domains(dataset, 2, self.name)
        clean = self.clean if self.clean in dataset.domain_names else dataset.domain_names[0]
        source = _trainable(dataset, [clean])
        targets = [self._corrupted(dataset, name) for name in dataset.domain_names if name != clean]
        held_back = np.setdiff1d(_of_domains(dataset, [clean]), source)
        if len(held_back):
            targets.insert(0, Target(clean, held_back, {"corruption": "none", "severity": 0}))
        if not len(source):
            raise DataError(f"{clean} of {dataset.name} has no images to train on: all are marked as test.")
        return [Split(f"from {clean}", source, tuple(targets), facts={"sources": [clean]})]

    def _corrupted(self, dataset: DomainDataset, name: str) -> Target:
        found = _SEVERITY.match(name)
        facts: dict[str, Any] = {"corruption": name}
        if found is not None:
            facts = {"corruption": found["corruption"], "severity": int(found["severity"])}
        return Target(name, _of_domains(dataset, [name]), facts)
