"""The folder beside a model in which a fit that is not finished keeps its checkpoints."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from homefold.config import HomefoldConfig, config_to_dict
from homefold.errors import ConfigError, ModelFileError
from homefold.store.files import plain_json, read_json, write_json
from homefold.store.locking import locked
from homefold.store.stage_store import StageStore

__all__ = ["UnfinishedFit"]

_RECORD = "fit.json"
_DECISIVE = ("seed", "preprocessing", "features")
"""Later stages are trained anew in seconds, so their settings may change between two attempts."""
_NAMED_AT_MOST = 5


class UnfinishedFit:
    """`MODEL.unfinished` while the fit runs: kept when it stops with a checkpoint, gone when it has none or is done.

    Args:
        out: where the finished model will stand.
        config: the settings of this fit; a folder left by other settings is refused before any work.
    """

    def __init__(self, out: Path, config: HomefoldConfig) -> None:
        named = out if out.name not in ("", "..") else out.resolve()
        self.folder = named.with_name(f"{named.name}.unfinished")
        self._stages, self._record = StageStore(self.folder), self.folder / _RECORD
        self._config, self._held = config, ExitStack()

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
            self._require_same_settings()
            self._held = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.has_checkpoint:
            self.remove()
        self._held.close()

    def remove(self) -> None:
        """Delete what the fit kept, and the folder if nothing else is in it."""
        with suppress(OSError):
            self._clear()
            self.folder.rmdir()

    def _clear(self) -> None:
        # The record last: without it nobody could say whose the rest is.
        self._stages.clear()
        self._record.unlink(missing_ok=True)

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
        """Refuse to work beside another fit: each would take the other's checkpoints for its own."""
        if os.name == "nt" or not self.folder.is_dir():
            return  # a folder cannot be opened there; what is none is refused next
        descriptor = os.open(self.folder, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        if not stack.enter_context(locked(descriptor, wait=False)):
            raise ConfigError(
                f"another fit is at work in {self.folder}: wait until it has ended, or choose another --out."
            )

    def _require_ours(self) -> None:
        """Never delete, nor write into, what was not made by a fit."""
        ours = self.folder.is_dir() and all(
            item == self._record or self._stages.holds(item) for item in self.folder.iterdir()
        )
        if not ours:
            raise ConfigError(
                f"{self.folder} is in the way: checkpoints would go there, and it was not made by a fit. Rename it, or "
                f"choose another --out."
            )

    def _require_same_settings(self) -> None:
        """Refuse to go on with what other settings began; note these where there is nothing to go on with."""
        now = plain_json({name: config_to_dict(self._config)[name] for name in _DECISIVE})
        if not self.has_checkpoint:
            self._clear()
            write_json(self._record, now)
            return
        found = self._recorded()
        changed = [text for name in now for text in _differences(found.get(name), now[name], name)]
        if changed:
            rest = f"; {len(changed) - _NAMED_AT_MOST} more" if len(changed) > _NAMED_AT_MOST else ""
            listed = "; ".join(changed[:_NAMED_AT_MOST]) + rest
            raise ConfigError(
                f"{self.folder} holds an unfinished fit with other settings ({listed}). "
                f"Give the same settings to go on with it, or delete that folder to start anew."
            )

    def _recorded(self) -> dict[str, Any]:
        """The settings of the stages that are there."""
        try:
            found = read_json(self._record)
        except ModelFileError:
            found = None
        if not isinstance(found, dict):
            state = "damaged" if self._record.exists() else "missing"
            raise ConfigError(
                f"{self.folder} holds checkpoints of an unfinished fit, and {_RECORD} there, which says of which one, "
                f"is {state}; delete {self.folder} to start anew."
            )
        return found


def _differences(old: Any, new: Any, name: str) -> list[str]:
    """Dotted names of what differs, with the value there and the value now."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*new, *old])
        return [text for key in keys for text in _differences(old.get(key), new.get(key), f"{name}.{key}")]
    return [] if old == new else [f"{name} was {old}, is {new}"]
