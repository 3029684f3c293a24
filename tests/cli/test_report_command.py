"""`homefold report`: tables and figures from finished runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scene import Homefold


def line(method: str, target: str, seed: int, accuracy: float | None, **changes: Any) -> str:
    values = {
        "dataset": "digits-mini",
        "target": target,
        "method": method,
        "accuracy": accuracy,
        "images": 100,
        "seed": seed,
        "protocol": "leave-one-domain-out",
        "selection": "source-validation",
        "suite": "digits-mini",
        "preset": "quick",
        "backbone": "digits-bn",
        "status": "ok" if accuracy is not None else "failed",
    }
    return json.dumps({**values, **changes}) + "\n"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two methods, two targets, two seeds; one run failed."""
    folder = tmp_path / "runs"
    folder.mkdir()
    text = "".join(
        line(method, target, seed, base + step * seed)
        for method, base, step in (("without-projection", 0.90, 0.02), ("vae", 0.93, 0.021))
        for target in ("scan", "street")
        for seed in (0, 1)
    )
    text += line("gan", "scan", 0, None, error="the loss became NaN")
    (folder / "records.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_everything_is_written_beside_the_runs(homefold: Homefold, runs: Path) -> None:
    ended = homefold("report", runs)
    assert ended.code == 0
    out = runs / "report"
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert {
        "report.md",
        "report.html",
        "report.json",
        "tables/digits-mini-digits-bn-quick.csv",
        "tables/digits-mini-digits-bn-quick.tex",
        "figures/ablation-digits-mini-digits-bn-quick.svg",
        "figures/methods-digits-mini-digits-bn-quick.svg",
    } == names
    assert "94.05 ± 1.48 *" in ended.out
    verdict = "Full method, VAE leads with 94.05 ± 1.48 % on average over 2 targets. (supported by the seeds)"
    assert ended.out.splitlines()[1] == verdict
    assert "failed (1 of 2), missing (1 of 2)" in ended.out
    assert "Not in these runs:" in ended.out
    assert str(out / "report.html") in ended.out


@pytest.mark.slow
def test_a_figure_of_fewer_seeds_says_so(homefold: Homefold, runs: Path) -> None:
    with (runs / "records.jsonl").open("a", encoding="utf-8") as file:
        file.write(line("nearest", "scan", 0, 0.99))
    ended = homefold("report", runs, "--format", "csv")
    assert "99.00 (1 of 2)" in ended.out
    assert "99.00 (1 of 2) *" not in ended.out


def test_a_file_of_records_is_reported_beside_it(homefold: Homefold, runs: Path) -> None:
    named = (runs / "records.jsonl").rename(runs / "mine.jsonl")
    ended = homefold("report", named, "--format", "csv", "--json")
    assert ended.code == 0
    assert ended.json["out"] == str(runs / "mine-report")


def test_parts_of_a_study_are_reported_together(homefold: Homefold, runs: Path, tmp_path: Path) -> None:
    part = tmp_path / "another-machine.jsonl"
    repaired, failed_again = line("gan", "scan", 0, 0.5), line("vae", "scan", 0, None, error="stopped")
    part.write_text(line("vae", "street", 2, 0.97) + repaired + failed_again, encoding="utf-8")
    ended = homefold("report", runs, part, "--out", tmp_path / "out", "--format", "csv", "--json")
    assert ended.code == 0
    assert ended.json["runs"] == [str(runs), str(part)]
    (table,) = ended.json["tables"]
    cells = {row["label"]: row["cells"] for row in table["rows"]}
    assert cells["Full method, VAE"]["street"]["mean"] == pytest.approx(100 * (0.93 + 0.951 + 0.97) / 3)
    assert cells["Full method, VAE"]["scan"]["mean"] == pytest.approx(94.05)
    assert cells["Full method, GAN"]["scan"]["mean"] == pytest.approx(50.0)
    assert ended.json["failed_runs"] == []


def test_a_report_of_several_parts_is_told_where_to_lie(homefold: Homefold, runs: Path) -> None:
    ended = homefold("report", runs, runs)
    assert (ended.code, ended.error) == (
        1,
        "a report of several RUNS lies beside none of them; say where with --out FOLDER.",
    )
    assert homefold("report").error == "name the folder that homefold bench wrote: homefold report RUNS."
    assert not (runs / "report").exists()


def test_json_holds_the_paths_and_the_figures(homefold: Homefold, runs: Path, tmp_path: Path) -> None:
    ended = homefold("report", runs, "--out", tmp_path / "out", "--format", "csv", "--json")
    assert ended.code == 0
    assert ended.json["files"] == {"csv": [str(tmp_path / "out" / "tables" / "digits-mini-digits-bn-quick.csv")]}
    (table,) = ended.json["tables"]
    cells = {row["label"]: row["cells"] for row in table["rows"]}
    assert cells["Full method, VAE"]["street"]["mean"] == pytest.approx(94.05)
    assert cells["Full method, VAE"]["street"]["difference_to_control"] == pytest.approx(3.05)
    assert cells["Full method, GAN"]["scan"]["failed"] == 1
    assert ended.json["failed_runs"] == ["digits-mini, Full method, GAN on scan, seed 0: the loss became NaN"]
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(("kind", "ending"), [("md", "report.md"), ("latex", ".tex"), ("html", "report.html")])
def test_one_format_alone(homefold: Homefold, runs: Path, tmp_path: Path, kind: str, ending: str) -> None:
    assert homefold("report", runs, "--out", tmp_path / "out", "--format", kind).code == 0
    written = [path.name for path in (tmp_path / "out").rglob("*") if path.suffix not in (".svg", ".json", "")]
    assert len(written) == 1
    assert written[0].endswith(ending)


def test_no_runs_are_a_sentence(homefold: Homefold, tmp_path: Path) -> None:
    missing = homefold("report", tmp_path / "none")
    assert (missing.code, missing.out) == (1, "")
    assert missing.error.startswith(f"there is no folder {tmp_path / 'none'}")
    assert homefold("report", tmp_path).error.startswith(f"{tmp_path} holds no records.jsonl")
    (tmp_path / "records.jsonl").write_text("\n")
    assert "holds no runs yet" in homefold("report", tmp_path).error
    assert not (tmp_path / "report").exists()


def test_a_folder_that_cannot_be_made_is_a_sentence(homefold: Homefold, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    ended = homefold("report", runs, "--out", tmp_path / "taken", "--format", "csv")
    assert (ended.code, ended.error) == (1, f"{tmp_path / 'taken'} is a file; give a folder.")


def test_help_lists_the_command(homefold: Homefold) -> None:
    assert "make tables and figures from finished runs" in homefold("--help").out
    assert "--format" in homefold("report", "--help").out


def test_a_plugin_adds_its_figure(homefold: Homefold, runs: Path, tmp_path: Path) -> None:
    ended = homefold("report", runs, "--plugin", tmp_path / "missing.py")
    assert ended.error == f"there is no file {tmp_path / 'missing.py'}, which a plugin is to be loaded from."


def test_versions_of_the_code_are_not_mixed_silently(homefold: Homefold, runs: Path, tmp_path: Path) -> None:
    part = tmp_path / "another-machine.jsonl"
    part.write_text(line("vae", "street", 2, 0.97, commit="b" * 40), encoding="utf-8")
    both = ("report", runs, part, "--out", tmp_path / "out", "--format", "csv")
    ended = homefold(*both)
    assert ended.code == 1
    assert "made by 2 versions of the code" in ended.error
    assert "at commit bbbbbbbbbbbb (1 run)" in ended.error
    assert not (tmp_path / "out").exists()
    ended = homefold(*both, "--mixed-code", "--json")
    assert ended.code == 0
    assert "at commit bbbbbbbbbbbb (1 run)" in ended.json["facts"]["Mixed code"]
