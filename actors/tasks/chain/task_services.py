"""What a task gets from its slot, as narrow protocols, and what the parts of a task share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from actors.network.consumer.input_gate import SingleInputGate
from actors.network.producer.result_partition import ResultPartition
from actors.operators.contract.cancellation import Cancellation
from actors.operators.contract.operator import Operator
from actors.protocol.checkpoint_handles import RestoredPart, TaskRestore
from actors.protocol.elements import CheckpointOptions
from actors.protocol.ports import Clock, Loop, Timers
from actors.protocol.task_messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    EndOfDataReached,
    GateDescriptor,
    PartitionDescriptor,
    TaskDeployment,
)
from actors.state.snapshots.snapshot import RestoredState, StateWriter
from actors.tasks.chain.task_settings import TaskSettings
from actors.tasks.chain.timers import TaskTimers
from actors.tasks.metrics.figures import TaskFigures
from actors.user_code.job_files import JobFiles
from flinkray.config.configuration import Configuration
from flinkray.types.records import OperatorId
from graphs.execution_graph import AttemptId
from graphs.job_graph import OperatorCode


class TaskNetwork(Protocol):
    """What a task needs of its slot's `actors.network.connections.environment.NetworkEnvironment`."""

    def create_partition(self, descriptor: PartitionDescriptor, configuration: Configuration) -> ResultPartition: ...

    def create_gate(
        self, descriptor: GateDescriptor, attempt_id: AttemptId, configuration: Configuration
    ) -> SingleInputGate: ...

    def release_gate(self, gate: SingleInputGate) -> None: ...


class SnapshotWriter(StateWriter, Protocol):
    """Writes one subtask's part of one checkpoint. It is closed or aborted after that."""

    def close(self) -> None:
        """Makes what was written durable."""

    def abort(self) -> None:
        """Removes what was written, also after `close`."""


class StateReader(Protocol):
    """Reads the checkpoint that a task starts from. Blocks."""

    def operator_state(self, restore: TaskRestore, operator_id: OperatorId) -> RestoredState:
        """The state of one of the task's operators, which may be empty."""

    def read(self, restore: TaskRestore, part: RestoredPart) -> bytes:
        """Reads a part as it was written.

        Raises:
            CheckpointError: its file is missing or damaged.
        """


class TaskServices(Struct, frozen=True):
    """What a task may use of its slot and of the cluster. Any thread may use all of it."""

    network: TaskNetwork
    create_operator: Callable[[Sequence[OperatorCode], Sequence[str]], Operator]
    clock: Clock
    timers: Timers
    random: Callable[[str], random.Random]
    send_event: Callable[[OperatorId, Any], None]
    """Sends an event to the coordinator of one of the task's operators."""
    run_blocking: Callable[[Callable[[], Any], Callable[[Any, BaseException | None], None]], None]
    """Calls the first function off the task's thread, then the second with its result or error, on a thread that must
    not wait."""
    start_loop: Callable[[str, Loop], None]
    """Starts a loop of that name: gives it a thread, or steps it, until it is done."""
    answer_checkpoint: Callable[[AcknowledgeCheckpoint | DeclineCheckpoint | EndOfDataReached], None]
    """Sends a task's answer to the checkpoint coordinator at the JobMaster."""
    create_writer: Callable[[CheckpointOptions, str, int], SnapshotWriter]
    """Makes the writer of a task's part of a checkpoint from the options of the checkpoint, a name of the task's own,
    and how many bytes of state may go inline."""
    create_reader: Callable[[TaskDeployment], StateReader]
    files: JobFiles


class TaskEnvironment(Struct, frozen=True):
    """What the parts of one task share (Flink's Environment)."""

    deployment: TaskDeployment
    settings: TaskSettings
    services: TaskServices
    figures: TaskFigures
    timers: TaskTimers
    late_timers: TaskTimers
    """Those that fire also after the end of data."""
    cancellation: Cancellation
    operator_acted: Callable[[], None]
    """Called after each mail of an operator, as the operator may want input again."""
