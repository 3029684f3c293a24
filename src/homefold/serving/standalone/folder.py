"""The folder of an exported explorer: written whole or not at all."""

from __future__ import annotations

import asyncio
import base64
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from homefold.errors import ConfigError
from homefold.model import Homefold
from homefold.runtime.json_lines import json_line
from homefold.runtime.progress import ProgressReporter
from homefold.serving.explorer import Explorer, Gallery
from homefold.serving.explorer.explanation import explain, usual_scores
from homefold.serving.explorer.explorer import AT_ONCE, Surveyed
from homefold.serving.explorer.facts import explorer_facts
from homefold.serving.explorer.survey import Survey
from homefold.serving.facts import model_facts
from homefold.serving.limits import Limits
from homefold.serving.standalone.bundle import bundle
from homefold.serving.standalone.points import can_write_points, write_points
from homefold.store.files import atomic_directory

__all__ = ["Written", "write_standalone"]

_TOGETHER = 256  # images whose reasons are one file; the page loads it when the first of them is asked for
_MARK = ".homefold-explorer"
_WRITTEN = {_MARK, "index.html", "page", "data", "pictures", "points.parquet"}
_CLASSES_TOLD = 5
_DIGITS = 5
_MODULES = '<script type="module" src="page/app.js"></script>'
_CLASSIC = '<script defer src="data/points.js"></script>\n  <script defer src="page/page.js"></script>'


@dataclass(frozen=True)
class Written:
    """What an export wrote.

    Args:
        folder: with `index.html`.
        images: points on its map.
        has_table: whether `points.parquet` is there, which needs pyarrow.
    """

    folder: Path
    images: int
    has_table: bool


def write_standalone(
    model: Homefold,
    name: str,
    explorer: Explorer,
    folder: Path,
    *,
    pictures: bool,
    overwrite: bool,
    reporter: ProgressReporter,
) -> Written:
    """Write the explorer's page with all that it shows into a folder.

    Args:
        model: fitted.
        name: what it is called on the page.
        explorer: of the images; it is surveyed here.
        folder: a new or empty one, or with `overwrite` an earlier export.
        pictures: put the images there too, as the model sees them.
        overwrite: replace an earlier export.
        reporter: is told of the progress.
    """
    gallery = explorer.gallery
    with atomic_directory(folder, lambda path: _require_replaceable(path, overwrite=overwrite)) as temporary:
        surveyed = _surveyed(model, explorer, reporter)
        for made in ("page", "data"):
            (temporary / made).mkdir()
        (temporary / _MARK).write_text("", encoding="utf-8")
        _write_page(temporary)
        shown = _write_pictures(temporary / "pictures", gallery, reporter) if pictures else None
        facts = {
            "model": model_facts(model, name, Limits()).model_dump(),
            "explorer": explorer_facts(explorer).model_dump(),
            "points": base64.b64encode(surveyed.columns).decode(),
            "usual": usual_scores(model.trained),
            "pictures": None if shown is None else shown[0].suffix[1:],
            "together": _TOGETHER,
            "why": {},
        }
        _write(temporary / "data" / "points.js", f"globalThis.homefold = {json_line(facts)};\n")
        _write_reasons(temporary / "data", model, gallery, surveyed, reporter)
        if can_write_points():
            write_points(temporary / "points.parquet", gallery, surveyed, shown)
    return Written(folder, len(gallery), can_write_points())


def _surveyed(model: Homefold, explorer: Explorer, reporter: ProgressReporter) -> Surveyed:
    with reporter.task("survey", len(explorer.gallery)) as task:

        async def here(look: Callable[[], Survey]) -> Survey:
            found = look()
            task.advance(len(found.label))
            asked.append(len(found.label))
            return found

        asked: list[int] = []
        surveyed = asyncio.run(explorer.survey(model.trained, here))
        task.advance(len(explorer.gallery) - sum(asked))  # what an earlier survey knew
        return surveyed


def _write_page(folder: Path) -> None:
    """The page's own files, its modules as one classic script."""
    here = files("homefold.serving")
    with as_file(here / "page") as page:
        index = (page / "index.html").read_text(encoding="utf-8")
        modules = {file.stem: file.read_text(encoding="utf-8") for file in page.glob("*.js")}
        for name in ("style.css", "icon.svg"):
            shutil.copyfile(page / name, folder / "page" / name)
    modules["api"] = (here / "standalone" / "api.js").read_text(encoding="utf-8")
    assert _MODULES in index
    _write(folder / "index.html", index.replace(_MODULES, _CLASSIC))
    _write(folder / "page" / "page.js", bundle(modules, "app"))


def _write_pictures(folder: Path, gallery: Gallery, reporter: ProgressReporter) -> dict[int, Path]:
    """The file of each row."""
    written = {}
    with reporter.task("pictures", len(gallery)) as task:
        for row in range(len(gallery)):
            content, kind = gallery.picture(row)
            ending = "png" if kind == "image/png" else "jpg"
            written[row] = folder / str(row // _TOGETHER) / f"{row}.{ending}"
            written[row].parent.mkdir(parents=True, exist_ok=True)
            written[row].write_bytes(content)
            task.advance()
    return written


def _write_reasons(
    folder: Path, model: Homefold, gallery: Gallery, surveyed: Surveyed, reporter: ProgressReporter
) -> None:
    """Why each image gets its answer, many images a file."""
    images = gallery.dataset.images
    with reporter.task("reasons", len(gallery)) as task:
        for part, first in enumerate(range(0, len(gallery), _TOGETHER)):
            reasons: list[Any] = []
            for start in range(first, min(first + _TOGETHER, len(gallery)), AT_ONCE):
                pixels = np.ascontiguousarray(images[start : min(start + AT_ONCE, first + _TOGETHER)])
                reasons += map(_short, explain(model.trained, pixels, surveyed))
                task.advance(len(pixels))
            _write(folder / f"why-{part}.js", f"homefold.why[{part}] = {json_line(reasons)};\n")


def _short(value: Any) -> Any:
    """The same in fewer letters: numbers as exact as a page shows them, and the likeliest classes alone."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _short(item) for key, item in value.items()}
    if "probabilities" in found:
        likely = sorted(found["probabilities"].items(), key=lambda item: -item[1])
        found["probabilities"] = dict(likely[:_CLASSES_TOLD])
    return found


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _require_replaceable(path: Path, *, overwrite: bool) -> None:
    """Refuse to replace anything but an empty folder, and with `overwrite` an earlier export."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    names = {item.name for item in path.iterdir()} if path.is_dir() else set()
    if _MARK not in names or not names <= _WRITTEN:
        raise ConfigError(f"{path} is not empty and no exported explorer; choose another folder.")
    if not overwrite:
        raise ConfigError(f"{path} holds an exported explorer already; choose another folder, or add --overwrite.")
