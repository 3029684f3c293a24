"""A job: every image of a source answered once, in a folder that a crash leaves whole and the same command completes.

One process, which holds the folder's lock, hands shards to workers and writes what they send back. A shard that has a
file is done; a file appears under its name when it is whole. So nothing is lost with a worker, a machine or this
process but the shards that were being answered, and these come out the same the next time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from homefold.bulk.foreman import Foreman
from homefold.bulk.kinds import Kinds
from homefold.bulk.pace import Pace
from homefold.bulk.places import is_address
from homefold.bulk.plan import Plan, make_plan, read_plan
from homefold.bulk.question import Question
from homefold.bulk.sources import find_source
from homefold.bulk.table import counts_in
from homefold.data.paths import given_path
from homefold.data.stored_images import require_pyarrow
from homefold.errors import ConfigError, DataError
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.ray_cluster import ready_ray
from homefold.store.files import read_json, write_atomically, write_json
from homefold.store.locking import claimed

__all__ = ["SHARD_SIZE", "BulkOptions", "Outcome", "run_bulk"]

SHARD_SIZE = 10_000
"""Images in a file of answers."""

_OWN = "_job"  # pandas and pyarrow pass over what begins with _
_FORMAT = 1
_OTHERS = {
    "format": "by another version of homefold",
    "model": "of another model",
    "question": "with other settings",
    "source": "for another source",
}


@dataclass(frozen=True)
class BulkOptions:
    """What is asked for.

    Args:
        model: the folder of a model.
        source: a folder, a table, parquet files or tars, by path or address.
        out: the folder of the answers.
        question: what is asked about each image.
        shard_size: how many images a file of answers has; None for what the job began with, or `SHARD_SIZE`.
        on: `"local"`, processes of this machine, or `"ray"`.
        workers: how many; None for as many as there is room for.
        device: where to compute.
    """

    model: Path
    source: str
    out: Path
    question: Question
    shard_size: int | None = None
    on: Literal["local", "ray"] = "local"
    workers: int | None = None
    device: str = "auto"


@dataclass(frozen=True)
class Outcome:
    """What a job has come to: images answered, how many of them could not be read, and the files they are in."""

    images: int
    unread: int
    shards: int


def run_bulk(options: BulkOptions, *, reporter: ProgressReporter, tell: Callable[[str], None]) -> Outcome:
    """Do what is left of a job, or begin it.

    Args:
        options: what is asked for.
        reporter: is shown the progress.
        tell: is told in sentences what a person may want to know meanwhile.
    """
    from homefold.bulk.workers import hired  # imports torch, which the command's --help does not need

    require_pyarrow(options.out)
    _require_fit(options)
    if options.on == "ray":
        ready_ray()  # complains before a long list of images is made
    own = options.out / _OWN
    with _locked(options.out):
        plan = _begun(options, own)
        left = [number for number in range(len(plan.sizes)) if not _part(options.out, number).exists()]
        if done := len(plan.sizes) - len(left):
            tell(f"{done:,} of {len(plan.sizes):,} shards were done before.")
        if left:
            with hired(options, len(left), tell) as crew, Pace(reporter, tell, *_work(plan, left)) as pace:
                Foreman(crew, plan, left, Kinds(own, tell), pace, partial(_write, options.out), tell).drive()
        return _outcome(options.out, plan)


def _require_fit(options: BulkOptions) -> None:
    """Refuse a folder that must not be written to, before anything is."""
    out = Path(os.path.realpath(options.out))
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{options.out} is a file, and answers in shards need a folder; choose another --out.")
    inside = {"the model": Path(os.path.realpath(options.model))}
    if not is_address(options.source):
        inside["the images"] = Path(os.path.realpath(given_path(options.source)))
    for what, folder in inside.items():
        if folder == out or folder in out.parents:
            raise ConfigError(f"{options.out} lies in the folder of {what}; choose another --out.")
    if out.exists() and not (out / _OWN).is_dir() and any(out.iterdir()):
        raise ConfigError(f"{options.out} holds other files and no job; choose an empty folder as --out.")


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    try:
        with claimed(out / _OWN / "lock", wait=False) as held:
            if not held:
                raise ConfigError(f"Another job is writing answers to {out}; wait for it, or choose another --out.")
            yield
    finally:
        with suppress(OSError):  # where nothing began nothing stays
            (out / _OWN).rmdir()
            out.rmdir()


def _begun(options: BulkOptions, own: Path) -> Plan:
    """The job's shards; one that began before has to be the same."""
    from homefold.store.model_folder import model_checksum

    file = own / "job.json"
    source = find_source(options.source)
    asked = {
        "format": _FORMAT,
        "model": model_checksum(options.model),
        "question": options.question.as_dict(),
        "source": options.source,
    }
    if not file.exists():
        size = options.shard_size or SHARD_SIZE
        plan = make_plan(source, own, size)
        made = {"shard_size": size, "images": sum(plan.sizes) or None, "shards": len(plan.sizes)}
        write_json(file, {**asked, "digest": plan.digest, **made})
        return plan
    known = read_json(file)
    other = f"choose another --out for another job. (It is described in {file}.)"
    for name, value in asked.items():
        if known.get(name) != value:
            raise ConfigError(f"{options.out} holds answers {_OTHERS[name]}; {other}")
    if options.shard_size not in (None, known["shard_size"]):
        raise ConfigError(f"{options.out} was begun with shards of {known['shard_size']:,} images; {other}")
    if source.digest() != known["digest"]:
        raise DataError(
            f"{options.source} changed since the job in {options.out} began; put back what it was, or {other}"
        )
    return read_plan(own, known)


def _work(plan: Plan, left: list[int]) -> tuple[int, str]:
    """How much is left, and of what: tars tell how many images they have when they are read."""
    images = sum(plan.sizes[number] for number in left)
    return (images, "images") if images else (len(left), "tars")


def _write(out: Path, number: int, content: bytes) -> None:
    with write_atomically(_part(out, number)) as temporary:
        temporary.write_bytes(content)


def _part(out: Path, number: int) -> Path:
    return out / f"part-{number:06d}.parquet"


def _outcome(out: Path, plan: Plan) -> Outcome:
    """What the files of answers hold; each has to hold what was planned."""
    images = unread = 0
    for number, size in enumerate(plan.sizes):
        rows, errors = counts_in(_part(out, number))
        if size and rows != size:
            raise DataError(
                f"{_part(out, number)} has {rows} answers and should have {size}; delete it and start again."
            )
        images, unread = images + rows, unread + errors
    return Outcome(images, unread, len(plan.sizes))
