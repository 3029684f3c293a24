"""When memory that is no longer needed goes back."""

from __future__ import annotations

import ctypes
import gc

import torch

__all__ = ["give_back_device_memory", "keep_freed_memory"]

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_KEPT = 32 << 20  # glibc takes no more
_MOST_KEPT = 512 << 20


def keep_freed_memory() -> bool:
    """Keep up to half a GiB that was freed, in arrays of at most 32 MiB, instead of giving it back to the system.

    By default glibc gives it back as soon as there are a few MiB. A network that answers in a thread then touches
    new pages for every image, which costs some milliseconds each.

    Returns:
        whether it is so; where the C library is another one nothing changes.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc: macOS, musl, Windows
        return False
    return bool(set_option(_MMAP_THRESHOLD, _LARGEST_KEPT)) and bool(set_option(_TRIM_THRESHOLD, _MOST_KEPT))


def give_back_device_memory(device: torch.device) -> None:
    """Give back what a finished training held on a GPU; nothing happens on the CPU.

    A captured step refers to itself, so that Python alone would keep it for a while, and its memory with it.
    """
    if device.type == "cuda":
        gc.collect()
        # cuBLAS keeps one for each stream, also for those no longer used. A captured step that is still needed must not
        # be replayed after this.
        getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
        torch.cuda.empty_cache()
