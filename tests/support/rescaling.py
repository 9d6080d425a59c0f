"""Subtasks of one keyed operator that are stopped with a snapshot and go on as more or fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from actors.keys.hashes import key_columns, key_groups
from actors.operators.contract.operator import Operator
from actors.protocol.checkpoint_handles import OperatorSubtaskState
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray.batches.batch import Batch
from flinkray.types.keys import FunctionKey, KeySelector
from graphs.key_groups import key_group_range, subtask_for_key_group
from tests.support.operators import FakeContext, OperatorHarness, as_batch
from tests.support.state import restored_from, write_snapshot


class Subtasks:
    """Takes whole batches and splits them as the network does.

    Args:
        make: makes the operator of one subtask.
        keys: per input; None: not keyed, everything goes to subtask 0.
        former: snapshots of the subtasks that these go on from, by index.
    """

    def __init__(
        self,
        make: Callable[[], Operator],
        keys: Sequence[KeySelector | None],
        parallelism: int = 1,
        former: Sequence[OperatorSnapshot | OperatorSubtaskState | None] | None = None,
        **settings: Any,
    ) -> None:
        self._make = make
        self._keys = tuple(keys)
        self._settings = settings
        self.harnesses = [self._harness(index, parallelism, former) for index in range(parallelism)]

    def _harness(self, index: int, parallelism: int, former: Any) -> OperatorHarness:
        context = FakeContext(keys=self._keys, subtask_index=index, parallelism=parallelism, **self._settings)
        owned = key_group_range(index, parallelism, context.max_parallelism)
        restored = None if former is None else restored_from(former, owned, index, parallelism)
        return OperatorHarness(self._make(), context=context, restored=restored)

    def push(self, rows: Any, timestamps: Sequence[int] | None = None, input_index: int = 0) -> None:
        batch = as_batch(rows, timestamps)
        selector = self._keys[input_index]
        if selector is None:
            self.harnesses[0].operator.process_batch(batch, input_index)
            return
        columns = key_columns(batch, selector, "test")
        if isinstance(selector, FunctionKey):
            batch = Batch(batch.data, batch.kind, batch.timestamps, columns)
        context = self.harnesses[0].context
        groups = key_groups(columns, context.max_parallelism).astype(np.int64)
        owners = subtask_for_key_group(groups, len(self.harnesses), context.max_parallelism)
        for index, harness in enumerate(self.harnesses):
            rows_of_it = np.flatnonzero(owners == index)
            if len(rows_of_it):
                harness.operator.process_batch(batch.take(pa.array(rows_of_it)), input_index)

    def watermark(self, timestamp: int, inputs: int = 1) -> None:
        for harness in self.harnesses:
            for index in range(inputs):
                harness.watermark(timestamp, index)

    def snapshots(self) -> list[OperatorSnapshot | None]:
        return [harness.snapshot() for harness in self.harnesses]

    def rescaled(self, parallelism: int, after_barrier: Callable[[Subtasks], None] = lambda _: None) -> Subtasks:
        """New subtasks in the state that these have now.

        Args:
            after_barrier: what these still do before their snapshots are written; must not show in them.
        """
        snapshots = self.snapshots()
        after_barrier(self)
        written = [write_snapshot(snapshot) for snapshot in snapshots]
        for harness in self.harnesses:
            harness.operator.close()
        return Subtasks(self._make, self._keys, parallelism, written, **self._settings)

    def take(self) -> list[Any]:
        """All rows that came out since the last time, those of side outputs with their tag's name, with event times."""
        rows: list[Any] = []
        for harness in self.harnesses:
            output = harness.output
            rows += zip(output.rows, output.timestamps, strict=True)
            for element in output.elements:
                if isinstance(element, tuple):
                    rows += [(element[0].name, row) for row in element[1].data.to_pylist()]
            output.clear()
        return rows
