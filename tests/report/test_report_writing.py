"""What lies on the disk after a report."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_up_runs import Made, pacs_records, record, write_runs

from homefold.errors import ConfigError
from homefold.report.document import build_report
from homefold.report.render import report_html
from homefold.report.runs import read_runs
from homefold.report.writing import write_report
from homefold.store.files import write_atomically


def test_every_file_is_there_and_the_markdown_points_to_real_ones(made: Made) -> None:
    text = (made.out / "report.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(linked) == len(made.files["figures"])
    assert all((made.out / name).stat().st_size > 0 for name in linked)
    assert len(made.files["csv"]) == len(made.files["latex"]) == len(made.report.tables) == 11
    assert [path for path in made.out.rglob("*") if path.name.startswith(".")] == []


def test_the_html_needs_nothing_beside_it(made: Made) -> None:
    page = (made.out / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page) == []
    assert "<script" not in page
    assert "url(" not in page
    assert page.count("<img") == len(made.files["figures"])
    assert page.count('<div class="scroll"') == page.count("<table>") == len(made.report.tables)
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert anchors <= set(re.findall(r'id="([^"]+)"', page))


def test_the_head_says_where_the_figures_come_from(made: Made) -> None:
    facts = made.report.facts
    assert facts["Hardware"] == "one made-up GPU"
    assert facts["Versions"] == "homefold 0.1.0, torch 2.11.0"
    assert facts["Commit"] == "abc1234"
    assert facts["Runs"] == "515 finished, 4 failed"
    assert facts["Command"] == "homefold bench pacs --out runs"
    page = (made.out / "report.html").read_text(encoding="utf-8")
    assert all(f"<dt>{name}</dt>" in page for name in facts)
    assert "the loss became NaN" in page


def test_the_commands_that_were_typed_are_shown_and_none_is_made_up(tmp_path: Path) -> None:
    typed = ["homefold bench pacs --data 'my data' --seeds 1", "homefold bench pacs --data 'my data' --seeds 2"]
    folder = read_runs(write_runs(tmp_path / "a", [record(seed=seed, command=typed[seed]) for seed in (0, 1)]))
    assert build_report(folder, figures=False).facts["Command"].splitlines() == typed
    older = read_runs(write_runs(tmp_path / "b", [record(command="")]))
    assert build_report(older, figures=False).facts["Command"] == "not recorded"


def test_a_training_that_two_runs_share_counts_once_in_the_head(tmp_path: Path) -> None:
    shared, own = {"features-1": {"seconds": 100.0}}, {"manifold-2": {"seconds": 20.0}}
    records = [
        record(method="without-projection", facts={"stages": shared}, seconds={"training": 100.0}),
        record(method="vae", facts={"stages": {**shared, **own}}, seconds={"training": 120.0}),
        record(method="deep-all", seconds={"training": 5.0}),
    ]
    folder = read_runs(write_runs(tmp_path, records))
    assert build_report(folder, figures=False).facts["Training"] == "2 min 5 s in all"


@pytest.mark.slow
def test_the_same_runs_give_the_same_files(tmp_path: Path) -> None:
    folder = read_runs(write_runs(tmp_path / "runs", pacs_records(2)))
    for name in ("a", "b"):
        write_report(build_report(folder), tmp_path / name)
    files = {path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert len(files) >= 7
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)


def test_files_of_an_earlier_report_go_and_those_of_others_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = build_report(read_runs(write_runs(tmp_path / "a", pacs_records(1))), figures=False)
    write_report(first, out)
    (out / "tables" / "mine.csv").write_text("x")
    (out / "notes.txt").write_text("x")
    second = build_report(read_runs(write_runs(tmp_path / "b", [record(suite="other", dataset="new")])), figures=False)
    write_report(second, out, ("csv",))
    left = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert left == [
        "notes.txt",
        "report.json",
        "tables/cost-new-resnet18-quick.csv",
        "tables/mine.csv",
        "tables/other-new-resnet18-quick.csv",
    ]


@pytest.mark.parametrize("name", ["../precious.txt", "/precious.txt", "tables/../../precious.txt"])
def test_a_list_that_was_tampered_with_removes_nothing_elsewhere(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "precious.txt").write_text("x")
    (out / "report.json").write_text(json.dumps({"files": [name, 3]}))
    write_report(build_report(read_runs(write_runs(tmp_path / "a", [record()])), figures=False), out)
    assert (tmp_path / "precious.txt").exists()


def test_a_file_in_the_place_of_the_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    report = build_report(read_runs(write_runs(tmp_path / "a", [record()])), figures=False)
    with pytest.raises(ConfigError, match="is a file; give a folder"):
        write_report(report, tmp_path / "out")


def test_names_from_records_cannot_become_markup(tmp_path: Path) -> None:
    name = '"><script>alert(1)</script>'
    folder = read_runs(
        write_runs(tmp_path, [record(dataset=name, target=name, method=name, suite=name, hardware=name)])
    )
    report = build_report(folder, figures=False)
    assert "<script" not in report_html(report)
    files = write_report(report, tmp_path / "out", ("csv",))
    (row, *_) = csv.DictReader(Path(files["csv"][0]).read_text(encoding="utf-8").splitlines())
    assert row["row"] == name


@pytest.mark.parametrize("name", ["report.md", "report.json"])
def test_a_file_that_no_report_wrote_is_left_alone(tmp_path: Path, name: str) -> None:
    report = build_report(read_runs(write_runs(tmp_path / "runs", [record()])))
    mine = tmp_path / "out" / name
    mine.parent.mkdir()
    mine.write_text('["mine"]')
    with pytest.raises(ConfigError, match=f"{mine} was not written by an earlier report"):
        write_report(report, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == [mine]
    assert mine.read_text() == '["mine"]'


def test_a_report_that_was_killed_half_way_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = build_report(read_runs(write_runs(tmp_path / "runs", [record()])))
    out = tmp_path / "out"

    @contextmanager
    def killed_before_the_page(path: Path) -> Iterator[Path]:
        if path.name == "report.html":
            raise KeyboardInterrupt
        with write_atomically(path) as temporary:
            yield temporary

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("homefold.report.writing.write_atomically", killed_before_the_page)
        write_report(report, out)
    assert (out / "report.md").is_file()
    assert not (out / "report.html").exists()
    write_report(report, out)
    assert (out / "report.html").is_file()
