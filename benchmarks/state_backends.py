"""Keyed state in memory and on disk: prints milliseconds, MiB and ratios; see each line.

    python benchmarks/state_backends.py [--scale 1.0]

At scale 1: how long a snapshot of 1 million keys (text -> three floats) in hashmap holds up the task's thread; how
much of a checkpoint of 5 million keys in rocksdb is uploaded after 1 % of them have changed; the most memory of the
process while rocksdb holds four times its memory budget (64 MiB times the scale), which is read at random too.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from actors.hosts.runtime import SystemClock
from actors.protocol.checkpoint_handles import FileState, SharedFile
from actors.protocol.elements import CheckpointOptions
from actors.state.hashmap.backend import HashMapKeyedStateBackend
from actors.state.keyed.options import StateOptions
from actors.state.rocksdb.backend import RocksDbKeyedStateBackend
from flinkray.state.descriptors import ValueStateDescriptor

GROUPS = 128
MIB = 1 << 20


class FileWriter:
    """A StateWriter into a directory, which counts what it writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.bytes_written = 0

    def write(self, data: bytes | memoryview) -> FileState:
        return self.write_with(lambda stream: stream.write(data) and None)

    def write_with(self, write: Callable[[IO[bytes]], None]) -> FileState:
        path = self._directory / f"part-{time.monotonic_ns()}"
        with path.open("wb") as stream:
            write(stream)
        length = path.stat().st_size
        self.bytes_written += length
        return FileState(str(path), 0, length, 0)

    def write_shared(self, name: str, local_path: str) -> SharedFile:
        path = self._directory / "shared" / name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(local_path, path)
        self.bytes_written += path.stat().st_size
        return SharedFile(name, str(path), path.stat().st_size, 0)


def group_of(key: int) -> int:
    return zlib.crc32(key.to_bytes(8, "little")) % GROUPS


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def hashmap_pause(keys: int, directory: Path) -> None:
    backend = HashMapKeyedStateBackend("benchmark", range(GROUPS), "", SystemClock(), StateOptions())
    state = backend.get_state(ValueStateDescriptor("value"))
    for key in range(keys):
        backend.set_current_key(f"key-{key}", group_of(key))
        state.update((key * 0.5, key * 0.25, 1.0))
    pauses = []
    for _ in range(5):
        started = time.perf_counter()
        parts = backend.snapshot(CheckpointOptions())
        pauses.append((time.perf_counter() - started) * 1000)
        for part in parts:
            part.discard()
    started = time.perf_counter()
    writer = FileWriter(directory)
    for part in backend.snapshot(CheckpointOptions()):
        part.write(writer)
    written = time.perf_counter() - started
    print(f"hashmap, {keys:,} keys: a snapshot holds up the task for {np.median(pauses):.1f} ms (worst of 5 ", end="")
    print(f"{max(pauses):.1f} ms); {written:.1f} s on another thread for {writer.bytes_written / MIB:.0f} MiB")


def rocksdb(directory: Path, memory_bytes: int) -> RocksDbKeyedStateBackend:
    options = StateOptions("rocksdb", True, str(directory), memory_bytes)
    return RocksDbKeyedStateBackend("benchmark", range(GROUPS), "", SystemClock(), options)


def increments(keys: int, directory: Path) -> None:
    backend = rocksdb(directory, 64 * MIB)
    state = backend.get_state(ValueStateDescriptor("value"))
    options = CheckpointOptions(shared_directory=f"file://{directory}/shared")
    started = time.perf_counter()
    for key in range(keys):
        backend.set_current_key(key, group_of(key))
        state.update((key * 0.5, key * 0.25, random.random()))
    filled = time.perf_counter() - started
    sizes = []
    pauses = []
    for number, changed in enumerate((0, *[keys // 100] * 9)):
        for key in random.sample(range(keys), changed):
            backend.set_current_key(key, group_of(key))
            state.update((key * 0.5, key * 0.25, random.random()))
        writer = FileWriter(directory)
        started = time.perf_counter()
        parts = backend.snapshot(options, number)
        pauses.append((time.perf_counter() - started) * 1000)
        for part in parts:
            part.write(writer)
        backend.notify_checkpoint_complete(number)
        sizes.append(writer.bytes_written)
    backend.close()
    ratios = ", ".join(f"{size / sizes[0]:.1%}" for size in sizes[1:])
    print(
        f"rocksdb, {keys:,} keys in {filled:.0f} s: a full checkpoint has {sizes[0] / MIB:.0f} MiB; after changes of ",
        end="",
    )
    print(f"1 % each, {ratios} of it are uploaded; pauses {', '.join(f'{pause:.0f}' for pause in pauses)} ms")


def larger_than_memory(budget: int, directory: Path) -> None:
    before = peak_mib()
    backend = rocksdb(directory, budget)
    state = backend.get_state(ValueStateDescriptor("value"))
    rows = 4 * budget // 1024
    for key in range(rows):
        backend.set_current_key(key, group_of(key))
        state.update(os.urandom(1000))
    started = time.perf_counter()
    reads = min(rows, 50_000)
    for key in random.sample(range(rows), reads):
        backend.set_current_key(key, group_of(key))
        assert state.value() is not None
    microseconds = (time.perf_counter() - started) / reads * 1e6
    backend.close()
    print(
        f"rocksdb, {4 * budget / MIB:.0f} MiB of state with a budget of {budget / MIB:.0f} MiB: the process took ",
        end="",
    )
    print(f"{peak_mib() - before:.0f} MiB more at most ({peak_mib():.0f} in all); a random read {microseconds:.0f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    scale = parser.parse_args().scale
    # First, since the most memory that a process took never goes down.
    for run in (
        lambda directory: larger_than_memory(int(64 * MIB * scale), directory),
        lambda directory: hashmap_pause(int(1_000_000 * scale), directory),
        lambda directory: increments(int(5_000_000 * scale), directory),
    ):
        with tempfile.TemporaryDirectory() as directory:
            run(Path(directory))


if __name__ == "__main__":
    main()
