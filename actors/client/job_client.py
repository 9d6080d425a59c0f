"""A job in a cluster, seen from the driver that submitted it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from actors.client.cluster import ASK_TIMEOUT_MS, QUESTION_TIMEOUT_MS, ask, ask_dispatcher, dispatcher_of
from actors.client.forgotten import OPEN_JOBS
from actors.client.pauses import Pause
from actors.protocol.client_requests import (
    CancelJob,
    Collected,
    CollectedReceived,
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
    ShutDownCluster,
    TakeCollected,
    TriggeredCheckpoint,
    TriggerPeriodicCheckpoint,
    TriggerSavepoint,
)
from actors.protocol.control_messages import JobDetails, RescaleResult, SavepointResult
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, EndpointSilentError
from actors.protocol.elements import StopMode
from actors.protocol.job_reports import CheckpointReport, GetCheckpointReport
from actors.protocol.ports import Address, EndpointGone, Host
from flinkray.batches.batch import Batch
from flinkray.errors import (
    CheckpointError,
    ConfigurationError,
    ErrorInfo,
    FlinkrayError,
    JobCanceledError,
    JobExecutionError,
    RescaleError,
)
from flinkray.execution import JobClient, JobExecutionResult, JobProgress, JobStatus
from flinkray.filesystems import absolute
from flinkray.latencies import LatencyStatistics
from flinkray.redaction import redacted
from flinkray.state.checkpoint_statistics import CheckpointOverview
from flinkray.streams.settings.operator_settings import check_parallelism
from flinkray.types.records import JobId

log = logging.getLogger(__name__)

# A cluster that is shut down cancels its tasks first, which may take their cancel timeout (30 s).
SHUTDOWN_TIMEOUT_S = 45.0

# How long a Dispatcher that has died may take to come back, and one that has to read what its jobs were.
DISPATCHER_RETURN_S = 30.0
DISPATCHER_READY_S = 300.0

# How long the end of a program is put off by asking whether its job still runs.
LAST_QUESTION_MS = 1_000.0

# How many batches of a CollectSink come with one answer.
COLLECTED_BATCHES = 64


class ClusterJobClient(JobClient):
    """Asks the Dispatcher and the JobMaster. A cluster of the job's own ends as soon as its result has been fetched."""

    def __init__(
        self,
        host: Host,
        cluster_id: str,
        job: JobOverview,
        *,
        owns_cluster: bool,
        is_highly_available: bool = False,
        new_pause: Callable[[], Pause] = Pause,
        question_timeout_ms: float = ASK_TIMEOUT_MS,
        web_url: str = "",
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """
        Args:
            owns_cluster: the cluster was started for this job, and host and cluster end with this client.
            is_highly_available: a Dispatcher that dies is replaced by one that knows its jobs.
            new_pause: makes what waits between two questions.
            question_timeout_ms: how long an answer is waited for where a method asks once, and then raises
                EndpointSilentError. Those that wait for something anyway go on waiting.
            web_url: where the job's REST server is; empty: it has none.
            on_close: called when a cluster of the job's own is about to end.
        """
        self._web_url = web_url
        self._on_close = on_close
        self._host = host
        self._cluster_id = cluster_id
        self._job = job
        """The job as last seen: a JobMaster that takes another's place has an address of its own."""
        self._owns_cluster = owns_cluster
        self._is_highly_available = is_highly_available
        self._new_pause = new_pause
        self._question_timeout_ms = question_timeout_ms
        self._progress = JobProgress(job.status, 0, 0, None)
        """What the JobMaster last said."""
        self._silent: set[Address] = set()
        """Who did not answer when last asked by somebody who waits."""
        self._until_end = new_pause()
        """Waits for the end of the job; kept, as a result is mostly asked for again and again, with a timeout."""
        self._until_end.is_patient = True
        self._lock = threading.Lock()
        self._ended: JobDetails | None = None
        """What became of the job, once it is known."""
        self._open_collects: set[str] = set()
        """Collect ids that somebody is reading."""
        self._silent_since: float | None = None
        """Since when the Dispatcher has not answered, over all calls (of time.monotonic)."""
        self._is_closed = False
        self._has_shut_down = threading.Event()
        if owns_cluster:
            OPEN_JOBS.add(self)

    @property
    def name(self) -> str:
        return self._job.name

    @property
    def job_id(self) -> JobId:
        return self._job.job_id

    @property
    def web_url(self) -> str:
        return self._web_url

    def status(self) -> JobStatus:
        return self._look()

    def progress(self) -> JobProgress:
        """Of masters that do not answer, what they last said: whoever shows progress goes on waiting."""
        if self._ended is None:
            try:
                self._progress = self._progress_now()
            except EndpointSilentError:
                return replace(self._progress, status=self._job.status)
        ended = self._ended
        if ended is None:
            return self._progress
        return JobProgress(ended.status, ended.records_in, ended.records_out, ended.watermark)

    def details(self) -> JobDetails:
        """The job's vertices and subtasks with their states and figures; also after its end."""
        if self._ended is None:
            try:
                details: JobDetails = self._ask_job_master(GetJobDetails())
                return details
            except EndpointGone:
                status = self._look()
        if self._ended is None:
            return JobDetails(self.job_id, self._job.name, status, ((status, self._job.started_ms),))
        return self._ended

    def accumulators(self) -> dict[str, int | float]:
        return dict(self.details().accumulators)

    def latencies(self) -> tuple[LatencyStatistics, ...]:
        subtasks = (subtask for vertex in self.details().vertices for subtask in vertex.subtasks)
        return tuple(latency for subtask in subtasks for latency in subtask.metrics.latencies)

    def checkpoints(self) -> CheckpointOverview:
        if self._ended is None:
            try:
                overview: CheckpointOverview = self._ask_job_master(GetCheckpoints())
                return overview
            except EndpointGone:
                self._look()
        return CheckpointOverview() if self._ended is None else self._ended.checkpoints

    def log(self) -> str:
        """The ends of the logs of the job's processes that run, in the order of time and without secrets.

        Raises:
            ConfigurationError: none of them logs to a file of its own.
        """
        from actors.rest.asking.masters import Masters, OneCluster

        masters = Masters(OneCluster(self._cluster_id, self._host), lambda: time.monotonic() * 1000, 1_000.0)
        try:
            text = masters.job_log(self.job_id)
        finally:
            masters.close()
        if text is None:
            raise ConfigurationError(
                f"no process of job {self.job_id} that still runs logs to a file of its own: those of a job that has "
                "ended are below /tmp/ray/session_latest/logs on the nodes where they ran"
            )
        return redacted(text)

    def checkpoint_report(self) -> CheckpointReport:
        """The same with all that is known of vertices, subtasks and the past."""
        if self._ended is None:
            try:
                report: CheckpointReport = self._ask_job_master(GetCheckpointReport())
                return report
            except EndpointGone:
                self._look()
        if self._ended is None or self._ended.archive is None:
            return CheckpointReport(self.checkpoints())
        return CheckpointReport(self._ended.checkpoints, self._ended.archive.summary, self._ended.archive.checkpoints)

    def trigger_checkpoint(self, timeout: float | None = None) -> int:
        """Takes the next periodic checkpoint now, and gives its id once it is complete.

        Raises:
            CheckpointError: the job takes none, does not run, or this one has failed.
            TimeoutError: it is not complete in time, and may still become so.
        """
        request_id = uuid.uuid4().hex
        found: TriggeredCheckpoint | None = self._have_done(
            TriggerPeriodicCheckpoint(request_id),
            GetTriggeredCheckpoint(request_id),
            lambda answer: answer.checkpoint_id is not None or answer.failure is not None,
            CheckpointError,
            f"the checkpoint of job {self._job.name!r} is not complete yet",
            _deadline(timeout),
        )
        if found is None:
            ended = self._look().value
            raise CheckpointError(f"job {self._job.name!r} is {ended}, and takes no checkpoints any more")
        if found.checkpoint_id is None:
            raise CheckpointError(f"the checkpoint of job {self._job.name!r} has failed: {found.failure}")
        return found.checkpoint_id

    def rescale(self, parallelism: int | Mapping[str, int], timeout: float | None = None) -> dict[str, int]:
        request = Rescale(uuid.uuid4().hex, _parallelism(parallelism))
        result: RescaleResult | None = self._have_done(
            request,
            GetRescale(request.request_id),
            lambda answer: answer.is_done,
            RescaleError,
            f"job {self._job.name!r} is not rescaled yet; it may still be",
            _deadline(timeout),
        )
        if result is None:
            raise RescaleError(f"job {self._job.name!r} is {self._look().value}, and is not rescaled any more")
        if result.error is not None:
            raise result.error.exception()
        return result.parallelism

    def trigger_savepoint(self, directory: str | None = None, timeout: float | None = None) -> str:
        return self._savepoint(directory, StopMode.GO_ON, _deadline(timeout))

    def stop_with_savepoint(
        self, directory: str | None = None, drain: bool = False, timeout: float | None = None
    ) -> str:
        deadline = _deadline(timeout)
        saved = self._savepoint(directory, StopMode.DRAIN if drain else StopMode.SUSPEND, deadline)
        ended = self._await_end(deadline)
        if ended.status is not JobStatus.FINISHED:
            raise _without_savepoint(ended, f"although the savepoint {saved} is complete")
        return saved

    def result(self, timeout: float | None = None) -> JobExecutionResult:
        ended = self._await_end(_deadline(timeout))
        if self._owns_cluster and not self._open_collects:
            self.close()
        _raise_unless_finished(ended)
        return JobExecutionResult(ended.job_id, ended.name, ended.runtime_ms, dict(ended.accumulators))

    def cancel(self) -> None:
        if self._ended is None:
            self._ask_dispatcher(CancelJob(self.job_id))

    def collected(self, collect_id: str) -> Iterator[Batch]:
        """The rows of that sink, as JobClient says. A job that does not finish raises here what `result` raises, after
        them."""
        self._open_collects.add(collect_id)
        try:
            yield from self._take_all(collect_id)
        finally:
            self._open_collects.discard(collect_id)
            with contextlib.suppress(EndpointGone):  # with the JobMaster gone, nobody waits for this
                self._host.tell(self._job.job_master, CollectedReceived(collect_id))

    def close(self) -> None:
        """A cluster of the job's own is shut down, and the job cancelled where it still runs; a session goes on."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed or not self._owns_cluster:
            return
        OPEN_JOBS.remove(self)
        try:
            if self._on_close is not None:
                self._on_close()
            self._shut_down()
        finally:
            self._has_shut_down.set()
            self._host.shutdown()

    def is_forgotten(self) -> bool:
        if self._ended is not None or self._open_collects:
            return False
        try:
            job: JobOverview = self._ask(dispatcher_of(self._cluster_id), GetJobOverview(self.job_id), LAST_QUESTION_MS)
        except Exception:  # nobody can be told more at the end of a process
            return False
        return not job.status.is_terminal and job.status is not JobStatus.CANCELLING

    # -- inside --------------------------------------------------------------------------------------------------

    def _take_all(self, collect_id: str) -> Iterator[Batch]:
        pause = self._new_pause()
        has_ended = False
        positions: tuple[int, ...] = ()
        while True:
            try:
                request = TakeCollected(collect_id, COLLECTED_BATCHES, positions)
                answer: Collected = self._waiting_ask(self._job.job_master, request)
            except EndpointSilentError:
                self._look(None, waits=True)
                pause.wait()
                continue
            except EndpointGone as error:
                if has_ended:
                    _raise_unless_finished(self._await_end(None))
                    lost = f"the rows that job {self._job.name!r} collected are gone: they can be read once"
                    raise FlinkrayError(lost) from error
                # The JobMaster may not have started yet. One that has ended its job stays until its rows are taken,
                # so that it is asked again before they count as lost.
                has_ended = self._look(None, waits=True).is_terminal
                pause.wait()
                continue
            # Positions say what the driver has: also a JobMaster that has taken another's place goes on from there.
            positions = answer.positions
            has_ended = False
            if answer.is_end and not self._owns_cluster:
                # Who reads slowly may find the cluster gone after the last rows. What goes wrong is said after them.
                with contextlib.suppress(Exception):
                    self._await_end(None)
            yield from answer.batches
            if answer.is_end:
                _raise_unless_finished(self._await_end(None))
                return
            if answer.batches:
                pause.reset()
            else:
                pause.wait()

    def _savepoint(self, directory: str | None, stop: StopMode, deadline: float | None) -> str:
        """Asks for a savepoint until it is known what became of it; gives its directory, as JobClient says."""
        request = TriggerSavepoint(uuid.uuid4().hex, absolute(directory) if directory else "", stop)
        result: SavepointResult | None = self._have_done(
            request,
            GetSavepoint(request.request_id),
            lambda _: True,
            CheckpointError,
            f"the savepoint of job {self._job.name!r} is not complete yet; it may still be, as the list of the job's "
            "checkpoints will show",
            deadline,
        )
        if result is None:
            assert self._ended is not None
            result = next((each for each in self._ended.savepoints if each.request_id == request.request_id), None)
            if result is None:
                raise _without_savepoint(self._ended, "before the savepoint was complete")
        return _savepoint_of(result)

    def _have_done(
        self,
        request: Any,
        question: Any,
        is_done: Callable[[Any], bool],
        refusal: type[FlinkrayError],
        late: str,
        deadline: float | None,
    ) -> Any:
        """Has the JobMaster do something, whichever it is meanwhile.

        Args:
            question: what has come of it; None is the answer of one that does not know of the request.
            is_done: whether another answer is the last one.
            refusal: what a JobMaster raises that does not do it.
            late: what the TimeoutError says.

        Returns:
            The last answer; None: the job has ended without one.
        """
        pause = self._new_pause()
        may_be_taken = was_running = False
        while True:
            try:
                answer = self._waiting_ask(self._job.job_master, question)
                if answer is not None and is_done(answer):
                    return answer
                if answer is None:  # also of a JobMaster that has taken another's place
                    self._waiting_ask(self._job.job_master, request)
                may_be_taken = True
            except (EndpointGone, EndpointSilentError):
                may_be_taken = True  # by a JobMaster that is gone, or does not answer
            except refusal:
                # One that takes the place of another may not have started the job yet; else it will not do it later.
                if not may_be_taken or was_running:
                    raise
                was_running = self._is_running()
            if self._look(deadline, waits=True).is_terminal:
                return None
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(late)
            pause.wait(deadline)

    def _is_running(self) -> bool:
        """Whether the JobMaster says so, which knows it before the Dispatcher."""
        with contextlib.suppress(EndpointGone, EndpointSilentError):
            progress: JobProgress = self._waiting_ask(self._job.job_master, GetJobProgress())
            return progress.status is JobStatus.RUNNING
        return False

    def _progress_now(self) -> JobProgress:
        try:
            progress: JobProgress = self._ask_job_master(GetJobProgress(), waits=True)
            return progress
        except EndpointGone:
            # The JobMaster has not started yet, or its job has ended.
            return JobProgress(self._look(time.monotonic(), waits=True), 0, 0, None)

    def _look(self, deadline: float | None = None, *, waits: bool = False) -> JobStatus:
        """The job's status now; what became of it is kept as soon as there is something to keep.

        Args:
            waits: the caller waits until `deadline` for something anyway, so also for a Dispatcher that is silent.
        """
        if self._ended is None:
            try:
                self._job = self._ask_dispatcher(GetJobOverview(self.job_id), deadline, waits)
                if not self._job.status.is_terminal:
                    return self._job.status
                self._ended = self._ask_dispatcher(GetArchivedJob(self.job_id), deadline, waits)
            except JobExecutionError:
                # A thread that closes this client meanwhile asks before a cluster of the job's own is gone.
                may_know = self._owns_cluster and self._is_closed and self._has_shut_down.wait(SHUTDOWN_TIMEOUT_S)
                if not may_know or self._ended is None:
                    raise
        return self._ended.status

    def _await_end(self, deadline: float | None) -> JobDetails:
        while not (status := self._look(deadline, waits=True)).is_terminal:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"job {self._job.name!r} is still {status.value}")
            self._until_end.wait(deadline)
        assert self._ended is not None
        return self._ended

    def _ask_job_master(self, request: Any, *, waits: bool = False) -> Any:
        """Raises EndpointGone where there is none at the moment: the job has not started yet, restarts, or is over.

        Args:
            waits: as in `_look`, but without asking twice.
        """
        asked, put = self._job.job_master, self._waiting_ask if waits else self._ask
        try:
            return put(asked, request)
        except EndpointGone:
            status = self._look(time.monotonic(), waits=True) if waits else self._look()
            if status.is_terminal or self._job.job_master == asked:
                raise
        return put(self._job.job_master, request)

    def _ask_dispatcher(self, request: Any, deadline: float | None = None, waits: bool = False) -> Any:
        """
        Args:
            waits: as in `_look`.

        Raises:
            JobExecutionError: the cluster is gone.
            TimeoutError: its Dispatcher was not there, or not ready, until `deadline`.
            EndpointSilentError: it did not answer; without `waits`, or until `deadline`.
        """
        pause = self._new_pause()
        put = self._waiting_ask if waits else self._ask
        while True:
            try:
                answer = put(dispatcher_of(self._cluster_id), request)
            except EndpointSilentError:
                if not waits or (deadline is not None and time.monotonic() >= deadline):
                    raise
                pause.wait(deadline)
            except (EndpointGone, DispatcherNotReadyError) as error:
                self._judge_silence(error)
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(
                        f"cluster {self._cluster_id!r} cannot say how job {self._job.name!r} is: {error}"
                    ) from error
                pause.wait(deadline)
            else:
                self._silent_since = None
                return answer

    def _judge_silence(self, error: EndpointGone | DispatcherNotReadyError) -> None:
        """Raises what it means that the Dispatcher did not answer, unless it may answer soon."""
        is_gone = isinstance(error, EndpointGone)
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
        patience = DISPATCHER_READY_S if not is_gone else DISPATCHER_RETURN_S if self._is_highly_available else 0.0
        if now - self._silent_since < patience:
            return
        if not is_gone:
            raise error
        lost = FlinkrayError(f"cluster {self._cluster_id!r} is gone, and nobody knows what became of the job")
        raise _failure(self._job.name, ErrorInfo.of(lost)) from error

    def _ask(self, address: Address, request: Any, timeout_ms: float | None = None) -> Any:
        """Raises as `actors.client.cluster.ask`."""
        is_dispatcher = address == dispatcher_of(self._cluster_id)
        of_job = f"the JobMaster of job {self._job.name!r} in cluster {self._cluster_id!r}"
        what = f"the Dispatcher of cluster {self._cluster_id!r}" if is_dispatcher else of_job
        return ask(self._host, address, request, timeout_ms or self._question_timeout_ms, what)

    def _waiting_ask(self, address: Address, request: Any) -> Any:
        """For those who ask again, and meanwhile look at something else: says once that somebody is silent."""
        try:
            answer = self._ask(address, request, QUESTION_TIMEOUT_MS)
        except EndpointSilentError as error:
            if address not in self._silent:
                self._silent.add(address)
                log.warning("%s; it is asked again", error)
            raise
        self._silent.discard(address)
        return answer

    def _shut_down(self) -> None:
        """Tasks are cancelled and workers ended in order; a cluster that does not manage in time is ended by force."""
        pause = self._new_pause()
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
        try:
            while not ask_dispatcher(self._host, self._cluster_id, ShutDownCluster(), pause.wait):
                if time.monotonic() >= deadline:
                    log.warning("cluster %r did not shut down within %g s", self._cluster_id, SHUTDOWN_TIMEOUT_S)
                    return
                pause.wait(deadline)
            self._remember_end()
        except (EndpointGone, DispatcherNotReadyError, TimeoutError) as error:
            log.debug("cluster %r is ended without its Dispatcher: %s", self._cluster_id, error)

    def _remember_end(self) -> None:
        """After the cluster is gone nobody else can tell how the job ended."""
        if self._ended is None:
            self._ended = self._ask(dispatcher_of(self._cluster_id), GetArchivedJob(self.job_id))


def _deadline(timeout: float | None) -> float | None:
    """When the time is over, of time.monotonic; None: never."""
    return None if timeout is None else time.monotonic() + timeout


def _savepoint_of(result: SavepointResult) -> str:
    if result.error is not None:
        cause = result.error.exception()
        if isinstance(cause, CheckpointError):
            raise cause
        raise CheckpointError(f"the savepoint failed: {result.error}") from cause
    assert result.directory is not None
    return result.directory


def _without_savepoint(ended: JobDetails, what: str) -> CheckpointError:
    error = CheckpointError(f"job {ended.name!r} is {ended.status.value}, {what}")
    if ended.error is not None:
        error.add_note(str(ended.error))
        error.__cause__ = ended.error.exception()
    return error


def _raise_unless_finished(ended: JobDetails) -> None:
    if ended.status is JobStatus.CANCELED:
        raise JobCanceledError(f"job {ended.name!r} was cancelled")
    if ended.status is JobStatus.FAILED:
        assert ended.error is not None
        raise _failure(ended.name, ended.error)


def _failure(job_name: str, cause: ErrorInfo) -> JobExecutionError:
    """The error of a job that failed: the first failure is its cause, its process's traceback in the message."""
    error = JobExecutionError(f"job {job_name!r} failed: {cause}")
    error.__cause__ = cause.exception()
    return error


def _parallelism(given: int | Mapping[str, int]) -> int | dict[str, int]:
    """What a job is to be rescaled to, as it travels; raises InvalidProgramError for what is none."""
    if isinstance(given, Mapping):
        return {str(each): check_parallelism(number, f"parallelism of {each!r}") for each, number in given.items()}
    return check_parallelism(given, "parallelism")
