"""What trains here trains on images of 16 px: nothing in these tests depends on their size but the time they take."""

from __future__ import annotations

import pytest

from homefold.data import DomainDataset


@pytest.fixture(scope="session")
def few_digits(half_digits: DomainDataset) -> DomainDataset:
    """In the place of those of 32 px."""
    return half_digits
