"""A fitted model in a folder, images in every form, and a job whose workers run in this process."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image
from shards_scene import COUNT, FORMS, InlineCrew, Job, write_form

from homefold import Homefold
from homefold.bulk import BulkOptions
from homefold.bulk import workers as hiring
from homefold.bulk.worker import Setup, Worker
from homefold.data import DomainDataset

pytest.importorskip("pyarrow", reason="answers in shards need pip install 'homefold[parquet]'")


@pytest.fixture(scope="session")
def model(fitted: Homefold, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("bulk") / "model"
    fitted.save(folder)
    return folder


@pytest.fixture(scope="session")
def encoded(few_digits: DomainDataset) -> list[bytes]:
    """Image files of a domain that the model never saw."""
    found = []
    for pixels in few_digits.only("street").images[:COUNT]:
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG")
        found.append(stream.getvalue())
    return found


@pytest.fixture(scope="session")
def forms(encoded: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same images in every form; not to be changed."""
    return {form: write_form(form, tmp_path_factory.mktemp(form), encoded) for form in FORMS}


@pytest.fixture
def job(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Runs a job in this process."""
    made = Job(model, tmp_path / "answers")

    @contextmanager
    def hired(options: BulkOptions, shards: int, tell: Callable[[str], None]):
        setup = Setup(options.source, Path.cwd(), "cpu", 1, options.question, {})
        made.crew = InlineCrew(Worker(setup, options.model), options.workers or 1, made.mishap)
        yield made.crew

    monkeypatch.setattr(hiring, "hired", hired)
    return made
