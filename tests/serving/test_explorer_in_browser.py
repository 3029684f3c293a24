"""The explorer as people use it, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acting import TOKEN
from browsing import Page, browsing

from homefold import Homefold
from homefold.serving.explorer import Explorer, Gallery

pytestmark = pytest.mark.browser

BOX = (
    "(() => {{ const r = document.querySelector('{}').getBoundingClientRect(); "
    "return [r.x, r.y, r.width, r.height] }})()"
)
SHOWN = "document.querySelectorAll('#map-grid img[src^=blob]').length"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def address(listening: Callable[..., Any], gallery: Gallery) -> Iterator[str]:
    with listening(explorer=Explorer(gallery, "for the browser")) as (port, _):
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def opened(page: Page, address: str) -> Iterator[Page]:
    """The page with its map; at the end it must have asked nobody else for anything, and complained of nothing."""
    page.open("about:blank")  # what the page before still asked for belongs to another test
    page.requests.clear()
    page.complaints.clear()
    page.open(f"{address}#token={TOKEN}")
    page.wait("!document.getElementById('map-body').hidden")
    yield page
    foreign = [url for url in page.requests if not url.startswith((address, f"blob:{address}", "data:"))]
    assert (foreign, page.complaints) == ([], [])


def box(page: Page, selector: str) -> list[float]:
    return page.ask(BOX.format(selector))


def test_every_image_is_a_point_and_the_first_are_pictures(opened: Page) -> None:
    assert opened.ask("document.getElementById('map-status').textContent") == "288 images on the map"
    opened.ask("document.getElementById('map-grid').scrollIntoView()")
    opened.wait(f"{SHOWN} >= 12")
    assert opened.ask("document.querySelectorAll('#map-grid img:not([alt])').length") == 0


def test_a_picture_leads_to_its_point_and_a_point_to_its_picture(opened: Page, gallery: Gallery) -> None:
    opened.ask("document.querySelectorAll('#map-grid button')[5].click()")
    opened.wait("document.querySelector('#map-chosen img[src^=blob]')")
    assert "Row5" in opened.ask("document.querySelector('#map-chosen dl').textContent")
    opened.ask("document.querySelector('#map canvas:last-child').focus()")
    opened.press("ArrowRight")
    opened.wait("!document.querySelector('#map-chosen dl').textContent.includes('Row5')")
    told = opened.ask("document.querySelector('#map-chosen [role=status]').textContent")
    assert any(told.startswith(f"{label}, ") for label in gallery.classes)


def test_a_click_on_the_map_chooses_a_point(opened: Page) -> None:
    x, y, width, height = box(opened, "#map")
    for step in range(400):  # somewhere on the middle line there is a point
        opened.click(x + width * (0.3 + step / 1000), y + height * (0.4 + 0.2 * (step % 7) / 7))
        if opened.ask("document.querySelector('#map-chosen dl') !== null"):
            break
    assert opened.ask("document.querySelectorAll('#map-chosen dt').length") == 6


def test_what_a_lasso_encircles_is_shown_as_pictures(opened: Page) -> None:
    opened.ask("document.getElementById('map-lasso').click()")
    x, y, width, height = box(opened, "#map")
    corners = [(0.5, 0), (1, 0), (1, 1), (0.5, 1), (0.5, 0.5), (0.5, 0.02)]
    places = [(x + 1 + a * (width - 2), y + 1 + b * (height - 2)) for a, b in corners]
    opened.mouse("mouseMoved", *places[0])
    opened.mouse("mousePressed", *places[0])
    for place in places:
        opened.mouse("mouseMoved", *place)
    opened.mouse("mouseReleased", *places[-1])
    told = opened.wait("document.getElementById('map-status').textContent.match(/^(\\d+) images? in the lasso$/)?.[1]")
    assert 0 < int(told) < 288
    opened.ask("document.getElementById('map-clear').click()")
    assert opened.ask("document.getElementById('map-status').textContent") == "288 images on the map"


@pytest.mark.parametrize(("choice", "kinds"), [("class", 3), ("domain", 4), ("right", 2), ("off", 0)])
def test_colours_are_explained_and_kinds_can_be_hidden(opened: Page, choice: str, kinds: int) -> None:
    opened.ask(
        f"(() => {{ const s = document.getElementById('map-colour'); s.value = '{choice}'; "
        "s.dispatchEvent(new Event('change')) })()"
    )
    assert opened.ask("document.querySelectorAll('#map-legend label').length") == kinds
    assert opened.ask("document.getElementById('map-ramp').hidden") is (kinds > 0)
    if choice == "class":
        opened.ask("document.querySelector('#map-legend input').click()")
        assert opened.ask("document.getElementById('map-status').textContent") == "192 images on the map"


def test_one_domain_can_be_looked_at(opened: Page) -> None:
    opened.ask(
        "(() => { const s = document.getElementById('map-domain'); s.value = 'source'; "
        "s.dispatchEvent(new Event('change')) })()"
    )
    assert opened.ask("document.getElementById('map-status').textContent") == "216 images on the map"


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_the_map_without_scrolling_sideways(page: Page, address: str, dark: bool) -> None:
    page.open(f"{address}?phone={dark}#token={TOKEN}", width=390, height=844, dark=dark)
    page.wait(f"location.search === '?phone={dark}' && !document.getElementById('map-body').hidden")
    assert page.ask("document.documentElement.scrollWidth") <= 390


def test_a_hundred_thousand_points_are_drawn_and_found(opened: Page) -> None:
    found = opened.ask(
        """import("/page/scatter.js").then(({ Scatter }) => {
          const host = document.createElement("div");
          document.body.append(host);
          host.style.width = host.style.height = "500px";
          const many = new Scatter(host, "many");
          const random = () => Float32Array.from({ length: 100000 }, Math.random);
          many.place(random(), random());
          many.resize();
          many.drawNow();
          const [x, y] = many.onScreen(many.x[500], many.y[500]);
          const began = performance.now();
          for (let i = 0; i < 20; i += 1) { many.view.x += 0.001; many.drawNow(); many.at(x, y); }
          const each = (performance.now() - began) / 20;
          const all = many.within([[0, 0], [500, 0], [500, 500], [0, 500]]).length;
          host.remove();
          many.resting = 1;  // as while the view moves, after frames that took too long
          for (let now = 100; now < 600; now += 100) many.keepPace(now);
          const [moving, sample] = [many.drawn, new Set(many.order.subarray(0, 50000))];
          many.resting = null;
          const halves = many.order.subarray(0, 12500).filter((row) => row < 50000).length;
          return [each, all, moving, sample.size, many.drawn, halves];
        })"""
    )
    assert found[1] == 100_000
    assert found[2:5] == [12_000, 50_000, 100_000]
    assert 6000 < found[5] < 6500  # of a sample of 12,500, a half belongs to each half of the rows
    assert found[0] < 50  # milliseconds of the page's own; the rest is one draw call


def test_without_the_token_it_asks_for_it(page: Page, address: str) -> None:
    page.ask("sessionStorage.clear()")
    page.open(f"{address}?fresh")
    page.wait("location.search === '?fresh' && !document.getElementById('token-form').hidden")
    for wrong, told in ((None, "This page needs the server's token."), ("no", "That is not the server's token.")):
        if wrong:
            page.ask(f"document.getElementById('token').value = '{wrong}'")
            page.ask("document.querySelector('#token-form button').click()")
        page.wait(f'document.getElementById("message").textContent === "{told}"')
    page.ask(f"document.getElementById('token').value = '{TOKEN}'")
    page.ask("document.querySelector('#token-form button').click()")
    page.wait("!document.getElementById('map-body').hidden")


def test_a_survey_that_fails_says_so_on_the_page(
    page: Page, listening: Callable[..., Any], gallery: Gallery, tmp_path: Path
) -> None:
    explorer = Explorer(gallery, layout="nothing")  # type: ignore[arg-type]
    with listening(explorer=explorer) as (port, _):
        page.open(f"http://127.0.0.1:{port}/#token={TOKEN}")
        page.wait("document.getElementById('map-doing').textContent.includes('messages say why')")


def file_in(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_dropped_image_is_explained(opened: Page, files: list[bytes], tmp_path: Path) -> None:
    opened.ask("document.getElementById('drop-tab').click()")
    opened.choose_files("#files", file_in(tmp_path, "one.png", files[0]))
    opened.wait("document.querySelectorAll('#why .near').length === 2")
    opened.ask("document.querySelector('#why .near').scrollIntoView()")
    opened.wait("document.querySelectorAll('#why .near img[src^=blob]').length >= 6")
    headings = opened.ask("[...document.querySelectorAll('#why h4')].map((heading) => heading.firstChild.textContent)")
    assert headings[:2] == ["Without projection", "With projection"]
    assert headings[2].startswith("Off-manifold score ")
    assert headings[3:] == [
        "The search",
        "Source images most like it",
        "Source images most like its projection",
        "On the map",
    ]
    assert opened.ask("document.querySelectorAll('#why .badge').length") == 1
    assert opened.ask("document.querySelector('#why .used h4').textContent") == "With projectionused"
    assert opened.ask("document.querySelectorAll('#why .used dt').length") == 3  # of as many classes
    assert "taken: " in opened.ask("document.querySelector('#why .chart:has(polyline)').textContent")
    assert "arrow" in opened.ask("document.querySelector('#why .scatter [role=img]').ariaLabel")


def test_several_images_get_a_card_each_and_reasons_when_asked(
    opened: Page, files: list[bytes], tmp_path: Path
) -> None:
    opened.ask("document.getElementById('drop-tab').click()")
    opened.ask("document.getElementById('clear').click()")
    given = [file_in(tmp_path, f"{i}.png", content) for i, content in enumerate(files[:4])]
    others = [file_in(tmp_path, name, b"nothing") for name in ("broken.png", "notes.txt", ".hidden.png")]
    opened.choose_files("#files", *given, *others)
    told = "5 of 5 answered; 1 file left out: no image"
    opened.wait(f"document.getElementById('status').textContent === '{told}'")
    assert opened.ask("document.getElementById('why').hidden")
    assert "the upload" in opened.ask("document.querySelector('.failed .far').textContent")
    opened.complaints[:] = [told for told in opened.complaints if "status of 422" not in told]
    opened.ask("document.querySelectorAll('#answers .why')[2].click()")
    opened.wait("document.querySelectorAll('#why .scatter').length")
    assert opened.ask("document.activeElement.id") == "why"
    assert opened.ask("document.getElementById('why-file').textContent").endswith(".png")


def test_many_images_are_checked_together_without_their_labels(
    opened: Page, files: list[bytes], tmp_path: Path
) -> None:
    opened.ask("document.getElementById('drop-tab').click()")
    opened.ask("document.getElementById('clear').click()")
    opened.choose_files("#files", *(file_in(tmp_path, f"{i}.png", content) for i, content in enumerate(files[:24])))
    opened.wait("document.getElementById('status').textContent === '24 of 24 answered'")
    opened.ask("document.getElementById('hold-ask').click()")
    opened.wait("document.querySelectorAll('#hold .near img').length === 6")
    assert opened.ask("document.activeElement.id") == "hold"
    assert re.search(r", score \d+\.\d\d$", opened.ask("document.querySelector('#hold .near .caption').textContent"))
    told = opened.ask("document.getElementById('hold-report').textContent")
    assert re.match(r"About \d+\s% of these 24 answers are right", told)
    assert "What to do next" in told
    opened.ask("document.getElementById('clear').click()")
    assert opened.ask("document.getElementById('hold').hidden && document.getElementById('hold-ask').hidden")


def test_a_point_is_explained_beside_the_map(opened: Page) -> None:
    opened.ask("document.querySelectorAll('#map-grid button')[3].click()")
    opened.ask("document.querySelector('#map-chosen button').click()")
    opened.wait("document.querySelectorAll('#map-why .columns').length")
    assert opened.ask("document.activeElement.id") == "map-why"


def test_a_domain_that_was_not_trained_on_is_checked(opened: Page, gallery: Gallery, fitted: Homefold) -> None:
    opened.ask("document.getElementById('check-tab').click()")
    street = gallery.dataset.only("street")
    answers = fitted.predict(street, compare=True)
    right = answers.indices == street.labels
    assert opened.ask("document.querySelector('#check-domain').selectedOptions[0].textContent") == "street"
    assert opened.ask("document.getElementById('check-note').textContent") == "The model never saw this domain."
    shown = opened.ask("document.querySelector('#check-figures strong').textContent")
    assert float(shown.rstrip("%")) == pytest.approx(100 * right.mean(), abs=0.06)
    kinds = opened.ask("[...document.querySelectorAll('#check-kinds button')].map((b) => b.textContent)")
    corrected = int((right & (answers.unprojected != street.labels)).sum())
    spoiled = int((~right & (answers.unprojected == street.labels)).sum())
    wrong = int((~right).sum())
    assert kinds == ["All (72)", f"Wrong ({wrong})", f"Corrected ({corrected})", f"Spoiled ({spoiled})"]
    cells = opened.ask("[...document.querySelectorAll('.matrix button')].map((b) => Number(b.textContent))")
    assert sum(cells) == 72
    first = next(i for i, count in enumerate(cells) if count)
    opened.ask(f"document.querySelectorAll('.matrix button')[{first}].click()")
    assert opened.ask("document.getElementById('check-status').textContent").startswith(f"{cells[first]} image")
    assert opened.ask("document.querySelectorAll('#check-grid button').length") == min(36, cells[first])


def test_the_slider_says_what_withholding_answers_gains(opened: Page) -> None:
    opened.ask("document.getElementById('check-tab').click()")
    told = []
    for share in (50, 100):
        opened.ask(
            f"(() => {{ const s = document.getElementById('check-share'); s.value = {share}; "
            "s.dispatchEvent(new Event('input')) })()"
        )
        told.append(opened.ask("document.getElementById('check-words').textContent"))
    assert ", 50% of the images are answered" in told[0]
    assert ", 100% of the images are answered" in told[1]


def test_the_model_tells_what_it_was_measured_at(opened: Page, fitted: Homefold) -> None:
    opened.ask("document.getElementById('about-tab').click()")
    shown = opened.ask("document.getElementById('about-body').textContent")
    held_out = fitted.reports["held_out"]
    assert f"On {held_out['images']} held-out source images" in shown
    assert f"with projection{100 * held_out['with_projection']:.1f}".removesuffix(".0") in shown
    assert "features.epochs15" in shown
    assert "# A homefold model" in shown
    assert "features.history15 entries" in shown
    assert "[object" not in shown


def test_arrow_keys_go_from_tab_to_tab(opened: Page) -> None:
    opened.ask("document.getElementById('map-tab').click()")
    opened.ask("document.getElementById('map-tab').focus()")
    for expected in ("drop", "check", "about", "map"):
        opened.press("ArrowRight")
        assert opened.ask("document.activeElement.dataset.view") == expected
        assert opened.ask("[...document.querySelectorAll('[role=tabpanel]')].filter((p) => !p.hidden).length") == 1


def test_without_labelled_images_there_is_no_map_and_an_image_is_explained_still(
    page: Page, listening: Callable[..., Any], files: list[bytes], tmp_path: Path
) -> None:
    with listening() as (port, _):
        page.open(f"http://127.0.0.1:{port}/#token={TOKEN}")
        page.wait(f"location.port === '{port}' && document.getElementById('map-tab').hidden")
        page.wait("!document.getElementById('drop-view').hidden")
        page.choose_files("#files", file_in(tmp_path, "one.png", files[0]))
        page.wait("document.querySelectorAll('#why .chart').length === 2")
        assert "--data" in page.ask("document.getElementById('why-reasons').textContent")
