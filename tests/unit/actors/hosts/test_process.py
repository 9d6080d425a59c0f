"""What a process says about itself."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.hosts import process
from actors.hosts.local import LocalHost
from actors.protocol.client_requests import GetOutput, GetOutputFiles, GetProcessFigures, GetThreadStacks
from actors.protocol.ports import Address, Endpoint, EndpointGone, EndpointSpec, Payloads
from tests.support.waiting import eventually


def test_the_figures_are_those_of_this_process() -> None:
    figures = process.answer(GetProcessFigures())
    assert figures.process_id == os.getpid()
    assert 0 < figures.resident_bytes < figures.machine_bytes
    assert figures.threads >= 1
    assert figures.open_files > 2
    assert len(figures.collections) == 3


def test_each_thread_shows_what_it_waits_for() -> None:
    may_end = threading.Event()

    def wait_here() -> None:
        may_end.wait(20)

    thread = threading.Thread(target=wait_here, name="the one that waits")
    thread.start()
    try:

        def stacks() -> list[str]:
            threads = process.answer(GetThreadStacks()).threads
            return [each.stack for each in threads if each.name == thread.name]

        # A thread that has just started is still on its way there.
        eventually(stacks, lambda found: ["in wait_here" in stack for stack in found] == [True])
    finally:
        may_end.set()
        thread.join()


def test_only_files_that_it_prints_to_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, other = tmp_path / "worker.out", tmp_path / "other.txt"
    output.write_text("first line\nlast line\n")
    other.write_text("secret")
    monkeypatch.setattr(process, "_outputs", lambda: {output: False})
    (file,) = process.answer(GetOutputFiles())
    assert (file.name, file.nbytes, file.is_error) == ("worker.out", 21, False)
    assert process.answer(GetOutput("worker.out", 10)) == "last line\n"
    assert process.answer(GetOutput("other.txt", 10)) is None
    assert process.answer(GetOutput("../other.txt", 10)) is None


may_end = threading.Event()


class Hanging(Endpoint):
    """Hangs from its first message on."""

    def on_message(self, message: Any, payloads: Payloads) -> None:
        assert may_end.wait(20)


def test_of_an_endpoint_that_hangs_its_threads_can_be_seen() -> None:
    host, address = LocalHost(), Address("c/hanging")
    may_end.clear()
    host.spawn(EndpointSpec(address, Hanging))
    try:
        host.tell(address, "hang")
        eventually(lambda: stack_of(host, address), lambda stack: "may_end.wait(20)" in stack)
    finally:
        may_end.set()
        host.shutdown()
    with pytest.raises(EndpointGone):
        host.ask(address, GetThreadStacks(), 5_000)


def stack_of(host: LocalHost, address: Address) -> str:
    """What the endpoint's own thread does."""
    threads = host.ask(address, GetThreadStacks(), 5_000).threads
    return next((each.stack for each in threads if each.name == address), "")
