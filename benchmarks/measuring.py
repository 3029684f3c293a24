"""What the benchmarks share: where they ran, made-up data, a table, and a file that names it all."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from homefold.data import DomainDataset
from homefold.runtime.provenance import hardware, processor_name, versions
from homefold.store.files import write_json

__all__ = [
    "clustered_features",
    "made_up_dataset",
    "peak_memory_bytes",
    "print_table",
    "seconds_of",
    "surroundings",
    "write_jpegs",
    "write_result",
]


def surroundings(device: torch.device) -> dict[str, Any]:
    """Hardware, versions, commit and command: what a reader needs to repeat the figures."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "hardware": hardware(device),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_at_start": round(os.getloadavg()[0], 1),
        "versions": versions(),
        "commit": commit.stdout.strip() if commit.returncode == 0 else None,
        "command": "python " + shlex.join(sys.argv),
    }


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """One line a row, one column for each key of the first."""
    table = Table(title=title)
    for name in rows[0]:
        side: Literal["left", "right"] = "left" if isinstance(rows[0][name], str) else "right"
        table.add_column(name.replace("_", " "), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    Console(width=140).print(table)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def write_result(path: Path | None, facts: dict[str, Any], rows: Sequence[dict[str, Any]], **more: Any) -> None:
    """Everything as JSON, where a path is given."""
    if path is not None:
        write_json(path, {**facts, **more, "rows": list(rows)})


def seconds_of(function: Callable[[], object], device: torch.device) -> float:
    """How long a call takes, the device's work included."""
    _finish(device)
    began = time.perf_counter()
    function()
    _finish(device)
    return time.perf_counter() - began


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory_bytes(device: torch.device) -> int:
    """Most memory that was in use at once: the device's since it was last reset, or this process's so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def clustered_features(
    n: int, dim: int, classes: int, *, spread: float = 0.5, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Features `(n, dim)` around a centre for each class, and their labels `(n,)`."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    centres = torch.randn(classes, dim, generator=random)
    return centres[labels] + spread * torch.randn(n, dim, generator=random), labels


def made_up_dataset(n: int, side: int, *, classes: int = 7, domains: int = 3) -> DomainDataset:
    """Noise with a class's own brightness in each channel, so that a network can learn something."""
    random = np.random.default_rng(0)
    labels = np.arange(n) % classes
    colours = random.integers(64, 192, (classes, 3))
    images = random.integers(-60, 60, (min(n, 512), side, side, 3), dtype=np.int16)
    whole = np.empty((n, side, side, 3), dtype=np.uint8)
    for i in range(n):
        whole[i] = (images[i % len(images)] + colours[labels[i]]).clip(0, 255)
    return DomainDataset(
        whole,
        labels,
        (np.arange(n) // classes) % domains,
        tuple(f"class {i}" for i in range(classes)),
        tuple(f"domain {i}" for i in range(domains)),
        name="made up",
    )


def write_jpegs(folder: Path, count: int, *, side: int = 256, distinct: int = 64) -> list[Path]:
    """`count` photographs-like JPEG files of about 20 kB; a few different ones, repeated."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    encoded = []
    for _ in range(min(distinct, count)):
        coarse = Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC)).astype(np.int16)
        pixels = (smooth + random.normal(0, 8, smooth.shape)).clip(0, 255).astype(np.uint8)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=85)
        encoded.append(stream.getvalue())
    paths = [folder / f"{i:06d}.jpg" for i in range(count)]
    for i, path in enumerate(paths):
        path.write_bytes(encoded[i % len(encoded)])
    return paths
