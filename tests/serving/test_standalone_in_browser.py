"""An exported explorer, opened in a real browser as a double click opens it: from a file, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Page, browsing

from homefold import Homefold
from homefold.runtime.progress import SilentReporter
from homefold.serving.explorer import Explorer, Gallery
from homefold.serving.standalone import write_standalone

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folders(fitted: Homefold, gallery: Gallery, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """With pictures, and without."""
    made = tmp_path_factory.mktemp("explorer")
    for pictures in (True, False):
        explorer = Explorer(gallery, "for a file")
        asked = {"pictures": pictures, "overwrite": False, "reporter": SilentReporter()}
        write_standalone(fitted, "digits", explorer, made / str(pictures), **asked)
    return {pictures: made / str(pictures) for pictures in (True, False)}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def opened(page: Page, folders: dict[bool, Path], request: pytest.FixtureRequest) -> Iterator[Page]:
    page.open("about:blank")
    page.requests.clear()
    page.complaints.clear()
    page.open(f"{(folders[request.param] / 'index.html').as_uri()}?{request.node.name}")
    page.wait("!document.getElementById('map-body').hidden")
    yield page
    root = folders[request.param].as_uri()
    assert ([url for url in page.requests if not url.startswith(root)], page.complaints) == ([], [])


@pytest.mark.parametrize("opened", [True], indirect=True)
def test_a_point_shows_its_picture_and_its_reasons(opened: Page) -> None:
    assert opened.ask("document.getElementById('map-status').textContent") == "288 images on the map"
    opened.ask("document.querySelectorAll('#map-grid button')[5].click()")
    opened.wait("document.querySelector('#map-chosen img').naturalWidth === 16")
    opened.ask("document.querySelector('#map-chosen button').click()")
    opened.wait("document.querySelectorAll('#map-why .near').length === 2")
    assert "taken: " in opened.ask("document.querySelector('#map-why .chart:has(polyline)').textContent")


@pytest.mark.parametrize("opened", [False], indirect=True)
def test_without_pictures_labels_stand_in_their_places(opened: Page, gallery: Gallery) -> None:
    opened.ask("document.querySelectorAll('#map-grid button')[5].click()")
    shown = opened.ask("document.querySelector('#map-chosen .pictureless').textContent")
    assert shown == gallery.classes[gallery.truth[5]]
    assert opened.ask("document.querySelectorAll('#map-view img').length") == 0


@pytest.mark.parametrize("opened", [True], indirect=True)
def test_a_domain_is_checked_and_the_model_described_but_nothing_can_be_dropped(opened: Page) -> None:
    shown = opened.ask(
        "[...document.querySelectorAll('[role=tab]')].filter((t) => !t.hidden).map((t) => t.textContent)"
    )
    assert shown == ["Map", "Check a domain", "The model"]
    opened.ask("document.getElementById('check-tab').click()")
    assert opened.ask("document.querySelectorAll('#check-figures strong').length") == 4
    opened.ask("document.getElementById('about-tab').click()")
    assert "held-out source images" in opened.ask("document.getElementById('about-body').textContent")


@pytest.mark.parametrize("opened", [True], indirect=True)
def test_reasons_whose_file_is_gone_are_told_in_words(opened: Page, folders: dict[bool, Path]) -> None:
    file = folders[True] / "data" / "why-1.js"
    kept = file.read_bytes()
    file.unlink()
    opened.ask("document.getElementById('map-more').click()")
    opened.ask("[...Array(8)].forEach(() => document.getElementById('map-more').click())")
    opened.ask("document.querySelectorAll('#map-grid button')[270].click()")
    opened.ask("document.querySelector('#map-chosen button').click()")
    opened.wait("document.getElementById('map-why').textContent.includes('data/why-1.js is missing')")
    file.write_bytes(kept)
    opened.complaints[:] = [told for told in opened.complaints if "ERR_FILE_NOT_FOUND" not in told]
