"""Settings that name one of several choices, checked where they are made."""

from __future__ import annotations

import difflib
import typing
from typing import Any, Literal

from homefold.errors import ConfigError

__all__ = ["require_choices"]


def require_choices(config: Any) -> None:
    """Refuse a dataclass whose `Literal` fields hold anything but their choices, with the nearest one named."""
    for name, hint in typing.get_type_hints(type(config)).items():
        if typing.get_origin(hint) is not Literal:
            continue
        value, choices = getattr(config, name), typing.get_args(hint)
        if value not in choices:
            close = difflib.get_close_matches(str(value), choices, n=1)
            hint_text = f" Did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {value!r}.{hint_text}")
