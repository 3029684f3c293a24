"""Figures of one's own, and methods of one's own under their titles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_runs import record, write_artifacts, write_runs

from homefold.report.document import build_report
from homefold.report.figures import FIGURES, build_figures
from homefold.report.figures.bars import ablation_bars, time_bars
from homefold.report.runs import read_runs
from homefold.report.tables import build_tables
from homefold.runtime.plugins import load_plugin
from homefold.runtime.registry import Registry

PAGE = (Path(__file__).parents[2] / "docs" / "figures.md").read_text(encoding="utf-8")
(EXAMPLE,) = (code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "@figure(" in code)


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    """The example of the documentation, forgotten after the test."""
    before = {FIGURES: dict(FIGURES._things)}
    path = tmp_path / "seeds.py"
    path.write_text(EXAMPLE, encoding="utf-8")
    yield path
    Registry.restore(before)


@pytest.mark.slow
def test_a_figure_of_a_plugin_stands_in_the_report(tmp_path: Path, plugin: Path) -> None:
    known = list(FIGURES)
    load_plugin(plugin)
    assert list(FIGURES) == [*known, "Spread over seeds"]
    records = [record(seed=seed, accuracy=0.5 + seed / 10) for seed in range(3)]
    report = build_report(read_runs(write_runs(tmp_path / "runs", records)))
    (section,) = (section for section in report.drawn if section.title == "Spread over seeds")
    assert (section.family, [drawn.name for drawn in section.figures]) == ("Accuracy", ["seeds-pacs-resnet18-quick"])
    assert section.figures[0].alt == "Dots of accuracy: VAE on sketch from 50.0 % to 70.0 %."
    absent = build_report(read_runs(write_runs(tmp_path / "one", records[:1]))).absent
    assert [section.needs for section in absent if section.title == "Spread over seeds"] == ["two seeds of a method"]


def test_a_method_of_a_plugin_has_its_title_in_tables_and_figures(tmp_path: Path) -> None:
    own = {"code": "abc", "titles": {"mixing": "Mixing Up"}}
    methods = {"deep-all": {}, "without-projection": {}, "mixing:strength=2": own, "t3a+mixing": own}
    folder = read_runs(write_runs(tmp_path, [record(method=name, facts=facts) for name, facts in methods.items()]))
    shown = ["Deep All", "Mixing Up (strength=2)", "T3A on Mixing Up", "w/o G_φ"]
    (bars,), (times,), (table, *_) = ablation_bars(folder), time_bars(folder), build_tables(folder)
    for name in shown:
        assert name in bars.alt
        assert name in times.alt
    assert [row.label for row in table.rows if not row.published][:3] == shown[:3]


@pytest.mark.slow
def test_a_method_of_a_plugin_stands_in_every_figure_that_its_runs_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"code": "abc", "titles": {"mixing": "Mixing Up"}}
    records = [record(method=name, facts=own if name == "mixing" else {}) for name in ("deep-all", "mixing", "vae")]
    write_runs(tmp_path, records)
    write_artifacts(tmp_path, records)
    # The plane that t-SNE would take seconds to find is not what is tested here.
    monkeypatch.setattr("homefold.report.figures.features.TSNE.fit_transform", lambda self, z: z[:, :2])
    sections = [section for section in build_figures(read_runs(tmp_path)) if section.figures]
    shown = {
        section.title
        for section in sections
        if any("Mixing Up" in f"{drawn.title} {drawn.alt} {drawn.caption}" for drawn in section.figures)
    }
    assert {section.title for section in sections} - shown == {"Examples of each domain"}
