"""The folder beside a model in which a fit that is not finished keeps its stages."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path

from homefold.errors import ConfigError, HomefoldError, ModelFileError
from homefold.store.files import read_json, write_json
from homefold.store.locking import locked
from homefold.store.model_folder import model_checksum
from homefold.store.stage_store import StageStore

__all__ = ["UnfinishedFit", "tidy_after_fit"]

_LEADS_TO = "leads-to.json"


class UnfinishedFit:
    """`MODEL.unfinished` while the fit runs: kept when it stops with a checkpoint, gone when it has none or is done.

    Args:
        out: where the finished model will stand.
    """

    def __init__(self, out: Path) -> None:
        named = out if out.name not in ("", "..") else out.resolve()
        self.folder = named.with_name(f"{named.name}.unfinished")
        self._out = out
        self._stages, self._held = StageStore(self.folder), ExitStack()

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on with."""
        return not self._stages.is_empty

    @property
    def is_done(self) -> bool:
        """Whether the model that its stages led to stands."""
        try:
            leads_to = read_json(self.folder / _LEADS_TO)
        except (ModelFileError, OSError):
            return False
        return isinstance(leads_to, dict) and leads_to.get("checksum") == model_checksum(self._out) is not None

    def leads_to(self, checksum: str) -> None:
        """Note which model is about to take its place: whoever finds it there and this too knows that all is done."""
        write_json(self.folder / _LEADS_TO, {"checksum": checksum})

    def advice(self) -> str:
        """What to do when the fit stopped now."""
        if self.is_done:
            return f"The model is complete: {self._out}."
        if self.has_checkpoint:
            return "Start the same command again to go on."
        return "No checkpoint was written yet: the same command starts from the beginning."

    def __enter__(self) -> UnfinishedFit:
        with ExitStack() as stack:
            self._hold(stack)
            self._require_ours()
            # It speaks of a fit that ended; this one may lead elsewhere.
            (self.folder / _LEADS_TO).unlink(missing_ok=True)
            self._held = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.is_done or not self.has_checkpoint:
            self.remove()
        self._held.close()

    def remove(self) -> None:
        """Delete what the fit kept, and the folder if nothing else is in it."""
        with suppress(OSError):
            self._stages.clear()
            # Last, so that the next command can end what a kill stopped here.
            (self.folder / _LEADS_TO).unlink(missing_ok=True)
            self.folder.rmdir()

    def tidy(self) -> None:
        """Delete the folder where its model stands or nothing in it is of use, unless a fit is at work there."""
        with ExitStack() as stack:
            if self._may_be_deleted() and self._locked(stack) and self._may_be_deleted():
                self.remove()

    def _may_be_deleted(self) -> bool:
        return self.folder.is_dir() and self._is_ours() and (self.is_done or not self.has_checkpoint)

    def _make(self) -> None:
        try:
            self.folder.mkdir(parents=True)
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigError(
                f"nothing can be written to {self.folder.parent} ({error.strerror}); choose another --out."
            ) from None

    def _hold(self, stack: ExitStack) -> None:
        """Make the folder and refuse to work beside another fit: the first to end would delete the other's stages."""
        while True:
            self._make()
            if self._locked(stack):
                return
            if os.path.lexists(self.folder):
                raise ConfigError(
                    f"another fit is at work in {self.folder}: wait until it has ended, or choose another --out."
                )

    def _locked(self, stack: ExitStack) -> bool:
        """Whether it is there and ours alone; where folders cannot be opened, the latter is taken for granted."""
        if os.name == "nt" or not self.folder.is_dir():
            return os.path.lexists(self.folder)  # what is no folder is refused next
        try:
            descriptor = os.open(self.folder, os.O_RDONLY)
        except FileNotFoundError:
            return False
        stack.callback(os.close, descriptor)
        if not stack.enter_context(locked(descriptor, wait=False)):
            return False
        # Whoever held it before may have deleted it.
        return self.folder.exists() and os.path.samestat(os.fstat(descriptor), self.folder.stat())

    def _is_ours(self) -> bool:
        """Whether a fit made everything in it."""
        return all(map(self._is_kept_by_a_fit, self.folder.iterdir()))

    def _is_kept_by_a_fit(self, item: Path) -> bool:
        return item.name == _LEADS_TO or self._stages.holds(item)

    def _require_ours(self) -> None:
        """Refuse to write into a folder that no fit made."""
        if not self.folder.is_dir() or not (self.has_checkpoint or self._is_ours()):
            raise ConfigError(
                f"{self.folder} is in the way: checkpoints would go there, and it was not made by a fit. Rename it, or "
                f"choose another --out."
            )


def tidy_after_fit(model: Path) -> None:
    """Delete what a fit left beside its model that was killed when the model stood already."""
    with suppress(HomefoldError, OSError):
        UnfinishedFit(model).tidy()
