"""Looks at what threads of this process do, many times a second, for as long as somebody asks (a thin shell)."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import lru_cache

from actors.hosts.frames import frames_of
from actors.hosts.stack_times import StackTimes, shortened
from actors.protocol.client_requests import OPERATOR_MARK, StackSamples

INTERVAL_S = 0.02
_WINDOW_S = 5.0

# Sampling goes on for so long after the last question; a page asks every few seconds.
WATCHED_S = 15.0

# A pause is at least so many times as long as the processor time of the sample before it: sampling takes less than one
# percent of a processor, however many threads there are.
_PAUSES = 120

# More of one process are not looked at.
MOST_THREADS = 256


class StackSampler:
    """What is asked of it is answered at once, from the samples that are there. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[str, float] = {}
        """Name of a thread -> until when it is looked at."""
        self._times: dict[str, StackTimes] = {}
        self._last: dict[str, tuple[int, int]] = {}
        """Name -> when it was looked at last, and the processor time that it had used: both in microseconds."""
        self._sampled_ms = 0
        self._window_ends = 0.0
        self._thread: threading.Thread | None = None

    def samples(self, names: Sequence[str]) -> StackSamples:
        """What these threads were doing in the last minute, as far as they were looked at; they are from now on."""
        now = time.monotonic()
        with self._lock:
            for name in names[:MOST_THREADS]:
                if name in self._wanted or len(self._wanted) < MOST_THREADS:
                    self._wanted[name] = now + WATCHED_S
            if self._thread is None and self._wanted:
                self._window_ends = now + _WINDOW_S
                self._thread = threading.Thread(target=self._run, name="stack sampler", daemon=True)
                self._thread.start()
            known = {name: self._times[name].total() for name in names if name in self._times}
            return StackSamples(known, self._sampled_ms)

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            began = time.thread_time()
            with self._lock:
                if not self._forget_unwanted():
                    self._thread = None
                    return
                self._sample()
            pause.wait(max(INTERVAL_S, _PAUSES * (time.thread_time() - began)))

    def _forget_unwanted(self) -> bool:
        """Whether somebody still looks."""
        now = time.monotonic()
        for name in [name for name, until in self._wanted.items() if until < now]:
            del self._wanted[name]
            self._times.pop(name, None)
            self._last.pop(name, None)
        if now >= self._window_ends:
            self._window_ends = now + _WINDOW_S
            for times in self._times.values():
                times.next_window()
        return bool(self._wanted)

    def _sample(self) -> None:
        for thread in threading.enumerate():
            if thread.name not in self._wanted or thread.ident is None:
                continue
            frames = _frames(thread.ident)
            now_us, cpu_us = time.monotonic_ns() // 1000, _cpu_us(thread.native_id or 0)
            last = self._last.get(thread.name)
            self._last[thread.name] = now_us, cpu_us
            if last is not None and frames:
                times = self._times.setdefault(thread.name, StackTimes())
                times.add(shortened(frames), now_us - last[0], max(0, cpu_us - last[1]))
        self._sampled_ms = time.time_ns() // 1_000_000


def _cpu_us(native_id: int) -> int:
    """The processor time of a thread of this process; 0 where the system does not tell.

    Asked by the number that Linux has for a thread's clock: `time.pthread_getcpuclockid` may crash for a thread that
    has just ended.
    """
    try:
        return time.clock_gettime_ns(~native_id << 3 | _THREAD_CLOCK) // 1000
    except OSError:
        return 0


_THREAD_CLOCK = 4 | 2  # of one thread; what the scheduler counts


def _frames(ident: int) -> tuple[str, ...]:
    """What is called in a thread, outermost first and without how the thread began; empty: it has ended."""
    found = frames_of(ident)
    names = [_name(code.co_filename, code.co_qualname, line) for code, line in found if code not in _BEGINNING]
    return tuple(reversed(names))


_BEGINNING = frozenset(
    each.__code__
    for each in (threading.Thread.run, threading.Thread._bootstrap, threading.Thread._bootstrap_inner)  # type: ignore[attr-defined]
)
"""How a thread calls its function."""


@lru_cache(maxsize=20_000)
def _name(file: str, qualified_name: str, line: int) -> str:
    if qualified_name.startswith(OPERATOR_MARK):
        return qualified_name
    return f"{_module_of(file)}.{qualified_name}:{line}"


@lru_cache(maxsize=2_000)
def _module_of(file: str) -> str:
    """The module that is in a file, by the longest directory of `sys.path` that it is below."""
    if not file.endswith(".py"):
        return "(made)"
    roots = [root for root in sys.path if root and file.startswith(os.path.join(root, ""))]
    return file.removeprefix(max(roots, key=len, default="")).removesuffix(".py").strip("/").replace("/", ".")
