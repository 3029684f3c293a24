"""One folder with a little of everything and its report, made once."""

from __future__ import annotations

import pytest
from made_up_runs import Made, full_folder

from homefold.report.document import build_report
from homefold.report.runs import read_runs
from homefold.report.writing import write_report


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The report of a folder that holds every suite, failures and gaps."""
    folder = read_runs(full_folder(tmp_path_factory.mktemp("runs")))
    report = build_report(folder, command="homefold report runs")
    out = tmp_path_factory.mktemp("report")
    return Made(folder, report, out, write_report(report, out))
