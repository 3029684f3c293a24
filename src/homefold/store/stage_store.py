"""Trained stages on disk, each found by what it was trained from, so that it is trained once for all who need it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from homefold.errors import ModelFileError
from homefold.runtime.module_state import load_exactly
from homefold.runtime.text import require_text_path
from homefold.store.files import digest, is_temporary, plain_json, read_json, read_state, write_json, write_state
from homefold.store.locking import locked_beside
from homefold.version import __version__

__all__ = ["MemoryStages", "Stage", "StageId", "StageStore", "TrainStage", "stage_id"]

TrainStage = Callable[[Path | None], Any]
"""Trains a stage and returns its state; it may keep checkpoints in the file it is given, and go on from there."""

_RECIPE = 2  # raise it whenever a change of the code makes stages trained before it obsolete
_STAGE = re.compile(r"[a-z]+-[0-9a-f]{24}")
_STATE, _ABOUT, _CHECKPOINT = "state.safetensors", "stage.json", "checkpoint.safetensors"


@dataclass(frozen=True)
class StageId:
    """A stage before it is trained."""

    kind: str
    """`features`, `manifold`, `classifier`, or what a method calls a stage of its own."""
    identity: dict[str, Any]
    """Everything that decides its result, as plain values."""
    digest: str
    """Stands for kind and identity."""

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
    """A trained stage."""

    id: StageId
    folder: Path
    """Where it lies; other things that follow from it alone may be kept there."""
    state: Any
    """What its training returned: nested dicts and lists of tensors, numbers and text."""
    seconds: float
    """That its training took, whenever that was."""
    made_now: bool
    """Whether it was trained by this very call."""

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

    Machines that share the folder may not see each other's locks. Then two may train a stage at once, each to its end,
    and the files of one of them stand: what a stage is trained to does not depend on who trains it.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        require_text_path(self.root)

    def has(self, stage: StageId) -> bool:
        """Whether it has been trained."""
        folder = self.root / stage.name
        return (folder / _STATE).exists() and (folder / _ABOUT).exists()

    def has_begun(self, stage: StageId) -> bool:
        """Whether it has been trained, or part of the way."""
        return self.has(stage) or (self.root / stage.name / _CHECKPOINT).exists()

    @property
    def is_empty(self) -> bool:
        """Whether no stage has been trained, not even part of the way."""
        kept = (file for name in (_STATE, _CHECKPOINT) for file in self.root.glob(f"*/{name}"))
        return next(kept, None) is None

    def holds(self, item: Path) -> bool:
        """Whether something in the root is a stage of ours, its lock or a file that a kill left half-written."""
        name = item.name.removeprefix(".").removesuffix(".lock")
        return is_temporary(item) or _STAGE.fullmatch(name) is not None

    def clear(self) -> None:
        """Delete all stages, and nothing else."""
        for item in [item for item in self.root.iterdir() if self.holds(item)]:
            if item.is_dir():
                shutil.rmtree(item)
            else:
                item.unlink(missing_ok=True)

    def get(self, stage: StageId, train: TrainStage) -> Stage:
        """The stage, trained if it was not before."""
        folder = self.root / stage.name
        with locked_beside(folder):
            found = self._read(stage, folder)
            if found is None:
                return self._train(stage, folder, train)
            # Whoever was killed as soon as the stage stood left it.
            with suppress(OSError):
                (folder / _CHECKPOINT).unlink()
            return found

    def derived(self, folder: Path, name: str, make: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
        """What `make` returns, kept as a file in a stage's folder: features of some images, say.

        What is found there and does not fit is made again.
        """
        path = folder / f"{name}.safetensors"
        with locked_beside(path):
            if path.exists():
                try:
                    found = read_state(path)
                    if fits(found):
                        return found
                except ModelFileError:
                    pass
                path.unlink(missing_ok=True)
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

    def _train(self, stage: StageId, folder: Path, train: TrainStage) -> Stage:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (_STATE, _ABOUT, _CHECKPOINT):
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
        checkpoint = folder / _CHECKPOINT
        resumes, began = checkpoint.exists(), time.perf_counter()
        try:
            state = train(checkpoint)
        except ModelFileError:
            if not (resumes or checkpoint.exists()):
                raise
            checkpoint.unlink(missing_ok=True)
            state = train(checkpoint)
        seconds = time.perf_counter() - began
        write_json(folder / _ABOUT, {"kind": stage.kind, "seconds": seconds, "identity": stage.identity})
        write_state(folder / _STATE, state)
        checkpoint.unlink(missing_ok=True)
        return Stage(stage, folder, read_state(folder / _STATE), seconds, made_now=True)


class MemoryStages(StageStore):
    """Stages that nobody asked to keep: each is trained once by whoever holds this, and written nowhere.

    Where another process trains together with this one, `beside` are its stages: what is finished there is read, and a
    checkpoint there is gone on from.
    """

    def __init__(self, beside: Path | str | None = None) -> None:
        super().__init__(beside or "")
        self._kept = beside is not None
        self._stages: dict[str, Stage] = {}
        self._derived: dict[tuple[Path, str], Any] = {}

    def has(self, stage: StageId) -> bool:
        return stage.name in self._stages or (self._kept and super().has(stage))

    def has_begun(self, stage: StageId) -> bool:
        return super().has_begun(stage) if self._kept else self.has(stage)

    @property
    def is_empty(self) -> bool:
        return not self._stages and not (self._kept and not super().is_empty)

    def get(self, stage: StageId, train: TrainStage) -> Stage:
        if stage.name not in self._stages:
            folder = self.root / stage.name
            found = self._read(stage, folder) if self._kept else None
            if found is None:
                began = time.perf_counter()
                state = train(folder / _CHECKPOINT if self._kept else None)
                found = Stage(stage, folder, state, time.perf_counter() - began, made_now=True)
            self._stages[stage.name] = found
        return self._stages[stage.name]

    def derived(self, folder: Path, name: str, make: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
        if (folder, name) not in self._derived:
            self._derived[folder, name] = make()
        return self._derived[folder, name]
