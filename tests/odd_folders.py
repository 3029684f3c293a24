"""Saved models with something odd in them: descriptions and tensors that were changed and validly summed again."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

GONE = object()
"""Stands for a value that is taken away."""

_NESTED: Any = 0
for _ in range(300):
    _NESTED = [_NESTED]

ODD_VALUES = (
    None,
    -1,
    0,
    True,
    1e308,
    10**40,
    0.5,
    "",
    "none",
    "x" * 100_000,
    "\ud800",
    [],
    {},
    [None],
    [[]],
    ["a", "a"],
    {"a": {"b": None}},
    _NESTED,
    GONE,
)

Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in a description, its parts as well as its leaves."""
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*at, key))


def with_value(content: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A copy of a description with another value in a place."""
    changed = copy.deepcopy(content)
    part: Any = changed
    for key in place[:-1]:
        part = part[key]
    if value is GONE:
        del part[place[-1]]
    else:
        part[place[-1]] = value
    return changed


def described(folder: Path, file: str = "model.json") -> dict[str, Any]:
    """The description in a folder, without its checksum."""
    content = json.loads((folder / file).read_text())
    del content["checksum"]
    return dict(content)


def seal(folder: Path, content: dict[str, Any], file: str = "model.json") -> None:
    """Write a description with a checksum that is right."""
    checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (folder / file).write_text(json.dumps({**content, "checksum": checksum}))


def with_tensors(folder: Path, stem: str, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    """Change the tensors of a file in place, and write sums that are right."""
    file = folder / f"{stem}.safetensors"
    tensors = {name: value.clone() for name, value in load_file(str(file)).items()}
    change(tensors)
    data = save({name: value.contiguous() for name, value in tensors.items()})
    file.write_bytes(data)
    content = described(folder)
    content["digests"][stem] = hashlib.sha256(data).hexdigest()
    seal(folder, content)


def tensor_changes(name: str) -> dict[str, Callable[[dict[str, torch.Tensor]], Any]]:
    """What may be odd about one tensor."""

    def put(make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[dict[str, torch.Tensor]], Any]:
        return lambda tensors: tensors.update({name: make(tensors[name])})

    def filled(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda old: torch.full_like(old, value) if old.is_floating_point() else old.bool()

    return {
        "missing": lambda tensors: tensors.pop(name),
        "renamed": lambda tensors: tensors.update({f"{name}_": tensors.pop(name)}),
        "added": lambda tensors: tensors.update({f"{name}.added": torch.zeros(2)}),
        "wider": put(lambda old: torch.cat([old[..., None], old[..., None]], dim=-1)),
        "flat": put(lambda old: old.flatten()[:-1] if old.numel() > 1 else old.flatten().repeat(2)),
        "scalar": put(lambda old: old.new_zeros(()) if old.ndim else old[None]),
        "empty": put(lambda old: old.flatten()[:0].reshape(0, *old.shape[1:])),
        "float16": put(lambda old: old.half()),
        "float64": put(lambda old: old.double() if old.dtype != torch.float64 else old.float()),
        "int64": put(lambda old: old.long() if old.dtype != torch.int64 else old.int()),
        "float8": put(lambda old: old.float().to(torch.float8_e4m3fn)),
        "nan": put(filled(float("nan"))),
        "infinite": put(filled(float("inf"))),
    }


def copied(folder: Path, to: Path) -> Path:
    """A copy of a folder, in the place of an earlier one."""
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(folder, to))
