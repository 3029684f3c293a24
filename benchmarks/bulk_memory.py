"""Answers in shards: peak memory of a worker and of the command, against the number of images and their size.

    python benchmarks/bulk_memory.py --out results/bulk_memory_2core.json
    python benchmarks/bulk_memory.py --quick

One worker of this machine answers the same JPEG files in every form: a folder, parquet with a path in each row, parquet
with the bytes of all images in one row group, a tar, and each at an address. Linux tells a process's peak.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import torch
from measuring import print_table, surroundings, write_jpegs, write_result
from predict import make_model


def peaks(words: Sequence[str]) -> tuple[float, float]:
    """Peak megabytes of a command, and of the largest process that it starts."""
    command = psutil.Popen(words, stdout=subprocess.DEVNULL)
    peak: dict[int, float] = {}
    while command.poll() is None:
        for process in [command, *command.children(recursive=True)]:
            with suppress(OSError, psutil.Error, StopIteration):
                told = Path(f"/proc/{process.pid}/status").read_text().splitlines()
                line = next(line for line in told if line.startswith("VmHWM:"))
                peak[process.pid] = int(line.split()[1]) * 1024 / 1e6
        time.sleep(0.02)
    if command.returncode:
        raise SystemExit(f"{' '.join(words)} ended with status {command.returncode}")
    own = peak.pop(command.pid)
    return own, max(peak.values())


def write_forms(folder: Path, count: int, side: int) -> Iterator[tuple[str, str]]:
    """The same images in every form: its name, and what to give to homefold."""
    import pyarrow
    from pyarrow import parquet

    files = write_jpegs(folder / "photos", count, side=side, distinct=16)
    yield "folder", str(folder / "photos")
    yield "folder at an address", f"file://{folder}/photos"
    parquet.write_table(pyarrow.table({"path": [f"photos/{file.name}" for file in files]}), folder / "list.parquet")
    yield "parquet, paths", str(folder / "list.parquet")
    parquet.write_table(
        pyarrow.table({"image": [file.read_bytes() for file in files]}), folder / "bytes.parquet", use_dictionary=False
    )
    yield "parquet, bytes", str(folder / "bytes.parquet")
    yield "parquet, bytes, at an address", f"file://{folder}/bytes.parquet"
    with tarfile.open(folder / "photos.tar", "w") as tar:
        tar.add(folder / "photos", "photos")
    yield "tar", str(folder / "photos.tar")
    yield "tar at an address", f"file://{folder}/photos.tar"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="*", default=[200, 1000, 4000])
    parser.add_argument("--photographs", type=int, nargs="*", default=[20, 60], help="how many of 12 megapixels")
    parser.add_argument("--preset", choices=["default", "small"], default="small")
    parser.add_argument("--forms", nargs="*", help="only these")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    if arguments.quick:
        arguments.images, arguments.photographs, arguments.forms = [4], [], ["folder"]
    os.environ["OMP_NUM_THREADS"] = "1"
    facts, rows = surroundings(torch.device("cpu")), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as temporary:
        model, answers = Path(temporary) / "model", Path(temporary) / "answers"
        make_model(model, arguments.preset)
        sizes = [*((count, 256) for count in arguments.images), *((count, 3500) for count in arguments.photographs)]
        for count, side in sizes:
            folder = Path(temporary) / f"{count}-{side}"
            for form, source in write_forms(folder, count, side):
                if arguments.forms and form not in arguments.forms:
                    continue
                command = [sys.executable, "-m", "homefold", "predict", str(model), source, "--out", f"{answers}/"]
                own, worker = peaks([*command, "--workers", "1", "--device", "cpu"])
                shutil.rmtree(answers, ignore_errors=True)
                rows.append({"form": form, "images": count, "side": side, "worker_mb": worker, "command_mb": own})
                print(rows[-1], flush=True)
            shutil.rmtree(folder)
    print_table(f"Peak memory, preset {arguments.preset}, {facts['hardware']}", rows)
    write_result(arguments.out, facts, rows, preset=arguments.preset)


if __name__ == "__main__":
    main()
