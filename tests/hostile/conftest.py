"""One small model of each kind, trained once; the choice of cases; and the counts at the end."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.scene import make_photos
from homefold import Homefold, ManifoldProjector
from homefold.cli import main
from hostile.campaign import Scene
from report.made_up_runs import pacs_records, write_runs

TINY = shlex.split(
    "--preset small --device cpu --epochs 2 --batch-size 8 --image-size 16 --features.feature-dim 16 "
    "--manifold.epochs 120 --manifold.learning-rate 0.01 --manifold.kl-weight 0.0001 --manifold.hidden 16 "
    "--manifold.latent-dim 4 --classifier.epochs 3 --search.steps 3"
)


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> dict[str, Any]:
    """What all scenes share."""
    root = tmp_path_factory.mktemp("hostile")
    photos = make_photos(root / "photos", images=4)
    words = ["fit", str(photos), "--holdout", "night", *TINY, "--features.checkpoint-seconds", "0"]
    assert main([*words, "--out", str(root / "model")]) == 0
    model = Homefold.load(root / "model", device="cpu")
    unfinished = _stopped_fit(model, photos, root / "model.unfinished")
    random = np.random.default_rng(0)
    y = np.repeat(["cat", "dog", "owl"], 20)
    x = np.repeat(random.normal(size=(3, 12)), 20, axis=0) + 0.3 * random.normal(size=(60, 12))
    projector = ManifoldProjector(
        latent_dim=4, hidden=(16,), kl_weight=1e-4, manifold_epochs=300, steps=3, device="cpu"
    ).fit(x, y)
    projector.save(root / "projector")
    return {
        "model": root / "model",
        "projector": root / "projector",
        "photos": photos,
        "runs": write_runs(root / "runs", pacs_records(1)[:12]),
        "unfinished": unfinished,
        "same_fit": (*words, "--out", "model"),
        "homefold": model,
        "features": projector,
    }


def _stopped_fit(model: Homefold, photos: Path, folder: Path) -> Path:
    """The checkpoint of a fit that somebody stopped."""

    def stop(figures: dict[str, float]) -> None:
        if figures["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Homefold(model.config, device="cpu").fit(photos, holdout="night", work_dir=folder, on_epoch=stop)
    return folder


@pytest.fixture
def scene(stage: dict[str, Any]) -> Iterator[Scene]:
    """A folder of the case's own, gone afterwards."""
    watched = Path(tempfile.mkdtemp(prefix="hostile-")).resolve()
    (watched / "here").mkdir()
    yield Scene(watched / "here", **stage)
    shutil.rmtree(watched, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All cases with `-m hostile`, those that are named, and otherwise the fast tenth."""
    named = any("::" in argument for argument in config.args)
    if named or "hostile" in config.getoption("-m"):
        return
    left_out = [item for item in items if item.get_closest_marker("hostile") and not item.callspec.params["case"].fast]
    config.hook.pytest_deselected(items=left_out)
    dropped = set(left_out)
    items[:] = [item for item in items if item not in dropped]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many cases of each family ended in which way."""
    counts: Counter[tuple[str, str]] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            about = dict(report.user_properties)
            if "family" in about:
                counts[about["family"], about.get("verdict", "FAILED")] += 1
    if not counts:
        return
    families, verdicts = (sorted({key[i] for key in counts}) for i in (0, 1))
    terminalreporter.section("hostile cases by family and verdict")
    lines = [["", *verdicts, "all"]]
    for family in families:
        row = [counts[family, verdict] for verdict in verdicts]
        lines.append([family, *map(str, (*row, sum(row)))])
    total = [sum(counts[family, verdict] for family in families) for verdict in verdicts]
    lines.append(["all", *map(str, (*total, sum(total)))])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for first, *rest in lines:
        cells = "  ".join(f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        terminalreporter.write_line(f"{first:<{widths[0]}}  {cells}")
