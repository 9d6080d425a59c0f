"""How the process's C library treats freed memory."""

from __future__ import annotations

import ctypes
import functools
import logging
import os

import pyarrow as pa

_LOG = logging.getLogger(__name__)
# Of glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGEST_FROM_HEAP = 32 << 20
"""Bytes; glibc's own upper limit."""
_KEPT = 64 << 20
"""Bytes that may stay free at the end of a heap."""
_HEAPS_PER_CORE = 2
"""Otherwise almost every thread gets one, and what one job has freed stays beside what the next one takes."""
_POOL_SETTING = "ARROW_DEFAULT_MEMORY_POOL"
_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
"""Environment variables by which somebody has said how it is to be."""


@functools.cache
def keep_freed_memory() -> None:
    """Lets the process use the memory of freed columns again, instead of giving it back and asking for fresh pages.

    A column of 128 Ki numbers is a MiB, which glibc gives back as soon as numpy frees it; the page faults of the
    next one then cost several times what is computed on it. Threads that start from now on share a few heaps, so that
    one takes what another has freed, if glibc has not made more than eight by then. So does Arrow, whose own pools give
    back what lies idle for a moment and keep apart what numpy could use, unless the environment or the program has
    chosen a pool. No effect with another C library, or where the environment sets one of glibc's own variables for
    this. Any thread may call; done once per process.
    """
    if any(name in os.environ for name in _SETTINGS):
        return
    try:
        set_option = ctypes.CDLL(None).mallopt
        heaps = _HEAPS_PER_CORE * (os.cpu_count() or 1)
        values = {_M_MMAP_THRESHOLD: _LARGEST_FROM_HEAP, _M_TRIM_THRESHOLD: _KEPT, _M_ARENA_MAX: heaps}
        done = all(set_option(option, value) for option, value in values.items())
    except (AttributeError, OSError, TypeError):
        return
    if not done:
        _LOG.debug("the C library does not take all of its allocation settings")
    elif _POOL_SETTING not in os.environ and pa.default_memory_pool().backend_name == pa.supported_memory_backends()[0]:
        pa.set_memory_pool(pa.system_memory_pool())
