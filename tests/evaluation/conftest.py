"""A benchmark small enough to run in seconds: three classes, a dozen images each, a narrow network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import TINY

from homefold.data import DomainDataset
from homefold.evaluation.options import BenchOptions


@pytest.fixture(scope="session")
def tiny_digits(few_digits: DomainDataset) -> DomainDataset:
    """Four domains × three classes × twelve images of 16 px."""
    cells = [
        np.flatnonzero((few_digits.domains == domain) & (few_digits.labels == label))[:12]
        for domain in range(4)
        for label in range(3)
    ]
    return replace(few_digits.subset(np.concatenate(cells)), name="tiny digits")


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., BenchOptions]:
    """Options of a benchmark that takes seconds; anything may be changed."""

    def options(suite: str = "digits-mini", **changes: object) -> BenchOptions:
        base = BenchOptions(
            suite=suite,
            out=tmp_path / "runs",
            preset="quick",
            seeds=1,
            targets=("street",),
            device="cpu",
            settings=TINY,
        )
        return replace(base, **changes)

    return options
