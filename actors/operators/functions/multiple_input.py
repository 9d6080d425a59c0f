"""Several inputs into one row function, whose results are encoded as one stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from actors.operators.contract.operator import Operator, OperatorContext, Output
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.batches.row_codec import RowEncoder, decode
from flinkray.transformations.operator_factories import MultipleInputFactory


class MultipleInputOperator(Operator):
    """`function(input_index, value)` gives any number of results, or None; each has the event time of its row."""

    def __init__(self, factory: MultipleInputFactory) -> None:
        self._factory = factory

    @property
    def number_of_inputs(self) -> int:
        return self._factory.number_of_inputs

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._functions = UserFunctions(context, [self._factory.function])

    def initialize_state(self, restored: RestoredState | None) -> None:
        self._functions.initialize_state(restored)

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = OperatorSnapshot()
        self._functions.snapshot_state(checkpoint_id, snapshot)
        return snapshot

    def open(self) -> None:
        self._encoder = RowEncoder(self.context.operator_name, self.context.subtask, self._factory.output_type)
        self._value: Any = None
        """What the function is being called with, for errors."""
        self._functions.open(TaskRuntimeContext(self.context))

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        outputs: list[Any] = []
        rows: list[int] = []
        loop = self._loop(decode(batch), input_index, outputs, rows)
        while self._fill(loop):
            self._emit(batch, outputs, rows)
        if outputs:
            self._emit(batch, outputs, rows)

    def _loop(self, values: list[Any], input_index: int, outputs: list[Any], rows: list[int]) -> Iterator[None]:
        """Fills the lists; yields whenever a batch is full, so that what emits it is not mistaken for the function."""
        function, target = self._factory.function, self.context.batch_rows
        append = self._encoder.appender(outputs)
        for row, value in enumerate(values):
            self._value = value
            results = function(input_index, value)
            if results is None:
                continue
            for result in results:
                append(result)
                rows.append(row)
                if len(outputs) >= target:
                    yield

    def _fill(self, loop: Iterator[None]) -> bool:
        try:
            next(loop)
        except StopIteration:
            return False
        except BaseException as error:
            raise_attributed(self.context.operator_name, self.context.subtask, self._value, error)
        return True

    def _emit(self, batch: Batch, outputs: list[Any], rows: list[int]) -> None:
        timestamps = None if batch.timestamps is None else batch.timestamps.take(from_numpy(np.array(rows, np.int64)))
        result = self._encoder.encode(outputs, timestamps)
        outputs.clear()
        rows.clear()
        self.output.emit(result)

    def close(self) -> None:
        self._functions.close()
