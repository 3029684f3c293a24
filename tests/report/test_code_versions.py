"""Runs of several versions of the code are not put together silently."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import record, write_runs

from homefold.errors import DataError
from homefold.report.code_versions import code_versions, require_one_code_version
from homefold.report.document import build_report
from homefold.report.render import report_html, report_markdown
from homefold.report.runs import read_runs

HERE, THERE = "a" * 40, "b" * 40


def test_the_runs_of_two_machines_at_one_commit_go_together(tmp_path: Path) -> None:
    parts = [write_runs(tmp_path / str(n), [record(seed=n, commit=HERE, hardware=f"machine {n}")]) for n in (0, 1)]
    folder = read_runs(*parts)
    assert folder.code_versions == {f"homefold 0.1.0 at commit {'a' * 12}": 2}
    require_one_code_version(folder.code_versions)
    assert "Mixed code" not in build_report(folder, figures=False).facts


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"commit": THERE}, "homefold 0.1.0 at commit bbbbbbbbbbbb (1 run)"),
        ({"commit": f"{HERE} with changes"}, "homefold 0.1.0 at commit aaaaaaaaaaaa with changes (1 run)"),
        ({"commit": ""}, "homefold 0.1.0 at no recorded commit (1 run)"),
        ({"commit": HERE, "versions": {"homefold": "0.2.0"}}, "homefold 0.2.0 at commit aaaaaaaaaaaa (1 run)"),
        ({"commit": HERE, "versions": {}}, "homefold of no recorded version at commit aaaaaaaaaaaa (1 run)"),
    ],
)
def test_of_different_ones_it_says_which_and_the_page_says_so_too(tmp_path: Path, other: dict, words: str) -> None:
    here = write_runs(tmp_path / "here", [record(seed=seed, commit=HERE) for seed in (0, 1)])
    folder = read_runs(here, write_runs(tmp_path / "there", [record(seed=2, **other)]))
    with pytest.raises(DataError) as told:
        require_one_code_version(folder.code_versions)
    assert str(told.value) == (
        f"these runs were made by 2 versions of the code, so their figures may not compare: homefold 0.1.0 at commit "
        f"aaaaaaaaaaaa (2 runs), {words}. Report the runs of one version, or go on with --mixed-code: the page "
        f"will say so."
    )
    report = build_report(folder, figures=False)
    for text in (report_html(report), report_markdown(report)):
        assert "Mixed code" in text
        assert words.split(" (")[0] in text


def test_a_run_that_failed_or_was_done_again_mixes_nothing(tmp_path: Path) -> None:
    records = [record(commit=THERE), record(commit=HERE), record(seed=1, commit=THERE, status="failed")]
    assert list(read_runs(write_runs(tmp_path, records)).code_versions.values()) == [1]


def test_candidates_that_were_not_chosen_count_too(tmp_path: Path) -> None:
    scores = {"source-validation": {"photo": 0.5}}
    records = [
        record(run=str(n), commit=commit, facts={"candidate": {"number": n, "settings": str(n), "scores": scores}})
        for n, commit in enumerate((HERE, THERE))
    ]
    folder = read_runs(write_runs(tmp_path, records))
    assert len(folder.runs) == 1
    assert len(folder.code_versions) == len(code_versions(choice.records[0] for choice in folder.choices)) + 1 == 2
