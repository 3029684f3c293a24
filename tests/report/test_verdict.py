"""What stands in bold, and what a report opens with: leads that the seeds support, and leads that they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_up_runs import pacs_records, record, write_runs

from homefold.report.document import build_report
from homefold.report.runs import read_runs
from homefold.report.tables import build_tables
from homefold.report.tables.table import Table
from homefold.report.verdict import Verdict, verdicts

FEW_SHOT = {"suite": "few-shot", "protocol": "few-shot"}
NOISE = (0.003, -0.002, 0.001, -0.004)


def runs_of(accuracies: dict[str, float], seeds: int, **changes: Any) -> list[dict[str, Any]]:
    """Methods with these means and some noise, on two targets."""
    return [
        record(method=m, target=t, seed=s, accuracy=a + NOISE[(s + i + j) % 4], **changes)
        for i, (m, a) in enumerate(accuracies.items())
        for j, t in enumerate(("sketch", "photo"))
        for s in range(seeds)
    ]


def table_and_verdict(folder: Path, records: list[dict[str, Any]]) -> tuple[Table, Verdict]:
    table, *_ = build_tables(read_runs(write_runs(folder, records)))
    (verdict,) = verdicts([table])
    return table, verdict


def bold(table: Table) -> list[tuple[str, str]]:
    return [
        (row.label, column)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell.best
    ]


def test_a_lead_that_the_seeds_support_is_bold_and_said(tmp_path: Path) -> None:
    table, verdict = table_and_verdict(tmp_path, runs_of({"deep-all": 0.7, "vae": 0.8}, 3))
    assert bold(table) == [("Full method, VAE", column) for column in ("sketch", "photo", "Avg.")]
    (finding,) = verdict.findings
    assert finding.support == "supported by the seeds"
    assert finding.leads.startswith("Full method, VAE leads with ")
    assert finding.leads.endswith("on average over 2 targets.")
    assert "points on Deep All: 3 seeds support it (p" in finding.behind[0]
    # the paper's 81.79 and 97.15
    assert "The paper prints 89.47 for it" in finding.behind[1]


def test_a_lead_within_the_noise_is_neither_bold_nor_called_supported(tmp_path: Path) -> None:
    table, verdict = table_and_verdict(tmp_path, runs_of({"deep-all": 0.7, "gan": 0.8, "vae": 0.801}, 2))
    assert bold(table) == []
    assert "no figure here has that" in table.caption
    (finding,) = verdict.findings
    assert finding.support == "not supported by the seeds"
    assert "2 seeds do not support it" in finding.behind[0]
    assert "points on Deep All: 2 seeds support it" in finding.behind[1]


def test_with_one_seed_nothing_is_bold(tmp_path: Path) -> None:
    table, verdict = table_and_verdict(tmp_path, runs_of({"deep-all": 0.5, "vae": 0.9}, 1))
    assert bold(table) == []
    assert "nothing in bold" in table.caption
    assert verdict.findings[0].support == "one seed"
    assert "one seed cannot support it" in verdict.findings[0].behind[0]


def test_a_mean_over_fewer_seeds_is_never_the_best(tmp_path: Path) -> None:
    records = runs_of({"deep-all": 0.7, "vae": 0.8}, 3) + runs_of({"gan": 0.9}, 1)
    table, verdict = table_and_verdict(tmp_path, records)
    assert {label for label, _ in bold(table)} == {"Full method, VAE"}
    assert verdict.findings[0].behind[-1] == "Not compared, with fewer than 3 seeds: Full method, GAN."


def test_a_lead_over_one_row_alone_is_not_bold(tmp_path: Path) -> None:
    """Ahead of Deep All surely, of 1-NN not: the best is not known."""
    table, _ = table_and_verdict(tmp_path, runs_of({"deep-all": 0.7, "nearest": 0.799, "vae": 0.8}, 3))
    assert bold(table) == []


def test_each_setting_has_a_finding_of_its_own(tmp_path: Path) -> None:
    records = [
        run
        for shots, gain in ((0, 0.0), (7, 0.1))
        for run in runs_of(
            {"deep-all": 0.6 + gain, "vae": 0.7 + gain},
            3,
            suite="few-shot",
            protocol="few-shot",
            facts={"shots": shots},
        )
    ]
    table, verdict = table_and_verdict(tmp_path, records)
    assert [finding.leads.split(" leads")[0] for finding in verdict.findings] == [
        "Full method, VAE, 0 per class",
        "Full method, VAE, 7 per class",
    ]
    assert ("Full method, VAE, 0 per class", "Avg.") in bold(table)


def test_targets_of_one_training_are_no_samples_of_their_own(tmp_path: Path) -> None:
    """From a single source one network answers for all targets: only the seeds' averages are compared."""
    changes: dict[str, Any] = {"suite": "single-source", "protocol": "single-source", "facts": {"sources": ["cartoon"]}}
    lucky = {0: 0.02, 1: 0.08}
    records = [
        record(method=m, target=t, seed=s, accuracy=0.6 + (lucky[s] if m == "vae" else 0), **changes)
        for m in ("deep-all", "vae")
        for t in ("sketch", "photo", "art_painting")
        for s in (0, 1)
    ]
    table, _ = table_and_verdict(tmp_path, records)
    average = table.rows[1].cells[-1].comparison
    assert average is not None
    assert average.p is not None
    assert 0.3 < average.p < 0.4  # t = 5 / 3 with one degree of freedom
    assert bold(table) == []


def test_tables_that_vary_a_setting_have_no_verdict(tmp_path: Path) -> None:
    records = [record(suite="beta", facts={"beta": beta}, accuracy=0.8) for beta in (0.05, 0.01)]
    assert verdicts(build_tables(read_runs(write_runs(tmp_path, records)))) == []


def test_a_report_opens_with_its_verdict_and_ends_with_how_it_was_made(tmp_path: Path) -> None:
    from homefold.report.render import report_html, report_markdown

    report = build_report(read_runs(write_runs(tmp_path, pacs_records(2))), figures=False)
    for text in (report_html(report), report_markdown(report)):
        body = text.partition("<body>")[2] or text
        places = [
            body.index(words) for words in ("Verdict", "leads with", "Tables", "How it was made", "one made-up GPU")
        ]
        assert places[0] < places[1] < places[2] < places[3] < body.rindex("one made-up GPU")
    assert report.as_dict()["verdict"][0]["findings"][0]["leads"].startswith("Full method, VAE leads")
