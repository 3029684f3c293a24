"""A cache of its own for every test, so that none finds what another left."""

from __future__ import annotations

import pytest


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    directory = tmp_path / "cache"
    monkeypatch.setenv("HOMEFOLD_CACHE", str(directory))
    monkeypatch.delenv("HOMEFOLD_CACHE_LIMIT", raising=False)
    return directory
