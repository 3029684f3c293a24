"""One registry for everything that has a name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from homefold.errors import ConfigError, DataError
from homefold.runtime.registry import Registry


@pytest.fixture
def colours() -> Registry[str]:
    registry: Registry[str] = Registry("colour", also="or #RRGGBB")
    registry.add("red", "#f00")
    registry.add("blue", "#00f")
    return registry


def test_a_thing_is_found_by_its_name_and_all_are_listed_by_name(colours):
    assert colours["red"] == "#f00"
    assert list(colours) == ["blue", "red"]
    assert colours.values() == ("#00f", "#f00")
    assert len(colours) == 2
    assert "red" in colours
    assert "green" not in colours
    assert ["red"] not in colours


def test_an_unknown_name_gets_what_there_is_and_the_closest(colours):
    with pytest.raises(ConfigError) as caught:
        colours["rad"]
    assert str(caught.value) == ("there is no colour 'rad'; choose one of blue, red, or #RRGGBB. Did you mean red?")
    with pytest.raises(ConfigError, match=r"there is no colour 7; choose one of blue, red, or #RRGGBB\.$"):
        colours[7]


def test_a_name_can_be_taken_once(colours):
    with pytest.raises(ConfigError, match="there already is a colour 'red'; choose another name"):
        colours.add("red", "#e00")
    assert colours["red"] == "#f00"


def test_the_error_and_the_order_can_be_chosen():
    folders: Registry[int] = Registry("folder", error=DataError, order=lambda size: -size)
    folders.add("a", 1)
    folders.add("b", 2)
    assert list(folders) == ["b", "a"]
    with pytest.raises(DataError, match="there is no folder 'c'"):
        folders["c"]


def test_files_of_a_package_are_imported_when_a_name_is_first_asked_for(tmp_path: Path, monkeypatch):
    package = tmp_path / "shapes_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from homefold.runtime.registry import Registry\nSHAPES = Registry('shape', __name__)\n"
    )
    (package / "round.py").write_text(
        "from shapes_of_a_test import SHAPES\n\n@SHAPES.named('circle')\ndef circle(): return 'o'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    shapes = __import__("shapes_of_a_test").SHAPES
    assert "shapes_of_a_test.round" not in sys.modules
    assert shapes["circle"]() == "o"


def test_what_a_failing_file_registered_is_forgotten_everywhere(colours):
    with pytest.raises(RuntimeError), Registry.unless_it_fails():
        colours.add("green", "#0f0")
        raise RuntimeError
    assert list(colours) == ["blue", "red"]
