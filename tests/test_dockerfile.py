"""The image for `homefold serve`: what its build copies is there, its command is understood, its health check tells."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from homefold.cli.parsing import parse
from homefold.cli.serve import ServeOptions

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage, with their words."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ").splitlines()
    found: list[list[tuple[str, str]]] = [[]]
    for line in filter(str.strip, lines):
        name, _, words = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append((name, words.strip()))
    return found


BEFORE, WHEEL, PACKAGES, FINAL = stages()


def words_of(stage: list[tuple[str, str]], name: str) -> list[str]:
    return [words for instruction, words in stage if instruction == name]


def test_the_wheel_is_built_from_all_that_it_needs_and_nothing_else_reaches_the_build() -> None:
    copied = [place for words in words_of(WHEEL, "COPY") for place in shlex.split(words)[:-1]]
    assert {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "src"} == set(copied)
    assert all((ROOT / place).exists() for place in copied)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == set(copied)
    hidden = [rule for rule in rules[1:] if not rule.startswith("!")]
    assert not [path for path in (ROOT / "src").rglob("*.*") if path.suffix != ".pyc" and any(map(path.match, hidden))]


def test_the_wheel_alone_is_installed_with_extras_that_there_are() -> None:
    (install,) = [words for words in words_of(PACKAGES, "RUN") if "pip install" in words]
    (extras,) = re.findall(r'"\$1\[([\w,]+)\]"', install)
    assert {"serve"} <= set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert "--from=wheel /wheels /wheels" in words_of(PACKAGES, "COPY")
    assert not any("/wheels" in words or "src" in words for words in words_of(FINAL, "COPY"))


def test_every_stage_has_the_same_python_which_the_package_allows() -> None:
    (default,) = [words.partition("=")[2] for words in words_of(BEFORE, "ARG")]
    assert [words_of(stage, "FROM")[0].split()[0] for stage in (WHEEL, PACKAGES, FINAL)] == [
        "python:${PYTHON}-slim"
    ] * 3
    least = PROJECT["requires-python"].removeprefix(">=")
    assert tuple(map(int, default.split("."))) >= tuple(map(int, least.split(".")))


def test_an_ordinary_user_runs_it_and_nothing_is_installed_after_that() -> None:
    names = [name for name, _ in FINAL]
    (user,) = words_of(FINAL, "USER")
    assert int(user) >= 1000
    assert "RUN" not in names[names.index("USER") :]
    assert any(f"--uid {user}" in words for words in words_of(FINAL, "RUN"))


def test_its_command_is_one_that_serve_takes() -> None:
    (entry,), (command,) = words_of(FINAL, "ENTRYPOINT"), words_of(FINAL, "CMD")
    program, name, *arguments = [*json.loads(entry), *json.loads(command)]
    assert (program, name) == ("homefold", "serve")
    options = parse(ServeOptions, "serve", arguments)
    assert (options.model, options.host, options.allow_host) == (Path("/model"), "0.0.0.0", ("localhost",))
    assert words_of(FINAL, "EXPOSE") == [str(options.port)]


@contextmanager
def answering(status: int) -> Iterator[int]:
    """The port of a server that gives every request this status."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request, daemon=True)
    thread.start()
    yield server.server_port
    thread.join(timeout=10)
    server.server_close()
    assert asked == ["/healthz"]


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 500])
def test_the_health_check_tells_a_live_server_from_a_failing_one(status: int) -> None:
    (check,) = words_of(FINAL, "HEALTHCHECK")
    python, *words = json.loads(check[check.index("[") :])
    assert python == "python"
    with answering(status) as port:
        given = [word.replace("8765", str(port)) for word in words]
        ended = subprocess.run([sys.executable, *given], capture_output=True, check=False)
    assert (ended.returncode == 0) == (status == 200)
