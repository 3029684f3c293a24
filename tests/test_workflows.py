"""What runs on every pull request is what a person runs: targets of the Makefile, on every Python that is supported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_step_calls_a_target_of_the_makefile(workflow):
    steps = re.findall(r"^\s+- run: (.*)$", workflow.read_text("utf-8"), re.MULTILINE)
    assert steps
    for step in steps:
        command, *words = step.split()
        assert command == "make"
        assert {word for word in words if "=" not in word} <= TARGETS


def test_lint_types_tests_docs_and_wheel_all_run():
    called = {word for path in WORKFLOWS for word in re.findall(r"[\w-]+", path.read_text("utf-8"))}
    assert {"lint", "types", "pytest", "oldest", "docs", "wheel"} <= called


def test_the_pythons_are_those_that_the_package_names():
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT)
    text = "\n".join(path.read_text("utf-8") for path in WORKFLOWS)
    matrices = re.findall(r"^\s+python: \[(.*)\]$", text, re.MULTILINE)
    assert matrices
    for matrix in matrices:
        assert [word.strip('" ') for word in matrix.split(",")] == named


def test_the_oldest_torch_is_the_one_that_the_package_needs():
    needed = dict(re.findall(r'"(torch|torchvision)>=([\d.]+)"', PROJECT))
    tried = dict(re.findall(r"'(torch|torchvision)==([\d.]+)\.\*'", MAKEFILE))
    assert tried == needed


def test_every_target_is_explained_or_makes_a_file():
    explained = set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE))
    assert explained == TARGETS
