"""`homefold demo`: hands its options on and shows what comes back; the demonstration itself is tested elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scene import Homefold

import homefold.evaluation.demo

SUMMARY = {
    "table": [{"method": "Deep All", "accuracy": 0.512}, {"method": "full method", "accuracy": 0.6349}],
    "out": "somewhere",
    "next": ["homefold fit photos/ --out my-model", "homefold predict my-model new/"],
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the demonstration was called with."""
    seen: list[dict[str, Any]] = []

    def pretend(out: Path, *, reporter: Any, **options: Any) -> dict[str, Any]:
        reporter.message("training …")
        seen.append({"out": out, **options})
        return SUMMARY

    monkeypatch.setattr(homefold.evaluation.demo, "run_demo", pretend)
    return seen


def test_the_table_and_the_next_commands_are_shown(homefold: Homefold, calls: list[dict[str, Any]]) -> None:
    ended = homefold("demo")
    assert ended.code == 0
    assert calls == [{"out": Path("demo-output"), "target": "street", "seed": 0, "device": "auto"}]
    rows = [line.split() for line in ended.out.splitlines()]
    assert ["Deep", "All", "51.2", "%"] in rows
    assert ["full", "method", "63.5", "%"] in rows
    assert "  homefold predict my-model new/\n" in ended.out
    assert "training …" in ended.err
    assert "training" not in ended.out


def test_json_is_the_summary_alone(homefold: Homefold, calls: list[dict[str, Any]]) -> None:
    ended = homefold("demo", "--json", "--target", "photo", "--seed", "3", "--out", "here", "--device", "cpu")
    assert ended.json == SUMMARY
    assert calls == [{"out": Path("here"), "target": "photo", "seed": 3, "device": "cpu"}]
