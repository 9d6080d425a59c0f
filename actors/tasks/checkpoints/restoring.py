"""Brings a task back to its checkpoint: gives operators their state, and puts rows back that were in flight."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from actors.checkpoints.storage.reading import RestoredOperatorState, read_part
from actors.network.producer.partitioners import create_selector
from actors.protocol.checkpoint_handles import PartKind, RestoredPart, TaskRestore
from actors.protocol.task_messages import TaskDeployment
from actors.state.snapshots.snapshot import RestoredState
from actors.tasks.chain.operator_chain import OperatorChain
from actors.tasks.chain.task_services import TaskServices
from actors.tasks.checkpoints.in_flight import gate_of, read_in_flight, rows_of_key_groups
from actors.user_code.functions import OpenedPartitioner
from flinkray.batches.batch import Batch
from flinkray.errors import IncompatibleStateError
from flinkray.persistence import UnknownNameError
from flinkray.transformations.partitioning import KeyGroupPartitioner, Partitioner
from flinkray.types.records import OperatorId
from graphs.key_groups import key_group_range


class TaskRestoring:
    """Restores one task. Used once, in the task's thread."""

    def __init__(self, deployment: TaskDeployment, restore: TaskRestore, services: TaskServices) -> None:
        self._deployment = deployment
        self._restore = restore
        self._reader = services.create_reader(deployment)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Says which checkpoint it is where something in it is of a version that this one does not know.

        Raises:
            IncompatibleStateError: reading it again does not help, and the job is not to go on from an older one.
        """
        try:
            yield
        except UnknownNameError as error:
            where = self._restore.directory or str(self._restore.checkpoint_id)
            raise IncompatibleStateError(
                f"task {self._deployment.task_name!r} cannot be restored from checkpoint {where}: {error}"
            ) from error

    def operator_state(self, operator_id: OperatorId) -> RestoredState:
        """The state that an operator starts from."""
        return self._reader.operator_state(self._restore, operator_id)

    def process_in_flight(self, chain: OperatorChain) -> None:
        """Processes the rows that were in flight to the task, oldest first, before any rows that its gates bring.

        If the parallelism has changed, several subtasks may get a part, and each processes the rows that the exchange
        would have brought to it.
        """
        head = OperatorId(chain.head.context.operator_id)
        for each in self._restore.operators.get(head, ()):
            if each.part.kind is PartKind.IN_FLIGHT:
                gate_index = gate_of(each.part.name)
                exchange = chain.exchanges[gate_index] if each.is_shared else None
                output = chain.head_input(self._deployment.gates[gate_index].input_index)
                partitioner = OpenedPartitioner(chain.head.context, exchange)
                try:
                    partitioner.open()
                    for batch in read_in_flight(self._reader.read(self._restore, each)):
                        output.emit(batch if exchange is None else self._own_rows(batch, exchange))
                finally:
                    partitioner.close()

    def _own_rows(self, batch: Batch, exchange: Partitioner) -> Batch:
        """The rows of a batch that the exchange brings to this subtask."""
        deployment = self._deployment
        if isinstance(exchange, KeyGroupPartitioner):
            owned = key_group_range(deployment.subtask_index, deployment.parallelism, deployment.max_parallelism)
            return rows_of_key_groups(batch, exchange.key, owned, deployment.max_parallelism, deployment.task_name)
        # Only partitioners that leave nothing to chance have shared parts.
        selector = create_selector(exchange, deployment.parallelism, Random(0), deployment.task_name)
        parts = dict(selector.split(batch)) if batch.num_rows else {}
        return parts.get(deployment.subtask_index, batch.slice(0, 0))


class RestoredTaskReader:
    """Reads the checkpoint that a task starts from (an `actors.tasks.chain.task_services.StateReader`)."""

    def __init__(self, deployment: TaskDeployment) -> None:
        self._deployment = deployment

    def operator_state(self, restore: TaskRestore, operator_id: OperatorId) -> RestoredState:
        return RestoredOperatorState(self._deployment, restore, operator_id)

    def read(self, restore: TaskRestore, part: RestoredPart) -> bytes:
        return read_part(restore, part)
