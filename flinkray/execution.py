"""What execute() hands over, and what it gets back: the seam between the API and the runtime.

The runtime is found by name among installed plug-ins (entry-point groups `flinkray.executors`, `flinkray.planners`
and `flinkray.bridges`), so that flinkray imports nothing of it.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flinkray.config.configuration import Configuration
from flinkray.errors import RescaleError
from flinkray.latencies import LatencyStatistics
from flinkray.state.checkpoint_statistics import CheckpointOverview
from flinkray.types.records import JobId

if TYPE_CHECKING:  # with it, masters and workers would load all of the API
    from flinkray.batches.batch import Batch
    from flinkray.transformations.transformation import Transformation


class JobStatus(enum.Enum):
    """Where a job is (Flink's JobStatus; the table of moves is in graphs/states.py)."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    RESTARTING = "RESTARTING"
    FINISHED = "FINISHED"

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended, so that its status never changes again."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """PyFlink's name for `is_terminal`."""
        return self.is_terminal

    def is_globally_terminal_state(self) -> bool:
        """The same: no JobMaster takes over a job in one of these."""
        return self.is_terminal


@dataclass(frozen=True)
class Pipeline:
    """A program as the API recorded it, with everything that its compilation depends on."""

    name: str
    transformations: tuple[Transformation, ...]
    configuration: Configuration
    cached_files: dict[str, bytes] = field(default_factory=dict)
    """The cached files by name, packed by `flinkray.functions.cached_files`."""


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """The result of a job that finished."""

    job_id: JobId
    job_name: str
    runtime_ms: int
    accumulators: dict[str, int | float]

    @property
    def late_records_dropped(self) -> int:
        """How many rows windows and joins have dropped as late, over all operators of the attempts that finished."""
        return int(self.accumulators.get(LATE_RECORDS_DROPPED, 0))

    def get_job_id(self) -> JobId:
        """PyFlink's name for `job_id`."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """How long the job ran, in milliseconds."""
        return self.runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> int | float | None:
        """The sum of an accumulator over all subtasks; None: no function has added it."""
        return self.accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, int | float]:
        """The sums of all accumulators, by name."""
        return dict(self.accumulators)


LATE_RECORDS_DROPPED = "late_records_dropped"
"""The accumulator of rows that windows and joins dropped as late; it is there where there were some."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A look at a running job, for a progress line: sums over the job's sources and sinks."""

    status: JobStatus
    records_in: int
    """The number of rows that sources have emitted."""
    records_out: int
    """The number of rows that sinks have taken."""
    watermark: int | None
    """The lowest watermark over the sinks' subtasks, in epoch milliseconds."""


class JobClient(ABC):
    """A submitted job, seen from the driver. Any thread may call it."""

    @property
    @abstractmethod
    def job_id(self) -> JobId:
        """The id of the job: 32 hex digits."""

    @property
    def web_url(self) -> str:
        """Where the REST interface is that was started for the job (`rest.port`); empty: none was. That of a session,
        `flinkray session start` prints."""
        return ""

    @abstractmethod
    def status(self) -> JobStatus:
        """Where the job is now, as its JobMaster says."""

    @abstractmethod
    def progress(self) -> JobProgress:
        """A look at the job now: its status, the rows that it has read and written, and its event time."""

    @abstractmethod
    def result(self, timeout: float | None = None) -> JobExecutionResult:
        """Waits for the end.

        Raises:
            JobExecutionError: the job failed; `__cause__` is the first failure.
            JobCanceledError: it was cancelled.
            TimeoutError: it is still running after `timeout` seconds.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Asks the job to stop at once; `result` then raises JobCanceledError."""

    @abstractmethod
    def trigger_savepoint(self, directory: str | None = None, timeout: float | None = None) -> str:
        """Saves the job's state; the job goes on.

        Args:
            directory: path or URI to put it into; None: `execution.checkpointing.savepoint-dir`.
            timeout: seconds to wait; None: for as long as a checkpoint of the job may take.

        Returns:
            The URI or path of the savepoint, which `execution.state-recovery.path` of a later program may name.

        Raises:
            CheckpointError: there is none; says why. The job goes on.
            TimeoutError: it is not complete yet, and may still be later.
        """

    @abstractmethod
    def stop_with_savepoint(
        self, directory: str | None = None, drain: bool = False, timeout: float | None = None
    ) -> str:
        """Ends the job with a savepoint, after which it processes no further row. Returns once it has finished.

        Args:
            directory: as for `trigger_savepoint`.
            drain: event time goes to its end first, so that all windows and timers fire: for a job that is never to go
                on from there.
            timeout: seconds to wait.

        Returns:
            The URI or path of the savepoint.
        Raises:
            CheckpointError: there is no savepoint; says why. Where sources had ended for it, the job is restarted, or
                fails where it has no restart strategy.
            TimeoutError: it is not complete yet, and may still be later.
        """

    def rescale(self, parallelism: int | Mapping[str, int], timeout: float | None = None) -> dict[str, int]:
        """Gives the running job another parallelism, without a new start of its program: it takes a checkpoint, and its
        tasks go on from there, as many as are wanted. Until all slots for them are there, it goes on as it is.

        Args:
            parallelism: the job's, for all vertices but those for which the program sets one of their own, and those
                that have to have one subtask; at most the max parallelism. Or that of vertices, by their id, or their
                name as plans and `flinkray info` show it. Vertices that exchange rows subtask by subtask change
                together.
            timeout: seconds to wait.

        Returns:
            Vertex id -> number of its subtasks now.

        Raises:
            RescaleError: the job goes on as it was; says why. So it does where it takes no checkpoints.
            TimeoutError: it is not done yet, and may still be later.
        """
        raise RescaleError(f"{type(self).__name__} cannot rescale its job")

    @abstractmethod
    def checkpoints(self) -> CheckpointOverview:
        """How the job's checkpoints and savepoints went, and go; also after its end."""

    @abstractmethod
    def accumulators(self) -> dict[str, int | float]:
        """The sums of all accumulators so far, by name; those of a job that has ended are in its result."""

    def latencies(self) -> tuple[LatencyStatistics, ...]:
        """How long latency markers took to each subtask of each operator, per source as `metrics.latency.granularity`
        says. Empty unless `metrics.latency.interval` is set, and for targets that do not measure it."""
        return ()

    @abstractmethod
    def collected(self, collect_id: str) -> Iterator[Batch]:
        """The batches that the CollectSink of this id receives, while the job runs; ends with the job."""

    @abstractmethod
    def close(self) -> None:
        """Releases the job: a per-job cluster that was started for it is shut down."""


class PipelineExecutor(Protocol):
    """Runs pipelines on one kind of target (Flink's PipelineExecutor)."""

    @property
    def needs_preparation(self) -> bool:
        """Whether pipelines come with their sources and sinks prepared (Source.prepare), which may take resources."""

    def execute(self, pipeline: Pipeline) -> JobClient:
        """Compiles and submits; returns as soon as the job is accepted."""
