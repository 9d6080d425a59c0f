"""Brings a task back to where its checkpoint was: what its operators start from, and the rows that were in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from actors.checkpoints.handles import PartKind, RestoredPart, TaskRestore
from actors.messages import TaskDeployment
from actors.network.record_writer import RecordWriter
from actors.operators.base import OperatorContext
from actors.state.snapshot import RestoredState
from actors.tasks.environment import TaskServices
from actors.tasks.in_flight import gate_of, read_in_flight, result_of, rows_of_key_groups
from actors.tasks.operator_chain import OperatorChain
from flinkray.batch import Batch
from flinkray.types import OperatorId


class TaskRestoring:
    """Used once, in the task's thread."""

    def __init__(self, deployment: TaskDeployment, restore: TaskRestore, services: TaskServices) -> None:
        self._deployment = deployment
        self._restore = restore
        self._reader = services.create_reader(deployment)

    def operator_state(self, operator_id: OperatorId) -> RestoredState:
        return self._reader.operator_state(self._restore, operator_id)

    def emit_in_flight(self, chain: OperatorChain, writers: Mapping[int, RecordWriter]) -> None:
        """Rows that were on their way out, then those that had come and were not processed, which follow these.

        Rows for a keyed input are taken if their keys are this subtask's, as former subtasks' rows come to several
        where the parallelism has changed. Rows on their way out are spread anew for the same reason; of a broadcast,
        each consumer has its own.
        """
        parts = self._parts(chain.head.context)
        for each in parts:
            if gate_of(each.part.name) is None:
                result, subpartition = result_of(each.part.name)
                self._send(writers[result], result, subpartition, self._rows(each))
        for each in parts:
            gate_index = gate_of(each.part.name)
            if gate_index is not None:
                self._process(chain, self._deployment.gates[gate_index].input_index, self._rows(each))

    def _parts(self, head: OperatorContext) -> Sequence[RestoredPart]:
        of_head = self._restore.operators.get(OperatorId(head.operator_id), ())
        return [each for each in of_head if each.part.kind is PartKind.IN_FLIGHT]

    def _rows(self, part: RestoredPart) -> Iterator[Batch]:
        return read_in_flight(self._reader.read(self._restore, part))

    def _send(self, writer: RecordWriter, result: int, subpartition: int, batches: Iterator[Batch]) -> None:
        is_broadcast = self._deployment.partitions[result].is_broadcast
        for batch in batches:
            if not is_broadcast:
                writer.emit(batch)
            elif subpartition < writer.partition.number_of_subpartitions:
                writer.partition.emit(subpartition, batch)

    def _process(self, chain: OperatorChain, input_index: int, batches: Iterator[Batch]) -> None:
        context = chain.head.context
        output = chain.head_input(input_index)
        selector = context.keys[input_index] if input_index < len(context.keys) else None
        for batch in batches:
            if selector is not None:
                where = f"{context.operator_name} ({context.subtask})"
                batch = rows_of_key_groups(batch, selector, context.key_group_range, context.max_parallelism, where)
            output.emit(batch)
