"""A model that keeps thumbnails, served without its images and opened in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acting import TOKEN
from browsing import browsing

from homefold import Homefold
from homefold.cli.labelled import labelled_images

pytestmark = pytest.mark.browser


def test_the_page_shows_thumbnails_and_says_so(
    keeping: Path, listening: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Homefold.load(keeping, device="cpu")
    count = len(model.sources.rows)
    explorer = labelled_images(keeping, model, None, layout="pca")
    assert f"Shown are the {count} thumbnails" in capsys.readouterr().err
    with listening(model=model, explorer=explorer) as (port, _), browsing(tmp_path) as page:
        page.open(f"http://127.0.0.1:{port}/#token={TOKEN}")
        page.wait("!document.getElementById('map-body').hidden")
        assert page.ask("document.getElementById('map-status').textContent") == f"{count} images on the map"
        assert not page.ask("document.getElementById('map-kept').hidden")
        page.ask("document.querySelectorAll('#map-grid button')[5].click()")
        page.wait("document.querySelector('#map-chosen img').naturalWidth === 16")
        page.ask("document.querySelector('#map-chosen button').click()")
        page.wait("document.querySelectorAll('#map-why .near').length === 2")
        page.ask("document.getElementById('about-tab').click()")
        assert "thumbnails" in page.ask(
            "document.querySelector('#about-body table:has(caption)').parentNode.parentNode.textContent"
        )
        assert page.complaints == []


def test_a_model_that_keeps_none_is_served_without_a_map(fitted: Homefold, tmp_path: Path) -> None:
    assert labelled_images(tmp_path, fitted, None, layout="pca") is None
