"""Methods are listed by reading their files, without importing what they need."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from homefold.methods import find_method, list_methods, wrapped_by_default
from homefold.methods.registry import METHODS

HEAVY = ("torch", "torchvision", "sklearn", "matplotlib", "scipy", "pandas")
PROGRAM = """
import sys
from homefold.cli.app import main
code = main({arguments!r})
loaded = [name for name in {heavy!r} if name in sys.modules]
sys.exit(f"imported {{loaded}}" if loaded else code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["methods"], ["methods", "--json"], ["methods", "--help"]])
def test_listing_imports_nothing_heavy(arguments):
    program = PROGRAM.format(arguments=arguments, heavy=HEAVY)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "t3a" in ended.stdout


def test_what_is_listed_is_what_the_methods_say_of_themselves():
    for info in list_methods():
        method = find_method(info.name)
        wraps = wrapped_by_default().get(info.name)
        assert method.info == replace(info, name=f"{info.name}+{wraps}" if wraps else info.name)
        assert type(method).__module__ == METHODS[info.name].place
