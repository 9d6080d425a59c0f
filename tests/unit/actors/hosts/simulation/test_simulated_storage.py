"""A file system in memory: as a local one, but what processes do with it goes wrong as told."""

from __future__ import annotations

import pickle
import posixpath
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from actors.hosts.simulation.faults import Faults, StorageFaults
from actors.hosts.simulation.host import SimulationHost
from actors.hosts.simulation.storage import SimulatedStorage, new_storage
from actors.protocol.ports import Address, Endpoint, EndpointSpec, Payloads


@pytest.fixture
def storage() -> Iterator[SimulatedStorage]:
    storage = new_storage("test")
    yield storage
    storage.attach(None)


def write(system: fs.FileSystem, path: str, content: bytes) -> None:
    with system.open_output_stream(path, compression=None) as stream:
        stream.write(content)


def tree(system: fs.FileSystem, base: str) -> list[tuple[str, Any]]:
    infos = system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    return sorted((posixpath.relpath(info.path, base or "."), info.type, info.size) for info in infos)


@pytest.mark.parametrize("seed", range(30))
def test_it_does_what_a_local_file_system_does(storage: SimulatedStorage, tmp_path: Path, seed: int) -> None:
    """Whether an operation can be done, and what is there after it; random operations on few names."""
    chance = random.Random(seed)
    memory, local = storage.filesystem(), fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for _ in range(40):
        operation, arguments = _random_operation(chance)
        done = [_can(system, operation, *arguments) for system in (memory, local)]
        assert done[0] == done[1], (operation, arguments)
        assert tree(memory, "") == tree(local, "")


def _random_operation(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    names = ["a", "b", "a/c", "a/d", "b/c", "a/c/e"]
    operation = chance.choice(["create_dir", "write", "move", "delete_file", "delete_dir", "copy_file", "read"])
    path = chance.choice(names)
    if operation == "create_dir":
        return operation, (path,)
    if operation == "write":
        return operation, (path, bytes(chance.randint(0, 9)))
    if operation in ("copy_file", "move"):
        # What local file systems do with directories there, and with a file onto itself, is their own affair.
        return operation, (f"{chance.choice('ab')}/f{chance.randint(0, 1)}", f"{chance.choice('ab')}/g")
    return operation, (path if chance.random() < 0.5 else f"{chance.choice('ab')}/g",)


def _can(system: fs.FileSystem, operation: str, *arguments: Any) -> Any:
    try:
        if operation == "write":
            write(system, *arguments)
        elif operation == "read":
            with system.open_input_file(*arguments) as stream:
                return stream.read()
        else:
            getattr(system, operation)(*arguments)
    except OSError:
        return False
    return True


def test_a_pickled_one_has_the_same_files(storage: SimulatedStorage) -> None:
    system = storage.filesystem()
    write(system, "x", b"1")
    write(pickle.loads(pickle.dumps(system)), "y", b"2")
    assert storage.files == {"x": b"1", "y": b"2"}


class Writer(Endpoint):
    """Writes a file for each number that it is told, under a name that it is moved from when it is complete."""

    def on_start(self) -> None:
        self.system = new_or_known.filesystem()
        self.errors = 0

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case ("done", error):
                self.errors += error is not None
            case number:
                self.context.run_blocking(lambda: self._write(number), lambda _, error: ("done", error))

    def _write(self, number: int) -> None:
        write(self.system, f"hidden-{number}", f"<{number}>".encode() * 20)
        self.system.move(f"hidden-{number}", f"final-{number}")


new_or_known = new_storage("writers")
FILES = 40


def run_writer(seed: int, faults: StorageFaults, limit: int = 10) -> SimulationHost:
    new_or_known.files.clear()
    host = SimulationHost(seed, Faults(storage=faults, limit=limit))
    new_or_known.attach(host)
    host.spawn(EndpointSpec(Address("writer"), Writer, restarts=True))
    for number in range(FILES):
        host.run_until(lambda: bool(host.alive("Writer")))
        host.tell(Address("writer"), number)
        host.run_for(50)
    host.run_for(10_000)
    return host


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("fault", ["fails", "lies", "tears", "crashes"])
def test_whatever_goes_wrong_a_complete_file_is_right_and_another_is_hidden_or_missing(fault: str, seed: int) -> None:
    rates: dict[str, float] = {fault: 0.2}
    host = run_writer(seed, StorageFaults(**rates))
    found = Counter(path.split("-")[0] for path in new_or_known.files)
    assert 1 <= len(host.plan.happened) <= 10
    assert FILES - 10 <= found["final"] <= FILES
    for path, content in new_or_known.files.items():
        number = path.split("-")[1]
        if path.startswith("final"):
            assert content == f"<{number}>".encode() * 20
    if fault in ("fails", "tears"):
        assert host.endpoint(Address("writer")).errors == len(host.plan.happened) == FILES - found["final"]


def test_a_torn_file_has_a_beginning_of_its_content() -> None:
    run_writer(1, StorageFaults(tears=1.0), limit=FILES)
    assert len(new_or_known.files) == FILES
    for path, content in new_or_known.files.items():
        number = path.split("-")[1]
        assert path.startswith("hidden")
        assert (f"<{number}>".encode() * 20).startswith(content)


def test_slow_storage_takes_virtual_time() -> None:
    fast = run_writer(1, StorageFaults()).schedule.now
    host = SimulationHost(1, Faults(storage=StorageFaults(slow=1.0, slow_ms=60_000.0)))
    new_or_known.attach(host)
    host.spawn(EndpointSpec(Address("writer"), Writer))
    host.tell(Address("writer"), 1)
    before = host.schedule.now
    host.run_until(lambda: host.delivered["tuple"] == 1)
    assert host.schedule.now - before > 1_000
    assert fast > 0


def test_the_test_itself_is_never_failed() -> None:
    host = SimulationHost(1, Faults(storage=StorageFaults(fails=1.0, crashes=1.0, tears=1.0)))
    new_or_known.attach(host)
    write(new_or_known.filesystem(), "mine", b"1")
    assert new_or_known.files["mine"] == b"1"
    assert host.plan.happened == []
