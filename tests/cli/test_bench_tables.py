"""What a benchmark ends with: means, spreads, averages, and what to run next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from homefold.cli.bench_tables import print_tables
from homefold.evaluation.records import RunRecord


def record(method: str, target: str, seed: int, accuracy: float | None, **changes: Any) -> RunRecord:
    values: dict[str, Any] = {
        "dataset": "photos",
        "images": 10,
        "protocol": "leave-one-domain-out",
        "selection": "source-validation",
        "config": {},
        "hardware": "",
        "versions": {},
        "backbone": "resnet18",
        "facts": {"split": target},
        "status": "finished" if accuracy is not None else "failed",
        "error": "" if accuracy is not None else "the loss became NaN",
    }
    return RunRecord(target=target, method=method, accuracy=accuracy, seed=seed, **{**values, **changes})


def ending(records: list[RunRecord], capsys: pytest.CaptureFixture[str], out: str = "runs") -> list[str]:
    print_tables(records, Path(out) / "records.jsonl")
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_means_spreads_and_the_average_over_targets(capsys: pytest.CaptureFixture[str]) -> None:
    # Averages of the seeds: 70 and 74.
    values = {("b", 0): 0.6, ("a", 0): 0.8, ("b", 1): 0.62, ("a", 1): 0.86}
    lines = ending([record("vae", target, seed, share) for (target, seed), share in values.items()], capsys)
    assert "selection source-validation; mean ± standard deviation over 2 seeds" in lines[0]
    assert "network method b a Avg." in lines
    assert "resnet18 vae 61.0 ± 1.4 83.0 ± 4.2 72.0 ± 2.8" in lines
    assert lines[-1] == "Next: homefold report runs (verdict, tests, figures)"
    assert not any("--seeds" in line for line in lines)


def test_one_seed_has_no_spread_and_is_told_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ending([record("vae", "a", 0, 0.5)], capsys, "my runs")
    assert lines[0].endswith("; one seed")
    assert "resnet18 vae 50.0" in lines
    assert "Next: one seed shows no spread; the same command with --seeds 3 adds two." in lines
    assert "Next: homefold report 'my runs' (verdict, tests, figures)" in lines


def test_failures_are_counted_and_spoil_the_average(capsys: pytest.CaptureFixture[str]) -> None:
    records = [record("vae", "a", 0, None), record("vae", "b", 0, 0.5), record("gan", "b", 0, 0.4)]
    lines = ending(records, capsys)
    assert "resnet18 vae failed 50.0 failed" in lines
    assert "resnet18 gan – 40.0 –" in lines
    assert "Next: the same command once more tries the 1 failed run again." in lines


def test_of_very_many_targets_the_average_alone_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ending([record("vae", f"fog {level}", 0, level / 100) for level in range(1, 20)], capsys)
    assert "network method Avg." in lines
    assert "resnet18 vae 10.0" in lines


def test_variations_are_rows_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"beta 0.05": 0.7, "beta 0.01": 0.6}
    records = [record("vae", "a", 0, x, facts={"split": "a", "variation": name}) for name, x in rates.items()]
    lines = ending(records, capsys)
    assert "resnet18 vae beta 0.05 70.0" in lines
    assert "resnet18 vae beta 0.01 60.0" in lines
