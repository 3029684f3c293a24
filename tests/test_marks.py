"""What `make fast` runs: some tests of every package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from marks import NOT_FAST

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"


def marks_in(node: ast.AST) -> set[str]:
    """The names behind `pytest.mark.` in a piece of a file."""
    return {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Attribute) and part.value.attr == "mark"
    }


def has_fast_tests(tree: ast.Module) -> bool:
    """Whether a test of the file is kept out by no mark, neither its own nor the whole file's."""
    of_the_file = [node for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)]
    if any(marks_in(statement).intersection(NOT_FAST) for statement in of_the_file):
        return False
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not any(marks_in(decorator).intersection(NOT_FAST) for decorator in node.decorator_list)
        and "real_data" not in {argument.arg for argument in node.args.args}
        for node in ast.walk(tree)
    )


def imported(tree: ast.Module) -> set[str]:
    """Every module that a file imports from, and what contains it."""
    found = set()
    for node in ast.walk(tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            found |= {".".join(parts[: end + 1]) for end in range(len(parts))}
    return found


def test_every_package_has_a_fast_test():
    trees = [ast.parse(path.read_text()) for path in TESTS.rglob("test_*.py")]
    reached = set().union(*(imported(tree) for tree in trees if has_fast_tests(tree)))
    packages = {".".join(path.parent.relative_to(SOURCE).parts) for path in SOURCE.rglob("__init__.py")}
    assert "homefold.projection.engines" in packages
    assert packages - reached == set()


@pytest.mark.parametrize(
    ("text", "fast"),
    [
        ("def test_a(): ...", True),
        ("class TestA:\n    def test_a(self): ...", True),
        ("pytestmark = pytest.mark.slow\ndef test_a(): ...", False),
        ("pytestmark = [pytest.mark.usefixtures('a'), pytest.mark.gpu]\ndef test_a(): ...", False),
        ("@pytest.mark.slow\ndef test_a(): ...", False),
        ("@pytest.mark.slow\ndef test_a(): ...\n@pytest.mark.parametrize('a', [1])\ndef test_b(): ...", True),
        ("def test_a(real_data): ...", False),
        ("def made(): ...", False),
    ],
)
def test_a_file_has_fast_tests_where_no_mark_keeps_them_out(text, fast):
    assert has_fast_tests(ast.parse(text)) is fast


def test_a_mark_is_given_by_what_a_test_is(request):
    assert request.node.get_closest_marker("fast")


@pytest.mark.slow
def test_what_is_slow_is_not_fast(request):
    assert not request.node.get_closest_marker("fast")
