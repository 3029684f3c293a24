"""Reports read records and artifacts alone: nothing that they import waits for torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_up_runs import pacs_records, write_artifacts, write_runs

COMMAND = "import sys; from homefold.cli import main; code = main({arguments!r}); {modules}; sys.exit(code)"
NO_TORCH = "assert 'torch' not in sys.modules"
NO_PICTURES = f"{NO_TORCH}; assert 'matplotlib' not in sys.modules; assert 'sklearn' not in sys.modules"


def python(code: str) -> None:
    environment = {**os.environ, "COLUMNS": "100"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]


@pytest.mark.slow
def test_the_package_and_its_help_import_no_torch_and_no_matplotlib() -> None:
    python(f"import sys, homefold.report, homefold.evaluation; {NO_PICTURES}")
    python(COMMAND.format(arguments=["report", "--help"], modules=NO_PICTURES))


@pytest.mark.slow
@pytest.mark.parametrize(("form", "modules"), [("csv", NO_PICTURES), ("all", NO_TORCH)])
def test_a_report_imports_no_torch_and_matplotlib_only_to_draw(tmp_path: Path, form: str, modules: str) -> None:
    records = pacs_records(1)[-4:]
    write_runs(tmp_path / "runs", records)
    write_artifacts(tmp_path / "runs", records[:1])
    out = tmp_path / "out"
    python(
        COMMAND.format(
            arguments=["report", str(tmp_path / "runs"), "--format", form, "--out", str(out)], modules=modules
        )
    )
    assert (out / "tables" / "pacs-resnet18-quick.csv").is_file()
    assert len(list(out.glob("figures/tsne-*"))) == (2 if form == "all" else 0)
