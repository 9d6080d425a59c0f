"""Aggregates of the rows of each group (Flink's GroupAggregate)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from actors.columns.take import take
from actors.keys.index import Ids
from actors.keys.state_tables import same_rows
from actors.operators.aggregates.value_rules import with_one_zero
from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.tables.aggregates.aggregates import GROUPS, Aggregates
from actors.operators.tables.aggregates.states.group_state import array_of
from actors.operators.tables.aggregates.states.grouped_rows import Flags, GroupedRows, Grouper
from actors.operators.tables.aggregates.states.value_sets import SEEN
from actors.operators.tables.aggregates.user_aggregates import OpenFunctions
from actors.operators.tables.changes import Kinds, change_order, columns_differ, weights_of
from actors.operators.tables.gathering import GatheringOperator
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.errors import IncompatibleStateError, operator_label
from flinkray.transformations.table_factories import GroupAggregateFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp

_WRITTEN = "written"
_AGGREGATES = "aggregates"
_SWEPT_AT_ONCE = 4096


class GroupAggregateOperator(GatheringOperator[GroupAggregateFactory]):
    """Gives a row for each group, its keys and then its results, and changes it at most once a batch.

    Rows that are taken back of a group that is not there are left out, as in Flink; a group whose rows are all taken
    back goes. Without keys, there is one group from the first row on. In batch mode, rows are given at the end.
    """

    def __init__(self, factory: GroupAggregateFactory) -> None:
        super().__init__(factory)
        self._is_insert_only = factory.takes[0].is_insert_only
        self._keys = range(len(factory.keys)) if factory.merges else factory.keys
        self._functions = OpenFunctions(factory.functions)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._begin()

    def _begin(self) -> None:
        self._aggregates = Aggregates(self.factory.calls, self._is_insert_only, self.factory.functions)
        self._grouper = Grouper()
        self._is_there: Flags = np.zeros(0, np.bool_)
        """Whether a group has a row among the results."""
        self._written: Ids = np.zeros(0, np.int64)
        self._swept = 0

    def open(self) -> None:
        super().open()
        self._functions.open(self.context)

    def close(self) -> None:
        self._functions.close()
        super().close()

    # -- rows

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        self._grow()
        weights = None if kinds is None or not kinds.any() else weights_of(kinds, len(kinds))
        grouped, last = self._grouper.group(keys, weights, len(self._is_there))
        self._expire(grouped.groups)
        accepted = self._accepted(rows, grouped)
        if accepted is not None:
            rows, keys = take(rows, from_numpy(np.flatnonzero(accepted))), keys[accepted]
            weights = None if weights is None else weights[accepted]
            grouped, last = self._grouper.group(keys, weights, len(self._is_there))
        if self.context.is_batch:
            self._add(rows, grouped)
            return
        groups = grouped.groups
        had = self._is_there[groups]
        before = self._aggregates.results(groups)
        self._add(rows, grouped)
        self._give(rows, last, before, self._aggregates.results(groups), had, self._is_there[groups])

    def _accepted(self, rows: pa.RecordBatch, grouped: GroupedRows) -> Flags | None:
        """Which rows count: those of a group that is there, or that come with one that is added, or behind it; None:
        all."""
        is_added = None if grouped.weights is None else grouped.weights > 0
        if self.factory.merges and not self._is_insert_only:
            # How many rows the first phase has had of a group comes first of what it has kept.
            is_added = as_numpy(rows.column(len(self._keys))) > 0
        if is_added is None or is_added.all():
            return None
        places = grouped.places
        first = np.full(len(grouped.groups), len(places))
        added = np.flatnonzero(is_added)[::-1]
        first[places[added]] = added
        first[self._is_there[grouped.groups]] = 0
        accepted: Flags = np.arange(len(places)) >= first[places]
        return None if accepted.all() else accepted

    def _add(self, rows: pa.RecordBatch, grouped: GroupedRows) -> None:
        if self.factory.merges:
            self._aggregates.merge(rows.columns[len(self._keys) :], grouped)
        else:
            self._aggregates.add(rows, grouped)
        groups = grouped.groups
        has_rows = self._aggregates.rows.of(groups) != 0
        self._aggregates.reset(groups[~has_rows])  # of floats, something may be left
        self._is_there[groups] = has_rows if self._keys else True
        if self.factory.state_ttl_ms:
            self._written[groups] = self.now()

    def _give(
        self,
        rows: pa.RecordBatch,
        last: Ids,
        before: list[pa.Array],
        after: list[pa.Array],
        had: Flags,
        has: Flags,
    ) -> None:
        """Gives the changes of groups from the results that they had to those that they have.

        Args:
            last: of each group a row, for its keys.
        """
        # With a time to live, what reads the results has to hear of every row, or it might forget the group's.
        is_same = had & has
        if not self.factory.state_ttl_ms or not self.factory.calls:
            is_same &= ~columns_differ(before, after, len(had))
        else:
            is_same[:] = False
        given = np.flatnonzero((had | has) & ~is_same)
        if not len(given):
            return
        if not had[given].any():
            self._emit_results(rows, last[given], [take(each, from_numpy(given)) for each in after], None)
            return
        is_after, numbers, kinds = change_order(had[given], has[given], with_before=self.factory.gives.before)
        groups = given[numbers]
        of_both = from_numpy(groups + is_after * len(had))
        results = [take(pa.concat_arrays(both), of_both) for both in zip(before, after, strict=True)]
        self._emit_results(rows, last[groups], results, kinds)

    def _emit_results(self, rows: pa.RecordBatch, last: Ids, results: list[pa.Array], kinds: Kinds | None) -> None:
        indices = from_numpy(last)
        keys = [take(with_one_zero(rows.column(each)), indices) for each in self._keys]
        self.emit(self._result_rows(keys, results, len(last)), kinds)

    def _result_rows(self, keys: list[pa.Array], results: list[pa.Array], count: int) -> pa.RecordBatch:
        if not self.factory.rows.fields:
            return pa.RecordBatch.from_arrays([pa.nulls(count)], schema=self.schema)
        return pa.RecordBatch.from_arrays([*keys, *results], schema=self.schema)

    # -- the end, in batch mode

    def on_watermark(self, timestamp: Timestamp) -> None:
        if self.context.is_batch and timestamp == MAX_TIMESTAMP:
            if not self._keys:  # there is a result without any row, too
                self._grow()
                self._is_there[0] = True
            self.end_keys()
        super().on_watermark(timestamp)

    def end_keys(self) -> None:
        groups = np.flatnonzero(self._is_there)
        if len(groups):
            keys = self.keys.take(groups)
            columns = [] if keys is None else [array_of(each) for each in keys.columns]
            self.emit(self._result_rows(columns, self._aggregates.results(groups), len(groups)))
        self.forget_keys()
        self._begin()

    # -- what is forgotten

    def _grow(self) -> None:
        size = len(self.keys)
        self._aggregates.grow(size)
        if size > len(self._is_there):
            more = max(size, 2 * len(self._is_there)) - len(self._is_there)
            self._is_there = np.concatenate([self._is_there, np.zeros(more, np.bool_)])
            self._written = np.concatenate([self._written, np.zeros(more, np.int64)])

    def _expire(self, groups: Ids) -> None:
        """Forgets these groups, and the next ones that are looked at, where they have not been written for long."""
        before = self.expires_before
        if before is None:
            return
        begin = self._swept if self._swept < len(self._is_there) else 0
        self._swept = min(begin + _SWEPT_AT_ONCE, len(self._is_there))
        for looked_at in (groups, np.arange(begin, self._swept)):
            expired = looked_at[self._is_there[looked_at] & (self._written[looked_at] < before)]
            self._is_there[expired] = False
            self._aggregates.reset(expired)

    def forget_unused(self) -> None:
        # Which groups are there is only looked up where there are many keys more than before.
        if self._keys and self.keys.forget_unused(np.flatnonzero(each) for each in (self._is_there,)) is not None:
            live = np.flatnonzero(self._is_there)
            self._aggregates.retain(live)
            self._is_there, self._written = self._is_there[live], self._written[live]
            self._grouper = Grouper()

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        groups = np.flatnonzero(self._is_there)
        if not len(groups):
            return None
        keys, tables, snapshot = self.keys.columns(), self.tables, OperatorSnapshot()
        metadata = {_AGGREGATES: self.factory.text.encode()}
        written = self._written[groups]
        for name, captured in self._aggregates.capture(groups).items():
            beside = {_WRITTEN: from_numpy(written)} if name == GROUPS else {}
            ids = None if keys is None else captured.groups
            snapshot.add_keyed(
                name,
                lambda captured=captured, beside=beside, ids=ids: tables.make(  # type: ignore[misc]
                    keys, ids, captured.columns() | beside, metadata
                ),
                tables.owned,
            )
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is None:
            return
        for name in self._aggregates.parts:
            for part in same_rows(restored.keyed(name), _AGGREGATES, self.factory.text, self.where):
                if SEEN in part.columns and not self._is_insert_only:
                    raise IncompatibleStateError(
                        f"{operator_label(self.where)}: its state was written when rows were only added to its input, "
                        "so that it does not say how often groups have the values of DISTINCT, and now rows are taken "
                        "back. Go back to that, or start the operator without its state"
                    )
                groups = self.keys.restored_ids(part)
                self._grow()
                self._aggregates.restore(name, groups, part.columns)
                if _WRITTEN in part.columns:
                    self._is_there[groups] = True
                    self._written[groups] = as_numpy(part.columns[_WRITTEN])
