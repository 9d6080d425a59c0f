"""What tasks make of freed memory."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from actors.tasks.memory import keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such thresholds")
def test_a_column_that_is_freed_leaves_its_pages_to_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    keep_freed_memory.cache_clear()
    keep_freed_memory()
    rounds, pages = 50, 4 * (1 << 20) // resource.getpagesize()
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(rounds):
            columns = [np.ones(1 << 17) for _ in range(4)]
            del columns
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < rounds * pages / 10


_COUNTING = """
import ctypes, os, threading
from actors.tasks.memory import keep_freed_memory

keep_freed_memory()
ends = threading.Event()
threads = [threading.Thread(target=ends.wait) for _ in range(8 * os.cpu_count())]
for thread in threads:
    thread.start()
c = ctypes.CDLL(None)
c.fdopen.restype = ctypes.c_void_p
c.malloc_info(0, ctypes.c_void_p(c.fdopen(1, b"w")))
c.fflush(None)
ends.set()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such heaps")
def test_threads_share_a_few_heaps() -> None:
    """What one thread has freed serves the next, instead of staying beside what that one takes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", _COUNTING]
    report = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    assert 1 < report.count("<heap nr=") <= 2 * (os.cpu_count() or 1)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps nothing")
@pytest.mark.parametrize(
    ("chosen", "before", "used"),
    [
        ({}, "", "system"),
        ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "", "mimalloc"),
        ({}, "pa.set_memory_pool(pa.jemalloc_memory_pool()); ", "jemalloc"),
    ],
    ids=["nobody", "the environment", "the program"],
)
def test_arrow_takes_what_numpy_has_freed_unless_somebody_chose_its_pool(
    chosen: dict[str, str], before: str, used: str
) -> None:
    if used not in pa.supported_memory_backends():
        pytest.skip(f"Arrow was built without {used}")
    code = (
        f"import pyarrow as pa; {before}from actors.tasks.memory import keep_freed_memory; keep_freed_memory(); "
        "print(pa.default_memory_pool().backend_name)"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    environment.pop("ARROW_DEFAULT_MEMORY_POOL", None)
    command = [sys.executable, "-c", code]
    report = subprocess.run(command, env=environment | chosen, capture_output=True, text=True, timeout=60, check=True)
    assert report.stdout.split() == [used]
