"""Running reduce of a keyed stream with the user's function; in batch mode only the last result of each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.large_columns import Columns
from actors.columns.ordering import distinct
from actors.keys.hashes import hashable_keys, key_columns, key_groups
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import KeyedTables, state_rows
from actors.operators.contract.operator import Operator, label_of
from actors.operators.functions.shared_values import FrozenValues, SharedValues, decoded, encoded
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import KeyedTable, OperatorSnapshot, RestoredState
from actors.user_code.errors import raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import INT64, fixed_width, from_numpy
from flinkray.batches.row_codec import RowEncoder, decode, form_of
from flinkray.batches.row_codec import snapshot as copy_of
from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import as_callable
from flinkray.functions.keyed import may_have_state
from flinkray.transformations.operator_factories import ReduceFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp

if TYPE_CHECKING:
    from actors.state.keyed.backend import KeyedStateBackend

_NOTHING = object()
_STATE = "reduced"


class ReduceOperator(Operator):
    """`function(reduced so far, value)` per key: one result per row, in order; the first row of a key is its own.

    What the function returns is kept in the form in which it would come back from the stream. A ReduceFunction may have
    state of the key, from its `open`.
    """

    def __init__(self, factory: ReduceFactory) -> None:
        self._factory = factory

    def setup(self, context: Any, output: Any) -> None:
        super().setup(context, output)
        self._tables = KeyedTables.of(context)
        self._begin()
        self._shared: SharedValues[list[Any]] = SharedValues()
        has_state = may_have_state(self._factory.function)
        self._backend: KeyedStateBackend | None = _state_of(context) if has_state else None
        """The function's own state; None: it cannot have any."""
        self._functions = UserFunctions(context, [self._factory.function])

    def _begin(self) -> None:
        """Begins without any key."""
        self._index = KeyIndex()
        self._reduced: list[Any] = []
        self._last_times: npt.NDArray[np.int64] | None = np.empty(0, np.int64)
        """In batch mode: the event time of each key's last row; None: a row has none."""

    def open(self) -> None:
        self._encoder = RowEncoder(self.context.operator_name, self.context.subtask, self._factory.output_type)
        self._function = as_callable(self._factory.function, "reduce")
        self._form = form_of(self._factory.output_type)
        self._functions.open(TaskRuntimeContext(self.context, self._backend))

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        selector = self.context.keys[0]
        if selector is None:
            raise InvalidProgramError(f"{label_of(self.context)}: reduce needs key_by before it")
        columns = key_columns(batch, selector, label_of(self.context))
        ids = self._index.ids(columns)
        values = self._with_keys(decode(batch), columns)
        self._reduced.extend([_NOTHING] * (len(self._index) - len(self._reduced)))
        self._own(ids)
        if self.context.is_batch:
            self._reduce(ids.tolist(), values, _drop)
            self._note_times(ids, batch.timestamps)
            return
        results: list[Any] = []
        self._reduce(ids.tolist(), values, self._encoder.appender(results))
        self.output.emit(self._encoder.encode(results, batch.timestamps))

    def _note_times(self, ids: Ids, timestamps: pa.Array | None) -> None:
        if timestamps is None or self._last_times is None:
            self._last_times = None
            return
        missing = len(self._index) - len(self._last_times)
        self._last_times = np.concatenate([self._last_times, np.empty(missing, np.int64)])
        self._last_times[ids] = fixed_width(timestamps, INT64)  # of several of one key the last stays

    def end_keys(self) -> None:
        """The results have the event time of their key's last row, where Flink gives them the highest of all times."""
        step = self.context.batch_rows
        for start in range(0, len(self._reduced), step):
            results: list[Any] = []
            append = self._encoder.appender(results)
            for reduced in self._reduced[start : start + step]:
                append(reduced)
            times = self._last_times
            timestamps = None if times is None else from_numpy(times[start : start + step])
            self.output.emit(self._encoder.encode(results, timestamps))
        self._begin()
        if self._backend is not None:
            self._backend.drop_all()

    def on_watermark(self, timestamp: Timestamp) -> None:
        if self.context.is_batch and timestamp == MAX_TIMESTAMP:
            self.end_keys()
        super().on_watermark(timestamp)

    def _own(self, ids: Ids) -> None:
        """Copies these keys' values where a snapshot shares them, since the function may change what it gets."""
        for frozen in self._shared.current():
            for key in distinct(ids[ids < len(frozen)]).tolist():
                if self._reduced[key] is frozen[key]:
                    self._reduced[key] = copy_of(frozen[key])

    def _with_keys(self, values: list[Any], columns: pa.RecordBatch) -> Iterable[Any]:
        """The values; the key of each is the current one of the function's state while it is in use."""
        backend = self._backend
        if backend is None:
            return values
        keys = hashable_keys(columns, label_of(self.context))
        groups = key_groups(columns, self.context.max_parallelism).tolist()
        set_keys = map(backend.set_current_key, keys, groups)
        return (value for _, value in zip(set_keys, values, strict=True))

    def _reduce(self, ids: list[int], values: Iterable[Any], append: Callable[[Any], None]) -> None:
        function, reduced, form = self._function, self._reduced, self._form
        value: Any = None
        try:
            for key, value in zip(ids, values, strict=True):
                before = reduced[key]
                after = value if before is _NOTHING else form(function(before, value))
                reduced[key] = after
                append(after)
        except BaseException as error:
            raise_attributed(self.context.operator_name, self.context.subtask, value, error)
        if self._backend is not None:
            self._backend.clear_current_key()

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = OperatorSnapshot()
        keys = self._index.key_columns()
        if keys is not None:
            frozen, tables = self._shared.freeze(self._reduced), self._tables
            snapshot.add_keyed(_STATE, lambda: _table(tables, keys, frozen), tables.owned)
        self._functions.snapshot_state(checkpoint_id, snapshot)
        if self._backend is not None:
            snapshot.parts += self._backend.snapshot(options, checkpoint_id)
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._backend is not None:
            self._backend.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._backend is not None:
            self._backend.notify_checkpoint_aborted(checkpoint_id)

    def initialize_state(self, restored: RestoredState | None) -> None:
        for rows in state_rows(restored.keyed(_STATE)) if restored is not None else ():
            assert rows.keys is not None
            self._index.restored_ids(rows.keys)
            self._reduced += decoded(rows.columns["value"])
        if restored is not None and self._backend is not None:
            self._backend.restore(restored)
        self._functions.initialize_state(restored)

    def close(self) -> None:
        try:
            self._functions.close()
        finally:
            if self._backend is not None:
                self._backend.close()


def _state_of(context: Any) -> KeyedStateBackend:
    from actors.state.backends import create_keyed_state  # which takes long, and few functions need

    return create_keyed_state(context)


def _drop(_value: Any) -> None:
    """Drops a result that is not the last of its key."""


def _table(tables: KeyedTables, keys: Columns, reduced: FrozenValues[list[Any]]) -> KeyedTable:
    def describe(key: int) -> str:
        return f"{tables.where}: the reduced value of key {keys.slice(key, 1).to_pylist()[0]}"

    return tables.make(keys, None, {"value": encoded(reduced.values, describe)}, {})
