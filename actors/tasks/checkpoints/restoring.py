"""Brings a task back to where its checkpoint was: what its operators start from, and the rows that were in flight."""

from __future__ import annotations

from random import Random

from actors.network.producer.partitioners import create_selector
from actors.protocol.checkpoint_handles import PartKind, TaskRestore
from actors.protocol.data_messages import TaskDeployment
from actors.state.snapshots.snapshot import RestoredState
from actors.tasks.chain.operator_chain import OperatorChain
from actors.tasks.chain.task_services import TaskServices
from actors.tasks.checkpoints.in_flight import gate_of, read_in_flight, rows_of_key_groups
from flinkray.batches.batch import Batch
from flinkray.transformations.partitioning import KeyGroupPartitioner, Partitioner
from flinkray.types.records import OperatorId
from graphs.key_groups import key_group_range


class TaskRestoring:
    """Used once, in the task's thread."""

    def __init__(self, deployment: TaskDeployment, restore: TaskRestore, services: TaskServices) -> None:
        self._deployment = deployment
        self._restore = restore
        self._reader = services.create_reader(deployment)

    def operator_state(self, operator_id: OperatorId) -> RestoredState:
        return self._reader.operator_state(self._restore, operator_id)

    def process_in_flight(self, chain: OperatorChain) -> None:
        """Rows that had come or were on their way to the task, oldest first: what the gates bring comes behind them.

        Of a part that several subtasks get, as the parallelism has changed, those rows are taken which the exchange
        would have brought here.
        """
        head = OperatorId(chain.head.context.operator_id)
        for each in self._restore.operators.get(head, ()):
            if each.part.kind is PartKind.IN_FLIGHT:
                gate_index = gate_of(each.part.name)
                exchange = chain.exchanges[gate_index] if each.is_shared else None
                output = chain.head_input(self._deployment.gates[gate_index].input_index)
                for batch in read_in_flight(self._reader.read(self._restore, each)):
                    output.emit(batch if exchange is None else self._own_rows(batch, exchange))

    def _own_rows(self, batch: Batch, exchange: Partitioner) -> Batch:
        deployment = self._deployment
        if isinstance(exchange, KeyGroupPartitioner):
            owned = key_group_range(deployment.subtask_index, deployment.parallelism, deployment.max_parallelism)
            return rows_of_key_groups(batch, exchange.key, owned, deployment.max_parallelism, deployment.task_name)
        # Such a partitioner leaves nothing to chance.
        selector = create_selector(exchange, deployment.parallelism, Random(0), deployment.task_name)
        parts = dict(selector.split(batch)) if batch.num_rows else {}
        return parts.get(deployment.subtask_index, batch.slice(0, 0))
