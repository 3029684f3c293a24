"""What answers shards: a model in the memory of one process, here or on another machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from homefold.bulk.answering import answered, decoded
from homefold.bulk.plan import Shard
from homefold.bulk.question import Question
from homefold.bulk.reading import Entry, shard_reader
from homefold.bulk.table import Answers, as_parquet
from homefold.data.archives import FileImage
from homefold.data.decoding.many import one_ahead
from homefold.errors import DataError, NotFiniteError
from homefold.model import Homefold
from homefold.runtime.plugins import load_plugin
from homefold.runtime.provenance import processor_name, versions

__all__ = ["Setup", "Worker"]

_PROBED = 64
_MANY = 64

Told = Callable[[int], object]


@dataclass(frozen=True)
class Setup:
    """All that a worker needs to know beside the model.

    Args:
        source: the path or address that the images were listed at.
        folder: where relative paths start.
        device: where to compute.
        threads: that compute and decode; answers may differ in the last bits with their number.
        question: what is asked about each image.
        plugins: files to run first, with what they held when the job began.
    """

    source: str
    folder: Path
    device: str
    threads: int
    question: Question
    plugins: Mapping[Path, bytes]


class Worker:
    """Answers one shard after the other.

    Args:
        setup: what is asked.
        model: the folder of the model, which is not read again.
    """

    def __init__(self, setup: Setup, model: Path) -> None:
        self._setup = setup
        torch.set_num_threads(setup.threads)
        for place, content in setup.plugins.items():
            load_plugin(place, content)
        self._model = Homefold.load(model, device=setup.device)
        self._accelerated = self._model.device.type != "cpu"
        if self._model.device.type == "cuda" and setup.question.projected:
            self._model.feature_model.get_ready(setup.question.search)

    def facts(self) -> dict[str, Any]:
        """What the bits of an answer may depend on beside the model and the image."""
        device = self._model.device
        computes = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        return {
            "device": computes,
            "processor": processor_name(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "threads": self._setup.threads,
            "versions": versions("pillow", "pyarrow"),
        }

    def answer(self, shard: Shard, told: Told = lambda images: None) -> tuple[bytes, int]:
        """The file of answers of a shard, and how many images it has; `told` is called with numbers of images."""
        found, images = Answers(self._model.class_names), 0
        with shard_reader(self._setup.source, self._setup.folder) as reader:
            # While the model computes, what lies elsewhere is on its way; a processor that computes decodes in turn.
            chunks = reader.chunks(shard)
            at_hand = takewhile(bool, one_ahead(lambda _: next(chunks, []), count(), enabled=reader.base is not None))
            for entries, pixels, faults in one_ahead(self._decode, at_hand, enabled=self._accelerated):
                self._add(found, entries, pixels, faults)
                images += len(entries)
                told(len(entries))
        return as_parquet(found.table()), images

    def probe(self, shard: Shard) -> bytes:
        """The answers for the first images of a shard."""
        found = Answers(self._model.class_names)
        with shard_reader(self._setup.source, self._setup.folder) as reader:
            for chunk in islice(reader.chunks(shard, _PROBED), 1):
                self._add(found, *self._decode(chunk))
        return as_parquet(found.table())

    def _decode(self, entries: list[Entry]) -> tuple[list[Entry], np.ndarray, dict[int, str]]:
        """The pixels of those that have some, and what is wrong with the others by position."""
        faults = {i: entry.fault for i, entry in enumerate(entries) if entry.image is None or entry.fault}
        kept = [i for i in range(len(entries)) if i not in faults]
        sources = [image for i in kept if (image := entries[i].image) is not None]
        pixels, failures = decoded(self._model, sources, None if self._accelerated else self._setup.threads)
        if len(failures) == len(entries) >= _MANY:
            _require_some_file(entries)
        return entries, pixels, faults | {kept[i]: error.reason for i, error in failures.items()}

    def _add(self, found: Answers, entries: list[Entry], pixels: np.ndarray, faults: dict[int, str]) -> None:
        names = [entry.name for entry in entries]
        while len(pixels):
            try:
                predictions, abstained = answered(self._model, pixels, self._setup.question)
            except NotFiniteError as error:
                good = [i for i in range(len(entries)) if i not in faults]
                faults = {**faults, good[error.row]: "the model gives no finite answer"}
                pixels = np.delete(pixels, error.row, axis=0)
                continue
            found.add(names, faults, predictions, abstained)
            return
        found.add(names, faults, None, np.empty(0, bool))


def _require_some_file(entries: list[Entry]) -> None:
    """Refuse to call hundreds of images broken of which not one is there: more likely a disk is gone."""
    files = [entry.image.file for entry in entries if isinstance(entry.image, FileImage)]
    if len(files) == len(entries) and not any(map(os.path.lexists, files)):
        raise DataError(
            f"Not one of {len(files)} images from {entries[0].name} on is there; perhaps a disk is not mounted."
        )
