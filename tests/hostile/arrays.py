"""Arrays of every shape and kind given to both estimators, and places that a model must not be saved onto."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from homefold import Homefold, ManifoldProjector
from homefold.config import replace_settings
from hostile.campaign import ANSWER, EITHER, REFUSAL, Call, Case, Scene

_case = partial(Case, "images_and_archives")
# scikit-learn's conventions ask for these.
_SCIKIT = (ValueError, TypeError)


def cases() -> list[Case]:
    """Those of the family that are no files."""
    return [*_images(), *_labels(), *_rows(), *_saved()]


def _pictures(count: int = 8) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 16, 16, 3), dtype=np.uint8)


def _features(count: int = 24) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, 12)).astype(np.float32)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


Table = dict[str, tuple[Callable[[], Any], frozenset[str]]]


def _tensor(array: Callable[[], np.ndarray], scale: float = 1.0) -> Callable[[], torch.Tensor]:
    return lambda: torch.from_numpy(array() * np.float32(scale))


def _of_any_kind(array: Callable[[], np.ndarray], scale: float) -> Table:
    """Forms in which the same good values may come, and what no array of values is."""
    tensor, shape = _tensor(array, scale), array().shape
    return {
        "fortran": (lambda: np.asfortranarray(array()), ANSWER),
        "backwards": (lambda: array()[:, ::-1], ANSWER),
        "upside-down": (lambda: array()[::-1], ANSWER),
        "every-second": (lambda: np.repeat(array(), 2, axis=1)[:, ::2], ANSWER),
        "read-only": (lambda: _frozen(array()), ANSWER),
        "float16": (lambda: (array() * scale).astype(np.float16), ANSWER),
        "big-endian": (lambda: (array() * scale).astype(">f4"), ANSWER),
        "broadcast": (lambda: np.broadcast_to(array()[:1], shape), ANSWER),
        "tensor": (tensor, ANSWER),
        "tensor-bfloat16": (lambda: tensor().bfloat16(), ANSWER),
        "tensor-half": (lambda: tensor().half(), ANSWER),
        "tensor-gradient": (lambda: tensor().requires_grad_(), ANSWER),
        "tensor-transposed": (lambda: tensor().transpose(0, 1).contiguous().transpose(0, 1), ANSWER),
        "tensor-meta": (lambda: tensor().to("meta"), REFUSAL),
        "tensor-sparse": (lambda: tensor().to_sparse(), REFUSAL),
        "tensor-complex": (lambda: tensor().to(torch.complex64), REFUSAL),
        "nan": (lambda: np.full(shape, np.nan), REFUSAL),
        "inf": (lambda: np.full(shape, np.inf), REFUSAL),
        "huge": (lambda: np.full(shape, 1e300), REFUSAL),
        "complex": (lambda: array().astype(complex), REFUSAL),
        "words": (lambda: np.full(shape, "a"), REFUSAL),
        "objects": (lambda: array().astype(object), EITHER),
        "objects-odd": (lambda: np.full(shape, None), REFUSAL),
        "dates": (lambda: np.zeros(shape, "datetime64[s]"), EITHER),
        "records": (lambda: np.zeros(shape, [("r", "u1"), ("g", "u1")]), REFUSAL),
        "masked": (lambda: np.ma.masked_array(array(), mask=True), EITHER),
        "bools": (lambda: array() > 0, EITHER),
        "no-rows": (lambda: array()[:0], REFUSAL),
        "no-columns": (lambda: array()[:, :0], REFUSAL),
        "scalar": (lambda: np.asarray(3.0), REFUSAL),
        "one-axis": (lambda: np.zeros(5, np.uint8), REFUSAL),
        "ragged-list": (lambda: [[1.0], [1.0, 2.0]], REFUSAL),
        "list-of-none": (lambda: [None], REFUSAL),
        "empty-list": (list, REFUSAL),
        "none": (lambda: None, REFUSAL),
        "number": (lambda: 5, REFUSAL),
        "bytes-object": (lambda: b"image.png", REFUSAL),
        "dictionary": (lambda: {"a": 1}, REFUSAL),
    }


IMAGES: Table = _of_any_kind(_pictures, 1 / 255) | {
    "bytes": (_pictures, ANSWER),
    "int64": (lambda: _pictures().astype(np.int64), ANSWER),
    "channels-first": (lambda: _pictures().transpose(0, 3, 1, 2), ANSWER),
    "greys": (lambda: _pictures()[..., 0], ANSWER),
    "one-image": (lambda: _pictures()[0], ANSWER),
    "one-pixel": (lambda: np.zeros((1, 1, 1, 3), np.uint8), ANSWER),
    "quantised": (lambda: torch.quantize_per_tensor(torch.zeros(2, 3, 16, 16), 1.0, 0, torch.quint8), REFUSAL),
    "negative": (lambda: np.full((2, 16, 16, 3), -0.1), REFUSAL),
    "too-large": (lambda: np.full((2, 16, 16, 3), 256), REFUSAL),
    "floats-of-255": (lambda: _pictures().astype(float), REFUSAL),
    "two-axes": (lambda: np.zeros((5, 5), np.uint8), REFUSAL),
    "five-axes": (lambda: np.zeros((1, 1, 5, 5, 3), np.uint8), REFUSAL),
    "four-channels": (lambda: np.zeros((2, 16, 16, 4), np.uint8), REFUSAL),
    "list": (lambda: _pictures().tolist(), EITHER),
    "list-of-numbers": (lambda: [1, 2, 3], REFUSAL),
}
ROWS: Table = _of_any_kind(_features, 1.0) | {
    "list": (lambda: _features().tolist(), ANSWER),
    "ints": (lambda: (10 * _features()).astype(int), ANSWER),
    "zeros": (lambda: np.zeros((24, 12)), EITHER),
    "largest": (lambda: np.full((24, 12), 3e38, np.float32), EITHER),
    "tiny": (lambda: np.full((24, 12), 1e-45), EITHER),
    "text-of-numbers": (lambda: _features().astype(str), EITHER),
    "one-row": (lambda: _features()[:1], EITHER),
    "three-axes": (lambda: _features()[None], REFUSAL),
    "other-width": (lambda: _features()[:, :5], REFUSAL),
}


def _images() -> list[Case]:
    found = []
    for name, (make, expected) in IMAGES.items():
        found.append(
            _case(f"array-{name}", "library", lambda s, m=make: Call(lambda: s.homefold.predict(m())), expected)
        )
        # What answers may still be too little to learn from.
        right = EITHER if expected == REFUSAL or name.startswith(("one-", "broadcast")) else expected
        found.append(_case(f"fit-array-{name}", "library", partial(_fit, make, None, None), right))
    return found


def _fit(make: Callable[[], Any], labels: Any, domains: Any, scene: Scene) -> Call:
    def fit() -> None:
        images = make()
        count = len(images) if isinstance(images, list) or (hasattr(images, "__len__") and np.ndim(images)) else 8
        given = np.arange(count) % 2 if labels is None else labels
        origins = np.arange(count) // 2 % 2 if domains is None else domains
        # The nearest feature is a manifold that cannot collapse.
        config = replace_settings(scene.homefold.config, {"manifold.kind": "nearest"})
        Homefold(config, device="cpu").fit(images, given, origins)

    return Call(fit)


LABELS: dict[str, tuple[Any, frozenset[str]]] = {
    "text": (list("abababab"), ANSWER),
    "floats": ([0.0, 1.0] * 4, ANSWER),
    "fractions": ([0.5, 1.0] * 4, REFUSAL),
    "nan": ([float("nan"), 1.0] * 4, REFUSAL),
    "none": ([None] * 8, REFUSAL),
    "mixed": ([0, "a"] * 4, EITHER),
    "too-few": ([0, 1], REFUSAL),
    "too-many": ([0, 1] * 9, REFUSAL),
    "two-axes": ([[0, 1]] * 8, REFUSAL),
    "negative": ([-1, 5] * 4, EITHER),
    "huge": ([0, 2**62] * 4, EITHER),
    "objects": ([{"a": 1}] * 8, REFUSAL),
    "bytes": ([b"a", b"b"] * 4, EITHER),
    "each-its-own": (list(range(8)), EITHER),
    "number": (3, REFUSAL),
    "empty-text": (["", "a"] * 4, EITHER),
    "surrogates": (["\ud800", "a"] * 4, EITHER),
}


def _labels() -> list[Case]:
    def projector(values: Any, scene: Scene) -> Call:
        model = ManifoldProjector(manifold="nearest", classifier_epochs=2, device="cpu")
        return Call(lambda: model.fit(_features(8), values), errors=_SCIKIT)

    found = []
    for name, (values, expected) in LABELS.items():
        found.append(_case(f"labels-{name}", "library", partial(_fit, _pictures, values, None), expected))
        found.append(_case(f"domains-{name}", "library", partial(_fit, _pictures, None, values), expected))
        found.append(_case(f"projector-labels-{name}", "library", partial(projector, values), EITHER))
    return found


def _rows() -> list[Case]:
    """Features given to the projector, to fit and to answer for."""

    def fit(make: Callable[[], Any], scene: Scene) -> Call:
        model = ManifoldProjector(manifold="nearest", classifier_epochs=2, device="cpu")
        return Call(lambda: model.fit(make(), np.arange(24) % 2), errors=_SCIKIT)

    def predict(make: Callable[[], Any], scene: Scene) -> Call:
        return Call(lambda: scene.features.predict(make()), errors=_SCIKIT)

    found = []
    for name, (make, expected) in ROWS.items():
        found.append(_case(f"rows-{name}", "library", partial(predict, make), expected))
        right = EITHER if name in ("other-width", "broadcast") else expected
        found.append(_case(f"fit-rows-{name}", "library", partial(fit, make), right))
    return found


def _saved() -> list[Case]:
    """What a model may and may not be saved onto."""

    def save(which: str, make: Callable[[Scene], Any], scene: Scene) -> Call:
        place = make(scene)
        return Call(lambda: getattr(scene, which).save(place), out=Path(place))

    return [
        _case(f"save-{which}-on-{name}", "library", partial(save, which, make), expected)
        for which in ("homefold", "features")
        for name, (make, expected) in SAVE_PLACES.items()
    ]


def _new(name: str, make: Callable[[Path], object], given: str = "") -> Callable[[Scene], Any]:
    """Something at `name`, and what is given: that, or another name."""
    return lambda scene: (make(scene.place / name), given or scene.place / name)[1]


def _linked(target: Callable[[Scene], Path | str]) -> Callable[[Scene], Path]:
    return lambda scene: _new("link", lambda path: path.symlink_to(target(scene)))(scene)


SAVE_PLACES: dict[str, tuple[Callable[[Scene], Any], frozenset[str]]] = {
    "nothing": (lambda scene: "new", ANSWER),
    "nothing-deep": (lambda scene: "a/b/c", ANSWER),
    "empty-folder": (_new("folder", Path.mkdir), ANSWER),
    "model": (lambda scene: scene.copy(scene.model), ANSWER),
    "projector": (lambda scene: scene.copy(scene.projector), ANSWER),
    "photos": (lambda scene: scene.copy(scene.photos), REFUSAL),
    "runs": (lambda scene: scene.copy(scene.runs), REFUSAL),
    "here": (_new("notes.txt", Path.touch, "."), REFUSAL),
    "no-name": (_new("notes.txt", Path.touch, ""), REFUSAL),
    "file": (_new("notes.txt", Path.touch), REFUSAL),
    "below-a-file": (_new("notes.txt", Path.touch, "notes.txt/model"), REFUSAL),
    "folder-of-hidden-files": (_new(".secret", Path.touch, "."), REFUSAL),
    "folder-with-other-config": (_new("config.json", lambda path: path.write_text("{}"), "."), REFUSAL),
    "pipe": (_new("pipe", os.mkfifo), REFUSAL),
    "link-to-photos": (_linked(lambda scene: scene.copy(scene.photos)), REFUSAL),
    "link-to-nowhere": (_linked(lambda scene: "nowhere"), EITHER),
    "link-loop": (_linked(lambda scene: "link"), REFUSAL),
    "long-name": (lambda scene: "m" * 300, REFUSAL),
}
