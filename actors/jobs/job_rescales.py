"""Gives a job that runs another parallelism: what was asked for, and how far that is. Pure but for its logger.

    asked for -> all slots are there -> a checkpoint is complete -> the job restarts as a whole -> all its tasks run
       each step but the last may instead lead to -> refused: the job goes on as it was

As Flink's adaptive scheduler does it with FLIP-461, so that little is computed a second time; and nothing is stopped
for slots that do not come, or for state that could not be shared out. A failure on the way begins again with the slots.
"""

from __future__ import annotations

import enum
import logging
import uuid
from collections.abc import Mapping

from actors.jobs.job_checkpoints import JobCheckpoints
from actors.protocol.control_messages import RescaleResult
from actors.scheduling.scheduler import Scheduler
from flinkray.config.options import CHECKPOINT_INTERVAL
from flinkray.errors import ErrorInfo, FlinkrayError, RescaleError
from flinkray.execution import JobStatus
from graphs.execution_graph import ExecutionGraph
from graphs.rescaling import Parallelisms, parallelisms_for
from graphs.states import ExecutionState, as_hindrance

log = logging.getLogger(__name__)

# So many checkpoints in a row may fail (Flink: jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures).
MAX_CHECKPOINT_FAILURES = 2

_REMEMBERED = 64


class _Step(enum.Enum):
    SLOTS = enum.auto()
    CHECKPOINT = enum.auto()
    RESTART = enum.auto()
    RECORD = enum.auto()


class JobRescales:
    """One rescale after the other, each asked for once. For the JobMaster's thread; `go_on` after everything that
    happens to the job."""

    def __init__(self, scheduler: Scheduler, checkpoints: JobCheckpoints) -> None:
        self._scheduler = scheduler
        self._checkpoints = checkpoints
        self._results: dict[str, RescaleResult] = {}
        """What became of the last requests."""
        self._request_id = ""
        """The request that is under way."""
        self._wanted: Parallelisms = {}
        self._step: _Step | None = None
        self._checkpoint = ""
        """The request for the checkpoint that the job is to go on from."""
        self._failures = 0
        """How many checkpoints have failed since then."""

    @property
    def under_way(self) -> str | None:
        """The request that is under way."""
        return self._request_id if self._step is not None else None

    def result(self, request_id: str) -> RescaleResult | None:
        """What became of it; None: it was never made, or is forgotten."""
        return self._results.get(request_id)

    def request(self, request_id: str, wanted: int | Mapping[str, int], now: int) -> None:
        """Begins to rescale the job. Without effect where the id has been used before.

        Args:
            wanted: the job's parallelism; or that of vertices, by their id or name.

        Raises:
            RescaleError: the job cannot be given that parallelism, or not now; says why.
        """
        if request_id in self._results:
            return
        graph, name = self._scheduler.graph, self._scheduler.graph.name
        settings = graph.information.checkpoint_settings
        if settings.impossible_because:
            raise RescaleError(f"job {name!r} cannot be rescaled while it runs: {settings.impossible_because}")
        if not settings.is_periodic:
            raise RescaleError(
                f"job {name!r} takes no checkpoints ({CHECKPOINT_INTERVAL.key} is not set), so that it would begin "
                "again from nothing"
            )
        if self._step is not None:
            raise RescaleError(f"job {name!r} is being rescaled already; ask again when that is done")
        if self._scheduler.status is not JobStatus.RUNNING:
            raise RescaleError(f"job {name!r} is {as_hindrance(self._scheduler.status)}")
        if self._checkpoints.is_stopping:
            raise RescaleError(f"job {name!r} is being stopped with a savepoint")
        self._wanted = parallelisms_for(graph, wanted)
        self._request_id, self._failures = request_id, 0
        self._results[request_id] = RescaleResult(request_id, is_done=False)
        while len(self._results) > _REMEMBERED:
            del self._results[next(iter(self._results))]
        if self._wanted:
            self._step = _Step.SLOTS
        else:
            self._end(now)

    def go_on(self, now: int) -> bool:
        """Takes the next step, if it is time for it; gives whether it was."""
        step = self._step
        if step is not None:
            self._go_on(step, now)
        return self._step is not step

    def _go_on(self, step: _Step, now: int) -> None:
        status = self._scheduler.status
        if step is _Step.RECORD and status is JobStatus.FINISHED:
            self._end(now)
        elif status.is_terminal or status in (JobStatus.FAILING, JobStatus.CANCELLING):
            self._end(now, RescaleError(f"it is {status.name}"))
        elif step is _Step.RECORD:
            if status is JobStatus.RUNNING and self._checkpoints.is_rescale_recorded and self._do_all_run():
                self._end(now)
        elif step is not _Step.RESTART:
            self._prepare(status, now)

    def take(self) -> Parallelisms | None:
        """The job has ended as a whole, to start again: the vertices that get another parallelism now, if any."""
        if self._step is not _Step.RESTART:
            return None
        self._step = _Step.RECORD
        return self._wanted

    # -- inside --------------------------------------------------------------------------------------------------

    def _prepare(self, status: JobStatus, now: int) -> None:
        room = self._scheduler.room
        if self._checkpoints.is_stopping:
            self._end(now, RescaleError("it is being stopped with a savepoint"))
        elif status is not JobStatus.RUNNING:
            self._step = _Step.SLOTS  # the job goes on first, in the slots that it had
        elif room.error is not None:
            self._end(now, room.error.exception())
        elif not room.is_asked:
            self._step = _Step.SLOTS
            self._scheduler.ask_for_room(self._rescaled(), now)
        elif room.missing:
            if self._step is _Step.CHECKPOINT:  # one that was there is lost
                room.wait_anew(now)
            self._step = _Step.SLOTS
        elif self._step is _Step.SLOTS and self._do_all_run():
            self._step, self._checkpoint = _Step.CHECKPOINT, uuid.uuid4().hex
            self._checkpoints.trigger_periodic(self._checkpoint)
        elif self._step is _Step.CHECKPOINT:
            self._await_checkpoint(now)

    def _do_all_run(self) -> bool:
        """Whether every subtask runs, or has come to its end."""
        attempts = self._scheduler.graph.executions.values()
        return all(each.state in (ExecutionState.RUNNING, ExecutionState.FINISHED) for each in attempts)

    def _await_checkpoint(self, now: int) -> None:
        result = self._checkpoints.triggered(self._checkpoint)
        if result is not None and result.failure is not None:
            self._failures += 1
            if self._failures > MAX_CHECKPOINT_FAILURES:
                text = f"{self._failures} checkpoints in a row have failed; the last: {result.failure}"
                self._end(now, RescaleError(text))
            else:
                self._checkpoint = uuid.uuid4().hex
                self._checkpoints.await_periodic(self._checkpoint)
        elif result is not None and result.checkpoint_id is not None and self._is_free:
            try:
                self._checkpoints.check_restorable(self._rescaled())
            except FlinkrayError as error:
                self._end(now, error)
            else:
                self._step = _Step.RESTART
                self._scheduler.restart(now)

    @property
    def _is_free(self) -> bool:
        """Whether a restart disturbs no checkpoint or savepoint that somebody waits for."""
        return not self._checkpoints.is_storing and not self._checkpoints.pending_savepoints

    def _rescaled(self) -> ExecutionGraph:
        return self._scheduler.graph.rescaled(self._wanted)

    def _end(self, now: int, error: BaseException | None = None) -> None:
        self._step = None
        self._scheduler.room.close(now)
        graph = self._scheduler.graph
        info = None if error is None else ErrorInfo.of(RescaleError(f"job {graph.name!r} is not rescaled: {error}"))
        if info is None:
            numbers = ", ".join(f"{vertex.name!r}: {vertex.parallelism}" for vertex in graph.job_vertices.values())
            log.info("job %r is rescaled: %s", graph.name, numbers)
        else:
            log.warning("%s", info.message)
        parallelism = {str(vertex): number for vertex, number in graph.parallelisms.items()}
        self._results[self._request_id] = RescaleResult(self._request_id, parallelism, info)
