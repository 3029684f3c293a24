"""The pages of the study are those of its records, short, and whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from homefold.config.migration import REMOVED_SETTINGS

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "study"
PAGES = sorted(STUDY.glob("*.md"))
TABLE = re.compile(r"^\|.*$", re.MULTILINE)
FIGURE = re.compile(r"(?<![\w.])\d{1,3}\.\d+(?![\w.])")
COPIED = ("copied", "not kept", "the paper", "top-1")
"""A sentence with one of these names figures that no table here can have."""


def check(*folders: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, STUDY / "pages.py", "--check", *folders]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def prose(page: Path) -> str:
    """A page without its code, its tables, its links' targets and its comments."""
    text = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->|\]\([^)]*\)", "", page.read_text("utf-8"), flags=re.DOTALL)
    return TABLE.sub("", text)


@pytest.mark.slow
def test_pages_have_the_tables_that_the_records_give():
    checked = check()
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_a_changed_figure_is_noticed(tmp_path):
    page = (STUDY / "keep-pretrained.md").read_text(encoding="utf-8")
    row = re.search(r"^\|0\.2\|.*$", page, re.MULTILINE)
    assert row is not None
    (tmp_path / "keep-pretrained.md").write_text(page.replace(row[0], row[0].replace("|78.1|", "|87.1|")), "utf-8")
    checked = check(tmp_path)
    assert checked.returncode == 1
    assert "keep-pretrained.md" in checked.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_figure_in_the_text_stands_in_a_table_of_its_page(page):
    known = set(FIGURE.findall("\n".join(TABLE.findall(page.read_text("utf-8")))))
    strange = [
        f"{figure}: {part.strip()}"
        for part in re.split(r"\n\n|\n- |(?<=\.)\s", prose(page))
        if not any(word in part.replace("\n", " ").lower() for word in COPIED)
        for figure in FIGURE.findall(part)
        if figure not in known
    ]
    assert not strange


LIMITS = {"PROTOCOL": 1000, "queue": 1500}  # commands are words too


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short(page):
    assert len(page.read_text("utf-8").split()) <= LIMITS.get(page.stem, 800)


def test_every_page_is_one_of_the_questions():
    asked = set(re.findall(r"\]\(([\w-]+\.md)\)", (STUDY / "README.md").read_text("utf-8")))
    assert {page.name for page in PAGES} == asked | {"README.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_records_that_a_page_names_are_kept(page):
    kept = {path.name.split(".")[0] for path in (STUDY / "records").iterdir()}
    named = re.findall(r"`((?:pacs|digits-dg|before|projection)-[\w-]+|pacs|digits-dg)`", page.read_text("utf-8"))
    assert set(named) <= kept


def test_no_setting_that_is_gone_lacks_its_line():
    page = (STUDY / "what-did-not-help.md").read_text("utf-8")
    assert [name for name in REMOVED_SETTINGS if f"{name.rpartition('.')[2]}`" not in page] == []


def test_study_and_results_are_small():
    files = (path for folder in ("study", "results") for path in (ROOT / folder).rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in files if "__pycache__" not in path.parts) <= 6e6
