"""The tables of the study's pages are those of its records."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

STUDY = Path(__file__).parents[1] / "study"
pytestmark = pytest.mark.slow


def check(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)


def test_pages_have_the_tables_that_the_records_give():
    checked = check(STUDY / "pages.py")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_changed_figure_is_noticed(tmp_path):
    for item in ("records", "computed"):
        (tmp_path / item).symlink_to(STUDY / item)
    (tmp_path / "pages.py").write_text((STUDY / "pages.py").read_text(encoding="utf-8"), encoding="utf-8")
    page = (STUDY / "keep-pretrained.md").read_text(encoding="utf-8")
    row = re.search(r"^\| 0\.2 \| .*$", page, re.MULTILINE)
    assert row is not None
    (tmp_path / "keep-pretrained.md").write_text(page.replace(row[0], row[0].replace("| 78.1 |", "| 87.1 |")), "utf-8")
    checked = check(tmp_path / "pages.py")
    assert checked.returncode == 1
    assert "keep-pretrained.md" in checked.stdout
