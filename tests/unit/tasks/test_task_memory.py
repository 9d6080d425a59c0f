"""What tasks make of freed memory."""

from __future__ import annotations

import platform
import resource

import numpy as np
import pytest

from actors.tasks.memory import keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such thresholds")
def test_a_column_that_is_freed_leaves_its_pages_to_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
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
