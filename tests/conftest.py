"""Small real data that many tests share, and one thread a worker: several workers share the cores."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

# Read by what is imported below and by the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from hypothesis import settings

from homefold import Homefold, preset_config
from homefold.config import replace_settings
from homefold.data import DomainDataset, load_digits_mini
from homefold.stages.thumbnails import Thumbnails
from marks import NOT_FAST

torch.set_num_threads(1)

# The same examples on every run, and no deadline: a busy machine is not a defect.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that no other mark describes is fast."""
    for item in items:
        if "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker("real_data")
        if "made" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")  # the report of every figure
        if not any(item.get_closest_marker(mark) for mark in NOT_FAST):
            item.add_marker("fast")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real datasets; without it the test is skipped."""
    folder = os.environ.get("HOMEFOLD_TEST_DATA")
    if not folder:
        pytest.skip("real data: set HOMEFOLD_TEST_DATA to the folder that holds it")
    return Path(folder)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Tests neither read nor fill the user's cache."""
    before = os.environ.get("HOMEFOLD_CACHE")
    os.environ["HOMEFOLD_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["HOMEFOLD_CACHE"]
    else:
        os.environ["HOMEFOLD_CACHE"] = before


@pytest.fixture(scope="session")
def digits(_own_cache) -> DomainDataset:
    """All of digits-mini."""
    return load_digits_mini()


@pytest.fixture(scope="session")
def twelve_each(digits: DomainDataset) -> DomainDataset:
    """Twelve images of each of the ten digits in every domain."""
    return digits.subset(np.flatnonzero(np.arange(len(digits)) % (len(digits) // 4) < 120))


@pytest.fixture
def few_of_digits_mini(monkeypatch: pytest.MonkeyPatch, twelve_each: DomainDataset) -> None:
    """Whoever loads digits-mini gets these: more of them say no more about whether some code runs."""
    for module in ("homefold.data", "homefold.data.datasets.digits_mini"):
        monkeypatch.setattr(f"{module}.load_digits_mini", lambda seed=0: twelve_each)


@pytest.fixture(scope="session")
def sharp_digits(digits: DomainDataset) -> DomainDataset:
    """Three classes and 24 images of each in every domain: enough to learn something in seconds."""
    chosen = [
        np.flatnonzero((digits.domains == domain) & (digits.labels == label))[:24]
        for domain in range(4)
        for label in range(3)
    ]
    subset = digits.subset(np.concatenate(chosen))
    return DomainDataset(
        subset.images, subset.labels, subset.domains, ("0", "1", "2"), subset.domain_names, name="few digits"
    )


@pytest.fixture(scope="session")
def few_digits(sharp_digits: DomainDataset) -> DomainDataset:
    """The same at 16 px, a quarter of the work for a network; goes with `preprocessing.image_size=16`."""
    halved = sharp_digits.images.reshape(-1, 16, 2, 16, 2, 3).mean(axis=(2, 4)).round().astype(np.uint8)
    return replace(sharp_digits, images=halved)


QUICK = {
    "features.epochs": 15,
    "features.batch_size": 32,
    "features.checkpoint_seconds": 0.0,
    "features.feature_dim": 32,
    # Random filters need more steps than these few.
    "features.augmentation.texture_probability": 0.0,
    "manifold.epochs": 200,
    "manifold.latent_dim": 8,
    # Styles have tests of their own; without them features are f's own.
    "style.blocks": (),
}


@pytest.fixture(scope="session")
def interpreted():
    """Runs a file of tests in Triton's interpreter, all of which must pass; what pytest printed.

    Triton reads how it is to run when it is imported, so its interpreter needs a process of its own.
    """

    def run_tests(path: Path) -> str:
        pytest.importorskip("triton", reason="Triton has no package for this platform")
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(path)],
            env={**os.environ, "TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    return run_tests


@pytest.fixture(scope="session")
def sharp_config():
    """The small preset, smaller."""
    return preset_config("small", QUICK)


@pytest.fixture(scope="session")
def quick_config(sharp_config):
    """The same for `few_digits`."""
    return replace_settings(sharp_config, {"preprocessing.image_size": 16})


@pytest.fixture(scope="session")
def fitted(few_digits: DomainDataset, quick_config) -> Homefold:
    """A model that never saw `street`."""
    return Homefold(quick_config, device="cpu").fit(few_digits, holdout="street")


@pytest.fixture(scope="session")
def keeping(fitted: Homefold, few_digits: DomainDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in a folder as a fit that was asked to keep thumbnails leaves it; not to be changed."""
    model = copy.copy(fitted)
    model._thumbnails = Thumbnails.of(few_digits.without("street").images[fitted.sources.rows], 16)
    model._trained = replace(fitted.trained, reports={**fitted.reports, "thumbnails": model._thumbnails.facts()})
    path = tmp_path_factory.mktemp("keeping") / "model"
    model.save(path)
    return path
