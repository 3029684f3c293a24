"""Who answers the shards: how many workers, where, and on what."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from homefold.bulk.crew import Crew
from homefold.bulk.local import LocalCrew
from homefold.bulk.on_ray import RayCrew, cluster_workers
from homefold.bulk.worker import Setup
from homefold.data.decoding.pool import allowed_cores
from homefold.errors import ConfigError
from homefold.runtime.device import resolve_device
from homefold.runtime.plugins import plugin_sources
from homefold.runtime.ray_cluster import ADDRESS, ray_cluster
from homefold.runtime.text import counted

if TYPE_CHECKING:
    from homefold.bulk.job import BulkOptions

__all__ = ["hired"]

_THREADS = "OMP_NUM_THREADS"


@contextmanager
def hired(options: BulkOptions, shards: int, tell: Callable[[str], None]) -> Iterator[Crew]:
    """The workers of a job inside the block; no more than there are shards."""
    setup = Setup(
        source=options.source,
        folder=Path.cwd(),
        device=options.device,
        threads=_threads(),
        question=options.question,
        plugins=plugin_sources(),
    )
    if options.workers is not None and options.workers < 1:
        raise ConfigError(f"--workers must be at least 1; got {options.workers}.")
    if options.on == "local":
        crew: Crew = _here(options, setup, shards)
        tell(_told(crew.size, "this machine", setup.threads))
        with _closing(crew):
            yield crew
        return
    with ray_cluster(None if options.workers is None else options.workers * setup.threads) as ray:
        on_gpus = options.device.startswith("cuda") or (
            options.device == "auto" and ray.cluster_resources().get("GPU", 0) >= 1
        )
        setup = replace(setup, device="cuda" if on_gpus else "cpu")
        size = min(shards, options.workers or cluster_workers(ray, setup.threads, on_gpus=on_gpus))
        tell(_told(size, f"Ray ({os.environ.get(ADDRESS) or 'this machine'})", setup.threads))
        with _closing(RayCrew(ray, setup, options.model, size)) as crew:
            yield crew


@contextmanager
def _closing(crew: Crew) -> Iterator[Crew]:
    try:
        yield crew
    finally:
        crew.close()


def _told(size: int, where: str, threads: int) -> str:
    return f"{counted(size, 'worker')} on {where}, each with {counted(threads, 'thread')}."


def _here(options: BulkOptions, setup: Setup, shards: int) -> LocalCrew:
    """A process for each GPU, or on CPUs for each core that a worker's threads leave."""
    device = resolve_device(options.device)
    if device.type == "cpu":
        size = min(shards, options.workers or max(1, allowed_cores() // setup.threads))
        return LocalCrew([replace(setup, device="cpu")] * size, options.model)
    names = [str(device)]
    if device.type == "cuda" and device.index is None:
        names = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    size = min(shards, options.workers or len(names))
    return LocalCrew([replace(setup, device=names[i % len(names)]) for i in range(size)], options.model)


def _threads() -> int:
    """Threads a worker: one unless the usual variable says otherwise. Many workers of one thread are the fastest."""
    said = os.environ.get(_THREADS, "")
    return int(said) if said.isdecimal() and int(said) else 1
