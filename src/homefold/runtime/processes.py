"""Several processes that train one model together, each on a part of every batch; started by torchrun.

Plain `torch.distributed`: L_A is a sum over the pairs of all processes, so gradients add up instead of being averaged,
which is the one thing the usual wrappers do differently.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed

__all__ = [
    "Processes",
    "add_up",
    "current_processes",
    "from_first",
    "gather_labels",
    "gather_rows",
    "joined_processes",
    "local_device",
    "started_by_torchrun",
    "wait_for_all",
]


@dataclass(frozen=True)
class Processes:
    """This process among the `count` that train together, by its number from 0: the first speaks for all."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this one writes and speaks."""
        return self.rank == 0

    def part(self, size: int) -> slice:
        """Which of `size` rows, a multiple of `count`, are this process's."""
        each = size // self.count
        return slice(self.rank * each, (self.rank + 1) * each)


def current_processes() -> Processes:
    """Those that have joined; one alone where none have.

    >>> current_processes()
    Processes(rank=0, count=1)
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return Processes()
    return Processes(distributed.get_rank(), distributed.get_world_size())


def started_by_torchrun() -> bool:
    """Whether torchrun started this process as one of several."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def local_device(name: str) -> str:
    """The device that this process of torchrun's takes when `name` leaves it open: the GPU of its own number."""
    if not started_by_torchrun() or name not in ("auto", "cuda") or not torch.cuda.is_available():
        return name
    return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"


@contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """Inside the block the processes that torchrun started are one group, by NCCL on CUDA and by Gloo on CPUs; a
    process alone is alone."""
    if not started_by_torchrun() or distributed.is_initialized():
        yield current_processes()
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield current_processes()
    finally:
        distributed.destroy_process_group()


class _GatherRows(torch.autograd.Function):
    """All processes' rows, one below the other; a row's gradient is the sum over all processes that used it."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor) -> torch.Tensor:
        return gather_labels(rows)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        total = gradient.contiguous().clone()
        distributed.all_reduce(total)
        return total[current_processes().part(len(total))]


def gather_rows(rows: torch.Tensor) -> torch.Tensor:
    """Rows `(n, d)` of all processes as `(count · n, d)`, through which gradients flow back to their owners."""
    gathered: torch.Tensor = _GatherRows.apply(rows)
    return gathered


def gather_labels(labels: torch.Tensor) -> torch.Tensor:
    """Labels `(n,)`, or rows without gradients, of all processes, one below the other."""
    count = current_processes().count
    parts = [torch.empty_like(labels, memory_format=torch.contiguous_format) for _ in range(count)]
    distributed.all_gather(parts, labels.contiguous())
    return torch.cat(parts)


@torch.no_grad()
def add_up(tensors: Sequence[torch.Tensor]) -> None:
    """Replace tensors of one type by their sums over all processes, in one exchange."""
    if current_processes().count == 1 or not tensors:
        return
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    distributed.all_reduce(flat)
    for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(total.view(tensor.shape))


def from_first(value: float, device: torch.device) -> float:
    """The first process's value, so that all decide alike."""
    if current_processes().count == 1:
        return value
    shared = torch.tensor(value, dtype=torch.float64, device=device)
    distributed.broadcast(shared, src=0)
    return float(shared)


def wait_for_all() -> None:
    """Return once every process has come here."""
    if current_processes().count > 1:
        distributed.barrier()
