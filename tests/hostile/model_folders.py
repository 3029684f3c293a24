"""Model folders that were cut, replaced, edited and summed again, given to everything that reads them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from homefold import Homefold, ManifoldProjector
from homefold.config import HomefoldConfig, config_to_dict
from hostile.campaign import ANSWER, ANY, EITHER, NO, REFUSAL, Call, Case, Command, Scene
from hostile.damage import DEEP, FILE_DAMAGE, ODD_JSON, ODD_JSON_TEXTS, dotted, garbage, leaves, put

Damage = Callable[[Path], object]

IMAGE_ROADS: dict[str, Callable[[Scene, Path], Command | Call]] = {
    "info": lambda scene, model: Command(("info", model)),
    "info-json": lambda scene, model: Command(("info", model, "--json")),
    "predict": lambda scene, model: Command(("predict", model, scene.image, "--json", "--device", "cpu")),
    "evaluate": lambda scene, model: Command(("evaluate", model, scene.photos, "--domain", "night", "--device", "cpu")),
    "library": lambda scene, model: Call(lambda: Homefold.load(model, device="cpu").predict(scene.image)),
}
FEATURE_ROADS: dict[str, Callable[[Scene, Path], Command | Call]] = {
    "info": IMAGE_ROADS["info"],
    "library": lambda scene, model: Call(lambda: ManifoldProjector.load(model, device="cpu").predict([[0.5] * 12])),
}
KINDS = {"model": IMAGE_ROADS, "projector": FEATURE_ROADS}


def cases() -> list[Case]:
    """The whole table."""
    return [*_files(), *_texts(), *_tensors(), *_listed_files(), *_versions(), *_leaves(), *_places()]


def _case(kind: str, name: str, road: str, damage: Damage, expected: frozenset[str]) -> Case:
    def arrange(scene: Scene) -> Command | Call:
        folder = scene.copy(scene.model if kind == "model" else scene.projector)
        damage(folder)
        return KINDS[kind][road](scene, folder)

    return Case("model_folders", f"{kind}-{name}", road, arrange, expected)


def _on_every_road(kind: str, name: str, damage: Damage, expected: frozenset[str]) -> list[Case]:
    return [_case(kind, name, road, damage, expected) for road in KINDS[kind] if road != "info-json"]


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the description of a model and sum it again, and every file that is there."""
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content.pop("checksum")
    files = content["files"]
    for name in files:
        if (folder / name).is_file():
            files[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    change(content)
    checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**content, "checksum": checksum}), encoding="utf-8")


def _nothing_more(content: dict[str, Any]) -> None:
    """Only sum again."""


FILES = {
    "model": ("config.json", "README.md", "features.safetensors", "home.safetensors", "style.safetensors"),
    "projector": ("config.json", "README.md", "home.safetensors"),
}


def _files() -> list[Case]:
    found = []
    for kind, files in FILES.items():
        for file in files:
            for name, damage in FILE_DAMAGE.items():
                expected = ANSWER if file == "README.md" else REFUSAL
                if (file, name) == ("config.json", "last-byte-gone"):
                    expected = ANSWER
                roads = KINDS[kind] if file != "README.md" else ("info", "library")
                found += [
                    _case(kind, f"{file}-{name}", road, lambda folder, f=file, d=damage: d(folder / f), expected)
                    for road in roads
                    if road != "info-json"
                ]
            if file.endswith("safetensors"):
                for name in ("empty", "one-byte", "half", "last-byte-gone", "garbage", "zeros", "garbage-behind"):
                    found += _on_every_road(kind, f"{file}-{name}-summed", _summed(file, FILE_DAMAGE[name]), REFUSAL)
                for name, content in SAFETENSORS.items():
                    damage = _summed(file, lambda path, c=content: path.write_bytes(c))
                    found += [_case(kind, f"{file}-{name}", road, damage, REFUSAL) for road in ("info", "library")]
    return found


def _summed(file: str, damage: Damage) -> Damage:
    def both(folder: Path) -> None:
        damage(folder / file)
        edit(folder, _nothing_more)

    return both


def _safetensors(header: bytes, length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header


SAFETENSORS = {
    "header-longer-than-file": _safetensors(b"{}", 10**9),
    "header-endless": _safetensors(b"{}", 2**64 - 1),
    "header-deep": _safetensors(b"[" * DEEP),
    "header-no-tensors": _safetensors(b"{}"),
    "header-shape-huge": _safetensors(b'{"a":{"dtype":"F32","shape":[99999999999,99999999999],"data_offsets":[0,4]}}') + b"1234",
    "header-offsets-outside": _safetensors(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}') + b"1234",
    "header-unknown-type": _safetensors(b'{"a":{"dtype":"Q7","shape":[1],"data_offsets":[0,4]}}') + b"1234",
}


def _texts() -> list[Case]:
    found = []
    for kind in KINDS:
        for name, text in ODD_JSON_TEXTS.items():
            found += _on_every_road(kind, f"text-{name}", _described_by(lambda good, t=text: t), REFUSAL)
        for name, change in CHANGED_TEXTS.items():
            found += _on_every_road(kind, f"text-{name}", _described_by(change), EITHER if name == "bom" else REFUSAL)
    return found


def _described_by(change: Callable[[bytes], bytes]) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "config.json"
        path.write_bytes(change(path.read_bytes()))

    return damage


CHANGED_TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "bom": lambda good: b"\xef\xbb\xbf" + good,
    "bad-byte-inside": lambda good: good.replace(b'"kind"', b'"k\xffnd"', 1),
    "deep-inside": lambda good: good.replace(b'"kind": ', b'"a": ' + b"[" * DEEP + b"]" * DEEP + b', "kind": ', 1),
    "digits-inside": lambda good: good.replace(b'"format_version": 1', b'"format_version": ' + b"1" * 5000, 1),
    "nan-inside": lambda good: good.replace(b'"format_version": 1', b'"format_version": NaN', 1),
    "one-letter-changed": lambda good: good.replace(b'"kind"', b'"kine"', 1),
    "twice-a-key": lambda good: good.replace(b'"kind": ', b'"kind": "other", "format_version": 7, "kind": ', 1),
    "comment": lambda good: b"// a model\n" + good,
    "upper-case": lambda good: good.upper(),
}


def _tensors() -> list[Case]:
    found = []
    for kind, files in FILES.items():
        for file in files:
            for name, (change, expected) in TENSOR_CHANGES.items() if file.endswith("safetensors") else ():
                for road in KINDS[kind]:
                    if road == "info-json":
                        continue
                    right = EITHER if road == "info" else expected
                    found.append(_case(kind, f"{file}-{name}", road, _summed(file, _tensors_changed(change)), right))
    return found


def _tensors_changed(change: Callable[[dict[str, torch.Tensor], str], object]) -> Damage:
    """Change the largest tensor of floats of a file, or all around it."""

    def damage(path: Path) -> None:
        tensors = load_file(path)
        floats = {name: value for name, value in tensors.items() if value.is_floating_point()}
        change(tensors, max(floats, key=lambda name: floats[name].numel()))
        save_file({name: value.contiguous() for name, value in tensors.items()}, path)

    return damage


def _each(tensor: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[dict[str, torch.Tensor], str], object]:
    return lambda tensors, name: tensors.update({name: tensor(tensors[name])})


TENSOR_CHANGES: dict[str, tuple[Callable[[dict[str, torch.Tensor], str], object], frozenset[str]]] = {
    "tensor-gone": (lambda tensors, name: tensors.pop(name), REFUSAL),
    "tensor-renamed": (lambda tensors, name: tensors.update({"other": tensors.pop(name)}), REFUSAL),
    "tensor-besides": (lambda tensors, name: tensors.update(other=torch.zeros(3)), EITHER),
    "all-tensors-gone": (lambda tensors, name: (tensors.clear(), tensors.update(a=torch.zeros(1))), REFUSAL),
    "tensor-scalar": (_each(lambda t: t.sum()), REFUSAL),
    "tensor-empty": (_each(lambda t: t[:0]), REFUSAL),
    "tensor-shorter": (_each(lambda t: t[:-1]), REFUSAL),
    "tensor-longer": (_each(lambda t: torch.cat([t, t])), REFUSAL),
    "tensor-flat": (_each(lambda t: t.flatten()), REFUSAL),
    "tensor-one-axis-more": (_each(lambda t: t[None]), REFUSAL),
    "tensor-int64": (_each(lambda t: t.long()), EITHER),
    "tensor-float16": (_each(lambda t: t.half()), EITHER),
    "tensor-bfloat16": (_each(lambda t: t.bfloat16()), EITHER),
    "tensor-float64": (_each(lambda t: t.double()), EITHER),
    "tensor-bool": (_each(lambda t: t > 0), EITHER),
    "tensor-nan": (_each(lambda t: torch.full_like(t, torch.nan)), REFUSAL),
    "tensor-one-nan": (_each(lambda t: t.flatten().index_fill(0, torch.tensor([0]), torch.nan).view_as(t)), REFUSAL),
    "tensor-inf": (_each(lambda t: torch.full_like(t, torch.inf)), REFUSAL),
    "tensor-zeros": (_each(torch.zeros_like), EITHER),
    "tensor-huge": (_each(lambda t: torch.full_like(t, 3e38)), EITHER),
}


def _listed_files() -> list[Case]:
    found = []
    for kind in KINDS:
        for name, listed in LISTED_FILES.items():
            found += _on_every_road(kind, f"files-{name}", _listing(listed), REFUSAL)
    return found


def _outside(folder: Path, name: str) -> str:
    """A good file that lies outside the model, and its digest."""
    other = folder.parent / "outside.safetensors"
    other.write_bytes((folder / "home.safetensors").read_bytes())
    return hashlib.sha256(other.read_bytes()).hexdigest()


def _pipe(folder: Path, name: str) -> str:
    os.mkfifo(folder / "pipe")
    return "0" * 64


LISTED_FILES: dict[str, tuple[Callable[[Path], str], Callable[[Path, str], str]] | object] = {
    "beside": ("../outside.safetensors", _outside),
    "absolute": ("{}/outside.safetensors", _outside),
    "around": ("../model/../outside.safetensors", _outside),
    "endless": ("/dev/zero", lambda folder, name: "0" * 64),
    "standard-input": ("/dev/stdin", lambda folder, name: "0" * 64),
    "pipe": ("pipe", _pipe),
    "folder-itself": (".", lambda folder, name: "0" * 64),
    "no-name": ("", lambda folder, name: "0" * 64),
    "nul": ("a\0b.safetensors", lambda folder, name: "0" * 64),
    "long-name": ("a" * 5000, lambda folder, name: "0" * 64),
    "absent": ("more.safetensors", lambda folder, name: "0" * 64),
    "surrogate": ("\ud800.safetensors", lambda folder, name: "0" * 64),
    "digest-none": ("home.safetensors", lambda folder, name: None),
    "digest-number": ("home.safetensors", lambda folder, name: 5),
    "digest-list": ("home.safetensors", lambda folder, name: ["0"]),
    "list": ["home.safetensors"],
    "text": "home.safetensors",
    "null": None,
    "number": 5,
    "none-at-all": {},
}


def _listing(listed: Any) -> Damage:
    def damage(folder: Path) -> None:
        if not isinstance(listed, tuple):
            return edit(folder, lambda content: content.update(files=listed))
        name, digest = listed
        placed = name.format(folder.parent)
        summed = digest(folder, placed)
        # In the place of a file that is needed, so that it has to be read.
        return edit(
            folder,
            lambda content: content.update(
                files={**{n: d for n, d in content["files"].items() if n != "home.safetensors"}, placed: summed}
            ),
        )

    return damage


def _versions() -> list[Case]:
    odd = {**ODD_JSON, "next": 2, "text-one": "1", "one-and-a-bit": 1.5}
    return [
        _case(kind, f"format-version-{name}", road, lambda folder, v=value: edit(folder, lambda c: c.update(format_version=v)), expected)
        for kind in KINDS
        for name, value in odd.items()
        if name != "surrogate"
        for road in ("info", "library")
        for expected in [EITHER if name == "true" else REFUSAL]
    ]


def _leaves() -> list[Case]:
    """Each value of the description replaced by odd ones, on roads that take turns."""
    found = []
    for kind, description in DESCRIPTIONS.items():
        roads, odd = list(KINDS[kind]), list(ODD_JSON.items())
        for i, path in enumerate(description):
            for j in range(0, 3):
                name, value = odd[(3 * i + 5 * j) % len(odd)]
                road = roads[(i + j) % len(roads)]
                found.append(_case(kind, f"{dotted(path)}-{name}", road, _leaf(path, value), EITHER))
        for key in sorted({path[0] for path in description}):
            found += _on_every_road(kind, f"no-{key}", _without(key), EITHER)
    return found


def _leaf(path: tuple[str | int, ...], value: Any) -> Damage:
    return lambda folder: edit(folder, lambda content: put(content, path, value))


def _without(key: str | int) -> Damage:
    return lambda folder: edit(folder, lambda content: content.pop(key))


_CONFIG = [("config", *path) for path in leaves(config_to_dict(HomefoldConfig()))]
DESCRIPTIONS: dict[str, list[tuple[str | int, ...]]] = {
    "model": [
        ("kind",), ("class_names",), ("class_names", 0), ("source_domains",), ("source_domains", 0), ("versions",),
        ("versions", "torch"), ("reports",), ("reports", "images"), ("reports", "images", "trained_on"),
        ("reports", "images", "skipped"), ("reports", "features"), ("reports", "features", "selected_epoch"),
        ("reports", "manifold"), ("reports", "manifold", "reconstruction_cosine"), ("reports", "manifold", "components"),
        ("reports", "classifier"), ("reports", "classifier", "held_out_accuracy"), ("reports", "style"),
        ("config",), ("config", "features"), ("config", "manifold"), ("config", "projection"), ("config", "style"),
        ("config", "preprocessing"), *_CONFIG,
    ],
    "projector": [
        ("kind",), ("classes",), ("classes", 0), ("n_features_in",), ("manifold_report",),
        ("manifold_report", "reconstruction_cosine"), ("manifold_report", "components"), ("config",), ("parameters",),
        *(("config", part) for part in ("manifold", "classifier", "projection")),
        *(path for path in _CONFIG if path[1] in ("manifold", "classifier", "projection")),
        *(("parameters", name) for name in ManifoldProjector().get_params()),
    ],
}  # fmt: skip


def _places() -> list[Case]:
    """What is given in the place of a model."""
    found = []
    for name, (make, expected) in PLACES.items():
        for road, act in IMAGE_ROADS.items():
            if road != "info-json":
                found.append(
                    Case("model_folders", f"place-{name}", road, lambda s, m=make, a=act: a(s, m(s)), expected)
                )
    other = {"library": lambda s: Call(lambda: Homefold.load(s.projector, device="cpu"))}
    for road in ("predict", "evaluate"):
        other[road] = lambda s, a=IMAGE_ROADS[road]: a(s, s.projector)
    found += [Case("model_folders", "place-projector-for-model", road, act, REFUSAL) for road, act in other.items()]
    wrong = Case(
        "model_folders",
        "place-model-for-projector",
        "library",
        lambda s: Call(lambda: ManifoldProjector.load(s.model, device="cpu")),
        REFUSAL,
    )
    return [*found, wrong]


def _made(name: str | bytes, make: Callable[[Path], object]) -> Callable[[Scene], Path]:
    def place(scene: Scene) -> Path:
        path = scene.place / os.fsdecode(name)
        make(path)
        return path

    return place


def _link(scene: Scene, name: str = "link") -> Path:
    path = scene.place / name
    path.symlink_to(scene.model)
    return path


PLACES: dict[str, tuple[Callable[[Scene], Any], frozenset[str]]] = {
    "nowhere": (lambda scene: scene.place / "nowhere", REFUSAL),
    "no-name": (lambda scene: "", REFUSAL),
    "here": (lambda scene: ".", REFUSAL),
    "photos": (lambda scene: scene.photos, REFUSAL),
    "file": (_made("file", lambda path: path.write_bytes(garbage(100))), REFUSAL),
    "empty-folder": (_made("folder", Path.mkdir), REFUSAL),
    "pipe": (_made("pipe", os.mkfifo), REFUSAL),
    "loop": (_made("loop", lambda path: path.symlink_to(path.name)), REFUSAL),
    "dangling-link": (_made("link", lambda path: path.symlink_to("nowhere")), REFUSAL),
    "device": (lambda scene: "/dev/null", REFUSAL),
    "long-name": (lambda scene: "m" * 5000, REFUSAL),
    "long-path": (lambda scene: "m/" * 3000, REFUSAL),
    "below-a-file": (_made("file", lambda path: path.write_bytes(b"")), REFUSAL),
    "bad-bytes": (lambda scene: os.fsdecode(b"m\xff\xfe"), REFUSAL),
    "newline": (lambda scene: "m\nn", REFUSAL),
    "home": (lambda scene: "~", REFUSAL),
    "config-itself": (lambda scene: scene.model / "config.json", REFUSAL),
    "link": (_link, ANSWER),
    "bad-bytes-link": (lambda scene: _link(scene, os.fsdecode(b"m\xff")), EITHER),
    "newline-link": (lambda scene: _link(scene, "m\nn"), ANSWER),
    "slash-behind": (lambda scene: f"{scene.model}/", ANSWER),
    "around": (lambda scene: scene.model / ".." / scene.model.name, ANSWER),
}
