"""What a process says about itself."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from actors.hosts import process
from actors.protocol.client_requests import GetOutput, GetOutputFiles, GetProcessFigures, GetThreadStacks


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
        stacks = process.answer(GetThreadStacks()).threads
        (found,) = [each for each in stacks if each.name == thread.name]
        assert "in wait_here" in found.stack
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
