"""One folder of images in three domains, and one model fitted to two of them, that all tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from scene import QUICK, Ended, Homefold, make_photos

from homefold.cli import main


@pytest.fixture
def homefold(capsys: pytest.CaptureFixture[str]) -> Homefold:
    """Runs the command in this process."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """The networks here are so small that threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def shared_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three domains × two classes × ten images; not to be changed."""
    return make_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture
def photos(shared_photos: Path, tmp_path: Path) -> Path:
    """A copy of the images that a test may damage."""
    return Path(shutil.copytree(shared_photos, tmp_path / "photos"))


@pytest.fixture(scope="session")
def shared_model(shared_photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model fitted to day and dusk; not to be changed."""
    out = tmp_path_factory.mktemp("models") / "model"
    assert main(["fit", str(shared_photos), "--out", str(out), "--holdout", "night", *QUICK]) == 0
    return out


@pytest.fixture
def model(shared_model: Path, tmp_path: Path) -> Path:
    """A copy of the model that a test may damage."""
    return Path(shutil.copytree(shared_model, tmp_path / "model"))
