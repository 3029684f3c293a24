"""Freed memory that is kept: who frees and asks again gets the same pages."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

FAULTS = """
import resource, sys, threading
import numpy as np
if sys.argv[1] == "kept":
    from homefold.runtime.allocation import keep_freed_memory
    assert keep_freed_memory()

def work():
    for turn in range(21):
        if turn == 1:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        several = [np.ones(3 << 17) for _ in range(6)]  # 3 MiB each, as a layer of a network takes
        del several
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_a_thread_touches_no_new_pages_for_what_it_freed_before() -> None:
    def faults(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, check=True).stdout)

    assert faults("kept") < 2000 < faults("given back")
