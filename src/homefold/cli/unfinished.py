"""The folder beside a model in which a fit that is not finished keeps its stages."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path

from homefold.errors import ConfigError
from homefold.store.locking import locked
from homefold.store.stage_store import StageStore

__all__ = ["UnfinishedFit"]


class UnfinishedFit:
    """`MODEL.unfinished` while the fit runs: kept when it stops with a checkpoint, gone when it has none or is done.

    Args:
        out: where the finished model will stand.
    """

    def __init__(self, out: Path) -> None:
        named = out if out.name not in ("", "..") else out.resolve()
        self.folder = named.with_name(f"{named.name}.unfinished")
        self._stages, self._held = StageStore(self.folder), ExitStack()

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on with."""
        return not self._stages.is_empty

    def advice(self) -> str:
        """What to do when the fit stopped now."""
        if self.has_checkpoint:
            return "Start the same command again to go on."
        return "No checkpoint was written yet: the same command starts from the beginning."

    def __enter__(self) -> UnfinishedFit:
        self._make()
        with ExitStack() as stack:
            self._hold_alone(stack)
            self._require_ours()
            self._held = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.has_checkpoint:
            self.remove()
        self._held.close()

    def remove(self) -> None:
        """Delete what the fit kept, and the folder if nothing else is in it."""
        with suppress(OSError):
            self._stages.clear()
            self.folder.rmdir()

    def _make(self) -> None:
        try:
            self.folder.mkdir(parents=True)
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigError(
                f"nothing can be written to {self.folder.parent} ({error.strerror}); choose another --out."
            ) from None

    def _hold_alone(self, stack: ExitStack) -> None:
        """Refuse to work beside another fit: the first to end would delete the other's stages."""
        if os.name == "nt" or not self.folder.is_dir():
            return  # a folder cannot be opened there; what is none is refused next
        descriptor = os.open(self.folder, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        if not stack.enter_context(locked(descriptor, wait=False)):
            raise ConfigError(
                f"another fit is at work in {self.folder}: wait until it has ended, or choose another --out."
            )

    def _require_ours(self) -> None:
        """Refuse to write into a folder that no fit made."""
        if not self.folder.is_dir() or not (self.has_checkpoint or all(map(self._stages.holds, self.folder.iterdir()))):
            raise ConfigError(
                f"{self.folder} is in the way: checkpoints would go there, and it was not made by a fit. Rename it, or "
                f"choose another --out."
            )
