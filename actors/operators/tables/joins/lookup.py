"""Rows with those that a table has for their key at the moment (Flink's LookupJoinRunner), for a batch at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from actors.columns.ordering import distinct, order_by
from actors.columns.take import take
from actors.keys.index import Ids, KeyIndex
from actors.operators.contract.operator import Operator, OperatorContext, Output, label_of
from actors.operators.tables.changes import Flags
from actors.operators.tables.joins.candidates import Partners, any_null, most_pairs
from actors.operators.tables.joins.conditions import JoinCondition
from actors.operators.tables.joins.results import JoinResults
from actors.operators.tables.rows.row_store import RowStore
from actors.user_code.functions import TaskRuntimeContext
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.errors import TypeMismatchError
from flinkray.tables.types.arrow import stored_schema
from flinkray.transformations.table_join_factories import LookupJoinFactory, RetriedLookupJoinFactory
from flinkray.types.records import Kind, Millis

_NEVER = np.iinfo(np.int64).min
_FEW = 1_024
"""So many keys are kept though they are old."""


class LookupJoinOperator(Operator):
    """Asks once for all keys of a batch that it does not know. What rows do passes on, and so does their order.

    What it has found is not in snapshots: a job that goes on after a failure asks again. While it waits to ask for keys
    once more that had no rows, no other rows and no barrier come.
    """

    def __init__(self, factory: LookupJoinFactory) -> None:
        self._factory = factory
        left, right = factory.input_rows[0], factory.table_rows
        self._schema = stored_schema(right)
        self._keys = [pair[0] for pair in factory.keys]
        self._table_keys = [pair[1] for pair in factory.keys]
        self._reader = factory.table.reader([right.names[each] for each in self._table_keys], right.names)
        self._inputs = (left, right)
        self._retries, self._retry_delay_ms = 0, Millis(0)
        if isinstance(factory, RetriedLookupJoinFactory):
            self._retries, self._retry_delay_ms = factory.retries, factory.retry_delay_ms
        self._looked_at = 0
        self._forget()

    def _forget(self) -> None:
        self._index = KeyIndex()
        self._store = RowStore(self._schema)
        self._asked_at: Ids = np.zeros(0, np.int64)
        """When each key was asked for last."""
        self._came_at: Ids = np.zeros(0, np.int64)
        """When a row had it last."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        factory = self._factory
        self._where = label_of(context)
        self._condition = (
            None if factory.condition is None else JoinCondition(factory.condition, self._inputs, self._where)
        )
        self._results = JoinResults(factory.rows, self._inputs, factory.gives, context.batch_rows, self._emit)

    def open(self) -> None:
        self._reader.open(TaskRuntimeContext(self.context))

    def close(self) -> None:
        self._reader.close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = batch.data
        self._forget_what_is_old()
        is_null = any_null(rows, self._keys)
        may_match = np.ones(rows.num_rows, np.bool_) if is_null is None else ~is_null
        keys = np.zeros(rows.num_rows, np.int64)
        keys[may_match] = self._known(take(rows.select(self._keys), from_numpy(np.flatnonzero(may_match))))
        kinds = np.zeros(rows.num_rows, np.int8) if batch.kinds is None else as_numpy(batch.kinds)
        numbers, slots = self._pairs(rows, keys, may_match)
        most = most_pairs(self.context, rows, self._store)
        for start in range(0, len(numbers), most):
            own, found = numbers[start : start + most], slots[start : start + most]
            is_found = found >= 0
            rights = take(self._store.take(found[is_found]), from_numpy(np.cumsum(is_found) - 1, ~is_found))
            self._results.change(self._results.beside(take(rows, from_numpy(own)), rights), kinds[own])
        self._results.flush()

    def _forget_what_is_old(self) -> None:
        """Forgets all where that is too much, or where most of it is old: what is not is then asked for again."""
        cache, now, known = self._factory.table.cache, self.context.clock.now_ms(), len(self._index)
        if not cache.millis or max(len(self._store), known) > cache.rows:
            self._forget()
        elif known > _FEW and now >= self._looked_at + min(cache.millis, cache.idle_millis):
            self._looked_at = now
            if 2 * np.count_nonzero(self._are_old(np.arange(known), now)) > known:
                self._forget()

    def _are_old(self, keys: Ids, now: int) -> Flags:
        cache = self._factory.table.cache
        is_old = self._asked_at[keys] <= now - max(1, cache.millis)
        return is_old | (self._came_at[keys] <= now - max(1, cache.idle_millis))

    def _pairs(self, rows: pa.RecordBatch, keys: Ids, may_match: Flags) -> tuple[Ids, Ids]:
        """The number of the row and the slot of what was found, of each result; -1 where a row is padded."""
        numbers, slots = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for own, found in Partners(keys, may_match, self._store).pairs(most_pairs(self.context, rows, self._store)):
            holds = self._hold(rows, own, found)
            numbers.append(own[holds])
            slots.append(found[holds])
        if self._factory.kind == "LEFT":
            alone = np.setdiff1d(np.arange(rows.num_rows), np.concatenate(numbers))
            numbers.append(alone)
            slots.append(np.full(len(alone), -1))
        all_numbers = np.concatenate(numbers)
        order = order_by(all_numbers)
        return all_numbers[order], np.concatenate(slots)[order]

    def _hold(self, rows: pa.RecordBatch, own: Ids, slots: Ids) -> Flags:
        if self._condition is None:
            return np.ones(len(own), np.bool_)
        return self._condition.holds(
            lambda columns: take(rows.select(columns), from_numpy(own)),
            lambda columns: self._store.take(slots, columns),
            len(own),
            self.context.clock.now_ms(),
        )

    # -- the table

    def _known(self, columns: pa.RecordBatch) -> Ids:
        """The number of each row's key, whose rows of the table are in the store now."""
        columns = pa.RecordBatch.from_arrays(columns.columns, names=self._names)
        keys = self._index.ids(columns)
        self._know(len(self._index))
        asked = distinct(keys[self._are_old(keys, self.context.clock.now_ms())])
        if len(asked):
            _, old = self._store.of_keys(asked)
            self._store.remove(old)
            self._store.compact()
            firsts = np.zeros(len(self._index), np.int64)
            firsts[keys[::-1]] = np.arange(len(keys))[::-1]
            missing = self._ask(columns, asked, firsts)
            for _ in range(self._retries):
                if not len(missing):
                    break
                self._wait()
                missing = self._ask(columns, missing, firsts)
            self._asked_at[asked] = self.context.clock.now_ms()
            if not self._factory.table.cache.keeps_missing:
                self._asked_at[missing] = _NEVER
        self._came_at[keys] = self.context.clock.now_ms()
        return keys

    def _ask(self, columns: pa.RecordBatch, asked: Ids, firsts: Ids) -> Ids:
        """Puts the rows of keys into the store; gives the keys that have none."""
        found = self._read(take(columns, from_numpy(firsts[asked])))
        keys = self._index.ids(self._keys_of(found))
        self._store.add(keys, found)
        self._know(len(self._index))
        return np.setdiff1d(asked, keys)

    def _wait(self) -> None:
        """Waits until the table is asked again. Mails of this operator, and of those behind it, run meanwhile."""
        is_over: list[None] = []
        self.context.call_later(self._retry_delay_ms, lambda: is_over.append(None), "a table is asked again")
        while not is_over:
            self.context.yield_to_mailbox()

    @property
    def _names(self) -> list[str]:
        return [self._schema.names[each] for each in self._table_keys]

    def _keys_of(self, found: pa.RecordBatch) -> pa.RecordBatch:
        return found.select(self._table_keys)

    def _know(self, keys: int) -> None:
        if keys > len(self._asked_at):
            more = np.full(max(keys, 2 * len(self._asked_at)) - len(self._asked_at), _NEVER)
            self._asked_at = np.concatenate([self._asked_at, more])
            self._came_at = np.concatenate([self._came_at, more])

    def _read(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        found = self._reader.lookup(keys)
        if isinstance(found, pa.Table):
            batches = found.combine_chunks().to_batches()
            found = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=found.schema)
        if found.schema.names != self._schema.names:
            raise TypeMismatchError(
                f"{self._where}: a lookup gave the columns {found.schema.names}, and was asked for {self._schema.names}"
            )
        try:
            arrays = [column.cast(field.type) for column, field in zip(found.columns, self._schema, strict=True)]
        except pa.ArrowException as error:
            raise TypeMismatchError(
                f"{self._where}: what a lookup gave does not fit {self._schema}: {error}"
            ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _emit(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> None:
        self.output.emit(Batch(rows, Kind.ROW, None, None, None if kinds is None else from_numpy(kinds)))
