"""The first N rows of each key in an order (Flink's Rank, SortLimit, Limit and SinkUpsertMaterializer)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.tables.changes import Flags, Kinds, differ, weights_of
from actors.operators.tables.operator import WRITTEN, TableOperator
from actors.operators.tables.ranks.rank_changes import RowChanges, changes_by_rank, changes_by_row
from actors.operators.tables.ranks.retractions import are_left
from actors.operators.tables.ranks.sort_codes import Codes, groups_of_ties, is_less, sort_codes, starts_of_ties
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.table_factories import RankFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp

_STATE = "rows"
_RANK = "rank"


class RankOperator(TableOperator[RankFactory]):
    """Of a table of inserts the first rows alone are kept, since no other row can become one of them; of a changelog
    all rows.

    The keys of a batch's rows are ranked anew, all of them at once; each row has its last rank beside it.
    """

    def __init__(self, factory: RankFactory) -> None:
        super().__init__(factory)
        self._order = factory.order
        self._order_columns = [key.index for key in factory.order]
        self._keeps_all = not factory.takes[0].is_insert_only
        is_numbered = factory.kind == "ROW_NUMBER"
        self._is_by_rank = is_numbered and (factory.has_number or factory.first == factory.last)
        self._may_drop_at_once = is_numbered and not self._keeps_all
        self._takes_first_to_come = self._may_drop_at_once and not factory.order and not factory.latest_first
        self._clear()

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._takes_first_to_come &= not any(context.keys)

    def _clear(self) -> None:
        self._store = RowStore(self.input_schemas[0], {_RANK: Numbers(np.int64), WRITTEN: Numbers(np.int64)})

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        self.expire()
        if self._takes_first_to_come:
            self._take_first(rows)
            return
        ranking = _Ranking(self._store, rows, keys)
        if self._may_drop_at_once:
            ranking = ranking.of(self._may_enter(ranking))
        if not ranking.rows.num_rows:
            return
        codes = self._codes_of(self._store.take(ranking.slots, self._order_columns), ranking.rows)
        is_there = self._are_there(ranking, codes, kinds)
        now = np.zeros(len(is_there), np.int64)
        now[is_there] = self._ranks(ranking.places[is_there], [each[is_there] for each in codes])
        if not self.context.is_batch:
            self._emit_changes(ranking, now)
        self._keep(ranking, now)

    def _take_first(self, rows: pa.RecordBatch) -> None:
        """Without order and keys the next row has the next rank, and those that have one keep it."""
        former = len(self._store)
        rows = rows.slice(0, max(0, self.factory.last - former))
        ranks = former + 1 + np.arange(rows.num_rows)
        self._store.add(np.zeros(rows.num_rows, np.int64), rows, rank=ranks, written=self.now())
        given = np.flatnonzero(self._given(ranks))
        if not self.context.is_batch:
            self.emit(self._numbered(take(rows, from_numpy(given)), ranks[given]))

    # -- which rows there are

    def _may_enter(self, ranking: _Ranking) -> Flags:
        """Whether each row is not behind the last one of its key's first rows, where that has enough of them."""
        counts = np.bincount(ranking.stored_places, minlength=len(ranking.keys))
        is_last = self._store.numbers(_RANK)[ranking.slots] == self.factory.last
        is_last &= counts[ranking.stored_places] == self.factory.last
        bounds = np.full(len(ranking.keys), -1)
        bounds[ranking.stored_places[is_last]] = np.arange(int(is_last.sum()))
        bound = bounds[ranking.new_places]
        bounded = np.flatnonzero(bound >= 0)
        found = np.ones(ranking.rows.num_rows, np.bool_)
        if len(bounded):
            last_rows = self._store.take(ranking.slots[is_last], self._order_columns)
            codes = self._codes_of(last_rows, ranking.rows)
            new, last = last_rows.num_rows + bounded, bound[bounded]
            is_latest_first = self.factory.latest_first
            found[bounded] = ~is_less(codes, last, new) if is_latest_first else is_less(codes, new, last)
        return found

    def _are_there(self, ranking: _Ranking, codes: Codes, kinds: Kinds | None) -> Flags:
        """Whether each row, of those that are stored and then those that came, is there now."""
        stored = len(ranking.slots)
        found = np.ones(len(ranking.places), np.bool_)
        if not self._keeps_all or kinds is None:
            return found
        weights = np.concatenate([np.ones(stored, np.int8), weights_of(kinds, len(kinds))])
        groups = groups_of_ties([ranking.places, *codes])
        takes = np.zeros(len(groups), np.bool_)
        takes[groups[weights < 0]] = True
        # A row that is taken back is equal to one that is added, so also in the order.
        some = np.flatnonzero(takes[groups])
        if len(some):
            found[some] = are_left(ranking.take(some), weights[some], newest=self.factory.latest_first)
        return found

    # -- ranks

    def _codes_of(self, stored: pa.RecordBatch, rows: pa.RecordBatch) -> Codes:
        """As the order has the stored rows' order columns, and then the rows."""
        columns = [
            pa.concat_arrays([one, rows.column(number)])
            for one, number in zip(stored.columns, self._order_columns, strict=True)
        ]
        return sort_codes(columns, self._order)

    def _ranks(self, places: Ids, codes: Codes) -> Ids:
        """The rank of each row among those of its key. Rows come in the order of their arrival."""
        arrival = np.arange(len(places))
        order = order_by(places, *codes, *([-arrival] if self.factory.latest_first else []))
        begins = differs_from_previous(places[order])
        position: Ids = arrival
        if self.factory.kind != "ROW_NUMBER":
            is_next = begins | starts_of_ties(codes, order)
            position = np.cumsum(is_next) if self.factory.kind == "DENSE_RANK" else _last_of(is_next)
        ranks = np.empty(len(places), np.int64)
        ranks[order] = position - position[_last_of(begins)] + 1
        return ranks

    def _given(self, ranks: Ids) -> Ids:
        """The ranks of the rows that are among the results; 0 of others."""
        return np.where((ranks >= self.factory.first) & (ranks <= self.factory.last), ranks, 0)

    # -- results

    def _emit_changes(self, ranking: _Ranking, now: Ids) -> None:
        before = np.zeros(len(now), np.int64)
        before[: len(ranking.slots)] = self._store.numbers(_RANK)[ranking.slots]
        was, given = self._given(before), self._given(now)
        if self._is_by_rank:
            changes = changes_by_rank(ranking.places, was, given)
        else:
            changes = changes_by_row(was, given, with_ranks=self.factory.has_number)
        if self._keeps_all and self._is_by_rank:
            changes = self._without_equal(changes, ranking)
        numbers, is_old, kinds = changes.given(with_before=self.factory.gives.before)
        if len(numbers):
            ranks = np.where(is_old, was[numbers], given[numbers])
            self.emit(self._numbered(ranking.take(numbers), ranks), kinds)

    def _without_equal(self, changes: RowChanges, ranking: _Ranking) -> RowChanges:
        """Without those from a row to an equal one, which was added anew."""
        both = np.flatnonzero(changes.had & changes.has)
        is_other = np.ones(len(changes.had), np.bool_)
        is_other[both] = differ(ranking.take(changes.before[both]), ranking.take(changes.after[both]))
        return changes.where(is_other)

    def _numbered(self, rows: pa.RecordBatch, ranks: Ids) -> pa.RecordBatch:
        columns = [*rows.columns, from_numpy(ranks)] if self.factory.has_number else rows.columns
        return pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else rows

    def end_keys(self) -> None:
        """In batch mode: gives the first rows of each key, by their rank."""
        places, slots = self._store.of_keys(distinct(self._store.live_keys()))
        ranks = self._given(self._store.numbers(_RANK)[slots])
        chosen = order_by(places, ranks)
        chosen = chosen[ranks[chosen] > 0]
        for first in range(0, len(chosen), self.context.batch_rows):
            some = chosen[first : first + self.context.batch_rows]
            self.emit(self._numbered(self._store.take(slots[some]), ranks[some]))
        self._clear()

    def on_watermark(self, timestamp: Timestamp) -> None:
        if self.context.is_batch and timestamp == MAX_TIMESTAMP:
            self.end_keys()
        super().on_watermark(timestamp)

    # -- state

    def _keep(self, ranking: _Ranking, now: Ids) -> None:
        is_kept = now > 0 if self._keeps_all else (now > 0) & (now <= self.factory.last)
        stored = len(ranking.slots)
        self._store.numbers(_RANK)[ranking.slots] = now[:stored]
        self._store.remove(ranking.slots[~is_kept[:stored]])
        new = np.flatnonzero(is_kept[stored:])
        keys, rows = ranking.keys[ranking.new_places[new]], take(ranking.rows, from_numpy(new))
        self._store.add(keys, rows, rank=now[stored:][new], written=self.now())

    @property
    def stores(self) -> Mapping[str, RowStore]:
        return {_STATE: self._store}


def _last_of(flags: Flags) -> Ids:
    """For each place the last one up to it at which a flag is set."""
    found: Ids = np.maximum.accumulate(np.where(flags, np.arange(len(flags)), 0))
    return found


class _Ranking:
    """The rows of the keys of a batch: those that are stored, in order of arrival for each key, then those that came.

    Keys have places, by which they ascend.
    """

    def __init__(self, store: RowStore, rows: pa.RecordBatch, keys: Ids) -> None:
        self.store = store
        self.rows = rows
        self.keys = distinct(keys)
        self.new_places: Ids = np.searchsorted(self.keys, keys)
        self.stored_places, self.slots = store.of_keys(self.keys)

    @property
    def places(self) -> Ids:
        """The place of each row's key."""
        return np.concatenate([self.stored_places, self.new_places])

    def of(self, chosen: Flags) -> _Ranking:
        """With these of the rows that came, and without keys that have none of them."""
        if chosen.all():
            return self
        return _Ranking(self.store, take(self.rows, from_numpy(np.flatnonzero(chosen))), self._keys_of(chosen))

    def _keys_of(self, chosen: Flags) -> Ids:
        return self.keys[self.new_places[chosen]]

    def take(self, numbers: Ids) -> pa.RecordBatch:
        """The rows of these numbers, which count stored rows first."""
        stored = len(self.slots)
        is_new = numbers >= stored
        if not is_new.any():
            return self.store.take(self.slots[numbers])
        if is_new.all():
            return take(self.rows, from_numpy(numbers - stored))
        both = pa.concat_batches(
            [self.store.take(self.slots[numbers[~is_new]]), take(self.rows, from_numpy(numbers[is_new] - stored))]
        )
        places = np.empty(len(numbers), np.int64)
        places[np.concatenate([np.flatnonzero(~is_new), np.flatnonzero(is_new)])] = np.arange(len(numbers))
        return take(both, from_numpy(places))
