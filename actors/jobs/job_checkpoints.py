"""The checkpoints of one job at its JobMaster: messages and storage around what the CheckpointCoordinator decides."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec.structs import replace

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
from actors.checkpoints.coordination.coordinator import CheckpointCoordinator
from actors.checkpoints.coordination.failures import FailureReason
from actors.checkpoints.coordination.retained import CompletedCheckpoints, Deletions
from actors.checkpoints.restore.assignment import Assignment, assign
from actors.checkpoints.storage.directories import (
    CheckpointDirectories,
    delete_files,
    discard_directory,
    make_directory,
    remove_leftovers,
)
from actors.coordinators.job_coordinators import JobCoordinators, States
from actors.high_availability.pointers import CheckpointPointers, JobLeadership, LeadershipLostError, StopSavepoint
from actors.jobs.checkpoint_write import CheckpointWrite, SequentialExecutor, delete_now
from actors.jobs.recovery import RESERVED_IDS, Recovered
from actors.jobs.services import JobServices
from actors.jobs.triggered_checkpoints import TriggeredCheckpoints
from actors.protocol.client_requests import TriggeredCheckpoint, TriggerSavepoint
from actors.protocol.control_messages import SavepointResult
from actors.protocol.ports import Cancellable, SessionId
from actors.protocol.resources import AllocationId
from actors.protocol.task_messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    EndOfDataReached,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flinkray.config.options import CHECKPOINT_INTERVAL
from flinkray.errors import CheckpointError, ErrorInfo
from flinkray.execution import JobStatus
from graphs.execution_graph import ExecutionGraph, ExecutionVertex
from graphs.job_graph import CheckpointSettings
from graphs.states import as_hindrance

log = logging.getLogger(__name__)

# How long the end of a job waits until what it does not leave behind is deleted.
TIDY_UP_TIMEOUT_MS = 10_000.0

# More ids are reserved when so few are left.
_FEW_IDS = RESERVED_IDS // 2

_RESERVE_RETRY_MS = 1_000.0

_REMEMBERED = 64


class JobCheckpoints:
    """Carries out what the CheckpointCoordinator of a job decides, and keeps its completed checkpoints.

    For the JobMaster's thread; `go_on` is to be called after everything that happens to the job.
    """

    def __init__(
        self,
        services: JobServices,
        graph: ExecutionGraph,
        settings: CheckpointSettings,
        directories: CheckpointDirectories,
        coordinators: JobCoordinators,
        leadership: JobLeadership | None,
        recovered: Recovered,
    ) -> None:
        self._services = services
        self._graph = graph
        self._settings = settings
        self._directories = directories
        self._coordinators = coordinators
        self._leadership = leadership
        self._generation = recovered.generation
        self._stop = recovered.stop
        """The savepoint with which the job stops, once it is complete."""
        self._coordinator = CheckpointCoordinator(graph, settings, directories, recovered.first_id, recovered.stop)
        self._store = CompletedCheckpoints(settings.retained)
        self._executor = SequentialExecutor(services.main_thread)
        self._reserved_id = recovered.first_id + RESERVED_IDS
        """All checkpoint ids below this are recorded as used."""
        self._is_reserving = False
        self._is_rescale_recorded = True
        self._assignment: Assignment | None = None
        self._restored: CompletedCheckpoint | None = None
        self._requested = set() if recovered.stop is None else {recovered.stop.request_id}
        self._savepoints: deque[SavepointResult] = deque(maxlen=_REMEMBERED)
        self._under_way: dict[str, None] = dict.fromkeys(self._requested)
        """The savepoints that were asked for and are not done, in this order."""
        self._triggered = TriggeredCheckpoints()
        self._recorded = recovered.recorded
        """The directories of the checkpoints of former JobMasters, with those that cannot be read for now."""
        self._dropped: dict[int, str] = {}
        """Checkpoint -> its directory, of the last ones that were given up: tasks may still report files there."""
        self._timer: tuple[int, Cancellable] | None = None
        if recovered.initial is not None:
            self._store.start_from(recovered.initial)
        for checkpoint in reversed(recovered.checkpoints):
            self._delete(self._store.add(checkpoint))
        if recovered.generation and directories.of_job:
            kept = (*self._store.directories, *self._recorded)
            tidy_up = partial(remove_leftovers, directories.of_job, kept, recovered.first_id)
            services.main_thread.run_blocking(tidy_up, self._on_deleted)

    # -- what happens --------------------------------------------------------------------------------------------

    def on_message(self, message: AcknowledgeCheckpoint | DeclineCheckpoint | EndOfDataReached) -> None:
        now = self._now()
        match message:
            case AcknowledgeCheckpoint():
                if message.checkpoint_id in self._coordinator.pending_ids:
                    states = message.snapshot.operators.values()
                    self._store.register(message.checkpoint_id, (f for state in states for f in state.shared_files()))
                self._coordinator.acknowledged(message, now)
            case DeclineCheckpoint():
                self._coordinator.declined(message, now)
            case EndOfDataReached():
                self._coordinator.end_of_data(message, now)

    def trigger_savepoint(self, request: TriggerSavepoint) -> None:
        if request.request_id not in self._requested:
            self._requested.add(request.request_id)
            self._under_way[request.request_id] = None
            self._coordinator.trigger_savepoint(request.request_id, request.target, request.stop, self._now())

    def await_periodic(self, request_id: str) -> None:
        """Has `triggered` tell what becomes of the next periodic checkpoint, which comes when it is due."""
        self._triggered.add(request_id, self._coordinator.next_id)

    def trigger_periodic(self, request_id: str) -> None:
        """
        Raises:
            CheckpointError: the job takes no periodic checkpoints, or does not run.
        """
        if self._triggered.of(request_id) is not None:
            return
        status = self._graph.status.current
        if not self._settings.is_periodic:
            raise CheckpointError(
                f"job {self._graph.name!r} takes no checkpoints: {CHECKPOINT_INTERVAL.key} is not set"
            )
        if status is not JobStatus.RUNNING:
            raise CheckpointError(f"no checkpoint is possible: job {self._graph.name!r} is {as_hindrance(status)}")
        self._triggered.add(request_id, self._coordinator.hasten(self._now()))

    def triggered(self, request_id: str) -> TriggeredCheckpoint | None:
        """What has become of a checkpoint that was asked for; None: nobody has asked for it."""
        self._triggered.look(self._coordinator.overview().history)
        return self._triggered.of(request_id)

    def go_on(self) -> None:
        """Does what the coordinator has decided by now."""
        while commands := self._coordinator.take_commands():
            for command in commands:
                self._run(command)
        if self._triggered.are_open:
            self._triggered.look(self._coordinator.overview().history)
        self._coordinators.let_events_go()
        self._reserve_ids()
        self._set_timer()

    # -- rescales ------------------------------------------------------------------------------------------------

    @property
    def is_stopping(self) -> bool:
        """Whether the job is being stopped with a savepoint."""
        return self._coordinator.is_stopping

    def check_restorable(self, graph: ExecutionGraph) -> None:
        """
        Raises:
            CheckpointError: the job could not go on from its last checkpoint if it was unfolded like this.
        """
        if self._store.latest is not None:
            assign(self._store.latest, graph, allow_non_restored_state=self._settings.allow_non_restored_state)

    def rescaled(self) -> None:
        """The graph has other subtasks: the next JobMaster is to know that too."""
        self._is_rescale_recorded = self._leadership is None

    @property
    def is_rescale_recorded(self) -> bool:
        """Whether a JobMaster that takes this one's place would go on with the subtasks that there are now."""
        return self._is_rescale_recorded

    # -- restarts ------------------------------------------------------------------------------------------------

    @property
    def is_storing(self) -> bool:
        """A checkpoint is being stored, so that it is not known yet what a job would be restored from."""
        return self._coordinator.is_storing

    def restore(self) -> Assignment | None:
        """What the job starts from, or starts again from, from now on; None: without state.

        Raises:
            CheckpointError: the program cannot start from it.
        """
        latest = self._store.latest
        self._assignment, self._restored = None, latest
        if latest is not None:
            allows = self._settings.allow_non_restored_state
            self._assignment = assign(latest, self._graph, allow_non_restored_state=allows)
            self._coordinator.restored(latest, self._now())
        return self._assignment

    @property
    def restored_id(self) -> int | None:
        """Id of the checkpoint that `restore` has chosen; None: without state."""
        return None if self._restored is None else self._restored.checkpoint_id

    def restore_of(self, vertex: ExecutionVertex) -> Any:
        """The TaskRestore of a subtask that is deployed now, or None."""
        return None if self._assignment is None else self._assignment.tasks.get(vertex.id)

    def on_damaged(self, error: ErrorInfo) -> bool:
        """A task found the checkpoint damaged that it was to start from; gives whether there is another one."""
        if self._stop is not None:
            return False  # older ones have what sinks may have committed with the savepoint that stops the job
        if self._restored is not None:
            log.warning("%s; it is not used any more, what sinks committed with it may be committed again", error)
            self._store.set_aside(self._restored)
        return self._store.latest is not None

    # -- the end -------------------------------------------------------------------------------------------------

    def end(self, status: JobStatus, ended: bytes, then: Callable[[], None], *, could_go_on: bool = False) -> None:
        """Nothing is being stored any more, and the job has ended: deletes what it does not leave behind.

        Args:
            ended: as CheckpointPointers has it.
            then: called once, when that is done, or takes too long.
            could_go_on: started again, the job may go on; so its last checkpoint stays.
        """
        deletions = self._store.at_job_end(status, self._settings.retention, keeps_last=could_go_on)
        if could_go_on and self._store.latest is not None and self._directories.of_job:
            text = "job %r is %s; to go on, start it from %s (execution.state-recovery.path)"
            log.warning(text, self._graph.name, status.value, self._store.latest.directory)
        leadership, pointers = self._leadership, self._pointers(self._own_directories(), ended)
        left = self._store.directories
        if left:
            left += self._recorded

        def tidy_up() -> None:
            if leadership is not None:
                leadership.record(pointers)
            delete_now(self._directories.of_job, deletions)
            remove_leftovers(self._directories.of_job, left)

        once = Once(then)

        def done(_result: Any, error: BaseException | None) -> None:
            if error is not None:
                log.warning("job %r: not everything of its checkpoints is deleted", self._graph.name, exc_info=error)
            once()

        if leadership is None and not self._directories.of_job:
            then()
            return
        self._services.main_thread.run_later(TIDY_UP_TIMEOUT_MS, once)
        self._executor.run(tidy_up, done)

    # -- looking at it -------------------------------------------------------------------------------------------

    @property
    def coordinator(self) -> CheckpointCoordinator:
        return self._coordinator

    @property
    def savepoints(self) -> tuple[SavepointResult, ...]:
        """What became of the last savepoints that were asked for, oldest first."""
        return tuple(self._savepoints)

    @property
    def pending_savepoints(self) -> tuple[str, ...]:
        """The request ids of savepoints that are under way."""
        return tuple(self._under_way)

    def check(self) -> None:
        """What always holds between two messages."""
        self._coordinator.check()
        self._store.check()

    # -- commands ------------------------------------------------------------------------------------------------

    def _run(self, command: CheckpointCommand) -> None:
        match command:
            case SnapshotCoordinators():
                self._begin(command)
            case SendTrigger() | SendComplete() | SendAborted():
                self._services.tasks.tell(command.attempt_id, partial(_task_message, command))
            case CoordinatorsNotified():
                self._coordinators.notify(command.checkpoint_id, command.is_complete)
            case StoreCheckpoint():
                self._begin_to_store(command)
            case DropState():
                self._drop(command)
            case FailJob():
                self._services.fail_job(command.error)
            case SavepointDone():
                self._under_way.pop(command.request_id, None)
                self._savepoints.append(SavepointResult(command.request_id, command.directory, command.error))

    def _begin(self, command: SnapshotCoordinators) -> None:
        checkpoint_id, directory = command.checkpoint_id, command.directory

        def made(_result: Any, error: BaseException | None) -> None:
            if checkpoint_id not in self._coordinator.pending_ids:
                # It was given up meanwhile, and its directory perhaps removed before it was made.
                self._services.main_thread.run_blocking(partial(discard_directory, directory), self._on_deleted)
            elif error is None:
                self._snapshot_coordinators(checkpoint_id)
            else:
                info, reason = ErrorInfo.of(error), FailureReason.NO_DIRECTORY
                self._coordinator.coordinators_failed(checkpoint_id, info, self._now(), reason)

        if directory:
            self._services.main_thread.run_blocking(partial(make_directory, directory), made)
        else:
            self._snapshot_coordinators(checkpoint_id)

    def _snapshot_coordinators(self, checkpoint_id: int) -> None:
        def done(result: States | Exception) -> None:
            if isinstance(result, Exception):
                self._coordinator.coordinators_failed(checkpoint_id, ErrorInfo.of(result), self._now())
            else:
                self._coordinator.coordinators_snapshotted(checkpoint_id, result, self._now())

        self._coordinators.snapshot(checkpoint_id, done)

    def _begin_to_store(self, command: StoreCheckpoint) -> None:
        checkpoint, own = command.checkpoint, self._own_directories()
        if not checkpoint.directory:
            self._stored(checkpoint, None)
            return
        leadership, before = self._leadership, self._pointers(own)
        stop = StopSavepoint(command.stop_request, checkpoint.directory) if command.stop_request else None
        if stop is not None:
            pointers = replace(before, stop=stop)
        elif checkpoint.is_savepoint:
            leadership, pointers = None, before
        else:
            pointers = self._pointers((checkpoint.directory, *own)[: self._settings.retained])
        write = CheckpointWrite(checkpoint, leadership, pointers, before)
        timeout_ms = self._settings.timeout_ms
        overdue = self._services.main_thread.run_later(timeout_ms, lambda: self._on_overdue(write))

        def done(_result: Any, error: BaseException | None) -> None:
            overdue.cancel()
            if error is not None and (write.is_in_doubt or isinstance(error, LeadershipLostError)):
                self._services.give_up(error)
            elif not write.is_given_up:
                if error is None and leadership is not None:
                    self._reserved_id = max(self._reserved_id, pointers.next_id)
                self._stored(checkpoint, error, stop)

        self._executor.run(write.run, done)

    def _on_overdue(self, write: CheckpointWrite) -> None:
        waited = f"{self._settings.timeout_ms} ms (execution.checkpointing.timeout)"
        error = CheckpointError(f"{write.checkpoint.directory} could not be completed within {waited}")
        if write.give_up():
            self._stored(write.checkpoint, error)
        else:
            # Nobody can tell whether the checkpoint counts, and thus what the job would recover from.
            self._services.give_up(error)

    def _stored(
        self, checkpoint: CompletedCheckpoint, error: BaseException | None, stop: StopSavepoint | None = None
    ) -> None:
        if error is None and stop is not None:
            self._stop = stop
            self._delete(self._store.add(checkpoint.with_all_finished()))
        elif error is None and not checkpoint.is_savepoint:
            self._delete(self._store.add(checkpoint))
        elif error is None:
            self._delete(self._store.abandon(checkpoint.checkpoint_id))
        info = None if error is None else ErrorInfo.of(error)
        self._coordinator.stored(checkpoint.checkpoint_id, info, self._now())

    def _drop(self, command: DropState) -> None:
        checkpoint_id = command.checkpoint_id
        states = [state for snapshot in command.snapshots for state in snapshot.operators.values()]
        self._store.register(checkpoint_id, (file for state in states for file in state.shared_files()))
        is_over = checkpoint_id not in self._coordinator.pending_ids
        shared = self._store.abandon(checkpoint_id) if is_over else Deletions()
        directory = command.directory or self._dropped.get(checkpoint_id, self._directories.of_job)
        if command.directory:
            self._dropped[checkpoint_id] = command.directory
            while len(self._dropped) > _REMEMBERED:
                del self._dropped[next(iter(self._dropped))]
        files = [path for state in states for path in state.files()]
        of_job = self._directories.of_job

        def drop() -> None:
            delete_files(directory, files)
            delete_now(of_job, shared)
            if command.directory:
                discard_directory(command.directory)

        if files or shared or command.directory:
            self._services.main_thread.run_blocking(drop, self._on_deleted)

    # -- inside --------------------------------------------------------------------------------------------------

    def _delete(self, deletions: Deletions) -> None:
        of_job = self._directories.of_job
        if deletions and of_job:
            self._services.main_thread.run_blocking(lambda: delete_now(of_job, deletions), self._on_deleted)

    def _on_deleted(self, _result: Any, error: BaseException | None) -> None:
        if error is not None:
            log.warning("job %r: files of old checkpoints are left", self._graph.name, exc_info=error)

    def _own_directories(self) -> tuple[str, ...]:
        return tuple(each.directory for each in self._store.own if each.directory)

    def _pointers(self, directories: Iterable[str], ended: bytes = b"") -> CheckpointPointers:
        next_id = self._coordinator.next_id + RESERVED_IDS
        rescaled = self._graph.rescaled_to
        return CheckpointPointers(self._generation, next_id, tuple(directories), ended, self._stop, rescaled)

    def _reserve_ids(self) -> None:
        """Records more ids as used before they run out, where no completed checkpoint has done that for long; and other
        subtasks at once."""
        leadership, left = self._leadership, self._reserved_id - self._coordinator.next_id
        is_needed = left <= _FEW_IDS or not self._is_rescale_recorded
        if leadership is None or self._is_reserving or self.is_storing or not is_needed:
            return  # what is being stored reserves ids too, and is not to be replaced by what there was before it
        if left <= 0:
            text = f"no checkpoint id of job {self._graph.name!r} could be recorded as used for long"
            self._services.give_up(CheckpointError(text))
            return
        self._is_reserving = True
        pointers = self._pointers(self._own_directories())

        def done(_result: Any, error: BaseException | None) -> None:
            if isinstance(error, LeadershipLostError):
                self._services.give_up(error)
            elif error is not None:
                log.warning("job %r: %s; %d checkpoint ids are left", self._graph.name, error, left)
                self._services.main_thread.run_later(_RESERVE_RETRY_MS, again)
            else:
                self._is_reserving = False
                self._is_rescale_recorded |= pointers.parallelism == self._graph.rescaled_to
                self._reserved_id = max(self._reserved_id, pointers.next_id)

        def again() -> None:
            self._is_reserving = False

        self._executor.run(lambda: leadership.record(pointers), done)

    def _set_timer(self) -> None:
        due = self._coordinator.next_due()
        if self._timer is not None:
            if due is not None and due >= self._timer[0]:
                return  # the next due time is found then
            self._timer[1].cancel()
            self._timer = None
        if due is not None:
            delay = max(0, due - self._now())
            self._timer = (due, self._services.main_thread.run_later(delay, self._on_due))

    def _on_due(self) -> None:
        self._timer = None
        self._coordinator.tick(self._now())

    def _now(self) -> int:
        return self._services.clock.now_ms()


def _task_message(command: SendTrigger | SendComplete | SendAborted, session: SessionId, slot: AllocationId) -> Any:
    attempt_id, checkpoint_id = command.attempt_id, command.checkpoint_id
    match command:
        case SendTrigger():
            return TriggerCheckpoint(session, slot, attempt_id, checkpoint_id, command.timestamp_ms, command.options)
        case SendComplete():
            return NotifyCheckpointComplete(session, slot, attempt_id, checkpoint_id)
        case SendAborted():
            return NotifyCheckpointAborted(session, slot, attempt_id, checkpoint_id)


@dataclass
class Once:
    """Passes on its first call, and nothing later."""

    then: Callable[[], None]
    is_called: bool = False

    def __call__(self) -> None:
        if not self.is_called:
            self.is_called = True
            self.then()
