"""Settings given to a command by name: in a file (`--config`) and as words (`--set`)."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homefold.config import HomefoldConfig, change_settings, parse_setting
from homefold.config.migration import current_names
from homefold.errors import ConfigError

__all__ = ["GivenSettings", "given_settings"]

_DECISIVE = ("features.backbone", "features.freeze")


@dataclass(frozen=True)
class GivenSettings:
    """What the file and the words say; words win.

    Args:
        sources: by where it was said, plain values by dotted name.
    """

    sources: dict[str, dict[str, Any]]

    @property
    def decisive(self) -> dict[str, str]:
        """The settings that decide the defaults of others."""
        every = {name: value for values in self.sources.values() for name, value in values.items()}
        return {name: every[name] for name in _DECISIVE if isinstance(every.get(name), str)}

    def change(self, config: HomefoldConfig) -> HomefoldConfig:
        """`config` with all of them; ends the process where one does not fit, with a sentence that says where it is."""
        for source, values in self.sources.items():
            with _usage(source):
                config = change_settings(config, values)
        return config


def given_settings(file: str, words: Sequence[str]) -> GivenSettings:
    """Read them; ends the process where they cannot be read.

    Args:
        file: of TOML, whose tables are the parts of the settings; empty where there is none.
        words: such as `features.epochs=5`.
    """
    sources = {}
    if file:
        with _usage(file):
            sources[file] = current_names(dict(_flat(_read(Path(file).expanduser()))))
    if words:
        with _usage("--set"):
            sources["--set"] = dict(map(parse_setting, words))
    return GivenSettings(sources)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is no TOML ({error}).") from None


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


@contextmanager
def _usage(source: str) -> Iterator[None]:
    """An error becomes a sentence that begins with where it was made, and the end of the process."""
    try:
        yield
    except ConfigError as error:
        print(f"error: {' '.join(f'{source}: {error}'.splitlines())}", file=sys.stderr)
        raise SystemExit(2) from None
