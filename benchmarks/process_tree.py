"""Runs a command and measures its whole process tree: CPU seconds, memory, and that nothing of it is left.

Linux only: read from /proc. Processes whose parent has ended stay in the tree, because this process adopts them. CPU
time is what each process had used when it was last seen, every 0.2 s; what it uses after that is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

SAMPLE_S = 0.2
PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class RunFailed(Exception):
    """The command ended with an error, printed no result, or was not done in time."""


@dataclass(frozen=True)
class Measured:
    """What a tree of processes took."""

    output: dict[str, Any]
    """The last line that the command printed, JSON."""
    cpu_s: float
    peak_mib: float
    """Proportional set size of the tree, sampled; 0 unless asked for."""


class Process(NamedTuple):
    """A process, as /proc shows it."""

    parent: int
    started: int
    """When it was started, in ticks since boot; with the process id that names it for good."""
    cpu_s: float


class TreeSampler:
    """Watches the descendants of this process that were not there before. `sample` may be called by one thread."""

    def __init__(self, measures_memory: bool = False) -> None:
        self._measures_memory = measures_memory
        self._cpu_s: dict[tuple[int, int], float] = {}
        self._earlier = set(descendants())
        self.peak_mib = 0.0

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())

    def sample(self) -> set[int]:
        """The processes that run."""
        found = {pid: process for pid, process in descendants().items() if pid not in self._earlier}
        for pid, process in found.items():
            self._cpu_s[pid, process.started] = process.cpu_s
        if self._measures_memory:
            self.peak_mib = max(self.peak_mib, sum(map(memory_mib, found)))
        return set(found)


def descendants() -> dict[int, Process]:
    """The descendants of this process by their ids."""
    processes: dict[int, Process] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                processes[int(entry)] = read_process(Path(f"/proc/{entry}/stat").read_text())
    for pid, process in processes.items():
        children[process.parent].append(pid)
    found: dict[int, Process] = {}
    waiting = list(children[os.getpid()])
    while waiting:
        pid = waiting.pop()
        found[pid] = processes[pid]
        waiting.extend(children[pid])
    return found


def read_process(stat: str) -> Process:
    """The process that the text of /proc/<id>/stat describes. Its second field, the name in parentheses, may hold
    anything."""
    fields = stat.rpartition(")")[2].split()
    return Process(int(fields[1]), int(fields[19]), (int(fields[11]) + int(fields[12])) / _TICKS)


def memory_mib(pid: int) -> float:
    """Proportional set size where /proc tells, else the resident set; 0 for a process that has ended."""
    for path, field in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        with contextlib.suppress(OSError):
            _, found, rest = Path(f"/proc/{pid}/{path}").read_text().partition(field)
            if found:
                return int(rest.split()[0]) / 1024
    return 0.0


def run(
    command: Sequence[str],
    env: Mapping[str, str],
    deadline_s: float,
    measures_memory: bool = False,
    watch: Callable[[set[int]], None] | None = None,
) -> Measured:
    """Runs the command to its end and ends what it leaves; `watch` is given the processes after each sample.

    Raises:
        RunFailed: with the end of what it wrote to stderr.
    """
    if not sys.platform.startswith("linux"):
        raise RunFailed("process trees are measured on Linux only")
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors, _adopting_orphans():
        sampler = TreeSampler(measures_memory)
        process = subprocess.Popen(command, env=dict(env), stdout=out, stderr=errors, stdin=subprocess.DEVNULL)
        until = time.monotonic() + deadline_s
        ended = threading.Event()
        try:
            while process.poll() is None and time.monotonic() < until:
                running = sampler.sample()
                if watch is not None:
                    watch(running)
                ended.wait(SAMPLE_S)
            sampler.sample()
        finally:
            is_late = process.poll() is None
            _end_all(sampler, process)
        out.seek(0)
        errors.seek(0)
        lines = out.read().splitlines()
        if is_late:
            raise RunFailed(f"not done after {deadline_s:.0f} s: {' '.join(command)}\n{errors.read()[-2000:]}")
        if process.returncode or not lines:
            raise RunFailed(f"exit code {process.returncode}: {' '.join(command)}\n{errors.read()[-2000:]}")
        return Measured(json.loads(lines[-1]), sampler.cpu_s, sampler.peak_mib)


def _end_all(sampler: TreeSampler, process: subprocess.Popen[bytes]) -> None:
    """Kills what still runs of the tree, by its ids, and reaps it."""
    for _ in range(50):
        running = sampler.sample()
        if not running:
            break
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()
        for pid in running - {process.pid}:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        threading.Event().wait(0.05)
    process.wait(10)


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
