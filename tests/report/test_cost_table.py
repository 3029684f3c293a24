"""What methods cost, beside what they are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_up_runs import record, write_runs

from homefold.report.runs import read_runs
from homefold.report.tables.cost import cost_tables
from homefold.report.tables.table import Table


def costs(folder: Path, records: list[dict[str, Any]]) -> list[Table]:
    return cost_tables(read_runs(write_runs(folder, records)))


def shown(table: Table) -> dict[str, list[str]]:
    return {row.label: [cell.main for cell in row.cells] for row in table.rows}


def timed(method: str, seed: int, training: float, inference: float, **changes: Any) -> dict[str, Any]:
    seconds = {"training": training, "inference_per_image": inference}
    return record(method=method, seed=seed, accuracy=0.7 + 0.1 * seed, seconds=seconds, **changes)


def test_seconds_of_training_and_milliseconds_an_image_stand_beside_the_accuracy(tmp_path: Path) -> None:
    records = [timed("deep-all", 0, 10, 0.001), timed("deep-all", 1, 14, 0.003), timed("rsc", 0, 20, 0.00004)]
    (table,) = costs(tmp_path, records)
    assert table.title == "Cost · pacs · resnet18 · quick"
    assert table.columns == ("Accuracy, %", "Training, s", "Inference, ms per image")
    assert shown(table) == {
        "Deep All": ["75.00 ± 7.07", "12.00 ± 2.83", "2.00 ± 1.41"],
        "RSC": ["70.00", "20.00", "0.040"],
    }
    assert table.rows[1].cells[0].gaps == "missing (1 of 2)"
    assert "Measured on one made-up GPU" in table.caption
    assert "Protocol leave-one-domain-out; selection source-validation; preset quick; 3 runs finished" in table.caption


def test_a_run_that_two_suites_share_counts_once(tmp_path: Path) -> None:
    records = [timed("vae", 0, 10, 0.001, suite=suite) for suite in ("pacs", "ablation")]
    (table,) = costs(tmp_path, records)
    assert table.rows[0].cells[1].summary is not None
    assert table.rows[0].cells[1].summary.n == 1


def test_times_of_two_machines_are_not_mixed(tmp_path: Path) -> None:
    records = [timed("vae", 0, 10, 0.001, hardware="old"), timed("vae", 1, 2, 0.0005, hardware="new")]
    (table,) = costs(tmp_path, records)
    assert {label: cells[1] for label, cells in shown(table).items()} == {
        "Full method, VAE, new": "2.00",
        "Full method, VAE, old": "10.00",
    }


def test_failed_runs_and_runs_without_times_say_so(tmp_path: Path) -> None:
    records = [timed("deep-all", 0, 1, 0.001), record(method="gan", status="failed"), record(method="vae", seconds={})]
    (table,) = costs(tmp_path / "a", records)
    assert shown(table)["Full method, GAN"] == ["failed (1 of 1)", "no finished run", "no finished run"]
    assert shown(table)["Full method, VAE"] == ["80.00", "not recorded", "not recorded"]
    assert costs(tmp_path / "b", [record(seconds={})]) == []


def test_the_oracle_is_marked_here_too(tmp_path: Path) -> None:
    (table,) = costs(tmp_path, [timed("vae", 0, 1, 0.001, selection="oracle")])
    assert table.oracle
    assert table.rows[0].label.endswith("†")
    assert "selected on the target itself" in table.caption


def test_where_nothing_was_left_out_the_other_protocols_are_shown(tmp_path: Path) -> None:
    records = [
        timed("vae", 0, 5, 0.001, suite="few-shot", protocol="few-shot", facts={"sources": ["usps"], "shots": shots})
        for shots in (0, 7)
    ]
    (table,) = costs(tmp_path, records)
    assert table.rows[0].cells[1].summary is not None
    assert table.rows[0].cells[1].summary.n == 2


def test_parameters_stand_beside_the_papers(tmp_path: Path) -> None:
    counts = {"deep-all": 11_180_103, "vae": 11_318_904, "jigen": None}
    records = [timed(m, 0, 1, 0.001, facts={"parameters": count} if count else {}) for m, count in counts.items()]
    (table,) = costs(tmp_path, records)
    assert table.columns[-1] == "Parameters, M"
    assert {row.label: (row.cells[-1].main, row.cells[-1].against_paper) for row in table.rows} == {
        "Deep All": ("11.18", ""),
        "JiGen": ("not recorded", ""),
        "Full method, VAE": ("11.32", "paper 11.32 (±0.00)"),
        "RSC (paper)": ("11.18", ""),
        "EISNet (paper)": ("23.50", ""),
        "MMLD (paper)": ("12.75", ""),
        "DDAIG (paper)": ("12.18", ""),
    }


def test_another_network_has_no_parameters_of_the_papers(tmp_path: Path) -> None:
    (table,) = costs(tmp_path, [timed("vae", 0, 1, 0.001, backbone="resnet50", facts={"parameters": 2})])
    assert [row.label for row in table.rows] == ["Full method, VAE"]
    assert "50 to 100 ms" not in table.caption
