"""What a driver is told of savepoints and checkpoints, whatever becomes of Dispatcher and JobMaster meanwhile."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from actors.client import job_client, pauses
from actors.client.cluster import QUESTION_TIMEOUT_MS
from actors.client.job_client import ClusterJobClient
from actors.protocol.client_requests import (
    Collected,
    GetArchivedJob,
    GetCheckpoints,
    GetJobDetails,
    GetJobOverview,
    GetJobProgress,
    GetRescale,
    GetSavepoint,
    GetTriggeredCheckpoint,
    JobOverview,
    Rescale,
    TakeCollected,
    TriggeredCheckpoint,
    TriggerPeriodicCheckpoint,
    TriggerSavepoint,
)
from actors.protocol.control_messages import JobDetails, RescaleResult, SavepointResult
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, EndpointSilentError
from actors.protocol.elements import StopMode
from actors.protocol.ports import Address, EndpointGone, EndpointSpec, Host
from flinkray import progress
from flinkray.batches.batch import Batch
from flinkray.errors import CheckpointError, ErrorInfo, JobExecutionError, RescaleError
from flinkray.execution import JobProgress, JobStatus
from flinkray.progress import wait_for_result
from flinkray.state.checkpoint_statistics import CheckpointCounts, CheckpointOverview
from flinkray.types.records import JobId

JOB = JobId("0" * 32)
DISPATCHER = Address("c/dispatcher")
SAVED = CheckpointOverview(CheckpointCounts(triggered=3, completed=3))


@dataclass
class FakeJobMaster:
    """A JobMaster as clients see it."""

    saves_after: int = 2
    """How often it is asked for a savepoint until there is one."""
    error: Exception | None = None
    unready: int = 0
    """So many requests come before it has started the job."""
    takes: dict[str, TriggerSavepoint] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    """Requests for checkpoints and rescales."""
    asked: dict[str, int] = field(default_factory=dict)

    def results(self) -> tuple[SavepointResult, ...]:
        return tuple(self._result(each) for each in self.takes if self.asked.get(each, 0) >= self.saves_after)

    def _result(self, request_id: str) -> SavepointResult:
        if self.error is not None:
            return SavepointResult(request_id, None, ErrorInfo.of(self.error))
        return SavepointResult(request_id, f"{self.takes[request_id].target}/savepoint-{request_id}", None)


class FakeCluster(Host):
    """Answers a client; tests change it between its questions through `before`."""

    def __init__(self) -> None:
        self.job = JobOverview(JOB, "job", JobStatus.RUNNING, 0, Address("c/job-master-1"))
        self.masters: dict[Address, FakeJobMaster] = {self.job.job_master: FakeJobMaster()}
        self.has_dispatcher = True
        self.is_ready = True
        self.ended: JobDetails | None = None
        self.before: Callable[[Any], None] = lambda _request: None
        self.requests: list[Any] = []
        self.silent: set[Address] = set()
        """Who hangs."""
        self.timeouts: list[float] = []
        self.batches: list[int] = []
        """What the collecting sink has brought."""

    @property
    def master(self) -> FakeJobMaster:
        return self.masters[self.job.job_master]

    def replace_master(self, **arguments: Any) -> None:
        self.masters.clear()
        address = Address(f"c/job-master-{int(self.job.job_master.rpartition('-')[2]) + 1}")
        self.job = replace(self.job, job_master=address)
        self.masters[address] = FakeJobMaster(**arguments)

    def end(
        self, status: JobStatus = JobStatus.FINISHED, error: Exception | None = None, *, has_rows: bool = False
    ) -> None:
        """`has_rows`: the driver has not taken all of them, so that the JobMaster stays."""
        results = [each for master in self.masters.values() for each in master.results()]
        self.ended = JobDetails(
            JOB,
            "job",
            status,
            ((status, 0),),
            error=None if error is None else ErrorInfo.of(error),
            checkpoints=SAVED,
            savepoints=tuple(results),
        )
        self.job = replace(self.job, status=status)
        if not has_rows:
            self.masters.clear()

    def client(self, is_highly_available: bool = True) -> ClusterJobClient:
        return ClusterJobClient(self, "c", self.job, owns_cluster=False, is_highly_available=is_highly_available)

    # -- Host

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        self.requests.append(request)
        self.before(request)
        self.timeouts.append(timeout_ms)
        if address in self.silent:
            raise TimeoutError
        if address == DISPATCHER:
            return self._dispatch(request)
        master = self.masters.get(address)
        if master is None:
            raise EndpointGone(address)
        return self._of_master(master, request)

    def _dispatch(self, request: Any) -> Any:
        if not self.has_dispatcher:
            raise EndpointGone(DISPATCHER)
        if not self.is_ready:
            raise DispatcherNotReadyError("c", "is reading")
        return self.ended if isinstance(request, GetArchivedJob) else self.job

    def _of_master(self, master: FakeJobMaster, request: Any) -> Any:
        match request:
            case TriggerSavepoint() | TriggerPeriodicCheckpoint() if master.unready:
                master.unready -= 1
                raise CheckpointError("the job has not started yet")
            case TriggerSavepoint():
                master.takes.setdefault(request.request_id, request)
            case TriggerPeriodicCheckpoint():
                master.others.add(request.request_id)
            case GetSavepoint() if request.request_id in master.takes:
                master.asked[request.request_id] = master.asked.get(request.request_id, 0) + 1
                return next((each for each in master.results() if each.request_id == request.request_id), None)
            case GetTriggeredCheckpoint() if request.request_id in master.others:
                master.asked[request.request_id] = master.asked.get(request.request_id, 0) + 1
                if master.error is not None:
                    return TriggeredCheckpoint(failure=str(master.error))
                is_complete = master.asked[request.request_id] >= master.saves_after
                return TriggeredCheckpoint(7 if is_complete else None)
            case Rescale() if master.unready:
                master.unready -= 1
                raise RescaleError("the job has not started yet")
            case Rescale(parallelism=int(number)) if number > 128:
                raise RescaleError("at most 128")
            case Rescale():
                master.others.add(request.request_id)
            case GetRescale() if request.request_id in master.others:
                master.asked[request.request_id] = master.asked.get(request.request_id, 0) + 1
                if master.asked[request.request_id] < master.saves_after:
                    return RescaleResult(request.request_id, is_done=False)
                error = None if master.error is None else ErrorInfo.of(master.error)
                return RescaleResult(request.request_id, {"vertex": 4}, error)
            case GetCheckpoints():
                return CheckpointOverview()
            case GetJobProgress():
                return JobProgress(JobStatus.INITIALIZING if master.unready else self.job.status, 5, 5, None)
            case GetJobDetails():
                return JobDetails(JOB, "job", self.job.status, ((self.job.status, 0),), restarts=1)
            case TakeCollected():
                return self._collected(request)
        return None

    def _collected(self, request: TakeCollected) -> Collected:
        first = request.positions[0] if request.positions else 0
        taken = self.batches[first : first + 2]
        batches = tuple(Batch(pa.RecordBatch.from_pydict({"value": [each]})) for each in taken)
        is_end = self.ended is not None and first + len(taken) == len(self.batches)
        return Collected(batches, is_end, (first + len(taken),))

    def spawn(self, spec: EndpointSpec) -> None: ...
    def tell(self, address: Address, message: Any) -> None: ...
    def kill(self, address: Address) -> None: ...
    def shutdown(self) -> None: ...


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    monkeypatch.setattr(pauses, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(pauses, "LONGEST_PAUSE_S", 0.0)
    return FakeCluster()


def on(kind: type, times: int, act: Callable[[], None]) -> Callable[[Any], None]:
    """Acts once, before the so many-th request of that kind."""
    left = [times]

    def before(request: Any) -> None:
        if isinstance(request, kind):
            left[0] -= 1
            if left[0] == 0:
                act()

    return before


def test_a_savepoint_is_asked_for_once_and_awaited(cluster: FakeCluster) -> None:
    cluster.master.saves_after = 5
    saved = cluster.client().trigger_savepoint("/there", timeout=30)
    (taken,) = cluster.master.takes.values()
    assert (taken.target, taken.stop) == ("/there", StopMode.GO_ON)
    assert saved == f"/there/savepoint-{taken.request_id}"


def test_a_directory_means_the_drivers_own(
    cluster: FakeCluster, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cluster.client().trigger_savepoint("here").startswith(f"{tmp_path}/here/")
    assert cluster.client().trigger_savepoint("s3://b/k").startswith("s3://b/k/")
    assert cluster.client().trigger_savepoint().startswith("/savepoint-")  # where the configuration says


def test_each_request_is_one_of_its_own(cluster: FakeCluster) -> None:
    client = cluster.client()
    assert client.trigger_savepoint("/a") != client.trigger_savepoint("/a")
    assert len(cluster.master.takes) == 2


@pytest.mark.parametrize("error", [CheckpointError("the disk is full"), ValueError("odd")])
def test_a_savepoint_that_fails_raises_with_the_jobs_reason(cluster: FakeCluster, error: Exception) -> None:
    cluster.master.error = error
    with pytest.raises(CheckpointError, match=str(error)):
        cluster.client().trigger_savepoint("/there")


def test_a_job_master_that_takes_anothers_place_is_asked_anew(cluster: FakeCluster) -> None:
    cluster.before = on(GetSavepoint, 2, cluster.replace_master)
    saved = cluster.client().trigger_savepoint("/there", timeout=30)
    (taken,) = cluster.master.takes.values()
    assert saved.endswith(taken.request_id)


def test_a_job_master_that_has_not_started_the_job_again_yet_is_waited_for(cluster: FakeCluster) -> None:
    cluster.before = on(GetSavepoint, 2, lambda: cluster.replace_master(unready=3))
    saved = cluster.client().trigger_savepoint("/there", timeout=30)
    (taken,) = cluster.master.takes.values()
    assert saved.endswith(taken.request_id)


def test_a_job_that_has_not_started_at_all_says_so(cluster: FakeCluster) -> None:
    cluster.master.unready = 1
    with pytest.raises(CheckpointError, match="has not started yet"):
        cluster.client().trigger_savepoint("/there", timeout=30)


def test_stopping_returns_when_the_job_has_finished(cluster: FakeCluster) -> None:
    client = cluster.client()
    looks = on(GetJobOverview, 4, cluster.end)
    cluster.before = looks
    saved = client.stop_with_savepoint("/there", timeout=30)
    assert client.status() is JobStatus.FINISHED
    assert saved.startswith("/there/savepoint-")


@pytest.mark.parametrize(("drain", "stop"), [(False, StopMode.SUSPEND), (True, StopMode.DRAIN)])
def test_the_result_of_a_stop_may_come_from_the_ended_job(cluster: FakeCluster, drain: bool, stop: StopMode) -> None:
    taken: list[TriggerSavepoint] = []
    cluster.master.saves_after = 1

    def end() -> None:
        taken.extend(cluster.master.takes.values())
        cluster.master.asked[taken[0].request_id] = 1
        cluster.end()

    cluster.before = on(GetSavepoint, 2, end)
    saved = cluster.client().stop_with_savepoint("/there", drain, timeout=30)
    assert saved.endswith(taken[0].request_id)
    assert taken[0].stop is stop


@pytest.mark.parametrize(
    ("status", "error"),
    [(JobStatus.FINISHED, None), (JobStatus.CANCELED, None), (JobStatus.FAILED, ValueError("bad row"))],
)
def test_a_job_that_ends_before_its_savepoint_says_so(
    cluster: FakeCluster, status: JobStatus, error: Exception | None
) -> None:
    cluster.before = on(GetSavepoint, 2, lambda: cluster.end(status, error))
    with pytest.raises(CheckpointError, match=f"job 'job' is {status.value}, before the savepoint was") as caught:
        cluster.client().stop_with_savepoint("/there", timeout=30)
    if error is not None:
        assert isinstance(caught.value.__cause__, ValueError)
        assert "bad row" in caught.value.__notes__[0]


def test_a_job_that_fails_after_its_savepoint_names_the_savepoint(cluster: FakeCluster) -> None:
    cluster.before = on(GetJobOverview, 3, lambda: cluster.end(JobStatus.FAILED, ValueError("bad row")))
    with pytest.raises(CheckpointError, match=r"job 'job' is FAILED, although the savepoint /there/.* is complete"):
        cluster.client().stop_with_savepoint("/there", timeout=30)


def test_waiting_for_a_savepoint_ends_with_its_timeout(cluster: FakeCluster) -> None:
    cluster.master.saves_after = 10**9
    with pytest.raises(TimeoutError, match="the savepoint of job 'job' is not complete yet"):
        cluster.client().trigger_savepoint("/there", timeout=0)


def test_checkpoints_are_those_of_the_job_master_and_later_of_the_ended_job(cluster: FakeCluster) -> None:
    client = cluster.client()
    assert client.checkpoints() == CheckpointOverview()
    cluster.end()
    assert client.checkpoints() == SAVED


def test_a_checkpoint_is_asked_for_until_it_is_complete_whoever_the_job_master_is(cluster: FakeCluster) -> None:
    cluster.before = on(GetTriggeredCheckpoint, 2, lambda: cluster.replace_master(unready=2))
    assert cluster.client().trigger_checkpoint(timeout=30) == 7
    cluster.master.error = CheckpointError("the disk is full")
    with pytest.raises(CheckpointError, match="the checkpoint of job 'job' has failed: the disk is full"):
        cluster.client().trigger_checkpoint(timeout=30)
    cluster.replace_master(unready=1)
    with pytest.raises(CheckpointError, match="has not started yet"):
        cluster.client().trigger_checkpoint(timeout=30)
    with pytest.raises(TimeoutError, match="the checkpoint of job 'job' is not complete yet"):
        cluster.client().trigger_checkpoint(timeout=0)
    cluster.end()
    with pytest.raises(CheckpointError, match="job 'job' is FINISHED, and takes no checkpoints any more"):
        cluster.client().trigger_checkpoint(timeout=30)


def test_figures_come_from_the_job_master_that_took_anothers_place(cluster: FakeCluster) -> None:
    client = cluster.client()
    cluster.replace_master()
    assert client.progress().records_in == 5
    cluster.replace_master()
    assert client.details().restarts == 1


# -- the Dispatcher


def test_a_dispatcher_that_is_not_ready_is_asked_again(cluster: FakeCluster) -> None:
    cluster.is_ready = False
    cluster.before = on(GetJobOverview, 5, lambda: setattr(cluster, "is_ready", True))
    assert cluster.client(is_highly_available=False).status() is JobStatus.RUNNING


def test_a_dispatcher_that_never_gets_ready_says_why(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_client, "DISPATCHER_READY_S", 0.0)
    cluster.is_ready = False
    with pytest.raises(DispatcherNotReadyError, match="is reading"):
        cluster.client().status()


def test_a_dispatcher_that_comes_back_is_waited_for_where_it_does(cluster: FakeCluster) -> None:
    cluster.has_dispatcher = False
    with pytest.raises(JobExecutionError, match="cluster 'c' is gone"):
        cluster.client(is_highly_available=False).status()
    cluster.before = on(GetJobOverview, 5, lambda: setattr(cluster, "has_dispatcher", True))
    assert cluster.client(is_highly_available=True).status() is JobStatus.RUNNING


def test_the_patience_with_a_dispatcher_is_that_of_all_calls_together(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(job_client.time, "monotonic", lambda: now[0])
    cluster.has_dispatcher = False
    client = cluster.client()
    for _ in range(10):
        with pytest.raises(TimeoutError, match="cluster 'c' cannot say how job 'job' is"):
            client.result(timeout=0)
        now[0] += job_client.DISPATCHER_RETURN_S / 10
    with pytest.raises(JobExecutionError, match="cluster 'c' is gone"):
        client.result(timeout=0)


def test_the_patience_begins_anew_with_every_answer(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(job_client.time, "monotonic", lambda: now[0])
    client = cluster.client()
    for _ in range(3):
        cluster.has_dispatcher = False
        with pytest.raises(TimeoutError):
            client.result(timeout=0)
        now[0] += job_client.DISPATCHER_RETURN_S - 1
        cluster.has_dispatcher = True
        assert client.status() is JobStatus.RUNNING


# -- everything at once


@pytest.mark.parametrize("seed", range(60))
def test_all_rows_and_one_savepoint_come_whatever_dies(cluster: FakeCluster, seed: int) -> None:
    generator = random.Random(seed)
    cluster.batches = list(range(generator.randint(0, 20)))
    client = cluster.client()
    deaths = [generator.randint(0, 6)]

    def disturb(_request: Any) -> None:
        if deaths[0] and generator.random() < 0.3:
            deaths[0] -= 1
            event = generator.choice(["master", "dispatcher", "reading"])
            if event == "master":
                cluster.replace_master(saves_after=generator.randint(1, 4))
            elif event == "dispatcher":
                cluster.has_dispatcher = False
            else:
                cluster.is_ready = False
        elif generator.random() < 0.5:
            cluster.has_dispatcher = cluster.is_ready = True

    cluster.before = disturb
    saved = client.trigger_savepoint("/there", timeout=30)
    results = [each for each in cluster.master.results() if each.directory == saved]
    assert len(results) == 1
    rows: list[int] = []
    taken = client.collected("rows")
    for _ in range(len(cluster.batches)):
        rows.extend(next(taken).data.column(0).to_pylist())
    cluster.before = lambda _request: None
    cluster.has_dispatcher = cluster.is_ready = True
    cluster.end(has_rows=True)
    assert list(taken) == []
    assert rows == cluster.batches
    assert client.result(timeout=30).job_name == "job"


# -- who hangs


def test_progress_is_what_it_was_while_the_job_master_is_silent(cluster: FakeCluster) -> None:
    client = cluster.client()
    assert client.progress().records_in == 5
    cluster.silent.add(cluster.job.job_master)
    cluster.job = replace(cluster.job, status=JobStatus.RESTARTING)
    assert client.status() is JobStatus.RESTARTING
    assert client.progress() == JobProgress(JobStatus.RESTARTING, 5, 5, None)


def test_progress_is_what_it_was_while_there_is_no_job_master_and_the_dispatcher_is_silent(
    cluster: FakeCluster,
) -> None:
    client = cluster.client()
    assert client.progress().records_in == 5
    cluster.masters.clear()
    cluster.silent.add(DISPATCHER)
    assert client.progress().records_in == 5
    assert set(cluster.timeouts) == {QUESTION_TIMEOUT_MS}


def test_a_driver_goes_on_waiting_for_a_job_whose_masters_are_silent_for_a_while(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log says who is silent, and since when, once."""
    monkeypatch.setattr(progress, "_STATUS_SECONDS", 0.0)
    cluster.silent.update((DISPATCHER, cluster.job.job_master))
    answers = on(GetJobOverview, 4, cluster.silent.clear)
    cluster.before = lambda request: (answers(request), ends(request))  # type: ignore[assignment,func-returns-value]
    ends = on(GetJobOverview, 6, cluster.end)
    assert wait_for_result(cluster.client(), "job", io.StringIO()).job_name == "job"
    for who in ("the Dispatcher of cluster 'c'", "the JobMaster of job 'job' in cluster 'c'"):
        assert len(re.findall(rf"{who} has not answered for 5 s \(since \d\d:\d\d:\d\d\)", caplog.text)) == 1


def test_rows_are_taken_when_a_silent_job_master_answers_again(cluster: FakeCluster) -> None:
    cluster.batches = [1, 2, 3]
    cluster.silent.add(cluster.job.job_master)
    cluster.before = on(TakeCollected, 3, lambda: (cluster.silent.clear(), cluster.end(has_rows=True)))  # type: ignore[arg-type,return-value]
    rows = [row for batch in cluster.client().collected("rows") for row in batch.data.column("value").to_pylist()]
    assert rows == [1, 2, 3]


def test_a_savepoint_is_asked_for_until_a_silent_job_master_answers(cluster: FakeCluster) -> None:
    cluster.silent.add(cluster.job.job_master)
    cluster.before = on(GetSavepoint, 3, cluster.silent.clear)
    assert cluster.client().trigger_savepoint("/there", timeout=30).startswith("/there/savepoint-")


def test_waiting_for_a_silent_dispatcher_ends_with_the_timeout(cluster: FakeCluster) -> None:
    cluster.silent.add(DISPATCHER)
    with pytest.raises(TimeoutError, match="the Dispatcher of cluster 'c' has not answered for 5 s"):
        cluster.client().result(timeout=0)
    assert cluster.timeouts == [QUESTION_TIMEOUT_MS]


@pytest.mark.parametrize("question", ["details", "checkpoints", "accumulators"])
def test_a_question_that_is_not_answered_names_who_is_silent(cluster: FakeCluster, question: str) -> None:
    cluster.silent.add(cluster.job.job_master)
    client = ClusterJobClient(cluster, "c", cluster.job, owns_cluster=False, question_timeout_ms=2_000)
    with pytest.raises(EndpointSilentError, match=r"the JobMaster of job 'job' .* has not answered for 2 s \(since"):
        getattr(client, question)()
    assert cluster.timeouts == [2_000]


def test_a_rescale_is_asked_for_until_it_is_done_whoever_the_job_master_is(cluster: FakeCluster) -> None:
    cluster.before = on(GetRescale, 2, lambda: cluster.replace_master(unready=2))
    assert cluster.client().rescale(4, timeout=30) == {"vertex": 4}
    cluster.before = lambda _request: None
    cluster.master.error = RescaleError("there is no room")
    with pytest.raises(RescaleError, match="there is no room"):
        cluster.client().rescale({"vertex": 4}, timeout=30)
    cluster.replace_master(unready=1)
    with pytest.raises(RescaleError, match="has not started yet"):
        cluster.client().rescale(4, timeout=30)
    cluster.master.saves_after = 10**9
    with pytest.raises(TimeoutError, match="job 'job' is not rescaled yet; it may still be"):
        cluster.client().rescale(4, timeout=0)
    cluster.end()
    with pytest.raises(RescaleError, match="job 'job' is FINISHED, and is not rescaled any more"):
        cluster.client().rescale(4, timeout=30)


@pytest.mark.parametrize("method", ["rescale", "trigger_checkpoint"])
def test_a_silent_job_master_is_waited_for(cluster: FakeCluster, method: str) -> None:
    cluster.silent.add(cluster.job.job_master)
    cluster.before = on(GetRescale if method == "rescale" else GetTriggeredCheckpoint, 3, cluster.silent.clear)
    arguments = (4,) if method == "rescale" else ()
    assert getattr(cluster.client(), method)(*arguments, timeout=30) in (7, {"vertex": 4})


def test_a_rescale_that_a_job_refuses_when_it_runs_again_is_not_asked_for_for_ever(cluster: FakeCluster) -> None:
    client = cluster.client()
    cluster.masters.clear()
    cluster.before = on(GetRescale, 3, lambda: cluster.replace_master(unready=2))
    with pytest.raises(RescaleError, match="at most 128"):
        client.rescale(200, timeout=30)


def test_a_client_that_has_ended_its_cluster_tells_how_the_job_ended(cluster: FakeCluster) -> None:
    client = ClusterJobClient(cluster, "c", cluster.job, owns_cluster=True)
    cluster.end(JobStatus.CANCELED)
    cluster.job = replace(cluster.job, status=JobStatus.RUNNING)
    cluster.masters.clear()
    client.close()
    with pytest.raises(RescaleError, match="is CANCELED, and is not rescaled any more"):
        client.rescale(4, timeout=30)
    with pytest.raises(CheckpointError, match="is CANCELED, and takes no checkpoints any more"):
        client.trigger_checkpoint(timeout=30)
