"""What is asked of masters, and for how long their answers count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from actors.protocol.client_requests import (
    CancelJob,
    GetArchivedJob,
    GetClusterConfiguration,
    GetClusterOverview,
    GetJobDetails,
    GetJobOverview,
    GetOutput,
    GetOutputFiles,
    GetSlotProcesses,
    GetTaskExecutors,
    JobOverview,
    ListJobs,
    OutputFile,
    TaskExecutorDetails,
)
from actors.protocol.control_messages import JobDetails
from actors.protocol.dispatcher_errors import UnknownJobError
from actors.protocol.job_reports import GetCheckpointReport
from actors.protocol.ports import Address, EndpointGone, EndpointSpec, Host
from actors.protocol.resources import ClusterOverview
from actors.rest.asking.masters import Masters
from flinkray.execution import JobStatus
from flinkray.types.records import JobId

JOB = JobId("0123456789abcdef" * 2)


class ScriptedHost(Host):
    """Answers by the type of the request, with a value, a function of the address, or an error; notes what is asked."""

    def __init__(self, answers: dict[type, Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[Address, str]] = []

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        self.asked.append((address, type(request).__name__))
        answer = self.answers[type(request)]
        if isinstance(answer, Callable):
            answer = answer(address)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def spawn(self, spec: EndpointSpec) -> None:
        raise AssertionError

    def tell(self, address: Address, message: Any) -> None:
        raise AssertionError

    def kill(self, address: Address) -> None:
        raise AssertionError

    def shutdown(self) -> None:
        raise AssertionError


class Clusters:
    def __init__(self, **hosts: Host) -> None:
        self._hosts = hosts

    def hosts(self) -> dict[str, Host]:
        return self._hosts


class Time:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


made: list[Masters] = []


def masters_of(time: Time, **hosts: Host) -> Masters:
    made.append(Masters(Clusters(**hosts), time, 3_000))
    return made[-1]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Threads of masters end with their test, and not when somebody collects what is left over."""
    yield
    while made:
        made.pop().close()


def running(cluster: str = "c") -> JobOverview:
    return JobOverview(JOB, "job", JobStatus.RUNNING, 0, Address(f"{cluster}/job-master"))


def test_an_answer_counts_for_a_moment_and_then_no_more() -> None:
    host, time = ScriptedHost({ListJobs: (running(),)}), Time()
    masters = masters_of(time, c=host)
    for now, asked in ((0, 1), (2_999, 1), (3_000, 2), (3_001, 2)):
        time.now_ms = now
        assert masters.jobs() == [running()]
        assert len(host.asked) == asked


def test_of_many_who_ask_at_once_one_does() -> None:
    may_answer = threading.Event()

    def slow(_address: Address) -> Any:
        assert may_answer.wait(10)
        return (running(),)

    host = ScriptedHost({ListJobs: slow})
    masters = masters_of(Time(), c=host)
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(masters.jobs) for _ in range(8)]
        may_answer.set()
        assert all(answer.result(10) == [running()] for answer in answers)
    assert len(host.asked) == 1


def test_what_was_said_before_a_job_is_cancelled_is_forgotten() -> None:
    host = ScriptedHost({ListJobs: (running(),), GetJobOverview: running(), CancelJob: None})
    masters = masters_of(Time(), c=host)
    masters.jobs()
    masters.cancel(JOB)
    masters.jobs()
    assert [name for _, name in host.asked].count("ListJobs") == 2


def test_a_silent_job_master_hides_the_checkpoints_of_its_job_alone() -> None:
    host = ScriptedHost({GetJobOverview: running(), GetCheckpointReport: TimeoutError("silent")})
    assert masters_of(Time(), c=host).checkpoints_of_each([JOB]) == {JOB: None}


def test_that_somebody_is_silent_counts_for_a_moment_too() -> None:
    host, time = ScriptedHost({GetJobOverview: TimeoutError("silent")}), Time()
    masters = masters_of(time, c=host)
    for _ in range(3):
        with pytest.raises(TimeoutError, match="c/dispatcher has not answered for 5 s"):
            masters.job(JOB)
    assert len(host.asked) == 1
    time.now_ms = 3_000
    host.answers[GetJobOverview] = running()
    assert masters.job(JOB) == running()


def test_what_is_not_asked_for_any_more_is_forgotten() -> None:
    host, time = ScriptedHost({GetJobOverview: UnknownJobError(JOB, "c")}), Time()
    masters = masters_of(time, c=host)
    for number in range(1_000):
        time.now_ms += 10
        with pytest.raises(UnknownJobError):
            masters.job(JobId(f"{number:032x}"))
    assert len(masters._answers) <= 302, "those of the last three seconds"


def test_a_cluster_that_does_not_answer_leaves_out_its_own_jobs_only() -> None:
    silent, host = ScriptedHost({ListJobs: TimeoutError()}), ScriptedHost({ListJobs: (running("b"),)})
    assert masters_of(Time(), a=silent, b=host).jobs() == [running("b")]


def test_a_job_is_found_in_whatever_cluster_it_is() -> None:
    others, host = (
        ScriptedHost({GetJobOverview: UnknownJobError(JOB, "a")}),
        ScriptedHost({GetJobOverview: running("b")}),
    )
    assert masters_of(Time(), a=others, b=host).job(JOB) == running("b")
    with pytest.raises(UnknownJobError):
        masters_of(Time(), a=others).job(JOB)
    silent = ScriptedHost({GetJobOverview: TimeoutError()})
    with pytest.raises(TimeoutError):  # it may be there
        masters_of(Time(), a=others, b=silent).job(JOB)


def test_a_job_whose_master_has_gone_meanwhile_is_as_it_was_at_its_end() -> None:
    ended = JobDetails(JOB, "job", JobStatus.FINISHED, ())
    gone = EndpointGone("c/job-master")
    host = ScriptedHost({GetJobOverview: running(), GetJobDetails: gone, GetArchivedJob: ended})
    assert masters_of(Time(), c=host).details(JOB) is ended
    host.answers[GetArchivedJob] = None  # it has not started yet
    assert masters_of(Time(), c=host).details(JOB).status is JobStatus.RUNNING


def test_several_clusters_are_summed_up() -> None:
    hosts = {name: ScriptedHost({GetClusterOverview: ClusterOverview(1, 0, 2, 1, 2.0)}) for name in ("a", "b")}
    overview = masters_of(Time(), **hosts).overview()
    assert (overview.task_executors, overview.slots, overview.free_slots) == (2, 4, 2)


def test_options_of_several_clusters_say_whose_they_are() -> None:
    host = ScriptedHost({GetClusterConfiguration: {"rest.port": "0"}})
    assert masters_of(Time(), a=host).configuration() == {"rest.port": "0"}
    assert masters_of(Time(), a=host, b=host).configuration() == {"a/rest.port": "0", "b/rest.port": "0"}


def test_the_log_of_a_job_is_that_of_its_processes_by_time() -> None:
    logs = {"c/job-master": "2026-01-31T12:00:02.000Z two\n", "c/te/slot": "2026-01-31T12:00:01.000Z one\n"}

    def slots(address: Address) -> Any:
        return EndpointGone(address) if address == "c/silent" else (Address(f"{address}/slot"), Address("c/te/gone"))

    def files(address: Address) -> Any:
        if address not in logs:
            return EndpointGone(address)
        return tuple(OutputFile(f"{address}.{kind}", 1, 0, is_error=kind == "err") for kind in ("out", "err"))

    answers: dict[type, Any] = {
        GetJobOverview: running(),
        GetTaskExecutors: tuple(TaskExecutorDetails(Address(name), (), 0) for name in ("c/te", "c/silent")),
        GetSlotProcesses: slots,
        GetOutputFiles: files,
        GetOutput: lambda address: logs[address],
    }
    host = ScriptedHost(answers)
    assert masters_of(Time(), c=host).job_log(JOB) == logs["c/te/slot"] + logs["c/job-master"]
    logs.clear()
    assert masters_of(Time(), c=host).job_log(JOB) is None
