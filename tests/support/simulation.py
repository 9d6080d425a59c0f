"""Whole jobs on the simulation host: compiled as usual, and driven to their end step by step."""

from __future__ import annotations

import contextlib
import gc
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from actors.client.cluster import dispatcher_of, resource_manager_of, start_cluster, submit
from actors.hosts.simulation.faults import NO_FAULTS, Faults
from actors.hosts.simulation.host import SimulationHost
from actors.hosts.simulation.schedule import START_MS
from actors.hosts.simulation.storage import SimulatedStorage
from actors.operators.contract import chunking, pieces
from actors.protocol.client_requests import (
    CancelJob,
    ClusterResources,
    Collected,
    CollectedReceived,
    GetArchivedJob,
    GetJobOverview,
    GetRescale,
    GetSavepoint,
    JobOverview,
    Rescale,
    ShutDownCluster,
    TakeCollected,
    TriggerSavepoint,
)
from actors.protocol.control_messages import JobDetails, RescaleResult, SavepointResult
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, EndpointSilentError
from actors.protocol.elements import StopMode
from actors.protocol.ports import Address, Endpoint, EndpointGone
from actors.task_slot import TaskSlot
from flinkray import CollectSink, Configuration, DataStream, StreamExecutionEnvironment, filesystems
from flinkray.batches.row_codec import decode
from flinkray.connectors.datagen import source as datagen
from flinkray.errors import CheckpointError, ErrorInfo, FlinkrayError, RescaleError
from flinkray.execution import JobClient, JobStatus, Pipeline
from flinkray.plugins import EXECUTORS, replace_plugins
from flinkray.types.records import JobId
from graphs.compiler.job_graph_generator import generate_job_graph
from graphs.job_graph import JobGraph
from tests.support.exactly_once import ExactlyOnceJob

CLUSTER = "simulated"
JOB = JobId("51a7ed00000000000000000000000000")

# Virtual time in which a job has to come to its end, whatever befalls it.
LONGEST_JOB_MS = 600_000.0

# Virtual time between two looks of the driver at its job.
POLL_MS = 20.0
ASK_TIMEOUT_MS = 60_000.0

# A worker that hung when it should have ended, and that nobody wants any more, ends when it notices.
LONGEST_SHUTDOWN_MS = 400_000.0

LARGE_BATCHES = {"flinkray.batch.target-rows": 50}
SLOW_STEP_MS = 4.0


class Program(Protocol):
    """A program that has not been executed yet."""

    @property
    def environment(self) -> StreamExecutionEnvironment: ...

    @property
    def results(self) -> Mapping[str, DataStream]:
        """What the driver wants to have of it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    status: JobStatus | None
    """None: nobody knows, as the Dispatcher died for good."""
    error: ErrorInfo | None
    statuses: tuple[JobStatus, ...]
    """All that the job was in."""
    rows: dict[str, Counter[Any]]
    """Per result, what the driver got of it."""
    trace: str
    """A hash of all that happened."""
    steps: int
    virtual_ms: float
    faults: tuple[str, ...] = ()
    fatal: tuple[str, ...] = ()
    delivered: Counter[str] = field(default_factory=Counter)
    """Messages that arrived, by their class."""


def compiled(environment: StreamExecutionEnvironment) -> JobGraph:
    """The JobGraph of the program recorded so far, always under the same job id."""
    with replace_plugins(EXECUTORS, _Compiler):
        try:
            environment.execute_async()
        except _Compiled as reached:
            return reached.job_graph
    raise AssertionError("the program executed nothing")


class _Compiled(BaseException):
    def __init__(self, job_graph: JobGraph) -> None:
        super().__init__(job_graph.name)
        self.job_graph = job_graph


class _Compiler:
    needs_preparation = True

    def execute(self, pipeline: Pipeline) -> JobClient:
        raise _Compiled(generate_job_graph(pipeline, JOB))


def run_job(program: Program, seed: int, faults: Faults = NO_FAULTS, **host: Any) -> Outcome:
    """Runs the program to its end, takes its results meanwhile, and looks that nothing is left of it."""
    for name, stream in program.results.items():
        stream.sink_to(CollectSink(name))
    run = SimulatedRun(compiled(program.environment), tuple(program.results), seed, faults, **host)
    run.await_end()
    run.shut_down()
    return run.outcome()


def in_pieces(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Has generated rows come many at a time, and go on few at a time, as where rows take long: a barrier comes between
    the rows of a batch, whose rest is in the checkpoint. Takes LARGE_BATCHES as options, and steps of SLOW_STEP_MS."""
    monkeypatch.setattr(datagen, "_TICK_MS", 100)
    monkeypatch.setattr(chunking, "FIRST_SIZE", seed % 2)
    monkeypatch.setattr(chunking.ChunkSizer, "passed", lambda *_: None)


def firing_in_pieces(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Has the task look at its mailbox between any two timers, windows or results of calls, as where each takes long: a
    barrier comes between them, and what has not fired is in the checkpoint. Takes steps of SLOW_STEP_MS."""
    chance = random.Random(f"pieces {seed}")
    monkeypatch.setattr(pieces.Pieces, "is_over", lambda _: chance.random() < 0.8)


def run_committing(
    job: ExactlyOnceJob,
    seed: int,
    faults: Faults = NO_FAULTS,
    on_look: Callable[[SimulatedRun], None] = lambda _: None,
    **host: Any,
) -> Outcome:
    """Runs a job whose rows go to its storage, which the faults reach too.

    What can be seen of its rows meanwhile is always a part of what must be there in the end.

    Args:
        on_look: called whenever the driver looks at the job.
    """
    filesystems.mount(job.storage.name, job.storage.filesystem())
    try:
        run = SimulatedRun(compiled(job.environment), (), seed, faults, storages=(job.storage,), **host)

        def look() -> None:
            no_row_too_many(job)
            on_look(run)

        run.await_end(on_look=look)
        run.shut_down()
    finally:
        filesystems.unmount(job.storage.name)
    return run.outcome()


def no_row_too_many(job: ExactlyOnceJob) -> None:
    """Every row that is visible now belongs there, and is not there twice."""
    assert not (wrong := job.committed() - job.expected), f"{job}: {wrong} are visible, and should not be"


class SimulatedRun:
    """A cluster with one job, and the driver of that job.

    Args:
        collect_ids: of the CollectSinks whose rows the driver takes.
        storages: where the job writes; their operations go wrong as the faults say.
        is_session: the cluster was not started for the job, and has no directory of its own.
    """

    def __init__(
        self,
        job_graph: JobGraph,
        collect_ids: tuple[str, ...],
        seed: int,
        faults: Faults = NO_FAULTS,
        storages: Sequence[SimulatedStorage] = (),
        is_session: bool = False,
        **host: Any,
    ) -> None:
        self.host = SimulationHost(seed, faults, probes=(probe_slot,), **host)
        self._storages = storages
        for storage in storages:
            storage.attach(self.host)
        self.rows: dict[str, Counter[Any]] = {collect_id: Counter() for collect_id in collect_ids}
        self.details: JobDetails | None = None
        self._untaken = list(collect_ids)
        self._positions: dict[str, tuple[int, ...]] = {}
        """Of each, what the driver has."""
        self._error: ErrorInfo | None = None
        configuration = Configuration({}) if is_session else job_graph.configuration
        start_cluster(self.host, CLUSTER, configuration, is_per_job=not is_session)
        # Slots of a TaskExecutor of their own, all in one, and some of each.
        free_cpus = random.Random(seed).choice([(), (64.0,), (2.0, 1.0)])
        self.host.tell(resource_manager_of(CLUSTER), ClusterResources(float("inf"), free_cpus=free_cpus))
        self._job: JobOverview | None = None
        self._is_lost = False
        while self._job is None and not self._is_lost:
            try:
                self._job = submit(self.host, CLUSTER, job_graph, pause=lambda: self.host.run_for(POLL_MS))
            except EndpointGone:
                self._is_lost = True
            except EndpointSilentError:  # which whoever submits tries again
                continue

    # -- the driver ----------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """The job has ended, and the driver has its rows where it finished."""
        if self._is_lost or self._error is not None:
            return True
        return self.details is not None and (not self._untaken or self.details.status is not JobStatus.FINISHED)

    def await_end(self, max_ms: float = LONGEST_JOB_MS, on_look: Callable[[], None] = lambda: None) -> None:
        """Steps until the job is over; looks after it as a driver does, and calls `on_look` then."""
        end = self.host.schedule.now + max_ms
        while not self.is_over:
            left = end - self.host.schedule.now
            self.host.run_until(self._is_time_to_look(), max(1.0, left))
            self.look()
            on_look()

    def _is_time_to_look(self) -> Any:
        schedule = self.host.schedule
        due = schedule.now + POLL_MS
        schedule.at(due, lambda: None)  # it comes also where nothing else happens
        return lambda: schedule.now >= due

    def look(self) -> None:
        """Takes what rows there are, and asks what became of the job."""
        if self._job is None:
            return
        answers = [self._take(self._job.job_master, collect_id) for collect_id in list(self._untaken)]
        # As a driver, which reads its rows and asks the Dispatcher where the JobMaster is gone or silent.
        if self.details is None and not (self._untaken and all(answers)):
            try:
                self.details = self.host.ask(dispatcher_of(CLUSTER), GetArchivedJob(JOB), ASK_TIMEOUT_MS)
            except (TimeoutError, DispatcherNotReadyError):
                return  # it hangs, or was started again and has not found its jobs yet
            except EndpointGone:
                self._is_lost = True

    def cancel(self) -> None:
        self.host.ask(dispatcher_of(CLUSTER), CancelJob(JOB), ASK_TIMEOUT_MS)

    def stop_with_savepoint(
        self, request_id: str, target: str, stop: StopMode = StopMode.SUSPEND
    ) -> SavepointResult | None:
        """Asks for it, unless it has been asked for; what became of it, if that is known."""
        result: SavepointResult | None = self._asked(
            GetSavepoint(request_id), TriggerSavepoint(request_id, target, stop), CheckpointError
        )
        return result

    def rescale(self, request_id: str, parallelism: int) -> RescaleResult | None:
        """Asks for it, unless it has been asked for; what became of it, if that is known."""
        result: RescaleResult | None = self._asked(
            GetRescale(request_id), Rescale(request_id, parallelism), RescaleError
        )
        return result if result is not None and result.is_done else None

    def _asked(self, question: Any, request: Any, refusal: type[FlinkrayError]) -> Any:
        """The answer to the question; None: there is none yet, and the request was made (again)."""
        if self._job is None:
            return None
        # A JobMaster that is gone, hangs, or has not started the job yet is asked again, or that which has replaced it.
        with contextlib.suppress(EndpointGone, TimeoutError, refusal, DispatcherNotReadyError):
            if self._job.job_master not in self.host.addresses():
                self._job = self.host.ask(dispatcher_of(CLUSTER), GetJobOverview(JOB), ASK_TIMEOUT_MS)
            result = self.host.ask(self._job.job_master, question, ASK_TIMEOUT_MS)
            if result is not None:
                return result
            self.host.ask(self._job.job_master, request, ASK_TIMEOUT_MS)
        return None

    def _take(self, job_master: Address, collect_id: str) -> bool:
        """Takes rows of one sink; whether the JobMaster has answered."""
        try:
            request = TakeCollected(collect_id, 64, self._positions.get(collect_id, ()))
            answer: Collected = self.host.ask(job_master, request, ASK_TIMEOUT_MS)
        except (EndpointGone, TimeoutError):
            return False  # it has not started yet, hangs, or is gone: the Dispatcher knows
        except FlinkrayError as error:
            self._error = ErrorInfo.of(error)
            return True
        self._positions[collect_id] = answer.positions
        for batch in answer.batches:
            self.rows[collect_id].update(_plain(row) for row in decode(batch))
        if answer.is_end:
            self._untaken.remove(collect_id)
            self.host.tell(job_master, CollectedReceived(collect_id))
        return True

    def outcome(self) -> Outcome:
        details = self.details
        return Outcome(
            None if details is None else details.status,
            self._error if details is None or details.error is None else details.error,
            () if details is None else tuple(status for status, _ in details.status_times),
            self.rows,
            self.host.schedule.trace,
            self.host.schedule.steps,
            self.host.schedule.now - START_MS,
            tuple(self.host.plan.happened),
            tuple(self.host.fatal_errors),
            self.host.delivered,
        )

    # -- the end -------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Ends the cluster as its client does; then nothing of the job is left."""
        host = self.host
        dispatcher = dispatcher_of(CLUSTER)
        host.end_pauses()

        def is_down() -> bool:
            try:
                return bool(host.ask(dispatcher, ShutDownCluster(), 2 * ASK_TIMEOUT_MS))
            except DispatcherNotReadyError:
                return False  # it was started again a moment ago

        # With the Dispatcher gone, nobody is left who could tell the workers, and they have to see it themselves.
        with contextlib.suppress(EndpointGone):
            host.run_until(is_down, LONGEST_SHUTDOWN_MS)
        host.run_until(lambda: not host.alive("TaskSlot") and not host.alive("TaskExecutor"), LONGEST_SHUTDOWN_MS)
        host.shutdown()
        for storage in self._storages:
            storage.attach(None)
        gc.collect()
        assert host.held_batches == 0, f"seed {host.seed}: {host.held_batches} batches are still held"


def _plain(row: Any) -> Any:
    return tuple(row) if hasattr(row, "as_dict") else row


def probe_slot(endpoint: Endpoint) -> None:
    """All ledgers of a slot's network agree."""
    if isinstance(endpoint, TaskSlot):
        endpoint._network.check()
