"""Decides when checkpoints are taken, completed and aborted, and when savepoints are (Flink's CheckpointCoordinator).

Events go in as method calls, commands come out of `take_commands`. All times are epoch milliseconds.

The life of a checkpoint:

    triggered -> operator coordinators snapshotted -> acknowledged by every task -> stored -> complete
       each state but `stored` may instead lead to -> aborted: what tasks had written is dropped

While the metadata of a checkpoint is being written (`is_storing`), nobody can tell whether the job would recover from
it. So whatever happens to the tasks, that checkpoint is not aborted, and a restart waits until it is stored before it
chooses a checkpoint to start from.

Once a savepoint is stored that stops the job, sinks commit it, and an older checkpoint would have them write the same
rows again. So whatever dies from then on, tasks or the JobMaster, what is restarted starts from that savepoint as if it
had processed all its rows: it commits, and ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from actors.checkpoints.coordination.commands import (
    CheckpointCommand,
    CoordinatorsNotified,
    DropState,
    FailJob,
    SavepointDone,
    SendAborted,
    SendComplete,
    SendTrigger,
    SnapshotCoordinators,
    StoreCheckpoint,
)
from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.coordination.expiry import CheckpointExpiry
from actors.checkpoints.coordination.failures import (
    CheckpointFailure,
    FailureCounter,
    FailureReason,
    StoppingFailedError,
)
from actors.checkpoints.coordination.pending import (
    Acknowledgement,
    PendingCheckpoint,
    first_not_running,
    is_ending,
    is_starting,
    plan_checkpoint,
)
from actors.checkpoints.coordination.savepoint_requests import (
    Directories,
    SavepointRequest,
    StopWithSavepoint,
    checkpoint_options,
)
from actors.checkpoints.coordination.statistics import CheckpointTracker
from actors.high_availability.pointers import StopSavepoint
from actors.protocol.elements import StopMode
from actors.protocol.job_reports import CheckpointReport
from actors.protocol.task_messages import AcknowledgeCheckpoint, DeclineCheckpoint, EndOfDataReached
from flinkray.errors import CheckpointError, ErrorInfo, operator_label
from flinkray.execution import JobStatus
from flinkray.state.checkpoint_statistics import CheckpointOverview, RestoredCheckpoint
from flinkray.types.records import OperatorId
from graphs.execution_graph import AttemptId, Execution, ExecutionGraph
from graphs.job_graph import CheckpointSettings
from graphs.states import ExecutionState, as_hindrance

# The pause between two attempts at a checkpoint for which somebody waits, or the end of the job does.
RETRY_MS = 500

# Of so many completed checkpoints a second acknowledgement is told from one of a checkpoint that was aborted.
_REMEMBERED = 1_000


class CheckpointCoordinator:
    """Turns events of one job into commands. Not thread-safe. It listens to the job's status and executions itself.

    Args:
        directories: names the directories of a checkpoint.
        first_id: the id of the first checkpoint, which is above every id that the job has ever used.
        stop: the savepoint with which a JobMaster before this one was stopping the job; None: none.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        settings: CheckpointSettings,
        directories: Directories,
        first_id: int = 1,
        stop: StopSavepoint | None = None,
    ) -> None:
        self._graph = graph
        self._settings = settings
        self._directories = directories
        self._next_id = first_id
        self._pending: dict[int, PendingCheckpoint] = {}
        """Checkpoints under way by id, ascending."""
        self._snapshotting: int | None = None
        """The checkpoint for which operator coordinators are being snapshotted."""
        self._storing: int | None = None
        """The checkpoint whose metadata is being written."""
        self._requests: deque[SavepointRequest] = deque()
        self._stop = StopWithSavepoint.of(stop)
        self._periodic_due: int | None = None
        self._is_hastened = False
        """Somebody waits for the next periodic checkpoint: where it is not possible yet, it is soon tried again."""
        self._final_not_before = 0
        self._last_completed_ms: int | None = None
        self._at_end: set[AttemptId] = set()
        """Attempts that have processed all their rows, and have not finished."""
        self._giving: set[AttemptId] = set()
        """The attempts among them that then give what a checkpoint lets them commit: others wait for that."""
        self._covered: set[AttemptId] = set()
        """The attempts among them for which a checkpoint has been completed since then: they are about to finish."""
        self._completed: deque[int] = deque(maxlen=_REMEMBERED)
        self._expiry = CheckpointExpiry(graph, settings.timeout_ms)
        self._failures = FailureCounter(settings.tolerable_failures)
        self._tracker = CheckpointTracker()
        self._commands: list[CheckpointCommand] = []
        graph.status.add_listener(self._on_status)
        graph.add_execution_listener(self._on_execution)

    def take_commands(self) -> list[CheckpointCommand]:
        """Returns the commands to carry out now, in this order, each only once. Called after every event, the
        scheduler's included."""
        commands, self._commands = self._commands, []
        return commands

    # -- events: the job -----------------------------------------------------------------------------------------

    def restored(self, checkpoint: CompletedCheckpoint, now: int) -> None:
        """The job starts from a checkpoint, or goes on from it after a failure: new ids are above its id."""
        self._next_id = max(self._next_id, checkpoint.checkpoint_id + 1)
        restored = RestoredCheckpoint(checkpoint.checkpoint_id, now, checkpoint.is_savepoint, checkpoint.directory)
        self._tracker.restored(restored)

    def tick(self, now: int) -> None:
        """Aborts checkpoints that have expired, and triggers those that are due.

        To be called at `next_due`; earlier or more often does no harm.
        """
        for pending in self._abortable():
            if now >= self._expiry.due(pending):
                self._abort(pending, self._expiry.failure(pending), now)
        self._go_on(now)

    def next_due(self) -> int | None:
        """When `tick` has something to do next, as things are now; None: not before another event."""
        due = [self._expiry.due(pending) for pending in self._abortable()]
        if self._periodic_due is not None and self._may_trigger_periodic():
            due.append(self._periodic_due)
        if self._wants_final() and self._has_room():
            due.append(self._final_not_before)
        return min(due, default=None)

    def _on_status(self, _former: JobStatus, status: JobStatus, now: int) -> None:
        """Listens to the job's status. When the job stops running, only a checkpoint that is being stored goes on."""
        if status is JobStatus.RUNNING:
            self._schedule_periodic(now)
            return
        reason = f"the job is {status.name}"
        self._periodic_due = None
        for pending in self._abortable():
            self._abort(pending, CheckpointFailure(FailureReason.JOB_STOPPED_RUNNING, reason), now)
        while self._requests:
            self._refuse(self._requests.popleft().request_id, reason, now)
        if status in (JobStatus.FAILING, JobStatus.CANCELLING):
            self._break_stop(reason, now)

    # -- events: savepoints --------------------------------------------------------------------------------------

    def trigger_savepoint(self, request_id: str, target: str, stop: StopMode, now: int) -> None:
        """A client asks for a savepoint; the command SavepointDone will answer.

        As in Flink, savepoints obey neither the pause nor the limit of concurrent checkpoints, except in a job with
        unaligned checkpoints, where they wait for their turn. While one is to stop the job, all others are refused.

        Args:
            target: the directory that the savepoint is to be in; empty: the configured one.
        """
        if self._stop is not None:
            self._refuse(request_id, "the job is being stopped with a savepoint already", now)
        elif self._settings.impossible_because:
            self._refuse(request_id, f"no savepoint is possible: {self._settings.impossible_because}", now)
        elif not self._is_running:
            status = as_hindrance(self._graph.status.current)
            self._refuse(request_id, f"no savepoint is possible: the job is {status}", now)
        else:
            if stop is not StopMode.GO_ON:
                self._stop = StopWithSavepoint(request_id)
                self._periodic_due = None
            self._requests.append(SavepointRequest(request_id, target, stop))
            self._go_on(now)

    def hasten(self, now: int) -> int:
        """The next periodic checkpoint, if one is to come, is due now; gives the lowest id that it can have."""
        lowest = self._next_id
        if self._periodic_due is not None:
            self._periodic_due = now
            self._is_hastened = True
            self._go_on(now)
        return lowest

    # -- events: what the shell has done -------------------------------------------------------------------------

    def coordinators_snapshotted(self, checkpoint_id: int, states: Mapping[OperatorId, bytes], now: int) -> None:
        """The answer to SnapshotCoordinators; the triggers follow."""
        pending = self._take_snapshotting(checkpoint_id)
        if pending is not None:
            pending.coordinators = dict(states)
            pending.are_triggers_sent = True
            for attempt in pending.plan.to_trigger:
                self._commands.append(SendTrigger(attempt, checkpoint_id, pending.triggered_ms, pending.options))
            self._go_on(now)

    def coordinators_failed(
        self,
        checkpoint_id: int,
        error: ErrorInfo,
        now: int,
        reason: FailureReason = FailureReason.COORDINATOR_ERROR,
    ) -> None:
        """The answer to SnapshotCoordinators if a coordinator raised an error, or there can be no directory."""
        pending = self._take_snapshotting(checkpoint_id)
        if pending is not None:
            self._abort(pending, CheckpointFailure(reason, error=error), now)
            self._go_on(now)

    def stored(self, checkpoint_id: int, error: ErrorInfo | None, now: int) -> None:
        """The answer to StoreCheckpoint: the metadata has been written, or cannot be."""
        if checkpoint_id != self._storing:
            return
        self._storing = None
        pending = self._pending[checkpoint_id]
        if error is not None:
            self._abort(pending, CheckpointFailure(FailureReason.NOT_STORED, error=error), now)
        else:
            self._complete(pending, now)
        self._go_on(now)

    # -- events: tasks -------------------------------------------------------------------------------------------

    def acknowledged(self, message: AcknowledgeCheckpoint, now: int) -> None:
        """A task has written its part. The state of one that comes too late, or from a past attempt, is deleted
        again."""
        checkpoint_id = message.checkpoint_id
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            if checkpoint_id not in self._completed:
                self._commands.append(DropState(checkpoint_id, "", (message.snapshot,)))
            return
        answer = pending.acknowledge(message.attempt_id, message.snapshot)
        if answer is Acknowledgement.UNKNOWN:
            self._commands.append(DropState(checkpoint_id, "", (message.snapshot,)))
        elif answer is Acknowledgement.ACCEPTED:
            subtask = pending.plan.to_acknowledge[message.attempt_id]
            self._tracker.acknowledged(checkpoint_id, subtask, message.snapshot, message.metrics, now)
            operator = pending.partly_finished_union(self._graph) if pending.is_acknowledged else None
            if operator is not None:
                failure = CheckpointFailure(FailureReason.PARTLY_FINISHED, operator_label(operator))
                self._abort(pending, failure, now)
            self._go_on(now)

    def declined(self, message: DeclineCheckpoint, now: int) -> None:
        """A task cannot take part in a checkpoint."""
        pending = self._pending.get(message.checkpoint_id)
        if pending is None or not pending.waits_for(message.attempt_id):
            return
        reason = FailureReason.DECLINED if message.error is None else FailureReason.TASK_ERROR
        detail = f"{self._graph.executions[message.attempt_id].vertex.name}: {message.reason}"
        self._abort(pending, CheckpointFailure(reason, detail, message.error, message.attempt_id), now)
        self._go_on(now)

    def end_of_data(self, message: EndOfDataReached, now: int) -> None:
        """A task has processed all its rows, and finishes with the next checkpoint that is triggered from now on."""
        execution = self._graph.executions.get(message.attempt_id)
        if execution is not None and execution.state is ExecutionState.RUNNING:
            self._at_end.add(message.attempt_id)
            if message.gives_rows_first:
                self._giving.add(message.attempt_id)
            self._go_on(now)

    def _on_execution(self, execution: Execution, _former: ExecutionState, now: int) -> None:
        """Listens to the executions of the graph."""
        attempt, state = execution.attempt_id, execution.state
        if state is ExecutionState.RUNNING:
            # A savepoint may have waited for this task to run.
            self._go_on(now)
            return
        is_lost = state in (ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED)
        if not is_lost and state is not ExecutionState.FINISHED:
            return
        self._at_end.discard(attempt)
        self._giving.discard(attempt)
        self._covered.discard(attempt)
        reason = FailureReason.TASK_LOST if is_lost else FailureReason.TASK_FINISHED
        failure = CheckpointFailure(reason, f"{execution.vertex.name} is {state.name}")
        for pending in self._abortable():
            if pending.waits_for(attempt) or (is_lost and attempt in pending.plan.to_acknowledge):
                self._abort(pending, failure, now)
        if not is_lost and not self._covered:
            # The last task that was about to finish, for which it would have declined a final checkpoint, has done so.
            self._final_not_before = now
        self._end_stop()
        self._go_on(now)

    # -- looking at it -------------------------------------------------------------------------------------------

    @property
    def is_storing(self) -> bool:
        """Whether metadata is being written, so that no checkpoint may be chosen for a restart before `stored`."""
        return self._storing is not None

    @property
    def is_stopping(self) -> bool:
        """Whether the job is being stopped with a savepoint."""
        return self._stop is not None

    @property
    def next_id(self) -> int:
        """The id of the next checkpoint."""
        return self._next_id

    @property
    def pending_ids(self) -> tuple[int, ...]:
        """The ids of checkpoints under way, oldest first."""
        return tuple(self._pending)

    def overview(self) -> CheckpointOverview:
        return self._tracker.overview()

    def report(self) -> CheckpointReport:
        return self._tracker.report()

    def check(self) -> None:
        """Raises AssertionError if what always holds between two events does not."""
        assert list(self._pending) == sorted(self._pending), "checkpoints out of order"
        assert all(each < self._next_id for each in self._pending), "an id is above the counter"
        assert self._pending.keys() == self._tracker.in_progress(), "the statistics have others"
        assert self._storing is None or self._pending[self._storing].is_acknowledged, "stored before acknowledged"
        settled = [each.checkpoint_id for each in self._pending.values() if self._may_store(each)]
        assert not settled or self._storing is not None, "acknowledged by all, and nothing is stored"
        for pending in self._pending.values():
            for attempt in filter(pending.waits_for, pending.plan.to_acknowledge):
                execution = self._graph.executions.get(attempt)
                is_there = execution is not None and execution.state is ExecutionState.RUNNING
                assert is_there, f"checkpoint {pending.checkpoint_id} waits for {attempt}, which does not run"
        if not self._is_running:
            assert not self._abortable(), "a checkpoint of a job that does not run"
            assert not self._requests, "a savepoint is wanted of a job that does not run"
            assert self._periodic_due is None, "a checkpoint is due in a job that does not run"
        elif self._settings.is_periodic and self._stop is None and not self._graph.all_finished:
            assert self._periodic_due is not None, "no checkpoint will be triggered any more"
        waits = self._pending or self._covered or is_starting(self._graph)
        assert not self._requests or waits, "a savepoint waits for nothing"
        if self._stop is not None and self._stop.directory is None:
            is_queued = any(request.request_id == self._stop.request_id for request in self._requests)
            is_pending = any(pending.stops_job for pending in self._pending.values())
            assert is_queued or is_pending, "the savepoint that is to stop the job is not there"

    # -- inside: triggering --------------------------------------------------------------------------------------

    @property
    def _is_running(self) -> bool:
        return self._graph.status.current is JobStatus.RUNNING

    def _schedule_periodic(self, now: int) -> None:
        if self._settings.interval_ms is not None and self._is_running and self._stop is None:
            self._periodic_due = now + self._settings.interval_ms

    def _on_periodic(self, now: int) -> None:
        """Triggers the periodic checkpoint that is due, unless the pause after the last completed one is not over.

        The next one is due an interval after this one was, or at once where that has passed meanwhile: as with Flink,
        a checkpoint that takes longer than the interval does not make the one after it wait for another interval.
        """
        due, interval = self._periodic_due or now, self._settings.interval_ms or 0
        resumes = now if self._last_completed_ms is None else self._last_completed_ms + self._settings.min_pause_ms
        if now < resumes:
            self._periodic_due = resumes
            return
        # If several intervals have passed, the next checkpoint is due at the end of the present one.
        self._schedule_periodic(due + (now - due) // interval * interval if interval else now)
        if not self._is_ending():
            is_possible = self._trigger(None, now)
            if self._is_hastened and not is_possible and self._periodic_due is not None:
                self._periodic_due = min(self._periodic_due, now + RETRY_MS)
            self._is_hastened = self._is_hastened and not is_possible

    def _may_trigger_periodic(self) -> bool:
        """Whether a periodic checkpoint that is due can begin; else it waits for those that are under way."""
        return self._periodic_due is not None and self._snapshotting is None and self._has_room()

    def _go_on(self, now: int) -> None:
        """Begins whatever has become possible.

        Checkpoints may overlap, but each snapshots the operator coordinators before the next one begins.
        """
        self._store_next(now)
        while self._is_running and self._snapshotting is None:
            if self._requests and self._may_save():
                self._trigger(self._requests.popleft(), now)
            elif self._wants_final() and self._has_room() and now >= self._final_not_before:
                if not self._trigger(None, now):
                    self._final_not_before = now + RETRY_MS
            elif self._periodic_due is not None and now >= self._periodic_due and self._may_trigger_periodic():
                self._on_periodic(now)
            else:
                return

    def _may_save(self) -> bool:
        """Whether a savepoint can begin now, as no task is about to finish or being started.

        A task that is about to finish would not answer any more, and a savepoint that failed for it would not be begun
        again. A job is RUNNING before all of its tasks are.
        """
        storing = None if self._storing is None else self._pending[self._storing]
        if self._covered or (storing is not None and storing.lets_tasks_finish) or is_starting(self._graph):
            return False
        return self._has_room() or not self._settings.is_unaligned

    def _has_room(self) -> bool:
        return len(self._pending) < self._settings.max_concurrent

    def _is_ending(self) -> bool:
        return is_ending(self._graph, self._at_end, self._giving - self._covered)

    def _wants_final(self) -> bool:
        """Whether all tasks wait for the checkpoint that the job ends with, and it is not under way.

        A savepoint that stops the job takes its place, except for tasks that were restarted to end with that.
        """
        settings, stop = self._settings, self._stop
        if not (settings.is_periodic and settings.has_final and self._is_running):
            return False
        if stop is not None and stop.directory is None:
            return False
        waiting = self._at_end - self._covered
        if not waiting or not self._is_ending():
            return False
        return not any(waiting <= pending.at_end and not pending.is_savepoint for pending in self._pending.values())

    def _trigger(self, request: SavepointRequest | None, now: int) -> bool:
        """Begins a checkpoint; whether it was possible. A request for a savepoint that is not possible is refused."""
        checkpoint_id = self._next_id
        unready = first_not_running(self._graph)
        if unready is not None or self._graph.all_finished:
            state = "all tasks have finished" if unready is None else f"{unready.vertex.name} is {unready.state.name}"
            if request is not None:
                self._refuse(request.request_id, f"no savepoint is possible now: {state}", now)
            return False
        try:
            options = checkpoint_options(self._settings, self._directories, checkpoint_id, request)
        except CheckpointError as error:
            # Only a savepoint's directory can be wrong here: that of checkpoints was checked with the configuration.
            if request is None:
                raise
            self._answer_with_error(request.request_id, ErrorInfo.of(error), now)
            return False
        pending = PendingCheckpoint(
            checkpoint_id,
            plan_checkpoint(self._graph),
            options,
            now,
            request_id=None if request is None else request.request_id,
            at_end=frozenset(self._at_end),
        )
        self._next_id += 1
        self._pending[checkpoint_id] = pending
        self._snapshotting = checkpoint_id
        self._tracker.triggered(pending.statistics(), pending.plan.to_acknowledge.values())
        self._commands.append(SnapshotCoordinators(checkpoint_id, "" if request is None else options.directory))
        return True

    def _take_snapshotting(self, checkpoint_id: int) -> PendingCheckpoint | None:
        if checkpoint_id != self._snapshotting:
            return None  # the checkpoint was aborted meanwhile
        self._snapshotting = None
        return self._pending[checkpoint_id]

    # -- inside: the end of a checkpoint -------------------------------------------------------------------------

    def _store_next(self, now: int) -> None:
        """Stores the next checkpoint; one at a time, so that the one that was stored last is the newest."""
        pending = next(filter(self._may_store, self._pending.values()), None) if self._storing is None else None
        if pending is not None:
            self._storing = pending.checkpoint_id
            stop_request = (pending.request_id or "") if pending.stops_job else ""
            self._commands.append(StoreCheckpoint(pending.complete(self._graph, now), stop_request))

    def _may_store(self, pending: PendingCheckpoint) -> bool:
        """Whether all tasks have acknowledged, and none would finish before it has the trigger of a savepoint that
        began."""
        begun = None if self._snapshotting is None else self._pending[self._snapshotting]
        waits = begun is not None and begun.is_savepoint and pending.lets_tasks_finish
        return pending.is_acknowledged and not waits

    def _complete(self, pending: PendingCheckpoint, now: int) -> None:
        checkpoint_id = pending.checkpoint_id
        del self._pending[checkpoint_id]
        self._completed.append(checkpoint_id)
        self._failures.succeeded(checkpoint_id)
        self._tracker.completed(checkpoint_id, now)
        self._last_completed_ms = now
        if pending.stops_job:
            self._complete_stop(pending, now)
        elif pending.request_id is not None:
            # As in Flink, a savepoint commits nothing: the job does not recover from it, and would commit again.
            self._commands.append(SavepointDone(pending.request_id, pending.options.directory, None))
        else:
            self._notify_complete(pending)
        for older in self._abortable():
            if older.checkpoint_id < checkpoint_id and not older.is_savepoint:
                self._abort(older, CheckpointFailure(FailureReason.SUBSUMED, f"checkpoint {checkpoint_id}"), now)

    def _notify_complete(self, pending: PendingCheckpoint) -> None:
        running = self._running(pending)
        self._covered.update(pending.finishing.intersection(running))
        self._commands.extend(SendComplete(each, pending.checkpoint_id) for each in running)
        self._commands.append(CoordinatorsNotified(pending.checkpoint_id, is_complete=True))

    def _abort(self, pending: PendingCheckpoint, failure: CheckpointFailure, now: int) -> None:
        """Aborts a checkpoint. The caller calls `_go_on` when it has aborted all that it wants to."""
        checkpoint_id = pending.checkpoint_id
        del self._pending[checkpoint_id]
        if self._snapshotting == checkpoint_id:
            self._snapshotting = None
        self._tracker.failed(checkpoint_id, str(failure), now)
        if pending.are_triggers_sent:
            self._commands.extend(SendAborted(each, checkpoint_id) for each in self._running(pending))
        self._commands.append(CoordinatorsNotified(checkpoint_id, is_complete=False))
        directory = "" if failure.reason is FailureReason.NO_DIRECTORY else pending.options.directory
        self._commands.append(DropState(checkpoint_id, directory, pending.snapshots))
        if self._at_end and self._at_end <= pending.at_end:
            self._final_not_before = now + RETRY_MS
        is_too_much = self._failures.failed(checkpoint_id, pending.is_savepoint, failure)
        if pending.request_id is not None:
            self._refuse(pending.request_id, f"savepoint {checkpoint_id} failed: {failure}", now)
        if is_too_much:
            self._fail_job(self._failures.error(checkpoint_id, failure), failure.attempt_id)
        elif pending.stops_job and pending.are_triggers_sent and failure.reason is not FailureReason.TASK_LOST:
            # Tasks may have stopped at the savepoint's barrier, and as in Flink only go on after a restart.
            text = f"savepoint {checkpoint_id}, which was to stop the job, failed: {failure}"
            self._fail_job(ErrorInfo.of(CheckpointError(text)), failure.attempt_id)

    def _abortable(self) -> list[PendingCheckpoint]:
        """All pending checkpoints but the one that is being stored."""
        return [each for each in self._pending.values() if each.checkpoint_id != self._storing]

    def _running(self, pending: PendingCheckpoint) -> list[AttemptId]:
        """The attempts that take part and still run."""
        executions = self._graph.executions
        attempts = pending.plan.to_acknowledge
        return [each for each in attempts if each in executions and executions[each].state is ExecutionState.RUNNING]

    def _fail_job(self, error: ErrorInfo, attempt_id: AttemptId | None) -> None:
        if self._is_running:
            self._commands.append(FailJob(error, attempt_id))

    # -- inside: savepoints that stop the job --------------------------------------------------------------------

    def _complete_stop(self, pending: PendingCheckpoint, now: int) -> None:
        """A savepoint that is to stop the job is stored: it is committed and the tasks finish.

        Tasks that were lost meanwhile do so when they are restarted, unless the job is about to end without them.
        """
        assert self._stop is not None
        self._stop.directory = pending.options.directory
        self._notify_complete(pending)
        self._end_stop()
        status = self._graph.status.current
        if not self._is_running and status is not JobStatus.RESTARTING:
            self._break_stop(f"the job is {status.name}", now)

    def _end_stop(self) -> None:
        """Answers the request to stop the job, once all tasks have finished."""
        stop = self._stop
        if stop is not None and stop.directory is not None and self._graph.all_finished:
            self._stop = None
            self._commands.append(SavepointDone(stop.request_id, stop.directory, None))

    def _break_stop(self, reason: str, now: int) -> None:
        """The job fails for good, or is cancelled, after the savepoint that stops it was completed, and before it has
        ended."""
        stop = self._stop
        if stop is not None and stop.directory is not None:
            error = ErrorInfo.of(StoppingFailedError.of(stop.directory, reason))
            self._answer_with_error(stop.request_id, error, now)

    def _refuse(self, request_id: str, text: str, now: int) -> None:
        self._answer_with_error(request_id, ErrorInfo.of(CheckpointError(text)), now)

    def _answer_with_error(self, request_id: str, error: ErrorInfo, now: int) -> None:
        self._commands.append(SavepointDone(request_id, None, error))
        if self._stop is not None and self._stop.request_id == request_id:
            self._stop = None
            self._schedule_periodic(now)
