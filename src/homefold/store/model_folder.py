"""A model as one folder: tensors, a description, a card for people. Reading it never runs code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from homefold.errors import ModelFileError, cut, shown
from homefold.store.files import (
    atomic_directory,
    read_json,
    read_tensors,
    recover,
    require_plain_file,
    write_json,
    write_tensors,
)

__all__ = ["FORMAT_VERSION", "holds_model", "read_model_folder", "require_replaceable", "write_model_folder"]

FORMAT = "homefold-model"
FORMAT_VERSION = 1
_CONFIG = "config.json"
_CARD = "README.md"
# By the kind of model: the files that hold its tensors. Names are never taken from the description, which may name any
# file of the machine.
_NEEDED = {"images": ("features.safetensors", "home.safetensors"), "features": ("home.safetensors",)}
_ALLOWED = {"images": (*_NEEDED["images"], "style.safetensors"), "features": _NEEDED["features"]}
_FILES = {_CONFIG, _CARD, *_ALLOWED["images"], *_ALLOWED["features"]}
_NAMED_AT_MOST = 3


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _checksum(description: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def write_model_folder(
    path: Path | str, tensors: dict[str, dict[str, torch.Tensor]], description: dict[str, Any], card: str
) -> None:
    """Write a model atomically: a crash or a full disk leaves whatever stood at `path` as it was.

    Args:
        path: the folder; a model that stands there is replaced, and so is an empty folder. Anything else is refused.
        tensors: file stem → tensors by name.
        description: JSON values that say how to rebuild the model.
        card: Markdown for a person who finds the folder.
    """
    with atomic_directory(path, require_replaceable) as folder:
        for stem, named in tensors.items():
            write_tensors(folder / f"{stem}.safetensors", named)
        files = {f"{stem}.safetensors": _sha256(folder / f"{stem}.safetensors") for stem in tensors}
        content = {"format": FORMAT, "format_version": FORMAT_VERSION, "files": files, **description}
        write_json(folder / _CONFIG, {**content, "checksum": _checksum(content)})
        (folder / _CARD).write_text(card, encoding="utf-8")


def holds_model(path: Path) -> bool:
    """Whether a homefold model stands at `path`, whole or damaged."""
    try:
        description = read_json(path / _CONFIG)
    except (ModelFileError, OSError):
        return False
    return isinstance(description, dict) and description.get("format") == FORMAT


def require_replaceable(path: Path) -> None:
    """Refuse to put a model where it would delete something: only a model or an empty folder gives way."""
    try:
        exists = path.exists()
    except OSError as error:
        raise ModelFileError(f"no model can be written to {cut(str(path))} ({error.strerror}).") from None
    if path.is_symlink() and not exists:
        raise ModelFileError(f"{path} is a link to nothing; remove it, or choose another place.")
    if not exists:
        return
    found = {item.name for item in path.iterdir()} if path.is_dir() else None
    if found is None or (found and not holds_model(path)):
        raise ModelFileError(f"{path} exists and is not a homefold model, so it is not replaced; choose another place.")
    if others := sorted(found - _FILES):
        named = ", ".join(others[:_NAMED_AT_MOST]) + (" …" if len(others) > _NAMED_AT_MOST else "")
        raise ModelFileError(
            f"{path} holds more than a model ({named}), so it is not replaced; move that away, or choose another place."
        )
    if path == Path.cwd():
        raise ModelFileError(f"{path} is the current folder, which cannot be replaced; choose another place.")


def read_model_folder(path: Path | str) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, Any]]:
    """What `write_model_folder` wrote: tensors by file stem, and the description; a sentence for anything else."""
    path = Path(path)
    if not path.exists() and path.parent.is_dir():
        recover(path)
    if not path.exists():
        raise ModelFileError(f"there is no model at {path}; homefold fit DATA --out {path} makes one.")
    if not path.is_dir() or not (path / _CONFIG).exists():
        raise ModelFileError(f"{path} is not a homefold model: it has no {_CONFIG}.")
    content = _read_description(path / _CONFIG)
    return {Path(name).stem: _read_tensors(path / name, digest) for name, digest in content["files"].items()}, content


def _read_description(path: Path) -> dict[str, Any]:
    """What `config.json` says, once it is certain that it is of this format, unchanged, and names the right files."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFileError(f"{path} does not describe a homefold model.")
    version = content.get("format_version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{path} has the format version {shown(version)}; expected a positive number.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"the model in {path.parent} has format {shown(version)}, and this homefold reads up to {FORMAT_VERSION}: "
            f"it was written by a newer version; upgrade with pip install -U homefold."
        )
    checksum = content.pop("checksum", None)
    if checksum != _checksum(content):
        raise ModelFileError(f"{path} was changed after it was written: its checksum does not match.")
    kind, files = content.get("kind"), content.get("files")
    if not isinstance(kind, str) or kind not in _NEEDED:
        raise ModelFileError(f"{path} describes a model of the kind {shown(kind)}; expected {' or '.join(_NEEDED)}.")
    if not isinstance(files, dict) or not set(_NEEDED[kind]) <= set(files) <= set(_ALLOWED[kind]):
        expected = " and ".join(_NEEDED[kind])
        raise ModelFileError(f"{path} names {shown(files)} as the files of the model; expected {expected}.")
    return content


def _read_tensors(path: Path, digest: Any) -> dict[str, torch.Tensor]:
    if not path.exists():
        raise ModelFileError(f"{path} is missing; copy the whole model folder.")
    require_plain_file(path)
    if _sha256(path) != digest:
        raise ModelFileError(f"{path} is truncated or was changed: its checksum does not match; copy or fit it again.")
    return read_tensors(path)[0]
