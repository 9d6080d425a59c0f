"""What the operators of tables share: keys by number, kinds of rows, the time to live of state, and results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import pyarrow as pa

from actors.columns.large_columns import Columns
from actors.keys.index import Ids
from actors.keys.state_tables import KeyedTables, same_rows
from actors.operators.contract.operator import Operator, OperatorContext, Output, label_of
from actors.operators.tables.changes import Kinds
from actors.operators.tables.rows.row_store import CapturedRows, RowStore
from actors.operators.windows.buffers.buffered_keys import BufferedKeys
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import KeyedTable, OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.tables.types.arrow import stored_schema
from flinkray.transformations.operator_factories import TableFactory
from flinkray.types.records import Kind

WRITTEN = "written"
"""The number beside each row of a store that says when it was last written, where `expire` is called."""
_ROWS = "rows"
"""The metadata of a table of state that says which columns its rows have."""
Factory = TypeVar("Factory", bound=TableFactory)


class TableOperator(Operator, Generic[Factory]):
    """Base of the operators of tables with state by key; without keys, all rows have the key 0.

    Rows come with exactly the columns of `input_schemas`, and kinds that the planner has announced.
    """

    def __init__(self, factory: Factory) -> None:
        self.factory = factory
        self.input_schemas = tuple(map(stored_schema, factory.input_rows))
        self.schema = stored_schema(factory.rows)

    @property
    def number_of_inputs(self) -> int:
        return len(self.input_schemas)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.where = label_of(context)
        self.forget_keys()
        self.tables = KeyedTables.of(context)

    def forget_keys(self) -> None:
        """Begins without any key."""
        selectors = tuple(self.context.keys) or (None,) * self.number_of_inputs
        self.keys = BufferedKeys(selectors, self.where)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self.factory.least_rows == 1 and batch.num_rows > 1:
            for row in range(batch.num_rows):
                self.process_batch(batch.slice(row, 1), input_index)
            return
        kinds = None if batch.kinds is None else as_numpy(batch.kinds)
        self.process_rows(batch.data, self.keys.ids(batch, input_index), kinds, input_index)
        self.forget_unused()

    @abstractmethod
    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        """A batch of an input.

        Args:
            keys: the number of each row's key.
            kinds: the value of each row's `RowKind`; None: all are inserts.
        """

    def emit(self, rows: pa.RecordBatch, kinds: Kinds | None = None) -> None:
        """Results, which have the columns of `schema`; without kinds they are inserts."""
        if not rows.num_rows:
            return
        if kinds is not None and not kinds.any():  # all are inserts
            kinds = None
        self.output.emit(Batch(rows, Kind.ROW, None, None, None if kinds is None else from_numpy(kinds)))

    def now(self) -> int:
        """Processing time in epoch milliseconds."""
        return self.context.clock.now_ms()

    @property
    def expires_before(self) -> int | None:
        """State that was last written before this time is forgotten; None: no state is."""
        ttl = self.factory.state_ttl_ms
        return self.now() - ttl if ttl else None

    # -- state that lies in stores of rows; operators with other state do these things themselves

    @property
    def stores(self) -> Mapping[str, RowStore]:
        """All state by key, by the name of the part of state that each store is."""
        return {}

    def expire(self) -> None:
        """Forgets rows that were last written before their time to live, of the next piece of each store."""
        before = self.expires_before
        if before is not None:
            for store in self.stores.values():
                store.remove(store.sweep(WRITTEN, before))

    def forget_unused(self) -> None:
        """Called after each batch: forgets rows that were removed, and keys of which nothing is kept any more, where
        these are many."""
        stores = self.stores.values()
        if not stores:
            return
        for store in stores:
            store.compact()
        new_ids = self.keys.forget_unused(store.live_keys() for store in stores)
        if new_ids is not None:
            for store in stores:
                store.renumber_keys(new_ids)

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot, stores = OperatorSnapshot(), self.stores
        tables, keys = self.tables, self.keys.columns()
        for name, store in stores.items():
            if len(store):
                snapshot.add_keyed(name, _table_of(tables, keys, store.capture(), _metadata(store)), tables.owned)
        return snapshot if any(map(len, stores.values())) else None

    def initialize_state(self, restored: RestoredState | None) -> None:
        """Puts rows back into their stores.

        Raises:
            IncompatibleStateError: a store had rows of other columns.
        """
        if restored is None:
            return
        for name, store in self.stores.items():
            for part in same_rows(restored.keyed(name), _ROWS, _metadata(store)[_ROWS].decode(), self.where):
                store.restore(part, self.keys.restored_ids(part))


def _metadata(store: RowStore) -> dict[str, bytes]:
    return {_ROWS: ", ".join(f"{field.name} {field.type}" for field in store.schema).encode()}


def _table_of(
    tables: KeyedTables, keys: Columns | None, captured: CapturedRows, metadata: Mapping[str, bytes]
) -> Callable[[], KeyedTable]:
    ids = None if keys is None else captured.keys
    return lambda: tables.make(keys, ids, captured.columns(), metadata)
