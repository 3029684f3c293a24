"""One seed for a run, and from it an independent stream for every named purpose.

Each epoch and each stage draws from its own stream, so a run that resumes at epoch k needs no saved generator state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["derive_seed", "generator", "isolated_seed"]


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed that depends on `seed` and on every name, the same on all machines.

    >>> derive_seed(0, "augment", 3) == derive_seed(0, "augment", 3)
    True
    >>> derive_seed(0, "augment", 3) == derive_seed(0, "augment", 4)
    False
    """
    text = "/".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh torch generator on `device` for the named purpose."""
    import torch  # here and below: whoever draws with numpy need not wait for it

    return torch.Generator(device=device).manual_seed(derive_seed(seed, *names))


@contextmanager
def isolated_seed(seed: int, *names: str | int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's global generators inside the block (initialisation, dropout) and restore them after it."""
    import torch

    device = torch.device(device)
    devices = [device.index or 0] if device.type in ("cuda", "mps") else []
    with torch.random.fork_rng(devices=devices, device_type=device.type if devices else "cuda"):
        torch.manual_seed(derive_seed(seed, *names))
        yield
