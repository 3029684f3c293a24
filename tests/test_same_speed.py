"""scripts/same-speed measures two checkouts in turn, and tells of the one that fails."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

from same_speed import probes
from same_speed.command import main
from same_speed.ratios import ratio_row

FAKE_PACKAGE = """
from dataclasses import make_dataclass
section = lambda *names: make_dataclass("Section", names)(*names)
parts = {"features": section("epochs", "batch_size"), "manifold": section("epochs"), "classifier": section("epochs")}
def preset_config(name): return make_dataclass("Config", parts)(**parts)
"""
FAKE_COMMAND = """
import sys, time
from pathlib import Path
words = sys.argv[1:]
if "--help" in words: print("--set NAME=VALUE")
elif "features.epochs=1" in words and {works}:
    time.sleep({seconds})
    Path(words[words.index("--out") + 1], "stages").mkdir(parents=True, exist_ok=True)
else: sys.exit("error: nothing works here")
"""


def fake_checkout(folder: Path, *, seconds: float = 0, works: bool = True) -> str:
    """A tree whose benchmark takes this long, and does nothing."""
    package = folder / "src" / "homefold"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FAKE_PACKAGE)
    (package / "__main__.py").write_text(FAKE_COMMAND.format(seconds=seconds, works=works))
    return str(folder)


def rows(printed: str) -> dict[str, list[str]]:
    """The words behind each name of the table."""
    lines = [line for line in printed.splitlines() if " – " in line]
    return {line[:30].strip(): line[30:].replace(" s", "s").replace(" ms", "ms").split() for line in lines}


@pytest.mark.slow
def test_a_checkout_that_takes_longer_has_a_ratio_above_one(tmp_path, capsys):
    trees = fake_checkout(tmp_path / "old"), fake_checkout(tmp_path / "new", seconds=1)
    assert main([*trees, "--only", "help", "bench", "--rounds", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"OLD {tmp_path}/old\nNEW {tmp_path}/new\n")
    measured = rows(printed)
    assert measured.keys() == {"homefold fit --help", "bench of trained stages"}
    ratio, least, most = (float(measured["bench of trained stages"][column]) for column in (2, 3, 5))
    assert 1 < least <= most
    assert least <= ratio
    assert "2 rounds, " in printed


@pytest.mark.slow
def test_what_fails_in_a_checkout_is_said_and_the_rest_measured(tmp_path, capsys):
    trees = fake_checkout(tmp_path / "old"), fake_checkout(tmp_path / "new", works=False)
    assert main([*trees, "--only", "bench", "help", "--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert rows(printed).keys() == {"homefold fit --help"}
    assert "bench failed: homefold bench digits-mini … ended with 1: error: nothing works here" in printed


def test_what_is_no_checkout_is_said(tmp_path, capsys):
    assert main([str(tmp_path), str(tmp_path)]) == 0
    assert "is no checkout of homefold" in capsys.readouterr().out


def test_a_row_compares_the_least_of_each_side_and_the_rounds(tmp_path):
    words = ratio_row("a step", [(0.1, 0.1), (0.2, 0.1)], [(0.3, 0.1), (0.2, 0.05)]).split()
    assert words == ["a", "step", "100", "ms", "200", "ms", "2.00", "1.00", "–", "3.00", "0.50", "0.50", "–", "1.00"]


def test_a_step_is_the_time_between_two_steps_of_a_stages_optimizer(monkeypatch):
    def fit(words: list[str]) -> int:
        for pause in (0.02, 0, 0):
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
            for _ in range(4):
                time.sleep(pause)
                optimizer.step()
        return 0

    monkeypatch.setattr(probes, "command", fit)
    found = probes._step_seconds(("fit",))
    assert list(found) == [f"training step, {stage}" for stage in ("features", "manifold", "classifier")]
    assert found["training step, features"][0] >= 0.02
    assert found["training step, features"][1] < found["training step, features"][0]


def test_a_fit_that_fails_measures_nothing(monkeypatch):
    monkeypatch.setattr(probes, "command", lambda words: 1)
    with pytest.raises(RuntimeError, match="the fit ended with 1 after 0 stages"):
        probes._step_seconds(("fit",))
