"""Results as records: one JSON line a finished run, appended whole or not at all; tables are made from them."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from homefold.errors import DataError
from homefold.version import __version__

__all__ = ["RunRecord", "append_record", "hardware", "read_records", "versions"]


@dataclass(frozen=True)
class RunRecord:
    """One accuracy and all that is needed to trust and repeat it.

    Args:
        dataset: name of the data.
        target: the domain that was not trained on.
        method: what was run.
        accuracy: share of target images answered rightly, 0 to 1.
        images: how many target images there were.
        seed: of the training.
        protocol: name of the protocol.
        selection: on what the model was selected.
        config: the whole configuration.
        hardware: what it ran on.
        versions: of the packages that decide the result.
        facts: anything else that was measured.
    """

    dataset: str
    target: str
    method: str
    accuracy: float
    images: int
    seed: int
    protocol: str
    selection: str
    config: dict[str, Any]
    hardware: str
    versions: dict[str, str]
    facts: dict[str, Any] = field(default_factory=dict)


def hardware(device: torch.device) -> str:
    """What computes on `device`, in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {os.cpu_count()} cores" if device.type == "cpu" else f"{platform.machine()} GPU"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a result."""
    others = ("torch", "torchvision", "numpy", "scikit-learn")
    return {
        "homefold": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in others},
    }


def append_record(path: Path | str, record: RunRecord) -> None:
    """Append one line with a single write, so that processes sharing the file do not tear each other's lines."""
    line = (json.dumps(asdict(record), ensure_ascii=False, allow_nan=False) + "\n").encode()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_records(path: Path | str) -> list[RunRecord]:
    """Every whole record of a file; a last line that a crash cut short is left out, any other bad line is an error."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    records = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            records.append(RunRecord(**json.loads(line)))
        except (json.JSONDecodeError, TypeError) as error:
            if number == len(lines):
                break
            raise DataError(f"{path}, line {number} is not a run record ({error}); remove or repair it.") from None
    return records
