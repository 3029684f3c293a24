"""Trained stages on disk, each found by what it was trained from, so that it is trained once for all who need it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from homefold.errors import ModelFileError
from homefold.evaluation.identity import digest
from homefold.evaluation.locking import locked
from homefold.files import plain_json, read_json, read_state, write_json, write_state
from homefold.module_state import load_exactly
from homefold.text import require_text_path
from homefold.version import __version__

__all__ = ["Stage", "StageId", "StageStore", "stage_id"]

_RECIPE = 1  # raise it whenever a change of the code makes stages trained before it obsolete
_STATE, _ABOUT, _CHECKPOINT = "state.safetensors", "stage.json", "checkpoint.safetensors"


@dataclass(frozen=True)
class StageId:
    """A stage before it is trained.

    Args:
        kind: `features`, `manifold`, `classifier`, or what a method calls a stage of its own.
        identity: everything that decides its result, as plain values.
        digest: stands for kind and identity.
    """

    kind: str
    identity: dict[str, Any]
    digest: str

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.kind}-{self.digest}"


def stage_id(kind: str, **identity: Any) -> StageId:
    """The stage of this kind with this identity: data key, source split, settings, seed, stages it stands on."""
    plain = plain_json({"recipe": _RECIPE, "homefold": __version__, **identity})
    return StageId(kind, plain, digest([kind, plain]))


@dataclass(frozen=True)
class Stage:
    """A trained stage.

    Args:
        id: what it is.
        folder: where it lies; other things that follow from it alone may be kept there.
        state: what its training returned: nested dicts and lists of tensors, numbers and text.
        seconds: that its training took, whenever that was.
        made_now: whether it was trained by this very call.
    """

    id: StageId
    folder: Path
    state: Any
    seconds: float
    made_now: bool

    def part(self, name: str) -> Any:
        """A part of its state by name; a `ModelFileError` where there is none."""
        if not isinstance(self.state, dict) or name not in self.state:
            raise ModelFileError(f"the trained stage in {self.folder} has no {name}; delete that folder.")
        return self.state[name]

    def load_into(self, module: nn.Module, name: str) -> None:
        """Load the tensors under `name` into a module; a `ModelFileError` where they are not its own."""
        load_exactly(module, self.part(name), f"the trained stage in {self.folder}, which can be deleted,")


class StageStore:
    """Stages under one folder, safe under several processes.

    Whoever needs a stage holds its lock while looking and training, so a second process waits and then reads. The lock
    ends with its process: after a kill the next one trains, from the checkpoint if there is one. Files appear whole.

    Args:
        root: the folder; made when the first stage is.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        require_text_path(self.root)

    def has(self, stage: StageId) -> bool:
        """Whether it has been trained."""
        folder = self.root / stage.name
        return (folder / _STATE).exists() and (folder / _ABOUT).exists()

    def get(self, stage: StageId, train: Callable[[Path], Any]) -> Stage:
        """The stage, trained by `train(checkpoint file)` if it was not before.

        Args:
            stage: what is wanted.
            train: returns the state to keep; it may keep checkpoints in the file it is given, and go on from there.
        """
        folder = self.root / stage.name
        with self._lock(folder):
            found = self._read(stage, folder)
            return found or self._train(stage, folder, train)

    def derived(self, folder: Path, name: str, make: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
        """What `make` returns, kept as a file in a stage's folder: features of some images, say.

        Args:
            folder: of the stage.
            name: of the file.
            make: gives the state to keep.
            fits: whether what was found is of the form that `make` gives; what is not is made again.
        """
        path = folder / f"{name}.safetensors"
        with self._lock(path):
            if path.exists():
                try:
                    found = read_state(path)
                    if fits(found):
                        return found
                except ModelFileError:
                    pass
                path.unlink()
            state = make()
            write_state(path, state)
            return state

    def _read(self, stage: StageId, folder: Path) -> Stage | None:
        if not self.has(stage):
            return None
        try:
            about = read_json(folder / _ABOUT)
            return Stage(stage, folder, read_state(folder / _STATE), float(about["seconds"]), made_now=False)
        except (ModelFileError, KeyError, TypeError, ValueError):
            # Whatever damaged it, it can be trained again.
            (folder / _STATE).unlink(missing_ok=True)
            return None

    def _train(self, stage: StageId, folder: Path, train: Callable[[Path], Any]) -> Stage:
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint = folder / _CHECKPOINT
        began = time.perf_counter()
        try:
            state = train(checkpoint)
        except ModelFileError:
            if not checkpoint.exists():
                raise
            checkpoint.unlink()
            state = train(checkpoint)
        seconds = time.perf_counter() - began
        write_json(folder / _ABOUT, {"kind": stage.kind, "seconds": seconds, "identity": stage.identity})
        write_state(folder / _STATE, state)
        checkpoint.unlink(missing_ok=True)
        return Stage(stage, folder, read_state(folder / _STATE), seconds, made_now=True)

    @contextmanager
    def _lock(self, path: Path) -> Iterator[None]:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with locked(descriptor):
                yield
        finally:
            os.close(descriptor)
