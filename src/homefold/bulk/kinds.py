"""The kinds of machines that a job was computed on, and how much their answers differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from homefold.bulk.table import probabilities_in
from homefold.store.files import read_json, write_atomically, write_json

__all__ = ["Kinds"]


class Kinds:
    """The facts of every kind of worker, kept beside the answers.

    Of the first kind the answers for a few images are kept too. Every other kind answers the same images once.

    Args:
        folder: where they are kept.
        tell: is told how much a new kind differs from the first.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._file, self._probe, self._tell = folder / "kinds.json", folder / "probe.parquet", tell
        self._kinds: list[dict[str, Any]] = read_json(self._file) if self._file.exists() else []

    def knows(self, facts: dict[str, Any]) -> bool:
        """Whether a worker of this kind was here before."""
        return any(kind["facts"] == facts for kind in self._kinds)

    def add(self, facts: dict[str, Any], content: bytes | None) -> None:
        """Keep a kind, with its answers for the few images; None where it could not answer them."""
        if self.knows(facts):  # another worker of this kind was tried at the same time
            return
        kind: dict[str, Any] = {"facts": facts}
        if content is not None and not self._probe.exists():
            with write_atomically(self._probe) as temporary:
                temporary.write_bytes(content)
        elif content is not None:
            kind |= _compared(self._probe.read_bytes(), content)
        self._kinds.append(kind)
        write_json(self._file, self._kinds)
        if len(self._kinds) > 1:
            self._tell(
                f"Some workers are of another kind than the first ({_what_differs(self._kinds[0]['facts'], facts)})."
                + _how_much(kind)
            )


def _compared(first: bytes, other: bytes) -> dict[str, Any]:
    expected, labels = probabilities_in(first)
    found, other_labels = probabilities_in(other)
    if expected.shape != found.shape:
        return {}
    return {
        "images_compared": len(expected),
        "largest_difference": float(np.abs(found - expected).max(initial=0.0)),
        "other_labels": sum(a != b for a, b in zip(labels, other_labels, strict=True)),
    }


def _what_differs(first: dict[str, Any], other: dict[str, Any]) -> str:
    return ", ".join(f"{name} {other[name]} and {first.get(name)}" for name in other if other[name] != first.get(name))


def _how_much(kind: dict[str, Any]) -> str:
    if "images_compared" not in kind:
        return ""
    return (
        f" On {kind['images_compared']} images their probabilities differ by at most "
        f"{kind['largest_difference']:.1e}, and {kind['other_labels']} labels do."
    )
