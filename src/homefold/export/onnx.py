"""A folder with a model as ONNX, how its input is made, and a card; nothing is left of one that answers otherwise."""

from __future__ import annotations

import io
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

from homefold.errors import ConfigError, HomefoldError, cut
from homefold.export.predictor import OUTPUTS, Loop, Predictor, one_loop, unrolled
from homefold.export.preprocessor import INPUT, as_input, check_files, preprocessor
from homefold.runtime.device import one_thread
from homefold.runtime.provenance import hardware
from homefold.stages.predictions import Predictions
from homefold.stages.task import ImageSet
from homefold.store.files import atomic_directory, read_json, write_json
from homefold.version import __version__

if TYPE_CHECKING:
    from homefold.model import Homefold

__all__ = ["Exported", "export_onnx", "largest_differences", "session", "time_ratios"]

MODEL, PREPROCESSOR, CARD = "model.onnx", "preprocessor.json", "README.md"
_TOLERANCE = 2e-4
_BATCHES = (1, 13)
_TURNS = 3
_MOST_UNROLLED = 400
_OPSET = 20


@dataclass(frozen=True)
class Exported:
    """What was written, and how it compares with the model it was made from.

    Args:
        folder: where it is.
        loop: whether the search is one loop in the graph; else its steps stand one after the other.
        nodes: of the graph, those inside the loop included.
        images: on how many the two were compared.
        probability_difference: the largest one.
        distance_difference: the largest one of the cosine distance to the source manifold.
        times_eager: how long onnxruntime takes for a batch of 13 as a multiple of torch, on one thread of this machine.
    """

    folder: Path
    loop: bool
    nodes: int
    images: int
    probability_difference: float
    distance_difference: float
    times_eager: float


def export_onnx(model: Homefold, folder: Path | str, *, overwrite: bool = False) -> Exported:
    """Write `model` as ONNX into `folder`, once onnxruntime has given the same answers as torch.

    Args:
        model: fitted, on the CPU.
        folder: a new one, an empty one, or with `overwrite` an earlier export.
        overwrite: replace an earlier export.
    """
    _require_packages()
    if model.device.type != "cpu":
        raise ConfigError("a model is exported on the CPU; load it with device='cpu'.")
    with atomic_directory(folder, lambda path: _require_replaceable(path, overwrite=overwrite)) as temporary:
        looped, nodes = _write_graph(model, temporary / MODEL)
        write_json(temporary / PREPROCESSOR, preprocessor(model))
        found = Exported(Path(folder), looped, nodes, *_verified(model, temporary))
        (temporary / CARD).write_text(_card(model, found), encoding="utf-8")
    return found


def session(file: Path | str, threads: int = 0) -> Any:
    """onnxruntime's session on the CPU; 0 threads are as many as it likes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def largest_differences(
    model: Homefold, runtime: Any, images: np.ndarray, batch: int, told: Predictions | None = None
) -> tuple[float, float, int]:
    """The largest difference in probabilities and in distances, and how many labels differ, `batch` images at once.

    `told` is what the model says of these images, where that is known.
    """
    told = model.predict(images) if told is None else told
    parts = [runtime.run(list(OUTPUTS), {INPUT: images[i : i + batch]}) for i in range(0, len(images), batch)]
    probabilities, off_manifold = (np.concatenate([part[i] for part in parts]) for i in range(len(OUTPUTS)))
    scale = model.feature_model.off_manifold_scale(model.feature_model.search)
    return (
        float(np.abs(probabilities - told.probabilities).max()),
        float(np.abs(off_manifold - told.off_manifold).max() * scale),
        int((probabilities.argmax(axis=1) != told.indices).sum()),
    )


def time_ratios(
    model: Homefold, runtime: Any, images: np.ndarray, turns: int, clock: Callable[[], float] = time.perf_counter
) -> list[tuple[float, float]]:
    """By turn, how long onnxruntime takes for these images at once as a multiple of torch, and torch's seconds."""
    found = []
    for _ in range(turns):
        began = clock()
        runtime.run(list(OUTPUTS), {INPUT: images})
        between = clock()
        model.trained.answer(ImageSet(images))
        eager = clock() - between
        found.append(((between - began) / eager, eager))
    return found


def _require_packages() -> None:
    missing = [name for name in ("onnx", "onnxruntime", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"an export needs {', '.join(missing)}, which are missing: pip install 'homefold[onnx]'.")


def _require_replaceable(path: Path, *, overwrite: bool) -> None:
    """Refuse to replace anything but an empty folder, and with `overwrite` an earlier export."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    names = {item.name for item in path.iterdir()} if path.is_dir() else set()
    if not names or not names <= {MODEL, PREPROCESSOR, CARD, f"{MODEL}.data"} or PREPROCESSOR not in names:
        raise ConfigError(f"{path} is not empty and no export; choose another folder.")
    if not overwrite:
        raise ConfigError(f"{path} holds an export already; choose another folder, or overwrite it.")


def _write_graph(model: Homefold, file: Path) -> tuple[bool, int]:
    """Whether the search became one loop, and how many nodes there are."""
    steps = model.feature_model.search.steps
    attempts: list[tuple[bool, Loop]] = [(True, one_loop)]
    if steps <= _MOST_UNROLLED:
        attempts.append((False, unrolled))
    reason = ""
    for looped, loop in attempts:
        try:
            return looped, _export(Predictor(model.trained, loop).eval(), _example(model), file)
        except HomefoldError:
            raise
        except Exception as error:  # whatever torch's exporter ends in: torch 2.11 knows no loops
            reason = cut(" ".join(str(error).split()))
    advice = "" if steps <= _MOST_UNROLLED else f" A search of at most {_MOST_UNROLLED} steps needs no loop."
    raise ConfigError(f"torch {torch.__version__} could not export this model ({reason}).{advice}")


def _example(model: Homefold) -> torch.Tensor:
    side = model.config.preprocessing.image_size
    # More than one, and no size that something else in the graph has.
    return torch.zeros(_BATCHES[1], side, side, 3, dtype=torch.uint8)


def _export(predictor: Predictor, example: torch.Tensor, file: Path) -> int:
    with torch.no_grad(), _quietly():
        # Once for real: filters and random starts are drawn and remembered, which tracing must not do.
        predictor(example)
        program = torch.onnx.export(
            predictor,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
            input_names=[INPUT],
            output_names=list(OUTPUTS),
            opset_version=_OPSET,
            custom_translation_table=_translations(),
            verbose=False,
        )
    assert program is not None
    program.save(str(file))
    return _count(program.model_proto.graph)


def _translations() -> dict[Any, Any]:
    """Operations that torch's exporter does not translate: inside a loop newer versions write a · b + c as one."""
    from onnxscript import opset20

    fma = getattr(torch.ops.prims, "fma", None)
    return {} if fma is None else {fma.default: lambda a, b, c: opset20.Add(opset20.Mul(a, b), c)}


def _count(graph: Any) -> int:
    inner = (attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g"))
    return len(graph.node) + sum(map(_count, inner))


@contextmanager
def _quietly() -> Iterator[None]:
    """The exporter warns and logs of its own doings."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "torch.export")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _verified(model: Homefold, folder: Path) -> tuple[int, float, float, float]:
    """On how many image files onnxruntime and torch were compared, the largest differences over all batch sizes, and
    the ratio of their times; too large differences are refused.

    torch gets the files; what the graph gets is made of them as the folder's preprocessor says.
    """
    files, about = check_files(model), read_json(folder / PREPROCESSOR)["input"]
    images = np.stack([as_input(Image.open(io.BytesIO(file)), about) for file in files])
    told = model.predict(files)
    with one_thread(torch.device("cpu")):
        runtime = session(folder / MODEL, threads=1)
        found = [largest_differences(model, runtime, images, batch, told) for batch in _BATCHES]
        ratio = median(ratio for ratio, _ in time_ratios(model, runtime, images[: max(_BATCHES)], _TURNS))
    probability, distance, labels = (max(column) for column in zip(*found, strict=True))
    if labels or not probability <= _TOLERANCE or not distance <= _TOLERANCE:
        raise ConfigError(
            f"the exported model answers otherwise than this one: probabilities differ by up to {probability:.1e}, "
            f"distances by up to {distance:.1e} (at most {_TOLERANCE:.0e} is allowed), and {labels} of {len(images)} "
            f"labels. Nothing was written. A search with search.stop=fixed and search.step=adam is the least sensitive."
        )
    return len(images), float(probability), float(distance), ratio


def _card(model: Homefold, found: Exported) -> str:
    side, classes = model.config.preprocessing.image_size, model.class_names
    how = "one loop" if found.loop else "steps one after the other"
    lines = [
        "# A homefold model as ONNX",
        "",
        f"Tells {len(classes)} classes apart ({', '.join(classes)}), also in domains it has never seen.",
        "",
        f"- `{MODEL}`: input `{INPUT}`, `(n, {side}, {side}, 3)` uint8 RGB; outputs `probabilities` "
        f"`(n, {len(classes)})` and `off_manifold` `(n,)`. The search is in the graph ({how}, {found.nodes} nodes).",
        f"- `{PREPROCESSOR}`: how an image becomes that input, and the names of the classes.",
        "",
        f"Compared with torch on {found.images} images at batches of {' and '.join(map(str, _BATCHES))}: all labels "
        f"are equal, probabilities within {found.probability_difference:.1e}, cosine distances within "
        f"{found.distance_difference:.1e}. The images were files of several sizes, prepared as `{PREPROCESSOR}` says.",
        "",
        f"Speed: {found.times_eager:.2f} times the time of torch for {max(_BATCHES)} images at once, on one thread "
        f"({hardware(torch.device('cpu'))}).",
        "",
        f"Made with homefold {__version__} and torch {torch.__version__}. It runs with onnxruntime, without torch and "
        "without homefold.",
        "",
    ]
    return "\n".join(lines)
