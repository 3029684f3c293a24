"""Results as records: one JSON line a finished run, appended whole or not at all; tables are made from them."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from homefold.errors import DataError, HomefoldError
from homefold.evaluation.record_lines import ENDINGS, is_number, misfit, not_a_record, read_record_lines
from homefold.store.files import naming
from homefold.store.locking import claimed, locked

if TYPE_CHECKING:
    import pandas

__all__ = ["Ledger", "RunRecord", "append_record", "load_records", "read_records", "require_recordable"]


@dataclass(frozen=True)
class RunRecord:
    """One accuracy and all that is needed to trust and repeat it.

    Args:
        target: the domain that was not trained on.
        method: what was run.
        accuracy: share of target images answered rightly, 0 to 1; None when the run failed.
        images: how many target images there were.
        selection: on what the model was selected.
        config: the whole configuration.
        versions: of the packages that decide the result.
        facts: anything else that was measured.
        run: identifies the run; its artifact carries this name. Empty outside a benchmark.
        status: `finished` or `failed`.
        error: why it failed, as a sentence.
        preset: the settings it started from.
        seconds: `training` (all stages it stands on, whoever trained them) and `inference_per_image`.
        commit: of the code, where it ran in a git checkout.
        command: the command line that asked for it, as it was typed; empty when it came from Python.
        changes: settings that were changed from the preset, as they were typed.
        recipe: `authors` for a method that ran as its own authors run it, or `ours`; empty in older records.
    """

    dataset: str
    target: str
    method: str
    accuracy: float | None
    images: int
    seed: int
    protocol: str
    selection: str
    config: dict[str, Any]
    hardware: str
    versions: dict[str, str]
    facts: dict[str, Any] = field(default_factory=dict)
    run: str = ""
    status: Literal["finished", "failed"] = "finished"
    error: str = ""
    suite: str = ""
    preset: str = ""
    backbone: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    commit: str = ""
    command: str = ""
    changes: str = ""
    recipe: str = ""


def require_recordable(record: RunRecord) -> None:
    """Refuse what could not be read back: a method of one's own may measure anything."""
    row = asdict(record)
    try:
        wrong = misfit(json.loads(json.dumps(row, allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        wrong = str(error)
    if wrong:
        raise DataError(f"what the run measured cannot be recorded ({wrong}); record finite numbers and text.")


def append_record(path: Path | str, record: RunRecord) -> None:
    """Append one line, so that processes sharing the file do not tear each other's lines.

    The rest of a line that a crash cut short is removed first: the new line must not be glued to it.
    """
    line = (json.dumps(asdict(record), ensure_ascii=False, allow_nan=False) + "\n").encode()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        with locked(descriptor), naming(path):
            end = _end_of_whole_lines(descriptor)
            os.ftruncate(descriptor, end)
            written = os.write(descriptor, line)
            if written < len(line):
                os.ftruncate(descriptor, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _end_of_whole_lines(descriptor: int) -> int:
    """Where the last newline of a file ends."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 4096)
        os.lseek(descriptor, start, os.SEEK_SET)
        found = os.read(descriptor, end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def read_records(path: Path | str) -> list[RunRecord]:
    """Every whole record of a file; a last line that a crash cut short is left out, any other bad line is an error."""
    return [_record(row, path, number) for number, row in read_record_lines(Path(path))]


def _record(row: dict[str, Any], path: Path | str, number: int) -> RunRecord:
    empty = [name for name, value in row.items() if value is None and name != "accuracy"]
    if empty:
        raise not_a_record(path, number, f"{', '.join(empty)} is null")
    if not (row.get("accuracy") is None or is_number(row["accuracy"])):
        raise not_a_record(path, number, "its accuracy is no number")
    try:
        return RunRecord(**row)
    except TypeError as error:
        raise not_a_record(path, number, str(error)) from None


class Ledger:
    """The records of a folder, as several benchmarks may add to them: each run is done and recorded once.

    Whoever does a run holds its claim until the record is written. A claim ends with its process: after a kill the
    next one does the run.

    Args:
        path: of the records.
        known: how many lines of records there were when the benchmark began; those that are there now by default.
    """

    def __init__(self, path: Path, known: int | None = None) -> None:
        self.path = path
        self.known = max((number for number, _ in self._lines()), default=0) if known is None else known

    def once(self, run: str, do: Callable[[], RunRecord], *, wait: bool = True) -> RunRecord | None:
        """The record of a run: that of whoever did it since the benchmark began, or else what `do` returns, recorded.

        Nobody else does the same run meanwhile. Where another process is at it and `wait` is off, the answer is None.
        """
        with claimed(self.path.with_name(f".{run}.lock"), wait=wait) as held:
            if not held:
                return None
            found = self._settled(run)
            if found is None:
                found = do()
                append_record(self.path, found)
            return found

    def _settled(self, run: str) -> RunRecord | None:
        """A success whenever it came, or a failure since the benchmark began: earlier ones are tried again."""
        found = [(number, row) for number, row in self._lines(run) if row.get("run") == run]
        settled = [(number, row) for number, row in found if row.get("status") != "failed" or number > self.known]
        return _record(settled[-1][1], self.path, settled[-1][0]) if settled else None

    def _lines(self, containing: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
        return read_record_lines(self.path, containing) if self.path.exists() else iter(())


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
