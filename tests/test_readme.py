"""Every command and the code of the README run; only flags that make them quick are added."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from homefold.cli import main
from homefold.features.backbones import build_backbone

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
QUICK = ["--epochs", "1", "--image-size", "32", "--device", "cpu", "--manifold.epochs", "100"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line]


@pytest.fixture
def photos(tmp_path, monkeypatch, few_digits):
    """`photos/` with domains photo, art and sketch, `new-images/`, and weights where torchvision would keep them."""
    names = {"scan": "photo", "print": "art", "photo": "sketch"}
    for i in range(len(few_digits)):
        domain = few_digits.domain_names[few_digits.domains[i]]
        folder = tmp_path / "photos" / names.get(domain, "") / few_digits.class_names[few_digits.labels[i]]
        if domain == "street":
            folder = tmp_path / "new-images"
        folder.mkdir(parents=True, exist_ok=True)
        if i % 6 == 0:
            Image.fromarray(few_digits.images[i]).save(folder / f"{i}.jpg")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    torch.manual_seed(0)
    torch.save(build_backbone("resnet18").state_dict(), checkpoints / "resnet18-f37072fd.pth")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_commands_for_ones_own_images_run(photos, capsys):
    own = [words for words in commands() if words[0] == "homefold"]
    assert [words[1] for words in own] == ["fit", "evaluate", "predict"]
    for words in own:
        quick = QUICK if words[1] == "fit" else ["--device", "cpu"]
        assert main([*words[1:], *quick]) == 0, words
    answered = capsys.readouterr().out
    assert "sketch" in answered
    assert str(Path("new-images")) in answered


def test_the_other_commands_are_makes_own_targets():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    others = [words for words in commands() if words[0] != "homefold"]
    assert [words[0] for words in others] == ["make", "make"]
    for _, target in others:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    continuous = (Path(__file__).parent.parent / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test" in continuous
    assert "make docs" in continuous
    assert "make demo" in continuous


@pytest.mark.slow
def test_the_python_code_runs(photos, capsys):
    random = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 40)
    scope = {
        "features": random.normal(size=(3, 16))[truth] + 0.3 * random.normal(size=(120, 16)),
        "labels": truth,
        "new_features": random.normal(size=(5, 16)),
    }
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    exec(compile(code, "README.md", "exec"), scope)
    assert scope["labels"].shape == (5,)
    printed = capsys.readouterr().out.strip().splitlines()
    assert len(printed) == len(list((photos / "new-images").iterdir()))


def test_links_lead_somewhere():
    root = Path(__file__).parent.parent
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (root / target).exists(), target
        assert (root / target).is_dir() or (root / target).stat().st_size > 0, target
