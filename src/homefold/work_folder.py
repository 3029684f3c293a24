"""The folder in which a fit that is not finished keeps its checkpoints, and the note there of what they belong to."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from homefold.errors import ConfigError, ModelFileError
from homefold.files import is_temporary, read_json, write_json
from homefold.text import require_text_path

__all__ = ["WorkFolder"]

_IDENTITY = ("seed", "preprocessing", "features")
_CHECKPOINTS = ("features.safetensors", "features-without-*.safetensors")


class WorkFolder:
    """Checkpoints of stage 1 and `fit.json`, the identity of their fit, which is written before the first of them.

    A fit that was killed in between leaves a folder without a readable `fit.json` and without checkpoints: nothing is
    lost by starting anew there.

    Args:
        folder: where it lies; it need not exist.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        require_text_path(self.folder)
        self.record = self.folder / "fit.json"
        self.checkpoint = self.folder / "features.safetensors"

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on with."""
        return any(self._checkpoints())

    @property
    def is_ours(self) -> bool:
        """Whether a fit made it: it is empty, holds what a killed fit leaves, or says which fit it belongs to."""
        if not self.folder.is_dir():
            return False
        if self.record.is_file():
            found = self._read()
            return found is None or _is_identity(found)
        return all(is_temporary(item) for item in self.folder.iterdir())

    def identity(self) -> dict[str, Any] | None:
        """What decides the checkpoints here; None where there are none, and no readable note of any.

        Checkpoints without it are refused: nobody can say whether they belong to the fit at hand.
        """
        found = self._read()
        if _is_identity(found):
            return dict(found)
        if found is not None:
            raise ConfigError(f"{self.record} was not written by a fit; keep the checkpoints in another folder.")
        if self.has_checkpoint:
            state = "damaged" if self.record.exists() else "missing"
            raise ConfigError(
                f"{self.folder} holds checkpoints of an unfinished fit, and {self.record.name} there, which says of "
                f"which one, is {state}; delete {self.folder} to start anew."
            )
        return None

    def begin(self, identity: dict[str, Any]) -> None:
        """Note what the checkpoints to come belong to."""
        write_json(self.record, identity)

    def clear(self) -> None:
        """Delete what a fit wrote here, and nothing else."""
        if not self.is_ours:
            return
        temporaries = [item for item in self.folder.iterdir() if is_temporary(item)]
        for file in (*temporaries, *self._checkpoints(), self.record):
            file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete what a fit wrote here, and the folder if nothing else is in it."""
        with suppress(OSError):
            self.clear()
            self.folder.rmdir()

    def _checkpoints(self) -> list[Path]:
        return [file for pattern in _CHECKPOINTS for file in self.folder.glob(pattern)]

    def _read(self) -> Any:
        """What stands in the record; None where nothing readable does."""
        if not self.record.is_file():
            return None
        try:
            return read_json(self.record)
        except ModelFileError:
            return None


def _is_identity(found: Any) -> bool:
    return isinstance(found, dict) and all(name in found for name in _IDENTITY)
