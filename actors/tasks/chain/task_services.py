"""What a task gets from its slot, and what its operators get from the task."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from actors.mailbox.executor import MailboxExecutor
from actors.mailbox.waiting import others_act
from actors.network.consumer.input_gate import SingleInputGate
from actors.network.producer.result_partition import ResultPartition
from actors.operators.contract.cancellation import Cancellation
from actors.operators.contract.chunking import ChunkLimit
from actors.operators.contract.operator import Operator
from actors.protocol.checkpoint_handles import RestoredPart, TaskRestore
from actors.protocol.data_messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    EndOfDataReached,
    GateDescriptor,
    PartitionDescriptor,
    TaskDeployment,
)
from actors.protocol.elements import CheckpointOptions
from actors.protocol.ports import Cancellable, Clock, Loop, Timers
from actors.state.keyed.options import StateOptions
from actors.state.snapshots.snapshot import RestoredState, StateWriter
from actors.tasks.chain.cached_files import CachedFiles
from actors.tasks.chain.timers import TaskTimers
from actors.tasks.metrics.figures import OperatorFigures, TaskAccumulator, TaskFigures
from actors.tasks.metrics.latencies import Granularity, OperatorLatencies
from flinkray.config import options
from flinkray.config.configuration import Configuration
from flinkray.errors import InvalidProgramError, did_you_mean, operator_label
from flinkray.types.keys import KeySelector
from flinkray.types.records import OperatorId
from graphs.execution_graph import AttemptId
from graphs.job_graph import OperatorCode, OperatorConfig
from graphs.key_groups import key_group_range


class TaskNetwork(Protocol):
    """What a task needs of its slot's `actors.network.connections.environment.NetworkEnvironment`."""

    def create_partition(self, descriptor: PartitionDescriptor, configuration: Configuration) -> ResultPartition: ...

    def create_gate(
        self, descriptor: GateDescriptor, attempt_id: AttemptId, configuration: Configuration
    ) -> SingleInputGate: ...

    def release_gate(self, gate: SingleInputGate) -> None: ...


class SnapshotWriter(StateWriter, Protocol):
    """Writes one subtask's part of one checkpoint, and is closed or aborted after that."""

    def close(self) -> None:
        """What was written stays."""

    def abort(self) -> None:
        """What was written goes; also after `close`."""


class StateReader(Protocol):
    """Reads what a task is restored from."""

    def operator_state(self, restore: TaskRestore, operator_id: OperatorId) -> RestoredState:
        """The state of one of the task's operators, also where it has none. Reading it may take its time."""

    def read(self, restore: TaskRestore, part: RestoredPart) -> bytes:
        """A part as it was written.

        Raises:
            CheckpointError: its file is missing or damaged.
        """


class TaskServices(Struct, frozen=True):
    """The world as a task sees it; any thread may use all of it."""

    network: TaskNetwork
    create_operator: Callable[[Sequence[OperatorCode], Sequence[str]], Operator]
    clock: Clock
    timers: Timers
    random: Callable[[str], random.Random]
    send_event: Callable[[OperatorId, Any], None]
    """To the coordinator of one of the task's operators."""
    run_blocking: Callable[[Callable[[], Any], Callable[[Any, BaseException | None], None]], None]
    """Runs the first off the task's thread, then the second with its result or error, on one that must not wait."""
    start_loop: Callable[[str, Loop], None]
    """Gives a loop a thread, or steps it, until it is done."""
    answer_checkpoint: Callable[[AcknowledgeCheckpoint | DeclineCheckpoint | EndOfDataReached], None]
    """To the JobMaster."""
    create_writer: Callable[[CheckpointOptions, str, int], SnapshotWriter]
    """For a task's part of a checkpoint: how it is taken, a name of the task's own, how large state may be that is kept
    inline."""
    create_reader: Callable[[TaskDeployment], StateReader]


class TaskOperatorContext:
    """Implements `actors.operators.contract.operator.OperatorContext` for one operator of a task."""

    def __init__(
        self,
        config: OperatorConfig,
        name: str,
        keys: tuple[KeySelector | None, ...],
        deployment: TaskDeployment,
        cached_files: CachedFiles,
        services: TaskServices,
        figures: TaskFigures,
        chunk_limit: ChunkLimit,
        executor: MailboxExecutor,
        timers: TaskTimers,
        mail_done: Callable[[], None],
        cancellation: Cancellation,
    ) -> None:
        self._config = config
        self._name = name
        self._keys = keys
        self._deployment = deployment
        self._cached_files = cached_files
        self._services = services
        self._figures = figures
        self._piece_limit = chunk_limit
        self._executor = executor
        self._timers = timers
        self._mail_done = mail_done
        self._cancellation = cancellation
        configuration = deployment.configuration
        self._metrics = OperatorFigures(
            name,
            OperatorLatencies(
                config.operator_id,
                name,
                deployment.subtask_index,
                Granularity(configuration.get(options.LATENCY_GRANULARITY)),
                configuration.get(options.LATENCY_HISTORY_SIZE),
            ),
        )
        self._is_batch = configuration.get(options.RUNTIME_MODE) == "batch"
        self._state_options = StateOptions.of(configuration)
        if self._is_batch and configuration.get(options.SORTED_INPUTS):
            # It holds few keys at a time (Flink's BatchExecutionStateBackend).
            self._state_options = replace(self._state_options, backend="hashmap")
        self._batch_rows = configuration.get(options.BATCH_ROWS)
        self._batch_bytes = configuration.get(options.BATCH_BYTES)
        self._auto_watermark_interval_ms = configuration.get(options.AUTO_WATERMARK_INTERVAL)
        self._allows_unaligned_splits = configuration.get(options.ALLOW_UNALIGNED_SPLITS)
        self._latency_interval_ms = configuration.get(options.LATENCY_INTERVAL)
        self._job_parameters = configuration.get(options.GLOBAL_JOB_PARAMETERS)

    @property
    def job_id(self) -> str:
        return self._deployment.job_id

    @property
    def job_name(self) -> str:
        return self._deployment.job_name

    @property
    def operator_id(self) -> str:
        return self._config.operator_id

    @property
    def operator_name(self) -> str:
        return self._name

    @property
    def subtask_index(self) -> int:
        return self._deployment.subtask_index

    @property
    def parallelism(self) -> int:
        return self._deployment.parallelism

    @property
    def max_parallelism(self) -> int:
        return self._deployment.max_parallelism

    @property
    def attempt_number(self) -> int:
        return self._deployment.attempt_number

    @property
    def subtask(self) -> str:
        return f"{self._deployment.subtask_index + 1} of {self._deployment.parallelism}"

    @property
    def keys(self) -> tuple[KeySelector | None, ...]:
        return self._keys

    @property
    def key_group_range(self) -> range:
        deployment = self._deployment
        return key_group_range(deployment.subtask_index, deployment.parallelism, deployment.max_parallelism)

    @property
    def state_options(self) -> StateOptions:
        return self._state_options

    @property
    def has_checkpoints(self) -> bool:
        return self._deployment.has_checkpoints

    @property
    def may_restart(self) -> bool:
        configuration = self._deployment.configuration
        is_named = configuration.get(options.RESTART_STRATEGY) not in ("default", "none")
        return is_named or configuration.get(options.CHECKPOINT_INTERVAL) > 0

    @property
    def is_batch(self) -> bool:
        return self._is_batch

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def metrics(self) -> OperatorFigures:
        return self._metrics

    @property
    def batch_rows(self) -> int:
        return self._batch_rows

    @property
    def batch_bytes(self) -> int:
        return self._batch_bytes

    @property
    def auto_watermark_interval_ms(self) -> int:
        return self._auto_watermark_interval_ms

    @property
    def allows_unaligned_splits(self) -> bool:
        return self._allows_unaligned_splits

    @property
    def chunk_limit(self) -> ChunkLimit:
        return self._piece_limit

    @property
    def cancellation(self) -> Cancellation:
        return self._cancellation

    @property
    def backpressured_ms(self) -> float:
        return self._figures.backpressured.total_ms

    @property
    def latency_interval_ms(self) -> int:
        return self._latency_interval_ms

    def random(self, name: str) -> random.Random:
        return self._services.random(f"{self._deployment.attempt_id} {self._config.operator_id} {name}")

    def execute(self, mail: Callable[[], None], description: str) -> None:
        def run() -> None:
            mail()
            self._mail_done()

        self._executor.execute(run, description)

    def call_later(self, delay_ms: float, mail: Callable[[], None], description: str) -> Cancellable:
        def run() -> None:
            mail()
            self._mail_done()

        return self._timers.call_later(delay_ms, run, self._executor, description)

    def yield_to_mailbox(self) -> None:
        self._executor.yield_()

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._services.run_blocking(work, done)

    def start_loop(self, name: str, loop: Loop) -> bool:
        self._services.start_loop(name, loop)
        return others_act.get() is None

    def send_to_coordinator(self, event: Any) -> None:
        self._services.send_event(self._config.operator_id, event)

    def add_accumulator(self, name: str, initial: int | float) -> TaskAccumulator:
        return self._figures.accumulator(name, initial)

    def cached_file(self, name: str) -> str:
        names = self._cached_files.names
        if name not in names:
            raise InvalidProgramError(
                f"{operator_label(self._name)}: no cached file {name!r}{did_you_mean(name, names)}; register it with "
                f"env.register_cached_file (registered: {', '.join(names) or 'none'})"
            )
        return self._cached_files.path(name)

    @property
    def job_parameters(self) -> Mapping[str, str]:
        return self._job_parameters
