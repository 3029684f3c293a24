"""The example of docs/adding-a-test-time-method.md runs as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from homefold.methods import ImageSet, find_method
from homefold.methods.registry import METHODS

PAGE = Path(__file__).parents[3] / "docs" / "adding-a-test-time-method.md"


@pytest.fixture
def example(monkeypatch):
    """The page's program, run as a module of its own."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    module = ModuleType("documented_example")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    exec(compile(program, str(PAGE), "exec"), module.__dict__)
    yield program
    METHODS.remove("mirror")


def test_it_is_about_twenty_lines_and_wraps_any_method(example, finished, scan):
    code = [line for line in example.splitlines() if line.strip() and not line.startswith(("from", "import"))]
    assert 12 <= len(code) <= 24
    assert find_method("mirror+vae").info.name == "mirror+vae"
    base, target = finished("deep-all"), ImageSet(scan.images, "scan")
    plain = base.trained.answer(target).predictions
    null = base.wrapped_by("mirror", weight=0.0).answer(target).predictions
    assert null.probabilities == pytest.approx(plain.probabilities, abs=1e-5)
    mirrored = ImageSet(np.ascontiguousarray(scan.images[:, :, ::-1]), "mirrored")
    mean = (plain.probabilities + base.trained.answer(mirrored).predictions.probabilities) / 2
    assert base.wrapped_by("mirror").answer(target).predictions.probabilities == pytest.approx(mean, abs=1e-5)
