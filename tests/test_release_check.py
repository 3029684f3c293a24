"""A release is refused with a sentence for each thing that is not ready."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GOOD = {
    "src/homefold/version.py": '__version__ = "1.2.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## 1.2.0 (2026-12-01)\n\n- More.\n\n## 1.1.0 (2026-11-01)\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.0\n",
}
pytestmark = pytest.mark.slow


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A committed folder that is ready."""
    for name, content in GOOD.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "all")
    return tmp_path


def asked(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "release-check"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_is_ready_passes(release):
    told = asked(release)
    assert (told.returncode, told.stdout) == (0, "ready: tag it, build it, publish it\n")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("src/homefold/version.py", '__version__ = "1.2"\n', "write a version such as 1.2.0; it has '1.2'"),
        ("CHANGELOG.md", "## 1.2.0 (unreleased)\n", "it begins with '1.2.0 (unreleased)'"),
        ("CHANGELOG.md", "## 1.1.0 (2026-11-01)\n", "begin with '## 1.2.0 (YEAR-MONTH-DAY)'"),
        ("CITATION.cff", "version: 1.1.0\n", "write 'version: 1.2.0'; it has '1.1.0'"),
    ],
)
def test_what_disagrees_is_named(release, name, content, sentence):
    (release / name).write_text(content)
    git(release, "commit", "-qam", "change")
    told = asked(release)
    assert told.returncode == 1
    assert sentence in told.stdout
    assert len(told.stdout.splitlines()) == 1


def test_a_version_is_released_once_and_whole(release):
    git(release, "tag", "v1.2.0")
    (release / "left.txt").write_text("over")
    told = asked(release).stdout
    assert "the tag v1.2.0 is there already" in told
    assert "commit first; these differ from the last commit: left.txt" in told
