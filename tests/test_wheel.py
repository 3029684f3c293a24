"""The wheel builds, holds the whole package, and works away from the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_it_holds_every_module_and_nothing_of_the_tests(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert modules <= names
    assert "homefold/py.typed" in names
    page = ROOT / "src" / "homefold" / "serving" / "page"
    assert {str(path.relative_to(ROOT / "src")) for path in page.rglob("*") if path.is_file()} <= names
    assert not any(name.startswith("tests") for name in names)
    assert "License-Expression: MIT" in metadata
    assert "Requires-Dist: torch>=2.11" in metadata
    assert "Provides-Extra: serve" in metadata


def test_installed_elsewhere_the_command_works(wheel, tmp_path):
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(site), "HOMEFOLD_CACHE": str(tmp_path / "cache")}
    where = "import homefold; print(homefold.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], check=True, capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert found.stdout.startswith(str(site))
    described = subprocess.run(
        [sys.executable, "-m", "homefold", "data", "describe", "digits-mini"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert "street" in described.stdout
