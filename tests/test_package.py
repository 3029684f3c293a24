"""The package: its public names, the examples in its docstrings, what importing it imports."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import homefold


def test_every_public_name_exists_and_nothing_else_does():
    assert all(getattr(homefold, name) is not None for name in homefold.__all__)
    assert dir(homefold) == sorted(homefold.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = homefold.nonsense


@pytest.mark.slow
def test_examples_in_docstrings_run():
    attempted = 0
    for module in pkgutil.walk_packages(homefold.__path__, "homefold."):
        if module.name.endswith("__main__"):
            continue
        results = doctest.testmod(importlib.import_module(module.name), optionflags=doctest.ELLIPSIS)
        assert results.failed == 0, module.name
        attempted += results.attempted
    assert attempted > 30


def test_importing_the_package_does_not_import_torch():
    code = "import sys, homefold; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
