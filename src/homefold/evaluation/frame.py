"""Records as a data frame, for those who ask them other questions than the report does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homefold.errors import DataError, HomefoldError
from homefold.evaluation.record_lines import ENDINGS, read_record_lines

if TYPE_CHECKING:
    import pandas

__all__ = ["load_records"]


def load_records(path: Path | str) -> pandas.DataFrame:
    """One row a run: what identifies it, its accuracy, its times, and every setting under its dotted name.

    Settings are columns like `features.epochs`; times are `seconds.training` and `seconds.inference_per_image`; what
    else was measured is `facts.…`, the versions of packages `versions.…`. Lists are tuples, so that rows can be grouped
    by them. Of a run recorded twice the later row counts; a success is never replaced by a failure.

    Args:
        path: a file of records (`.jsonl`, `.jsonl.gz`, `.jsonl.xz`), or a folder that `homefold bench` wrote.
    """
    try:
        import pandas
    except ImportError:
        raise HomefoldError("load_records needs pandas; install it with: pip install 'homefold[pandas]'.") from None
    records = _records_of(Path(path))
    rows: dict[Any, dict[str, Any]] = {}
    for number, row in read_record_lines(records):
        key = row.get("run") or number
        if key not in rows or row.get("accuracy") is not None or rows[key].get("accuracy") is None:
            rows[key] = dict(_columns(row))
    return pandas.DataFrame(list(rows.values()))


def _records_of(path: Path) -> Path:
    if not path.is_dir():
        if not path.exists():
            raise DataError(f"there is no file or folder {path}.")
        return path
    found = [path / f"records{ending}" for ending in ENDINGS if (path / f"records{ending}").exists()]
    if not found:
        raise DataError(f"{path} holds no records.jsonl; expected a folder that homefold bench wrote.")
    return found[0]


def _columns(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of the cells; settings stand without a prefix, since their names say whose they are."""
    for name, value in row.items():
        if name == "config":
            yield from _settings(value or {})
        elif isinstance(value, dict):
            yield from ((f"{name}.{inner}", _hashable(item)) for inner, item in value.items())
        else:
            yield name, _hashable(value)


def _settings(values: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _settings(value, f"{within}{name}.")
        elif within or name != "seed":  # a column of every record
            yield within + name, _hashable(value)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
