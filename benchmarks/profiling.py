"""A flame graph of a task slot while it works, and where its samples were.

py-spy takes them, first for a flame graph, then for the shares; frames of native code are among them. A sample belongs
to user code where any function of the workload is on its stack, else to the innermost part that is known.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.comparison import Contender, Settings
from benchmarks.engines import ENGINES, python_of, variables
from benchmarks.flinkray_engine import STARTED
from benchmarks.process_tree import run

PARTS = (
    ("kernels", re.compile(r"pyarrow|arrow::|libarrow|numpy")),
    ("exchange", re.compile(r"actors/network/|actors/blocks/")),
    ("mailbox", re.compile(r"actors/mailbox/")),
    ("Ray", re.compile(r"/ray/|actors/hosts/ray/|_raylet|ray::")),
    ("operators", re.compile(r"actors/operators/|actors/tasks/|flinkray/")),
)
"""The parts of the program by their files. A sample counts for the first that matches, from the innermost frame
outwards."""
USER = re.compile(r"benchmarks/workloads/(?!base)")
LIBC = "libc.so"
SLOT = "ray::TaskSlot"
WARM_UP_S = 1.5


class ProfilerUnavailable(Exception):
    """py-spy is missing, or no task slot was found."""


def profile(workload: str, rows: int, settings: Settings, target: str, directory: Path) -> dict[str, float]:
    """Runs the workload, writes `<workload>.svg` and `<workload>.stacks`, and gives the share of samples per part."""
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if spy is None:
        raise ProfilerUnavailable("profiles need py-spy: pip install 'flinkray[bench]'")
    engine = Contender(ENGINES["flinkray"], target).engine
    command = [str(python_of(engine)), "-m", engine.module, workload, str(rows), str(settings.parallelism), "time"]
    directory.mkdir(parents=True, exist_ok=True)
    flames, stacks = directory / f"{workload}.svg", directory / f"{workload}.stacks"
    recording = _Recording(spy, flames, stacks, max(1, int(settings.seconds / 2)), target)
    env = {**variables(engine), STARTED: str(recording.started)}
    run([*command, "--mode", target], env, settings.deadline_s, watch=recording.watch)
    recording.started.unlink(missing_ok=True)
    recording.join(settings.deadline_s)
    if not stacks.exists():
        raise ProfilerUnavailable(
            f"py-spy recorded nothing (the job may be too short: more --rows): {recording.errors}"
        )
    return shares(stacks.read_text().splitlines())


class _Recording:
    """Records the first task slot that is at work, on a thread."""

    def __init__(self, spy: str, flames: Path, stacks: Path, seconds: int, target: str) -> None:
        self._commands = [
            [
                spy,
                "record",
                "--native",
                "--full-filenames",
                "--duration",
                str(seconds),
                "--format",
                kind,
                "-o",
                str(path),
            ]
            for kind, path in (("flamegraph", flames), ("raw", stacks))
        ]
        self._stacks = stacks
        self._target = target
        self.started = stacks.with_suffix(".started")
        self.started.unlink(missing_ok=True)
        self._thread: threading.Thread | None = None
        self.errors = "no task slot was found"

    def watch(self, running: set[int]) -> None:
        if self._thread is None and self._is_at_work() and (slot := self._newest_slot(running)) is not None:
            self._stacks.unlink(missing_ok=True)
            self._thread = threading.Thread(target=self._record, args=(slot,), daemon=True)
            self._thread.start()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _is_at_work(self) -> bool:
        """Whether the clock started long enough ago for slots to have been deployed."""
        return self.started.exists() and time.time() - self.started.stat().st_mtime > WARM_UP_S

    def _newest_slot(self, running: set[int]) -> int | None:
        """On the local target slots are threads of the engine's process; on Ray processes, which show their name."""
        wanted = SLOT if self._target == "ray" else "benchmarks.flinkray_engine"
        return next((pid for pid in sorted(running, reverse=True) if wanted in _command_line(pid)), None)

    def _record(self, slot: int) -> None:
        for command in self._commands:
            done = subprocess.run([*command, "--pid", str(slot)], capture_output=True, text=True, timeout=600)
            self.errors = done.stderr[-500:]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def shares(stacks: Iterable[str]) -> dict[str, float]:
    """Each part's share of the samples in collapsed stacks (`outer;...;inner count` per line)."""
    samples: Counter[str] = Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        samples[part_of(stack.split(";"))] += int(count)
    total = sum(samples.values()) or 1
    return {part: count / total for part, count in samples.most_common()}


def part_of(frames: list[str]) -> str:
    # Two frames of libc: it waits for another thread, for Python's lock or in a queue.
    if len(frames) > 2 and all(LIBC in frame for frame in frames[-2:]):
        return "waiting"
    if any(USER.search(frame) for frame in frames):
        return "user code"
    for frame in reversed(frames):
        for part, pattern in PARTS:
            if pattern.search(frame):
                return part
    return "other"
