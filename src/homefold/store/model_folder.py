"""A model as one folder: tensors, a description, a card for people. Reading it never runs code.

Format 2. The names of all files are fixed here and never read from the description:

- `model.json`, the description: what `ImagesDescription` or `FeaturesDescription` says, the format with its number, a
  digest of each part and a checksum of it all;
- `features.safetensors` (f), `home.safetensors` (G, C and the calibration), `style.safetensors` (the source styles),
  `familiar.safetensors` (which images are left as they are), `sources.safetensors` (features and answers of some
  source images, for comparison) and `thumbnails.safetensors` (small image files of these, where that was asked for);
- `README.md`, the card.

Folders of format 1, whose description is `config.json`, are read as if they had been written today.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
import torch
from pydantic import ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from homefold.errors import ModelFileError, cut, shown
from homefold.store.files import (
    atomic_directory,
    file_digest,
    read_json,
    read_tensors,
    recover,
    require_plain_file,
    write_json,
    write_tensors,
)

__all__ = [
    "FORMAT_VERSION",
    "MODEL_FILES",
    "FeaturesDescription",
    "ImagesDescription",
    "Label",
    "holds_model",
    "model_checksum",
    "read_model_folder",
    "require_replaceable",
    "write_model_folder",
]

FORMAT = "homefold-model"
FORMAT_VERSION = 2
_DESCRIPTION = "model.json"
_DESCRIPTION_1 = "config.json"
_CARD = "README.md"
_NEEDED = {"images": ("features", "home"), "features": ("home",)}
_ALLOWED = {
    "images": (*_NEEDED["images"], "style", "familiar", "sources", "thumbnails"),
    "features": _NEEDED["features"],
}
MODEL_FILES = (_DESCRIPTION, _CARD, *(f"{part}.safetensors" for part in _ALLOWED["images"]))
"""Every file that a model folder may have."""
_NAMED_AT_MOST = 3

Label = str | int | float | bool
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


class _Images(TypedDict):
    trained_on: Count
    held_out: Count
    skipped: list[list[str]]


@with_config(ConfigDict(extra="allow"))
class _Features(TypedDict):
    selected_epoch: Count


class _Classifier(TypedDict):
    held_out_accuracy: FiniteFloat | None


class _HeldOut(TypedDict):
    images: Count
    with_projection: FiniteFloat
    without_projection: FiniteFloat
    yardstick: FiniteFloat
    yardstick_sees: str
    chance: FiniteFloat


class _Thumbnails(TypedDict):
    images: Count
    side_px: Count
    bytes: Count


@with_config(ConfigDict(extra="allow"))
class _Measured(TypedDict):
    held_out: NotRequired[_HeldOut]
    thumbnails: NotRequired[_Thumbnails]
    images: _Images
    features: _Features
    manifold: dict[str, Any]
    classifier: _Classifier


class _MeasuredOfFeatures(TypedDict):
    manifold: dict[str, Any]


class ImagesDescription(TypedDict):
    """What is known of a `Homefold` beside its tensors; checked when it is read, but for its settings."""

    kind: str
    settings: dict[str, Any]
    classes: list[str]
    source_domains: list[str]
    measured: _Measured
    versions: dict[str, str]


class FeaturesDescription(TypedDict):
    """What is known of a `ManifoldProjector` beside its tensors; checked when it is read, but for its settings."""

    kind: str
    settings: dict[str, Any]
    classes: list[Any]
    feature_dim: Annotated[int, Field(ge=1, le=2**63 - 1)]
    measured: _MeasuredOfFeatures
    versions: dict[str, str]


_SCHEMAS: dict[str, TypeAdapter[Any]] = {
    "images": TypeAdapter(ImagesDescription),
    "features": TypeAdapter(FeaturesDescription),
}


def _file(part: str) -> str:
    return f"{part}.safetensors"


def _checksum(description: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def write_model_folder(
    path: Path | str,
    tensors: dict[str, dict[str, torch.Tensor]],
    description: ImagesDescription | FeaturesDescription,
    card: str,
    on_whole: Callable[[str], None] | None = None,
) -> None:
    """Write a model atomically: a crash or a full disk leaves whatever stood at `path` as it was.

    A model or an empty folder at `path` is replaced, and anything else refused. `tensors` are by part and by name; the
    card is Markdown. `on_whole` is told the model's checksum once all is written, and before it takes its place.
    """
    with atomic_directory(path, require_replaceable) as folder:
        for part, named in tensors.items():
            write_tensors(folder / _file(part), named)
        digests = {part: file_digest(folder / _file(part)) for part in tensors}
        content = {"format": FORMAT, "format_version": FORMAT_VERSION, **description, "digests": digests}
        checksum = _checksum(content)
        write_json(folder / _DESCRIPTION, {**content, "checksum": checksum})
        (folder / _CARD).write_text(card, encoding="utf-8")
        if on_whole is not None:
            on_whole(checksum)


def _description_in(folder: Path) -> Path:
    """Where the description of a model stands, of whichever format; that of this format where there is none."""
    old = folder / _DESCRIPTION_1
    return old if old.exists() and not (folder / _DESCRIPTION).exists() else folder / _DESCRIPTION


def holds_model(path: Path) -> bool:
    """Whether a homefold model stands at `path`, whole or damaged."""
    return _described(path) is not None


def model_checksum(path: Path) -> str | None:
    """What tells the model at `path` from every other; None where none stands."""
    description = _described(path)
    return None if description is None else description.get("checksum")


def _described(path: Path) -> dict[str, Any] | None:
    try:
        description = read_json(_description_in(path))
    except (ModelFileError, OSError):
        return None
    return description if isinstance(description, dict) and description.get("format") == FORMAT else None


def require_replaceable(path: Path) -> None:
    """Refuse to put a model where it would delete something: only a model or an empty folder gives way."""
    try:
        exists = path.exists()
    except OSError as error:
        raise ModelFileError(f"no model can be written to {cut(str(path))} ({error.strerror}).") from None
    if path.is_symlink() and not exists:
        raise ModelFileError(f"{path} is a link to nothing; remove it, or choose another place.")
    if not exists:
        above = next(folder for folder in Path(os.path.abspath(path)).parents if folder.exists())
        if not above.is_dir():
            raise ModelFileError(f"no model can be written to {path}: {above} is a file.")
        return
    found = {item.name for item in path.iterdir()} if path.is_dir() else None
    if found is None or (found and not holds_model(path)):
        raise ModelFileError(f"{path} exists and is not a homefold model, so it is not replaced; choose another place.")
    if others := sorted(found - {_DESCRIPTION, _DESCRIPTION_1, _CARD, *map(_file, _ALLOWED["images"])}):
        named = ", ".join(others[:_NAMED_AT_MOST]) + (" …" if len(others) > _NAMED_AT_MOST else "")
        raise ModelFileError(
            f"{path} holds more than a model ({named}), so it is not replaced; move that away, or choose another place."
        )
    if path == Path.cwd():
        raise ModelFileError(f"{path} is the current folder, which cannot be replaced; choose another place.")


def read_model_folder(path: Path | str) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, Any]]:
    """What `write_model_folder` of this version or an earlier one wrote; a sentence for anything else.

    Gives tensors by part and name, and an `ImagesDescription` or a `FeaturesDescription`, by its kind.
    """
    path = Path(path)
    try:
        if not path.exists() and path.parent.is_dir():
            recover(path)
        exists = path.exists()
    except OSError as error:
        raise ModelFileError(f"no model can be read from {cut(str(path))} ({error.strerror}).") from None
    if not exists:
        raise ModelFileError(f"there is no model at {path}; homefold fit DATA --out {path} makes one.")
    if not path.is_dir() or not _description_in(path).exists():
        raise ModelFileError(f"{path} is not a homefold model: it has no {_DESCRIPTION}.")
    content = _read_description(_description_in(path))
    tensors = {part: _read_part(path / _file(part), digest) for part, digest in content["digests"].items()}
    return tensors, content


def _read_description(path: Path) -> dict[str, Any]:
    """What a description says in the words of format 2, once it is certain that it is whole, unchanged and in order."""
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
    if version == 1:
        content = _from_format_1(content)
    kind, digests = content.get("kind"), content.get("digests")
    if not isinstance(kind, str) or kind not in _NEEDED:
        raise ModelFileError(f"{path} describes a model of the kind {shown(kind)}; expected {' or '.join(_NEEDED)}.")
    if not isinstance(digests, dict) or not set(_NEEDED[kind]) <= set(digests) <= set(_ALLOWED[kind]):
        expected = " and ".join(_NEEDED[kind])
        raise ModelFileError(f"{path} names {shown(digests)} as the parts of the model; expected {expected}.")
    return {**_checked(content, kind, path.parent), "format_version": version, "digests": digests}


_NAMES_OF_FORMAT_1 = {
    "config": "settings",
    "class_names": "classes",
    "reports": "measured",
    "files": "digests",
    "n_features_in": "feature_dim",
}


def _from_format_1(content: dict[str, Any]) -> dict[str, Any]:
    """A description of format 1 in the words of format 2; what is odd in it stays odd.

    Format 1 named files, and it described a projector by the parameters of its constructor beside its settings.
    """
    found = {_NAMES_OF_FORMAT_1.get(name, name): value for name, value in content.items()}
    if isinstance(found.get("digests"), dict):
        found["digests"] = {name.removesuffix(".safetensors"): digest for name, digest in found["digests"].items()}
    if found.get("kind") == "features":
        settings, parameters = found.get("settings"), content.get("parameters")
        if isinstance(settings, dict) and isinstance(parameters, dict):
            now = {"normalise": "normalise_features", "held_out": "held_out", "random_state": "seed"}
            kept = {new: parameters[old] for old, new in now.items() if old in parameters}
            found["settings"] = {**settings, **kept}
        found["measured"] = {"manifold": content.get("manifold_report")}
        found["versions"] = {}
    return found


def _checked(content: dict[str, Any], kind: str, folder: Path) -> dict[str, Any]:
    """The description alone, of the right types; what it says beyond that is left out."""
    called = "model" if kind == "images" else "projector"
    try:
        description: dict[str, Any] = _SCHEMAS[kind].validate_python(content, strict=True)
        _require_labels(description["classes"])
        _require_names(description["classes"], "classes")
        if kind == "images":
            _require_names(description["source_domains"], "source_domains")
    except ValueError as error:
        told = _sentence(error) if isinstance(error, ValidationError) else error
        raise ModelFileError(f"the {called} in {folder} has an odd description: {told}") from None
    return description


_WORDS = {"string_type": "text", "string_unicode": "text", "dict_type": "an object", "list_type": "a list"}


def _sentence(error: ValidationError) -> str:
    """The first thing that does not fit, as one sentence."""
    first = error.errors(include_url=False)[0]
    name = cut(".".join(map(str, first["loc"])))
    if first["type"] == "missing":
        return f"{name} is missing."
    expected = _WORDS.get(first["type"]) or first["msg"].removeprefix("Input should be ")
    return f"{name} must be {expected}; got {shown(first['input'])}."


def _require_labels(values: list[Any]) -> None:
    """Refuse labels that are not all text, all integers, all booleans or all other numbers."""
    kinds = {type(value) for value in values}
    is_array = len(kinds) <= 1 and kinds <= {str, int, float, bool}
    is_array = is_array and (kinds <= {str} or np.asarray(values).dtype.kind in "iufb")
    if not is_array or (kinds == {float} and not np.isfinite(values).all()):
        raise ValueError(f"classes must be text alone or finite numbers alone; got {shown(values)}.")


def _require_names(values: list[Any], what: str) -> None:
    """Refuse names of which there are none, that are there twice, or that cannot be written."""
    names = [str(value) for value in values]
    if not names:
        raise ValueError(f"{what} must name at least one; got none.")
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise ValueError(f"{what} must all differ; {shown(twice)} is among them twice.")
    for name in names:
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(f"{what} must be text that can be written; got {shown(name)}.")


def _read_part(path: Path, digest: Any) -> dict[str, torch.Tensor]:
    if not path.exists():
        raise ModelFileError(f"{path} is missing; copy the whole model folder.")
    require_plain_file(path)
    if file_digest(path) != digest:
        raise ModelFileError(f"{path} is truncated or was changed: its checksum does not match; copy or fit it again.")
    return read_tensors(path)[0]
