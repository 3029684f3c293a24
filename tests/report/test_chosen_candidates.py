"""Of the candidates of a selection rule a report shows the chosen one, and what each rule would have chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import record, write_runs

from homefold.report.document import build_report
from homefold.report.render import report_html, report_markdown
from homefold.report.runs import read_runs
from homefold.report.writing import write_report


def candidate(number: int, accuracy: float | None, score: float, seed: int = 0, **changes: Any) -> dict[str, Any]:
    about = {"number": number, "settings": f"weight={number}" if number else ""}
    failed = {"status": "failed", "error": "it diverged."} if accuracy is None else {}
    scores = {} if failed else {"scores": {"source-validation": {"photo": score, "cartoon": score}}}
    values = {"accuracy": accuracy, "seed": seed, "run": f"{number}-{seed}-{changes.get('target', '')}", **failed}
    return record(**{**values, "facts": {"candidate": {**about, **scores}}, **changes})


def test_the_main_table_has_the_chosen_candidate_with_the_spread_of_one_setting(tmp_path: Path) -> None:
    records = [
        candidate(0, 0.90, 0.5), candidate(0, 0.92, 0.5, seed=1),
        candidate(1, 0.70, 0.6), candidate(1, 0.74, 0.8, seed=1),
        candidate(2, 0.99, 0.9), candidate(2, None, 0.9, seed=1),
    ]  # fmt: skip
    folder = read_runs(write_runs(tmp_path, records))
    assert [(run.seed, run.accuracy, run.changes) for run in folder.runs] == [
        (0, 0.7, "best of 3"),
        (1, 0.74, "best of 3"),
    ]
    main, choices, _ = build_report(folder, figures=False).tables
    (row,) = [row for row in main.rows if not row.published]
    assert main.title.endswith("best of 3")
    assert row.cells[0].summary.mean == pytest.approx(72)
    assert {row.label: [cell.main for cell in row.cells] for row in choices.rows} == {
        "Full method, VAE, sketch, source-validation": ["72.00 ± 2.83", "2 of 3", "weight=1"],
        "Full method, VAE, sketch, oracle †": ["91.00 ± 1.41", "2 of 3", "as it is"],
    }
    assert "not a fair comparison" in choices.caption


def test_where_the_rule_is_the_oracle_the_main_table_is_marked(tmp_path: Path) -> None:
    records = [candidate(0, 0.9, 0.5, selection="oracle"), candidate(1, 0.7, 0.6, selection="oracle")]
    report = build_report(read_runs(write_runs(tmp_path, records)), figures=False)
    assert report.tables[0].oracle
    assert "†" in report.tables[0].rows[0].label + report.tables[0].title
    assert report.facts["Selection"] == "oracle †"


def test_budgets_that_differ_do_not_stand_in_one_table_and_runs_without_a_choice_neither(tmp_path: Path) -> None:
    records = [
        record(),
        candidate(0, 0.8, 0.5), candidate(1, 0.7, 0.6),
        candidate(0, 0.8, 0.5, method="coral"),
    ]  # fmt: skip
    folder = read_runs(write_runs(tmp_path, records))
    assert [run.changes for run in folder.runs] == ["", "best of 2", "best of 1"]


def test_an_unfinished_search_chooses_among_what_is_judged(tmp_path: Path) -> None:
    """Candidate 1 has one seed of two, and photo has none that is complete: one missing run a seed stands there."""
    records = [candidate(0, 0.8, 0.5, seed=seed) for seed in (0, 1)] + [candidate(1, 0.9, 0.9)]
    planned = [
        {name: values[name] for name in ("run", "suite", "dataset", "target", "method", "seed", "backbone", "protocol",
                                         "selection", "preset", "facts")}
        for target in ("sketch", "photo") for number in (0, 1) for seed in (0, 1)
        for values in [candidate(number, 0.0, 0.0, seed=seed, target=target)]
    ]  # fmt: skip
    for values in planned:
        del values["facts"]["candidate"]["scores"]
    write_runs(tmp_path, records)
    (tmp_path / "plan.json").write_text(json.dumps({"format": 1, "runs": planned}))
    folder = read_runs(tmp_path)
    assert [(run.target, run.seed, run.accuracy) for run in folder.runs] == [("sketch", 0, 0.8), ("sketch", 1, 0.8)]
    assert [(run.target, run.seed, run.changes) for run in folder.missing] == [
        ("photo", 0, "best of 2"), ("photo", 1, "best of 2"),
    ]  # fmt: skip
    assert [(choice.rule, choice.judged, choice.candidates) for choice in folder.choices] == [
        ("source-validation", 1, 2), ("oracle", 1, 2),
    ]  # fmt: skip


def test_candidates_that_all_failed_are_failed_runs(tmp_path: Path) -> None:
    report = build_report(read_runs(write_runs(tmp_path, [candidate(n, None, 0) for n in (0, 1)])), figures=False)
    assert report.failures == ("pacs, Full method, VAE on sketch, seed 0: it diverged.",)


def test_the_choices_stand_in_every_form_of_a_report(tmp_path: Path) -> None:
    folder = read_runs(write_runs(tmp_path / "runs", [candidate(0, 0.8, 0.5), candidate(1, 0.7, 0.6)]))
    report = build_report(folder, figures=False)
    for text in (report_html(report), report_markdown(report)):
        assert "What each rule chooses" in text
        assert "weight=1" in text
    files = write_report(report, tmp_path / "out")
    (table,) = [Path(path) for path in files["csv"] if "choices" in Path(path).name]
    assert "weight=1" in table.read_text()


@pytest.mark.parametrize("about", ["text", {"settings": 3}, {"scores": {"source-validation": {"x": "high"}}}])
def test_a_candidate_that_is_none_is_told(tmp_path: Path, about: Any) -> None:
    with pytest.raises(Exception, match=r"line 1 is not a run record \(facts\.candidate"):
        read_runs(write_runs(tmp_path, [record(facts={"candidate": about})]))


@pytest.mark.parametrize("about", [{}, {"scores": None}, {"scores": {"source-validation": {}}}, {"number": None}])
def test_a_candidate_that_says_little_is_read(tmp_path: Path, about: Any) -> None:
    (run,) = read_runs(write_runs(tmp_path, [record(facts={"candidate": about})])).runs or (None,)
    assert run is None or run.changes == "best of 1"
