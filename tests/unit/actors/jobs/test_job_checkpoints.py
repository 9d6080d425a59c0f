"""Rules of what a JobMaster does for its checkpoints: storage that fails or hangs, leadership, ids, the end of the job.

Tasks acknowledge at once, with a file each; what runs off the JobMaster's thread runs when the test says so.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.storage.directories import CheckpointDirectories, write_metadata
from actors.coordinators.job_coordinators import JobCoordinators
from actors.coordinators.threaded import ThreadedCoordinator
from actors.high_availability.pointers import CheckpointPointers, LeadershipLostError
from actors.jobs import job_checkpoints
from actors.jobs.job_checkpoints import JobCheckpoints
from actors.jobs.recovery import RESERVED_IDS, Recovered, recover
from actors.jobs.running_job import is_cause_outside
from actors.protocol.checkpoint_handles import FileState, OperatorSubtaskState, PartKind, StatePart, TaskSnapshot
from actors.protocol.client_requests import TriggeredCheckpoint, TriggerSavepoint
from actors.protocol.elements import CheckpointOptions, StopMode
from actors.protocol.task_messages import AcknowledgeCheckpoint, TriggerCheckpoint
from flinkray.errors import (
    CheckpointError,
    ConfigurationError,
    DamagedCheckpointError,
    ErrorInfo,
    FlinkrayError,
    NoResourceAvailableError,
    PartitionError,
    UserFunctionError,
)
from flinkray.execution import JobStatus
from flinkray.types.records import JobId, OperatorId
from graphs.execution_graph import AttemptId, ExecutionGraph
from tests.support.checkpoint_coordination import ROAD, settings, three_vertices
from tests.support.coordinator_threads import Echo, SteppedThreads
from tests.support.operators import ManualClock

JOB = JobId("job")
Done = Callable[[Any, BaseException | None], None]


@dataclass
class Leadership:
    """A JobLeadership that fails as it is told to."""

    error: BaseException | None = None
    failures: int = -1
    """So many times, if not always."""
    recorded: list[CheckpointPointers] = field(default_factory=list)
    on_record: Callable[[], None] = lambda: None

    def take(self) -> CheckpointPointers:
        return self.recorded[-1] if self.recorded else CheckpointPointers()

    def record(self, pointers: CheckpointPointers) -> None:
        self.on_record()
        if self.error is not None and self.failures:
            self.failures -= 1
            raise self.error
        self.recorded.append(pointers)


@dataclass
class Timer:
    due: float
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        self.callback = None


class SteppedJobMaster:
    """A JobMaster's services, its main thread and its tasks in one, with a job whose tasks run."""

    def __init__(
        self, directory: Path, leadership: Any = None, recovered: Recovered | None = None, **changes: Any
    ) -> None:
        self.clock = ManualClock()
        self.main_thread = self.tasks = self
        self.work: list[tuple[Callable[[], Any], Done]] = []
        self.timers: list[Timer] = []
        self.given_up: list[BaseException] = []
        self.failed: list[ErrorInfo] = []
        self.directory = directory
        self.acknowledges = True
        self.graph = ExecutionGraph.from_job_graph(three_vertices())
        self.told: list[Any] = []
        """What tasks were told."""
        coordinators = JobCoordinators(self.graph, lambda *_: None, True)  # type: ignore[arg-type,return-value]
        self.coordinators = coordinators
        directories = CheckpointDirectories(JOB, str(directory), "", random.Random(1))
        self.checkpoints = JobCheckpoints(
            self, self.graph, settings(**changes), directories, coordinators, leadership, recovered or Recovered()
        )
        self.graph.transition_job(JobStatus.CREATED, 0)
        self.graph.transition_job(JobStatus.RUNNING, 0)
        for execution in self.graph.executions.values():
            for state in ROAD:
                execution.transition(state, 0)
        self.checkpoints.go_on()

    # -- JobServices ---------------------------------------------------------------------------------------------

    def tell(self, attempt_id: AttemptId, message: Callable[[Any, Any], Any]) -> None:
        told = message("session", "slot")
        self.told.append(told)
        if isinstance(told, TriggerCheckpoint) and self.acknowledges:
            for attempt in self.graph.executions:
                self.run_later(0, lambda each=attempt: self.acknowledge(each, told.checkpoint_id, told.options))  # type: ignore[misc]

    def run_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.clock.now + delay_ms, callback))
        return self.timers[-1]

    def run_blocking(self, work: Callable[[], Any], done: Done) -> None:
        self.work.append((work, done))

    def fail_job(self, error: ErrorInfo) -> None:
        self.failed.append(error)

    def give_up(self, error: BaseException) -> None:
        self.given_up.append(error)

    # -- for tests -----------------------------------------------------------------------------------------------

    def acknowledge(self, attempt: AttemptId, checkpoint_id: int, options: CheckpointOptions) -> None:
        """With a file of the task's own."""
        name = Path(options.directory.removeprefix("file://")) / attempt
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(b"x")
        part = StatePart("state", PartKind.SPLIT, FileState(str(name), 0, 1, 0), 1)
        operator = self.graph.executions[attempt].vertex.job_vertex.job_vertex.head.operator_id
        snapshot = TaskSnapshot({operator: OperatorSubtaskState((part,))})
        self.checkpoints.on_message(AcknowledgeCheckpoint(JOB, attempt, checkpoint_id, snapshot))

    def advance(self, milliseconds: int) -> None:
        """Timers run at their time."""
        end = self.clock.now + milliseconds
        while due := [timer for timer in self.timers if timer.callback is not None and timer.due <= end]:
            first = min(due, key=lambda timer: timer.due)
            self.timers.remove(first)
            self.clock.now = max(self.clock.now, int(first.due))
            assert first.callback is not None
            first.callback()
            self.checkpoints.go_on()
            self.checkpoints.check()
        self.clock.now = end

    def run_work(self) -> None:
        """All that waits for another thread, and what that leads to."""
        while self.work:
            self.run_next()

    def run_next(self) -> None:
        work, done = self.work.pop(0)
        result, error = None, None
        try:
            result = work()
        except Exception as raised:
            error = raised
        done(result, error)
        self.checkpoints.go_on()
        self.checkpoints.check()

    @property
    def counts(self) -> tuple[int, int]:
        """Completed and failed checkpoints."""
        counts = self.checkpoints.coordinator.overview().counts
        return counts.completed, counts.failed

    def files(self) -> set[str]:
        return {str(path.relative_to(self.directory)) for path in self.directory.rglob("*") if path.is_file()}


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """While it holds True, metadata cannot be written."""
    is_full = [True]
    written = job_checkpoints.CheckpointWrite.run

    def run(self: Any) -> None:
        if is_full[0]:
            raise CheckpointError("no space") from OSError(errno.ENOSPC, "no space")
        written(self)

    monkeypatch.setattr(job_checkpoints.CheckpointWrite, "run", run)
    return is_full


def test_a_checkpoint_is_recorded_for_the_next_job_master_before_the_one_that_it_replaces_is_deleted(
    tmp_path: Path,
) -> None:
    leadership = Leadership()
    master = SteppedJobMaster(tmp_path, leadership)
    for _ in range(2):
        master.advance(1_000)
        master.run_next()
    assert [Path(*pointers.directories).name for pointers in leadership.recorded] == ["chk-1", "chk-2"]
    assert any("chk-1/_metadata" in name for name in master.files())
    master.run_work()
    assert not any("chk-1" in name for name in master.files())
    assert master.counts == (2, 0)


def test_metadata_that_cannot_be_written_fails_the_checkpoint_and_removes_what_tasks_wrote(
    tmp_path: Path, full: list[bool]
) -> None:
    master = SteppedJobMaster(tmp_path, tolerable_failures=1)
    master.advance(1_000)
    assert len(master.files()) == 6
    master.run_work()
    assert master.counts == (0, 1)
    assert master.files() == set()
    full[0] = False
    master.advance(1_000)
    master.run_work()
    assert master.counts == (1, 1)
    assert not master.failed


def test_a_job_master_whose_place_was_taken_completes_nothing_and_ends(tmp_path: Path) -> None:
    master = SteppedJobMaster(tmp_path, Leadership(LeadershipLostError("another one")))
    master.advance(1_000)
    master.run_work()
    assert [type(error) for error in master.given_up] == [LeadershipLostError]
    assert master.counts == (0, 0)
    assert master.checkpoints.is_storing, "nobody may restore or trigger anything here any more"


def test_a_checkpoint_whose_record_failed_is_deleted_when_nobody_can_start_from_it_any_more(tmp_path: Path) -> None:
    """A store that says it failed may have written all the same."""
    leadership = Leadership()
    master = SteppedJobMaster(tmp_path, leadership, tolerable_failures=1)
    master.advance(1_000)
    master.run_work()
    leadership.error, leadership.failures = CheckpointError("out of order"), 1
    master.advance(1_000)
    master.run_work()
    assert master.counts == (1, 1)
    assert not any("chk-2/" in name for name in master.files())
    assert [Path(*pointers.directories).name for pointers in leadership.recorded] == ["chk-1", "chk-1"]
    assert not master.given_up


def test_a_job_master_that_cannot_find_out_what_is_recorded_leaves_all_files_and_ends(tmp_path: Path) -> None:
    leadership = Leadership()
    master = SteppedJobMaster(tmp_path, leadership, tolerable_failures=1)
    master.advance(1_000)
    master.run_work()
    leadership.error = CheckpointError("out of order")
    master.advance(1_000)
    master.run_work()
    assert [type(error) for error in master.given_up] == [CheckpointError]
    assert {name.split("/")[-2] for name in master.files()} >= {"chk-1", "chk-2"}


def test_metadata_that_takes_too_long_is_given_up_and_removed_again(tmp_path: Path) -> None:
    master = SteppedJobMaster(tmp_path, Leadership(), tolerable_failures=1)
    master.advance(1_000)
    hanging = master.work.pop()
    master.acknowledges = False
    master.advance(5_500)
    assert master.counts[1] >= 1
    assert not master.checkpoints.is_storing
    master.work.append(hanging)
    master.run_work()
    assert not any("chk-1/" in name for name in master.files())
    assert not master.given_up


def test_a_record_that_takes_too_long_ends_the_job_master_as_nobody_knows_what_it_would_recover_from(
    tmp_path: Path,
) -> None:
    leadership = Leadership()
    master = SteppedJobMaster(tmp_path, leadership)
    master.advance(1_000)
    leadership.on_record = lambda: master.advance(6_000)
    work, _ = master.work.pop()
    work()
    assert [type(error) for error in master.given_up] == [CheckpointError]


def test_ids_are_reserved_again_before_they_run_out_and_a_store_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_checkpoints, "_FEW_IDS", RESERVED_IDS - 2)
    leadership = Leadership(CheckpointError("out of order"))
    master = SteppedJobMaster(tmp_path, leadership, tolerable_failures=100)
    master.acknowledges = False
    master.advance(20_000)
    assert master.checkpoints.coordinator.next_id > 3
    master.run_work()
    assert not master.given_up
    leadership.error = None
    master.advance(1_000)
    master.run_work()
    assert leadership.recorded[-1].next_id > RESERVED_IDS + 1


def test_ids_that_are_reserved_do_not_take_a_checkpoint_from_the_next_job_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_checkpoints, "_FEW_IDS", RESERVED_IDS - 2)
    leadership = Leadership()
    master = SteppedJobMaster(tmp_path, leadership, max_concurrent=2)
    master.advance(1_000)
    master.acknowledges = False
    master.advance(1_000)
    assert master.checkpoints.is_storing
    assert master.checkpoints.coordinator.next_id == 3, "few enough are left"
    master.run_work()
    assert [Path(*pointers.directories).name for pointers in leadership.recorded][-1] == "chk-1"


def test_without_ids_that_are_reserved_no_checkpoint_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_checkpoints, "RESERVED_IDS", 3)
    master = SteppedJobMaster(tmp_path, Leadership(CheckpointError("out of order")), tolerable_failures=100)
    master.acknowledges = False
    for _ in range(30):
        master.advance(1_000)
        master.run_work()
    assert "no checkpoint id of job 'three'" in str(master.given_up[0])


def test_ids_go_on_above_that_of_the_savepoint_that_the_job_starts_from(tmp_path: Path) -> None:
    directory = str(tmp_path / "savepoint")
    write_metadata(CompletedCheckpoint(JOB, "former", 7_000, 0, 0, True, directory, {}))
    leadership: Any = Leadership()
    recovered = recover(settings(restore_path=directory), leadership)
    assert recovered.first_id == 7_001
    assert leadership.recorded[-1].next_id == 7_001 + RESERVED_IDS
    master = SteppedJobMaster(tmp_path / "checkpoints", leadership, recovered)
    master.checkpoints.restore()
    master.checkpoints.go_on()
    assert not master.given_up
    master.advance(1_000)
    master.run_work()
    assert [Path(each).name for each in leadership.recorded[-1].directories] == ["chk-7001"]


def test_what_a_job_master_had_replaced_and_not_deleted_is_deleted_by_the_one_that_takes_over(tmp_path: Path) -> None:
    def checkpoints(master: SteppedJobMaster) -> set[str]:
        return {Path(file).parts[1] for file in master.files()}

    leadership: Any = Leadership()
    first = SteppedJobMaster(tmp_path, leadership)
    first.advance(1_000)
    first.run_work()
    first.advance(1_000)
    first.run_next()  # writes and records the second; another thread is about to delete the first
    first.advance(1_000)  # a third has files of tasks, and no metadata
    assert checkpoints(first) == {"chk-1", "chk-2", "chk-3"}
    second = SteppedJobMaster(tmp_path, leadership, replace(recover(settings(), leadership), generation=1))
    second.advance(1_000)
    second.run_next()
    first_id = second.checkpoints.coordinator.next_id - 1
    assert checkpoints(second) == {"chk-2", f"chk-{first_id}"}, "what it goes on from, and its own that is under way"


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.FAILED])
def test_at_the_end_of_the_job_nothing_is_left_that_should_not_be(tmp_path: Path, status: JobStatus) -> None:
    leadership = Leadership()
    master = SteppedJobMaster(tmp_path, leadership)
    master.advance(1_000)
    master.run_work()
    assert master.files()
    ended: list[str] = []
    master.checkpoints.end(status, b"details", lambda: ended.append("once"))
    assert not ended
    master.run_work()
    assert ended == ["once"]
    assert master.files() == set()
    assert leadership.recorded[-1].ended == b"details"
    master.advance(60_000)
    assert ended == ["once"]


def test_the_last_checkpoint_of_a_job_that_could_go_on_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leadership = Leadership()
    master = SteppedJobMaster(tmp_path, leadership, retained=2)
    for _ in range(2):
        master.advance(1_000)
        master.run_work()
    master.checkpoints.end(JobStatus.FAILED, b"details", lambda: None, could_go_on=True)
    master.run_work()
    assert {Path(each).parent.name for each in master.files()} == {"chk-2"}
    assert [Path(each).name for each in leadership.recorded[-1].directories] == ["chk-2"]
    assert "chk-2 (execution.state-recovery.path)" in caplog.text


@pytest.mark.parametrize(
    ("error", "is_from_outside"),
    [
        (UserFunctionError("map", "1 of 1", "7", "ZeroDivisionError: division by zero"), False),
        (ConfigurationError("no such option"), False),
        (NoResourceAvailableError("no slots"), True),
        (CheckpointError("no space"), True),
        (FlinkrayError("the slot is lost: kill -9"), True),
        (PartitionError("its producer is gone"), True),
        (OSError("no such host"), True),
    ],
)
def test_a_job_could_go_on_unless_it_failed_for_its_program_or_its_data(
    error: Exception, is_from_outside: bool
) -> None:
    assert is_cause_outside(ErrorInfo.of(error)) is is_from_outside


def test_the_end_of_the_job_does_not_wait_for_ever_until_it_is_tidy(tmp_path: Path) -> None:
    master = SteppedJobMaster(tmp_path)
    master.advance(1_000)
    master.run_work()
    ended: list[str] = []
    master.checkpoints.end(JobStatus.FINISHED, b"", lambda: ended.append("once"))
    master.advance(int(job_checkpoints.TIDY_UP_TIMEOUT_MS))
    assert ended == ["once"]


# -- stopping with a savepoint -----------------------------------------------------------------------------------


def stopping(directory: Path, leadership: Any, **changes: Any) -> SteppedJobMaster:
    """A job that has a checkpoint, and whose savepoint waits to be written."""
    master = SteppedJobMaster(directory, leadership, **changes)
    master.advance(1_000)
    master.run_work()
    master.checkpoints.trigger_savepoint(TriggerSavepoint("r", str(directory / "savepoints"), StopMode.SUSPEND))
    master.checkpoints.go_on()
    master.run_work()  # makes the directory
    master.advance(1)
    assert master.checkpoints.is_storing
    return master


def test_a_savepoint_that_stops_the_job_is_recorded_for_the_next_job_master_before_it_is_committed(
    tmp_path: Path,
) -> None:
    leadership = Leadership()
    master = stopping(tmp_path, leadership)
    committed: list[bool] = []
    leadership.on_record = lambda: committed.append(master.checkpoints.coordinator.overview().counts.completed > 1)
    master.run_work()
    assert committed[0] is False
    stop = leadership.recorded[-1].stop
    assert stop is not None
    assert (stop.request_id, Path(stop.directory).parent.name) == ("r", "savepoints")


def test_a_job_master_that_takes_over_has_all_tasks_end_with_that_savepoint(tmp_path: Path) -> None:
    leadership: Any = Leadership()
    stopping(tmp_path, leadership).run_work()
    recovered = recover(settings(), leadership)
    assert recovered.stop == leadership.recorded[-1].stop
    master = SteppedJobMaster(tmp_path, leadership, recovered)
    assignment = master.checkpoints.restore()
    assert assignment is not None
    assert {restore.is_finished for restore in assignment.tasks.values()} == {True}
    assert {restore.directory for restore in assignment.tasks.values()} == {recovered.stop.directory}
    master.checkpoints.trigger_savepoint(TriggerSavepoint("r", "", StopMode.SUSPEND))
    master.checkpoints.go_on()
    assert master.checkpoints.savepoints == (), "who asked before asks again, and is not refused"


def test_a_savepoint_whose_record_failed_stops_nothing(tmp_path: Path) -> None:
    leadership: Any = Leadership()
    master = stopping(tmp_path, leadership)
    leadership.error, leadership.failures = CheckpointError("out of order"), 1
    master.run_work()
    assert leadership.recorded[-1].stop is None
    (result,) = master.checkpoints.savepoints
    assert "out of order" in str(result.error)
    assignment = master.checkpoints.restore()
    assert assignment is not None
    assert {Path(restore.directory).name for restore in assignment.tasks.values()} == {"chk-1"}


def test_a_job_that_was_stopping_does_not_go_back_to_what_was_before_its_savepoint(tmp_path: Path) -> None:
    """Sinks may have committed it, and would commit the same rows again."""
    leadership: Any = Leadership()
    master = stopping(tmp_path, leadership)
    master.run_work()
    master.checkpoints.restore()
    assert not master.checkpoints.on_damaged(ErrorInfo.of(DamagedCheckpointError("torn")))
    (metadata,) = (tmp_path / "savepoints").rglob("_metadata")
    metadata.write_bytes(b"torn")
    with pytest.raises(DamagedCheckpointError, match="the job was stopping with it"):
        recover(settings(), leadership)


def test_what_a_coordinator_sends_after_its_snapshot_goes_behind_the_barriers(tmp_path: Path) -> None:
    job_master, threads = SteppedJobMaster(tmp_path), SteppedThreads()
    threads.sent = job_master.told
    coordinator = ThreadedCoordinator("echo", threads, Echo)
    coordinator.start()
    job_master.coordinators._coordinators[OperatorId("echo")] = coordinator
    job_master.checkpoints.trigger_savepoint(TriggerSavepoint("one", str(tmp_path / "savepoints"), StopMode.GO_ON))
    job_master.checkpoints.go_on()
    job_master.run_work()
    coordinator.handle_event(0, "behind")
    threads.settle()
    assert job_master.told == []
    job_master.checkpoints.go_on()
    *triggers, behind = job_master.told
    assert {type(trigger) for trigger in triggers} == {TriggerCheckpoint}
    assert behind == (0, "behind")


# -- what clients ask for ----------------------------------------------------------------------------------------


def test_a_checkpoint_that_is_asked_for_twice_under_one_id_is_taken_once(tmp_path: Path) -> None:
    master = SteppedJobMaster(tmp_path)
    for _ in range(2):
        master.checkpoints.trigger_periodic("mine")
        master.checkpoints.go_on()
    assert master.checkpoints.triggered("mine") == TriggeredCheckpoint()
    assert master.checkpoints.triggered("other") is None
    master.advance(0)
    master.run_work()
    assert master.checkpoints.triggered("mine") == TriggeredCheckpoint(checkpoint_id=1)
    assert master.counts == (1, 0)


def test_without_periodic_checkpoints_none_can_be_asked_for(tmp_path: Path) -> None:
    master = SteppedJobMaster(tmp_path, interval_ms=None)
    with pytest.raises(CheckpointError, match=r"execution\.checkpointing\.interval is not set"):
        master.checkpoints.trigger_periodic("mine")
    assert master.checkpoints.triggered("mine") is None


def test_a_savepoint_is_known_to_be_under_way_until_it_is_done(tmp_path: Path) -> None:
    master = SteppedJobMaster(tmp_path)
    master.checkpoints.trigger_savepoint(TriggerSavepoint("mine", str(tmp_path / "saved"), StopMode.GO_ON))
    master.checkpoints.go_on()
    assert master.checkpoints.pending_savepoints == ("mine",)
    master.run_work()
    master.advance(0)
    master.run_work()
    assert master.checkpoints.pending_savepoints == ()
    assert [each.request_id for each in master.checkpoints.savepoints] == ["mine"]


@pytest.mark.parametrize("expires", [False, True])
def test_a_savepoint_that_has_no_directory_leaves_its_job_alone_and_no_directory(tmp_path: Path, expires: bool) -> None:
    master = SteppedJobMaster(tmp_path / "checkpoints", interval_ms=None, timeout_ms=100)
    (tmp_path / "file").write_text("in the way")
    target = tmp_path / ("late" if expires else "file")
    master.checkpoints.trigger_savepoint(TriggerSavepoint("mine", str(target), StopMode.SUSPEND))
    master.checkpoints.go_on()
    if expires:  # as where the storage does not answer
        master.advance(100)
        master.work.reverse()  # what was made is removed before it is made
    master.run_work()
    (answer,) = master.checkpoints.savepoints
    assert ("it was not complete in time" if expires else str(target)) in str(answer.error)
    assert master.told == master.failed == []
    assert sorted(path.name for path in tmp_path.rglob("savepoint-*")) == []
