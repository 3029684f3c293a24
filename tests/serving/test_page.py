"""The page: its files fit together, and it knows nothing before the token is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import homefold.serving
from homefold import Homefold

PAGE = Path(homefold.serving.__file__).parent / "page"
INDEX = (PAGE / "index.html").read_text(encoding="utf-8")
MODULES = sorted(PAGE.rglob("*.js"))


def test_what_the_page_refers_to_is_served_with_its_type(client: TestClient) -> None:
    client.headers.pop("Authorization")
    referred = re.findall(r'(?:href|src)="(page/[^"]+)"', INDEX)
    types = {name.rsplit(".", 1)[1]: client.get(f"/{name}").headers["content-type"] for name in referred}
    assert types == {
        "svg": "image/svg+xml",
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
    }
    assert client.get("/").text == INDEX


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_every_module_imports_files_and_finds_elements_that_exist(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    for imported in re.findall(r'from "(\./[^"]+)"', text):
        assert (module.parent / imported).is_file()
    for identifier in re.findall(r'getElementById\("([^"]+)"\)', text):
        assert f'id="{identifier}"' in INDEX


def test_nothing_in_the_page_needs_what_the_policy_forbids() -> None:
    for path in PAGE.rglob("*"):
        if path.suffix in (".html", ".js"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(
                r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write|\sstyle=|\son\w+=\"", text
            )
    assert re.findall(r"<script(?![^>]* src=)", INDEX) == []


def test_without_the_token_the_page_holds_nothing_about_the_model(client: TestClient, fitted: Homefold) -> None:
    client.headers.pop("Authorization")
    shown = "".join(client.get(f"/page/{path.relative_to(PAGE)}").text for path in PAGE.rglob("*") if path.is_file())
    assert not [domain for domain in fitted.source_domains if f">{domain}<" in shown]
    assert "digits" not in shown
