"""Figures of this process and what its threads do, as far as Linux tells them."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
import time
import traceback
from pathlib import Path

from actors.hosts.frames import frames_of
from actors.hosts.stack_sampler import StackSampler
from actors.protocol.client_requests import (
    GetOutput,
    GetOutputFiles,
    GetProcessFigures,
    GetStackSamples,
    GetThreadStacks,
    OutputFile,
    ProcessFigures,
    ProcessRequest,
    StackSamples,
    ThreadStack,
    ThreadStacks,
)

ProcessAnswer = ProcessFigures | ThreadStacks | StackSamples | tuple[OutputFile, ...] | str | None

_sampler = StackSampler()
"""The one of this process, whose threads it looks at while somebody asks."""


def answer(request: ProcessRequest) -> ProcessAnswer:
    """What is asked of this process. Any thread, at any time."""
    match request:
        case GetProcessFigures():
            return _figures()
        case GetThreadStacks():
            return _stacks()
        case GetStackSamples():
            return _sampler.samples(request.names)
        case GetOutputFiles():
            return tuple(_output_file(path, is_error) for path, is_error in _outputs().items())
        case GetOutput():
            return _output(request.name, request.most_bytes)


def _figures() -> ProcessFigures:
    memory = _memory_of_machine()
    return ProcessFigures(
        host=socket.gethostname(),
        process_id=os.getpid(),
        resident_bytes=_resident_bytes(),
        cpu_seconds=time.process_time(),
        threads=threading.active_count(),
        open_files=_open_files(),
        collections=tuple(generation["collections"] for generation in gc.get_stats()),
        machine_cpus=os.cpu_count() or 0,
        machine_bytes=memory.get("MemTotal", 0),
        machine_free_bytes=memory.get("MemAvailable", 0),
    )


def _stacks() -> ThreadStacks:
    stacks = tuple(
        ThreadStack(thread.name, thread.ident or 0, thread.daemon, _stack_of(thread.ident or 0))
        for thread in threading.enumerate()
    )
    return ThreadStacks(socket.gethostname(), os.getpid(), stacks)


def _stack_of(ident: int) -> str:
    frames = [traceback.FrameSummary(code.co_filename, line, code.co_name) for code, line in frames_of(ident)]
    return "".join(traceback.StackSummary.from_list(reversed(frames)).format())


def _outputs() -> dict[Path, bool]:
    """The regular files that this process prints to -> whether standard error goes there."""
    found: dict[Path, bool] = {}
    for descriptor, is_error in ((1, False), (2, True)):
        with contextlib.suppress(OSError):
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.is_file():
                found[path] = is_error
    return found


def _output_file(path: Path, is_error: bool) -> OutputFile:
    known = path.stat()
    return OutputFile(path.name, known.st_size, round(known.st_mtime * 1000), is_error)


def _output(name: str, most_bytes: int) -> str | None:
    path = next((path for path in _outputs() if path.name == name), None)
    if path is None:
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most_bytes))
        return file.read(most_bytes).decode(errors="replace")


def _resident_bytes() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _open_files() -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return 0


def _memory_of_machine() -> dict[str, int]:
    """The lines of /proc/meminfo, in bytes."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}
    return {}
