"""Brings a task back to where its checkpoint was: what its operators start from, and the rows that were in flight."""

from __future__ import annotations

from collections.abc import Iterator

from actors.protocol.checkpoint_handles import PartKind, TaskRestore
from actors.protocol.data_messages import TaskDeployment
from actors.state.snapshots.snapshot import RestoredState
from actors.tasks.chain.operator_chain import OperatorChain
from actors.tasks.chain.task_services import TaskServices
from actors.tasks.checkpoints.in_flight import gate_of, read_in_flight, rows_of_key_groups
from flinkray.batches.batch import Batch
from flinkray.types.records import OperatorId


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

        Of a keyed input the rows are taken whose keys are this subtask's, as parts come to several subtasks where the
        parallelism has changed.
        """
        head = OperatorId(chain.head.context.operator_id)
        for each in self._restore.operators.get(head, ()):
            if each.part.kind is PartKind.IN_FLIGHT:
                input_index = self._deployment.gates[gate_of(each.part.name)].input_index
                self._process(chain, input_index, read_in_flight(self._reader.read(self._restore, each)))

    def _process(self, chain: OperatorChain, input_index: int, batches: Iterator[Batch]) -> None:
        context = chain.head.context
        output = chain.head_input(input_index)
        selector = context.keys[input_index] if input_index < len(context.keys) else None
        for batch in batches:
            if selector is not None:
                where = f"{context.operator_name} ({context.subtask})"
                batch = rows_of_key_groups(batch, selector, context.key_group_range, context.max_parallelism, where)
            output.emit(batch)
