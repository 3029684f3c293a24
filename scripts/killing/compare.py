"""Whether two folders hold the same, times left out."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

__all__ = ["differences", "paths_in", "repeated_runs", "snapshot"]

_TIME = "seconds"
_NO_RESULT = (_TIME, "commit")
_TIME_IN_STATE = re.compile(rf'\["{_TIME}", [^\[\]]*\]')


def snapshot(folder: Path, *, exact: bool) -> dict[str, str]:
    """A digest of every file by its path; lock files, which are empty, are left out.

    Args:
        folder: its files, also those in folders below; nothing where it does not exist.
        exact: every byte counts. Otherwise what is called `seconds` or `commit` in JSON, records and states does not,
            nor does the order of records: somebody may commit while a campaign runs.
    """
    return {
        name: hashlib.sha256(_content(folder / name, exact)).hexdigest()
        for name in sorted(paths_in(folder))
        if (folder / name).is_file()
    }


def paths_in(folder: Path) -> set[str]:
    """Everything in a folder and below, but lock files."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.endswith(".lock")}


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """What a person would say of two snapshots; nothing when they are the same."""
    if expected and not found:
        return ["there is no result"]
    missing = [f"{name} is missing" for name in expected if name not in found]
    extra = [f"{name} should not be there" for name in found if name not in expected]
    changed = [f"{name} differs" for name in expected if name in found and expected[name] != found[name]]
    return missing + extra + changed


def repeated_runs(folder: Path) -> list[str]:
    """A sentence where the records of a folder hold a run more than once."""
    records = folder / "records.jsonl"
    if not records.exists():
        return []
    runs = re.findall(r'"run": "(\w+)"', records.read_text(encoding="utf-8", errors="replace"))
    return [f"there are {len(runs)} records of {len(set(runs))} runs"] if len(set(runs)) < len(runs) else []


def _content(path: Path, exact: bool) -> bytes:
    content = path.read_bytes()
    timeless = _TIMELESS.get(path.suffix)
    if exact or timeless is None:
        return content
    try:
        return timeless(content)
    except ValueError:  # a broken file is like no other
        return content


def _result_alone(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _result_alone(item) for name, item in value.items() if name not in _NO_RESULT}
    return [_result_alone(item) for item in value] if isinstance(value, list) else value


def _timeless_json(content: bytes) -> bytes:
    return json.dumps(_result_alone(json.loads(content))).encode()


def _sorted_records(content: bytes) -> bytes:
    records = (_result_alone(json.loads(line)) for line in content.splitlines())
    return "\n".join(sorted(json.dumps(record) for record in records)).encode()


def _timeless_state(content: bytes) -> bytes:
    """A safetensors file, whose head may say how long its tensors took to compute."""
    start = 8 + int.from_bytes(content[:8], "little")
    head = json.loads(content[8:start])
    about = head.get("__metadata__", {})
    if "structure" in about:
        about["structure"] = _TIME_IN_STATE.sub("", about["structure"])
    return json.dumps(head).encode() + content[start:]


_TIMELESS = {".json": _timeless_json, ".jsonl": _sorted_records, ".safetensors": _timeless_state}
