"""The HTML file in a real browser: what it shows, and that a phone need not scroll sideways."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from made_up_runs import Made

pytestmark = pytest.mark.browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)

# The page stands in a frame of the wanted width; what is measured there is written where the dump shows it.
FRAME = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe style="border:0;width:{width}px;height:900px"
srcdoc="{page}"></iframe><pre id="measured"></pre><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument, all = [...page.querySelectorAll(".page *")];
  const beyond = all.filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > {width} + 0.5);
  const images = [...page.images];
  const boxes = [...page.querySelectorAll(".scroll")];
  document.getElementById("measured").textContent = JSON.stringify({{
    width: page.documentElement.scrollWidth,
    beyond: beyond.map(e => e.tagName + "." + e.className),
    shown: images.filter(i => i.complete && i.naturalWidth > 0).length,
    images: images.length,
    described: images.filter(i => i.alt.length > 20).length,
    scrolling: boxes.filter(b => b.scrollWidth > b.clientWidth).length,
    best: [...page.querySelectorAll("#table-pacs-resnet18-quick td strong")].map(e => e.textContent),
    absent: [...page.querySelectorAll("#table-pacs-resnet18-quick td.absent")].map(e => e.textContent),
    empty: [...page.querySelectorAll("td, th")].filter(e => !e.textContent.trim()).length,
    tables: Math.max(...[...page.querySelectorAll("table")].map(e => e.getBoundingClientRect().right)),
    contents: getComputedStyle(page.querySelector("nav")).display,
    columns: getComputedStyle(page.querySelector(".columns")).display,
    heading: page.querySelector("h1").textContent,
  }});
}};
</script></body>"""


@pytest.fixture(scope="session")
def browser() -> str:
    """The browser's program; without one the test is skipped."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("a browser: none of chromium, google-chrome is on PATH")
    return found


def measure(browser: str, made: Made, width: int, folder: Path, *, printed: bool = False) -> dict:
    page = (made.out / "report.html").read_text(encoding="utf-8")
    if printed:
        # what a printer would be given, so that it can be measured
        assert page.count("@media print") == 1
        page = page.replace("@media print", "@media all")
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(width=width, page=html.escape(page)), encoding="utf-8")
    command = [browser, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", "--dump-dom"]
    ended = subprocess.run([*command, frame.as_uri()], capture_output=True, text=True, timeout=100, check=True)
    found = re.search(r'<pre id="measured">(.*?)</pre>', ended.stdout, re.DOTALL)
    assert found, ended.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


def test_a_phone_shows_everything_without_scrolling_sideways(browser: str, made: Made, tmp_path: Path) -> None:
    seen = measure(browser, made, 390, tmp_path)
    assert seen["beyond"] == []
    assert seen["width"] <= 390
    assert seen["scrolling"] > 0  # wide tables scroll inside of their own box
    assert seen["shown"] == seen["images"] == seen["described"] == len(made.files["figures"])


def test_a_wide_screen_shows_the_figures_of_the_tables(browser: str, made: Made, tmp_path: Path) -> None:
    seen = measure(browser, made, 1400, tmp_path)
    (table,) = [table for table in made.report.tables if table.name == "pacs-resnet18-quick"]
    assert seen["best"] == [cell.main for row in table.rows for cell in row.cells if cell.best]
    assert seen["absent"] == ["missing (3 of 3)", "missing (3 of 3)", "failed (3 of 3)", "failed (3 of 3)"]
    assert seen["empty"] == 0
    assert seen["beyond"] == []
    assert seen["columns"] == "grid"
    assert seen["heading"] == "Results on pacs, vlcs, digits, cifar10-c"


def test_on_paper_no_table_is_cut_off_and_the_contents_are_left_out(browser: str, made: Made, tmp_path: Path) -> None:
    """A4 upright with Chromium's own margins is 718 px wide."""
    seen = measure(browser, made, 718, tmp_path, printed=True)
    assert seen["tables"] <= 718
    assert seen["beyond"] == []
    assert (seen["contents"], seen["columns"]) == ("none", "block")
    assert seen["shown"] == seen["images"]


def test_it_prints(browser: str, made: Made, tmp_path: Path) -> None:
    paper = tmp_path / "report.pdf"
    command = [browser, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={paper}"]
    page = (made.out / "report.html").as_uri()
    subprocess.run([*command, page], capture_output=True, text=True, timeout=100, check=True)
    data = paper.read_bytes()
    assert data.startswith(b"%PDF")
    assert 5 < len(re.findall(rb"/Type\s*/Page\b(?!s)", data)) < 60
