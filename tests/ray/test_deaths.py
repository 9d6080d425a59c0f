"""What is said of a process that died: why, where that can be told, and where its log is."""

from __future__ import annotations

import ctypes
import os
import re

import pytest

from flinkray import JobExecutionError
from tests.support.jobs import environment

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

DIED = """The actor died unexpectedly before finishing this task.
\tclass_name: TaskSlot
\tactor_id: c289b6e97f64933f6721c05d01000000
\tpid: 4711
\tnamespace: flinkray
\tip: 192.0.2.7
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: {}"""
LOST = """Worker unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the
process was killed by the OOM killer due to high memory usage, (2) ray stop --force was called"""
LOW = """Task was killed due to the node running low on memory.
Memory on the node (IP: 192.0.2.7, ID: 01) where the task (actor ID: 02, name=x, pid=4711, memory used=1.5GB) was
running was 27.6GB / 28.8GB (0.958), which exceeds the memory usage threshold of 0.95."""


@pytest.mark.parametrize(
    ("text", "log", "says"),
    [
        (DIED.format(LOST), "", "was killed by a signal, or ended itself by os._exit"),
        (DIED.format(LOST), "1.0\n*** SIGSEGV received at time=1 on cpu 0 ***\nPC: @", "crashed with SIGSEGV"),
        (DIED.format("Worker exits with an exit code 3."), "", "ended with exit code 3"),
        (
            DIED.partition("The actor is dead")[0] + "It was killed by `ray.kill`.",
            "",
            "has ended: It was killed by `ray.kill`",
        ),
        (LOW, "", "was ended by Ray, as the node ran low on memory: keep state on disk (state.backend.type: rocksdb)"),
    ],
)
def test_of_a_dead_process_the_cause_and_the_log_are_named(text: str, log: str, says: str) -> None:
    from actors.hosts.ray.deaths import death_in

    said = death_in(text, "/tmp/ray/logs", lambda node, pid: log if (node, pid) == ("192.0.2.7", "4711") else "")
    assert said.startswith(f"process 4711 on node 192.0.2.7 {says}")
    assert said.endswith("; its log is /tmp/ray/logs/worker-*-4711.err")


def test_what_is_no_death_of_a_process_keeps_its_first_line() -> None:
    from ray.exceptions import RayTaskError, RuntimeEnvSetupError

    from actors.hosts.ray.deaths import cause_of_death

    for said, reason in (("a\n    ERROR: No x\n  ERROR: No y\n\n", "No x; No y"), ("a\n\n  b \n", "b")):
        expected = f"its runtime environment could not be set up: {reason}; python.requirements and"
        assert cause_of_death(RuntimeEnvSetupError(said)).startswith(expected)
    assert cause_of_death(None) == "the endpoint ended"
    assert cause_of_death(ValueError("one\ntwo")) == "ValueError: one"
    failed = RayTaskError("watch", "ray::watch() (pid=4711, ip=192.0.2.7)", ValueError("one"))
    assert cause_of_death(failed) == "ValueError: one"


@pytest.mark.usefixtures("ray_cluster")
def test_a_job_whose_process_crashes_names_the_signal_and_the_log() -> None:
    def crash(value: int) -> int:
        return ctypes.string_at(0)[value]  # reads where nothing may be read

    with pytest.raises(JobExecutionError) as failure:
        environment(target="ray").from_collection([1]).map(crash).to_arrow()
    named = r"process (\d+) on node \S+ crashed with SIGSEGV; its log is (\S+)/worker-\*-\1\.err"
    said = re.search(named, str(failure.value))
    assert said is not None, str(failure.value)
    assert any(name.endswith(f"-{said[1]}.err") for name in os.listdir(said[2]))
