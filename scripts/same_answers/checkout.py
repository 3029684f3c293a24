"""A checkout, and the processes that run its code."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from same_answers.spelling import setting_words

__all__ = ["Checkout", "CheckoutError"]

_SCRIPTS = Path(__file__).resolve().parent.parent


class CheckoutError(Exception):
    """A checkout cannot be used, or one of its commands failed."""


class Checkout:
    """A tree of homefold's source. Each command is a process of its own, on the CPU, with one thread.

    Args:
        path: the root of the tree.
        data: the folder that commands run in.
    """

    def __init__(self, path: Path, data: Path) -> None:
        self.path, self.data = path.resolve(), data
        self.package = self.path / "src" / "homefold"
        self._help: dict[str, str] = {}
        if not (self.package / "__init__.py").exists():
            raise CheckoutError(f"{self.path} is no checkout of homefold: it has no src/homefold.")

    def digest(self) -> str:
        """Stands for every byte of the source as it is now."""
        digest = hashlib.sha256()
        for path in sorted(self.package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(self.package)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()[:16]

    @property
    def title(self) -> str:
        """Where it lies, and its commit if it has one."""
        commit = self._git("rev-parse", "--short", "HEAD")
        changed = " with changes" if self._git("status", "--porcelain", "--", "src") else ""
        return f"{self.path} at {commit}{changed}" if commit else str(self.path)

    def _git(self, *words: str) -> str:
        done = subprocess.run(["git", "-C", str(self.path), *words], capture_output=True, text=True)
        return "" if done.returncode else done.stdout.strip()

    @cached_property
    def known_settings(self) -> frozenset[str]:
        """The dotted name of every setting."""
        found = json.loads(self.probe("settings"))
        if Path(found["package"]).resolve() != self.package / "__init__.py":
            raise CheckoutError(f"homefold was imported from {found['package']}, not from {self.package}.")
        return frozenset(found["settings"])

    def probe(self, name: str, *words: str | Path, module: str = "same_answers.probes") -> str:
        """What a probe prints, run with this checkout."""
        return self._python("-m", module, name, *map(str, words))

    def homefold(self, command: str, *words: str | Path, cache: Path, settings: Mapping[str, Any] | None = None) -> str:
        """Standard output of the command `homefold`.

        Args:
            command: what it shall do.
            words: the rest of the command line.
            cache: the folder for decoded images.
            settings: to change, by dotted name.
        """
        return self._python("-m", "homefold", *self.command_line(command, *words, settings=settings), cache=cache)

    def command_line(self, command: str, *words: str | Path, settings: Mapping[str, Any] | None = None) -> list[str]:
        """What follows `homefold`, with settings as this checkout spells them."""
        changed: list[str] = []
        if settings:
            if command not in self._help:
                self._help[command] = self.help(command)
            changed = setting_words(settings, self.known_settings, self._help[command])
        return [command, *map(str, words), *changed, "--device", "cpu"]

    def help(self, command: str) -> str:
        """What a command says of itself."""
        return self._python("-m", "homefold", command, "--help")

    def _python(self, *words: str, cache: Path | None = None) -> str:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.path / "src"), str(_SCRIPTS)]),
            "PYTHONSAFEPATH": "1",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "HOMEFOLD_DECODERS": "threads",
            "HOMEFOLD_CACHE": str(cache or self.data / ".cache"),
        }
        done = subprocess.run(
            [sys.executable, *words], cwd=self.data, env=environment, capture_output=True, text=True, errors="replace"
        )
        if done.returncode:
            raise CheckoutError(f"{' '.join(words[1:4])} … ended with {done.returncode}: {_complaint(done.stderr)}")
        return done.stdout


def _complaint(told: str) -> str:
    """What a process's standard error says went wrong: its error, the end of its traceback, or all of it."""
    lines = [bare for line in told.splitlines() if (bare := line.strip(" │╭╮╰╯─"))]
    errors = [line for line in lines if line.startswith(("error", "failed"))]
    if not errors and any(line.startswith("Traceback") for line in lines):
        errors = lines[-1:]
    return (errors[0] if errors else "; ".join(lines) or "it said nothing")[:400]
