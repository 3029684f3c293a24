"""Model folders that were cut, replaced, edited and summed again, given to everything that reads them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from homefold import Homefold, ManifoldProjector
from homefold.config import HomefoldConfig, config_to_dict
from hostile.campaign import ANSWER, EITHER, NO, REFUSAL, Call, Case, Command, Scene
from hostile.damage import (
    CONTENT_DAMAGE,
    FILE_DAMAGE,
    ODD_JSON,
    ODD_TEXTS,
    TEXT_DAMAGE,
    Damage,
    Way,
    dotted,
    leaves,
    put,
    rewritten,
    some,
)
from hostile.settings import right_answer, setting_kinds

Act = Callable[[Scene, Any], Command | Call]

ROADS: dict[str, Act] = {
    "info": lambda scene, model: Command(("info", model)),
    "predict": lambda scene, model: Command(("predict", model, scene.image, "--json", "--device", "cpu")),
    "info-json": lambda scene, model: Command(("info", model, "--json")),
    "evaluate": lambda scene, model: Command(("evaluate", model, scene.photos, "--domain", "night", "--device", "cpu")),
}
LIBRARY: dict[str, Act] = {
    "model": lambda scene, model: Call(lambda: Homefold.load(model, device="cpu").predict(scene.image)),
    "projector": lambda scene, model: Call(lambda: ManifoldProjector.load(model, device="cpu").predict([[0.5] * 12])),
}
FILES = {
    "model": ("model.json", "README.md", "features.safetensors", "home.safetensors", "style.safetensors"),
    "projector": ("model.json", "README.md", "home.safetensors"),
}


def cases() -> list[Case]:
    """The whole table."""
    parts = (_files, _texts, _tensors, _listed_files, _versions, _leaves, _places)
    return list(chain.from_iterable(part() for part in parts))


def _case(kind: str, name: str, road: str, damage: Damage, expected: frozenset[str]) -> Case:
    def arrange(scene: Scene) -> Command | Call:
        folder = scene.copy(scene.model if kind == "model" else scene.projector)
        damage(folder)
        return (LIBRARY[kind] if road == "library" else ROADS[road])(scene, folder)

    return Case("model_folders", f"{kind}-{name}", road, arrange, expected)


def _two_roads(kind: str, i: int) -> tuple[str, str]:
    """The library, and the commands in turns."""
    return "library", list(ROADS)[i % len(ROADS)] if kind == "model" else "info"


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the description of a model, and sum it and every file that is there again."""
    path = folder / "model.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content.pop("checksum")
    for part in content["digests"]:
        content["digests"][part] = hashlib.sha256((folder / f"{part}.safetensors").read_bytes()).hexdigest()
    change(content)
    checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**content, "checksum": checksum}), encoding="utf-8")


def _inside(file: str, damage: Damage, *, summed: bool = False) -> Damage:
    def both(folder: Path) -> None:
        damage(folder / file)
        if summed:
            edit(folder, lambda content: None)

    return both


def _files() -> list[Case]:
    found = []
    for kind, files in FILES.items():
        for file in files:
            harmless = {"last-byte-gone"} if file == "model.json" else FILE_DAMAGE if file == "README.md" else {}
            for i, (name, damage) in enumerate(FILE_DAMAGE.items()):
                expected = ANSWER if name in harmless else REFUSAL
                found += [
                    _case(kind, f"{file}-{name}", road, _inside(file, damage), expected) for road in _two_roads(kind, i)
                ]
            for i, (name, change) in enumerate((CONTENT_DAMAGE | SAFETENSORS).items()):
                damage = _inside(file, rewritten(change), summed=True)
                if file.endswith("safetensors") and name != "tenth":
                    road = _two_roads(kind, i // 2)[i % 2]
                    found.append(_case(kind, f"{file}-{name}-summed", road, damage, REFUSAL))
    return found


def _header(header: bytes, length: int | None = None) -> Callable[[bytes], bytes]:
    """In place of a safetensors file, one with this header and four bytes."""
    return lambda content: (len(header) if length is None else length).to_bytes(8, "little") + header + b"1234"


SAFETENSORS: dict[str, Callable[[bytes], bytes]] = {
    "header-longer-than-file": _header(b"{}", 10**9),
    "header-endless": _header(b"{}", 2**64 - 1),
    "header-deep": _header(ODD_TEXTS["brackets"]),
    "header-no-tensors": _header(b"{}"),
    "header-shape-huge": _header(b'{"a":{"dtype":"F32","shape":[9999999999,9999999999],"data_offsets":[0,4]}}'),
    "header-offsets-outside": _header(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'),
    "header-unknown-type": _header(b'{"a":{"dtype":"Q7","shape":[1],"data_offsets":[0,4]}}'),
}


def _texts() -> list[Case]:
    changed = {name: rewritten(change) for name, change in CHANGED_TEXTS.items()}
    return [
        _case(kind, f"model.json-{name}", road, _inside("model.json", damage), EITHER if name == "bom" else REFUSAL)
        for kind in FILES
        for i, (name, damage) in enumerate((TEXT_DAMAGE | changed).items())
        for road in _two_roads(kind, i)
    ]


def _version(text: bytes) -> Callable[[bytes], bytes]:
    return lambda good: good.replace(b'"format_version": 2', b'"format_version": ' + text, 1)


CHANGED_TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "bom": lambda good: b"\xef\xbb\xbf" + good,
    "bad-byte-inside": lambda good: good.replace(b'"kind"', b'"k\xffnd"', 1),
    "deep-inside": lambda good: good.replace(b'"kind": ', b'"a": ' + ODD_TEXTS["closed-brackets"] + b', "kind": ', 1),
    "digits-inside": _version(b"1" * 5000),
    "nan-inside": _version(b"NaN"),
    "one-letter-changed": lambda good: good.replace(b'"kind"', b'"kine"', 1),
    "twice-a-key": _version(b'7, "format_version": 2, "kind": "other"'),
    "comment": lambda good: b"// a model\n" + good,
    "upper-case": bytes.upper,
}


def _tensors() -> list[Case]:
    return [
        _case(kind, f"{file}-{name}", road, _inside(file, _changed(change), summed=True), expected)
        for kind, files in FILES.items()
        for file in files
        if file.endswith("safetensors")
        for i, (name, (change, right)) in enumerate(TENSORS.items())
        for road in _two_roads(kind, i)
        # What no answer is computed with may be described as it is.
        for expected in [EITHER if road.startswith("info") else right]
    ]


Tensors = dict[str, torch.Tensor]


def _changed(change: Callable[[Tensors, str], object]) -> Damage:
    """Change the largest tensor of floats of a file, or all around it."""

    def damage(path: Path) -> None:
        tensors = load_file(path)
        floats = {name: value for name, value in tensors.items() if value.is_floating_point()}
        change(tensors, max(floats, key=lambda name: floats[name].numel()))
        save_file({name: value.contiguous() for name, value in tensors.items()}, path)

    return damage


def _made(make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Tensors, str], object]:
    return lambda tensors, name: tensors.update({name: make(tensors[name])})


TENSORS: dict[str, tuple[Callable[[Tensors, str], object], frozenset[str]]] = {
    "tensor-gone": (lambda tensors, name: tensors.pop(name), REFUSAL),
    "tensor-renamed": (lambda tensors, name: tensors.update({"other": tensors.pop(name)}), REFUSAL),
    "tensor-besides": (lambda tensors, name: tensors.update(other=torch.zeros(3)), EITHER),
    "all-tensors-gone": (lambda tensors, name: (tensors.clear(), tensors.update(a=torch.zeros(1))), REFUSAL),
    "tensor-scalar": (_made(torch.sum), REFUSAL),
    "tensor-no-rows": (_made(lambda tensor: tensor[:0]), REFUSAL),
    "tensor-shorter": (_made(lambda tensor: tensor[:-1]), REFUSAL),
    "tensor-longer": (_made(lambda tensor: torch.cat([tensor, tensor])), REFUSAL),
    "tensor-one-axis-more": (_made(lambda tensor: tensor[None]), REFUSAL),
    "tensor-int64": (_made(torch.Tensor.long), EITHER),
    "tensor-float16": (_made(torch.Tensor.half), EITHER),
    "tensor-float64": (_made(torch.Tensor.double), EITHER),
    "tensor-bool": (_made(torch.Tensor.bool), EITHER),
    "tensor-nan": (_made(lambda tensor: tensor * torch.nan), REFUSAL),
    "tensor-one-nan": (_made(lambda tensor: tensor.index_fill(0, torch.tensor([0]), torch.nan)), REFUSAL),
    "tensor-inf": (_made(lambda tensor: torch.full_like(tensor, torch.inf)), REFUSAL),
    "tensor-zeros": (_made(torch.zeros_like), EITHER),
    "tensor-huge": (_made(lambda tensor: torch.full_like(tensor, 3e38)), EITHER),
}


def _listed_files() -> list[Case]:
    return [
        _case(kind, f"files-{name}", road, partial(_listing, listed=listed), REFUSAL)
        for kind in FILES
        for i, (name, listed) in enumerate(LISTED_FILES.items())
        for road in _two_roads(kind, i)
    ]


def _listing(folder: Path, listed: Any) -> None:
    """In the place of a file that is needed, so that it has to be read; a good one lies outside, and a pipe inside."""
    outside = folder.parent / "outside.safetensors"
    outside.write_bytes((folder / "home.safetensors").read_bytes())
    os.mkfifo(folder / "pipe")
    digest = hashlib.sha256(outside.read_bytes()).hexdigest()

    def change(content: dict[str, Any]) -> None:
        if isinstance(listed, str):
            kept = {part: value for part, value in content["digests"].items() if part != "home"}
            content["digests"] = kept | {listed.format(folder.parent): digest}
        else:
            content["digests"] = listed

    edit(folder, change)


LISTED_FILES: dict[str, Any] = {
    "beside": "../outside",
    "absolute": "{}/outside",
    "around": "../here/outside",
    "endless": "/dev/zero",
    "pipe": "pipe",
    "folder-itself": ".",
    "no-name": "",
    "nul": "a\0b",
    "long-name": "a" * 5000,
    "absent": "more",
    "surrogate": "\ud800",
    "digest-null": {"home": None},
    "digest-list": {"home": ["0"]},
    "list": ["home"],
    "null": None,
    "number": 5,
    "none-at-all": {},
}


def _versions() -> list[Case]:
    odd = {name: value for name, value in ODD_JSON.items() if name != "true"}
    return [
        _case(
            kind, f"format_version-{name}", _two_roads(kind, i // 2)[i % 2], _leaf(("format_version",), value), REFUSAL
        )
        for kind in FILES
        for i, (name, value) in enumerate((odd | {"next": 3, "text-one": "1", "one-and-a-half": 1.5}).items())
    ]


def _leaves() -> list[Case]:
    """Each value of the description replaced by odd ones, on roads that take turns."""
    found = []
    for kind, ways in DESCRIPTIONS.items():
        for i, way in enumerate(ways):
            for j, (name, value) in enumerate(some(ODD_JSON, i, 2 if kind == "model" else 1)):
                road = _two_roads(kind, i // 2)[(i + j) % 2]
                setting = SETTINGS.get(dotted(way[1:])) if way[0] == "settings" else None
                refused = setting is not None and name in ("nan", "text", "object") and road[:4] != "info"
                expected = right_answer(setting, name) if refused else EITHER
                found.append(_case(kind, f"{dotted(way)}-{name}", road, _leaf(way, value), expected & EITHER))
        for i, key in enumerate(dict.fromkeys(way[0] for way in ways)):
            gone = partial(edit, change=lambda content, key=key: content.pop(key))
            found += [_case(kind, f"no-{key}", road, gone, EITHER) for road in _two_roads(kind, i)]
    return found


def _leaf(way: Way, value: Any) -> Damage:
    return partial(edit, change=lambda content: put(content, way, value))


def _below(*start: str | int, keys: str = "") -> list[Way]:
    return [start, *((*start, key) for key in keys.split())]


SETTINGS = setting_kinds(HomefoldConfig)
_CONFIG = [("settings", *way) for way in leaves(config_to_dict(HomefoldConfig()))]
_OF_FEATURES = ("manifold", "classifier", "search")
DESCRIPTIONS: dict[str, list[Way]] = {
    "model": [
        ("kind",), ("classes", 0), ("source_domains", 0), *_below("classes"), *_below("source_domains"),
        *_below("versions", keys="torch"), *_below("measured"),
        *_below("measured", "images", keys="trained_on skipped"),
        *_below("measured", "features", keys="selected_epoch"), *_below("measured", "style"),
        *_below("measured", "manifold", keys="reconstruction_cosine components"),
        *_below("measured", "classifier", keys="held_out_accuracy"),
        *_below("settings", keys="features manifold look search style preprocessing"), *_CONFIG,
    ],
    "projector": [
        ("kind",), ("classes",), ("classes", 0), ("feature_dim",), *_below("settings", keys=" ".join(_OF_FEATURES)),
        *_below("measured", "manifold", keys="reconstruction_cosine components"), ("settings", "seed"),
        *(way for way in _CONFIG if way[1] in _OF_FEATURES),
        *_below("settings", keys="normalise_features held_out"),
    ],
}  # fmt: skip


def _places() -> list[Case]:
    """What is given in the place of a model."""
    roads = {**ROADS, "library": LIBRARY["model"]}
    found = [
        Case("model_folders", f"place-{name}", road, lambda s, m=make, r=road: roads[r](s, m(s)), expected)
        for i, (name, (make, expected)) in enumerate(PLACES.items())
        for road in _two_roads("model", i)
    ]
    other = Case(
        "model_folders", "place-model-for-projector", "library", lambda s: LIBRARY["projector"](s, s.model), REFUSAL
    )
    return [*found, other]


def _new(name: str, make: Damage) -> Callable[[Scene], Path]:
    return lambda scene: (make(scene.place / name), scene.place / name)[1]


def _link(name: bytes) -> Callable[[Scene], Path]:
    return lambda scene: _new(os.fsdecode(name), lambda path: path.symlink_to(scene.model))(scene)


PLACES: dict[str, tuple[Callable[[Scene], Any], frozenset[str]]] = {
    "projector": (lambda scene: scene.projector, EITHER),
    "nowhere": (lambda scene: "nowhere", REFUSAL),
    "no-name": (lambda scene: "", NO),
    "here": (lambda scene: ".", REFUSAL),
    "photos": (lambda scene: scene.photos, REFUSAL),
    "file": (_new("file", Path.touch), REFUSAL),
    "empty-folder": (_new("folder", Path.mkdir), REFUSAL),
    "pipe": (_new("pipe", os.mkfifo), REFUSAL),
    "loop": (_new("loop", lambda path: path.symlink_to(path.name)), REFUSAL),
    "dangling-link": (_new("link", lambda path: path.symlink_to("nowhere")), REFUSAL),
    "device": (lambda scene: "/dev/null", REFUSAL),
    "long-name": (lambda scene: "m" * 5000, REFUSAL),
    "long-path": (lambda scene: "m/" * 3000, REFUSAL),
    "below-a-file": (lambda scene: scene.image / "model", REFUSAL),
    "bad-bytes": (lambda scene: os.fsdecode(b"m\xff\xfe"), REFUSAL),
    "newline": (lambda scene: "m\nn", REFUSAL),
    "home": (lambda scene: "~", REFUSAL),
    "config-itself": (lambda scene: scene.model / "model.json", REFUSAL),
    "link": (_link(b"link"), ANSWER),
    "bad-bytes-link": (_link(b"m\xff"), EITHER),
    "newline-link": (_link(b"m\nn"), ANSWER),
    "slash-behind": (lambda scene: f"{scene.model}/", ANSWER),
    "around": (lambda scene: scene.model / ".." / scene.model.name, ANSWER),
}
