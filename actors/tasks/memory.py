"""Tells the C library of the process, and Arrow, to keep freed memory for the next batches."""

from __future__ import annotations

import ctypes
import functools
import logging
import os

import pyarrow as pa

_LOG = logging.getLogger(__name__)
# Numbers of mallopt's options, from glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGEST_FROM_HEAP = 32 << 20
"""Bytes up to which memory comes from a heap: glibc's own upper limit."""
_MOST_FREE = 64 << 20
"""Bytes that may stay free at the end of a heap."""
_HEAPS_PER_CORE = 2
"""With more, almost every thread gets a heap, and memory that one job has freed is not used for the next one."""
_POOL_SETTING = "ARROW_DEFAULT_MEMORY_POOL"
_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
"""Environment variables by which a user may have configured this."""


@functools.cache
def keep_freed_memory() -> None:
    """Lets the process use the memory of freed columns again, instead of returning it and asking for fresh pages.

    A column of 128 Ki numbers is a MiB, which glibc returns to the system as soon as numpy frees it; the page faults of
    the next column then cost several times what is computed on it. Threads that start from now on share a few heaps, so
    that one can use what another has freed, unless glibc has made more than eight heaps by then. Arrow allocates from
    the same heaps, unless the environment or the program has chosen a pool: its own pools return memory that is idle
    for a moment, and keep apart what numpy could use. No effect with another C library, or if the environment sets one
    of glibc's own variables for this. Any thread may call it; it acts once per process.
    """
    if any(name in os.environ for name in _SETTINGS):
        return
    try:
        set_option = ctypes.CDLL(None).mallopt
        heaps = _HEAPS_PER_CORE * (os.cpu_count() or 1)
        values = {_M_MMAP_THRESHOLD: _LARGEST_FROM_HEAP, _M_TRIM_THRESHOLD: _MOST_FREE, _M_ARENA_MAX: heaps}
        done = all(set_option(option, value) for option, value in values.items())
    except (AttributeError, OSError, TypeError):
        return
    if not done:
        _LOG.debug("the C library does not take all of its allocation settings")
    elif _POOL_SETTING not in os.environ and pa.default_memory_pool().backend_name == pa.supported_memory_backends()[0]:
        pa.set_memory_pool(pa.system_memory_pool())
