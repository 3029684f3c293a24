"""What CONTRIBUTING.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_files_and_folders_that_it_names_exist():
    words = set(re.findall(r"`([\w./-]+)`", TEXT))
    rooms = ("src/", "tests/", "examples/", "benchmarks/", "study/", "docs/", "scripts/")
    assert [word for word in words if word.startswith(rooms) and not (ROOT / word).exists()] == []


def test_it_maps_every_room_of_the_package():
    there = {path.name for path in (ROOT / "src" / "homefold").iterdir() if path.is_dir() and path.name[0] != "_"}
    mapped = set(re.findall(r"`([\w]+)/`", TEXT))
    assert there <= mapped


def test_targets_that_it_names_are_targets():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {word for line in re.findall(r"`make ([a-z -]+)", TEXT) for word in line.split()}
    assert named <= targets
