"""The time that a case may take is its own: work of others on the same machine makes none fail."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hostile import campaign
from hostile.campaign import ANSWERED, Call


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "SECONDS_ALLOWED", 0.3)


def test_what_waits_for_ever_is_stopped(tmp_path: Path) -> None:
    began = time.monotonic()
    assert campaign._called(Call(lambda: time.sleep(60)), tmp_path).verdict == "took more than 60 s"
    assert time.monotonic() - began < 30


@pytest.mark.slow
def test_what_stands_in_line_for_a_processor_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "_seconds_in_line", lambda process: time.monotonic())
    assert campaign._called(Call(lambda: time.sleep(1)), tmp_path).verdict == ANSWERED
