"""Which domains a folder or a named dataset has, known before an image is decoded."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from homefold.data.registry import domain_names, list_datasets
from homefold.errors import DataError

__all__ = ["domain_names", "is_dataset_name", "require_domains"]


def is_dataset_name(data: str) -> bool:
    """Whether `data` is a dataset's name, which wins over a folder called the same."""
    return data in {entry.name for entry in list_datasets()}


def require_domains(wanted: Sequence[str], known: Sequence[str], data: str) -> None:
    """Stop with a sentence at a name that is no domain of `data`."""
    for name in wanted:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise DataError(f"there is no domain {name!r} in {data}; it has {', '.join(known)}.{hint}")
