"""Writing so that a crash leaves either the old content or the new, never a half; tensors without pickles."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from homefold.errors import ModelFileError, cut, shown

if TYPE_CHECKING:
    import torch

__all__ = [
    "atomic_directory",
    "digest",
    "file_digest",
    "is_temporary",
    "naming",
    "plain_json",
    "read_json",
    "read_state",
    "read_tensors",
    "recover",
    "require_plain_file",
    "write_atomically",
    "write_json",
    "write_state",
    "write_tensors",
]


# Process numbers mean nothing on another machine that shares the disk.
_HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
_TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{8}-[0-9a-f]{8}\.tmp")


_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


@contextmanager
def naming(path: Path | str, temporary: Path | None = None) -> Iterator[None]:
    """Let an error for want of room inside the block name `path`: the system names no file that is open already, and
    a person does not know `temporary`, which is written in its place."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None and error.errno in _NO_ROOM
        if unnamed or (temporary is not None and error.filename == str(temporary)):
            error.filename = str(path)
        raise


def _sync(path: Path) -> None:
    """Flush a file or directory entry to the disk, so that a rename cannot overtake its data."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beside(path: Path, kind: str) -> Path:
    """A name for this process alone, hidden beside `path`."""
    return path.parent / f".{path.name}.{os.getpid()}.{_HOST}-{secrets.token_hex(4)}.{kind}"


def is_temporary(path: Path) -> bool:
    """Whether a file is one that `write_atomically` has begun and not finished, by its name."""
    return _TEMPORARY.fullmatch(path.name) is not None


def _left_behind(path: Path, kind: str) -> list[Path]:
    """What processes of this machine that no longer run left beside `path`."""
    found = path.parent.glob(f".{glob.escape(path.name)}.*.{_HOST}-*.{kind}")
    return [item for item in found if (pid := item.name.rsplit(".", 3)[1]).isdigit() and not _runs(int(pid))]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def recover(path: Path | str) -> None:
    """Tidy up after a process that was killed while it wrote `path`.

    Half-written temporaries are removed. If it was killed between moving the old folder aside and putting the new one
    in its place, the old one comes back.
    """
    path = Path(path).absolute()
    for aside in _left_behind(path, "old"):
        if path.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            os.replace(aside, path)
    for temporary in _left_behind(path, "tmp"):
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


@contextmanager
def write_atomically(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it over `path` if the block succeeds, remove it if not."""
    path = Path(path).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path)
    temporary = _beside(path, "tmp")
    try:
        with naming(path, temporary):
            yield temporary
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_directory(path: Path | str, require_replaceable: Callable[[Path], None]) -> Iterator[Path]:
    """Yield an empty directory beside `path` that becomes `path` if the block succeeds.

    A directory that stood at `path` is moved aside first and deleted only once the new one is in place.

    Where `path` is a link, what it points to is replaced. `require_replaceable` raises where that may not be deleted;
    it is asked before the block and again before the exchange.
    """
    path = Path(os.path.realpath(path) if os.path.exists(path) else os.path.abspath(path))
    require_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path)
    temporary, aside = _beside(path, "tmp"), _beside(path, "old")
    temporary.mkdir()
    try:
        yield temporary
        for item in temporary.rglob("*"):
            _sync(item)
        require_replaceable(path)
        try:
            if path.exists():
                os.replace(path, aside)
            os.replace(temporary, path)
        except BaseException:
            if aside.exists() and not path.exists():
                os.replace(aside, path)
            raise
        _sync(path.parent)
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def plain_json(value: Any) -> Any:
    """`value` as JSON gives it back: tuples and arrays are lists there, numpy's numbers are Python's."""
    if isinstance(value, dict):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [plain_json(item) for item in value] if isinstance(value, list | tuple) else value


def digest(value: Any) -> str:
    """24 hex digits that stand for plain values: dicts, lists, text and numbers.

    >>> digest({"a": 1, "b": (2, 3)}) == digest({"b": [2, 3], "a": 1})
    True
    """
    text = json.dumps(plain_json(value), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path | str, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    with write_atomically(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path | str) -> Any:
    """Read a JSON file of ours; a missing or broken one is a `ModelFileError` that names it."""
    path = Path(path)
    require_plain_file(path)
    if path.stat().st_size > _LARGEST_JSON:
        raise ModelFileError(f"{path} has more than {_LARGEST_JSON >> 20} MiB, so it is none of ours.")
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelFileError(f"{path} is not valid JSON ({cut(str(error))}); it was truncated or edited.") from None


def require_plain_file(path: Path) -> None:
    """Refuse what is missing, and what has no end or would be waited for: pipes and devices.

    A link to a plain file is one: caches of downloaded models keep files so, and who can change what the link points to
    could as well have changed the file.
    """
    if not path.exists():
        raise ModelFileError(f"{path} is missing.")
    if not path.is_file():
        raise ModelFileError(f"{path} is not a plain file.")


_LARGEST_JSON = 1 << 26
_DEEPEST = 100


def _parse(text: str) -> Any:
    """JSON whose keys are unique and which is not nested too deeply to be walked through; else a `ValueError`."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [value]
    for _ in range(_DEEPEST):
        parts = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = [item for part in parts for item in part]
    if level:
        raise ValueError("it is nested too deeply")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"it has the key {shown(twice)} twice")
    return found


_TENSOR = "__tensor__"


def _split(value: Any, prefix: str, tensors: dict[str, torch.Tensor]) -> Any:
    import torch  # here and below: whoever reads and writes JSON need not wait for it

    if isinstance(value, torch.Tensor):
        tensors[prefix] = value.detach().cpu().contiguous().clone()
        return {_TENSOR: prefix}
    if isinstance(value, dict):
        pairs = [[key, _split(item, f"{prefix}.{key}", tensors)] for key, item in value.items()]
        return {"__dict__": pairs}
    if isinstance(value, list | tuple):
        return [_split(item, f"{prefix}.{i}", tensors) for i, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a state holds a {type(value).__name__} at {prefix}: only tensors, numbers and text can be saved")


def _join(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, dict):
        if _TENSOR in value:
            return tensors[value[_TENSOR]]
        return {key: _join(item, tensors) for key, item in value["__dict__"]}
    if isinstance(value, list):
        return [_join(item, tensors) for item in value]
    return value


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file with the permissions of any other file; a full disk is an `OSError`, as everywhere.

    The library's own writer makes files that only their owner can read, and hides the system's error.
    """
    from safetensors.torch import save

    with naming(path):
        path.write_bytes(save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, metadata))


def write_state(path: Path | str, state: Any) -> None:
    """Write nested dicts and lists of tensors, numbers and text as one safetensors file, atomically.

    The structure stands as JSON in the file's metadata: `torch.save` would write a pickle, whose loading can run code.
    """
    tensors: dict[str, torch.Tensor] = {}
    structure = _split(state, "state", tensors)
    with write_atomically(path) as temporary:
        write_tensors(temporary, tensors, {"structure": json.dumps(structure)})


def read_state(path: Path | str) -> Any:
    """Read what `write_state` wrote, on the CPU."""
    path = Path(path)
    tensors, metadata = read_tensors(path)
    try:
        return _join(_parse(metadata["structure"]), tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read ({cut(str(error))}); it was truncated or edited.") from None


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors of a safetensors file by name, on the CPU, and its metadata; a `ModelFileError` where it is none."""
    require_plain_file(path)
    try:
        with safe_open(str(path), framework="pt") as file:
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, TypeError, ValueError, RuntimeError) as error:
        told = str(error).partition("\n")[0]  # torch adds a trace of its own calls
        raise ModelFileError(f"{path} cannot be read ({cut(told)}); it was truncated or edited.") from None
