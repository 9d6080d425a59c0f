"""All pairs of the rows of two changelogs (Flink's StreamingJoinOperator and StreamingSemiAntiJoinOperator)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from actors.columns.ordering import distinct
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.tables.changes import Flags, Kinds, changed_rows, differ
from actors.operators.tables.gathering import GatheringOperator
from actors.operators.tables.joins.candidates import Partners, any_null, most_pairs
from actors.operators.tables.joins.conditions import JoinCondition
from actors.operators.tables.joins.results import JoinResults
from actors.operators.tables.joins.side import IS_GIVEN, MATCHES, Changed, JoinSide
from actors.operators.tables.rows.row_store import RowStore
from actors.state.snapshots.snapshot import RestoredState
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.table_join_factories import RegularJoinFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp

_STATES = ("left", "right")
_PADDED = {"LEFT": (True, False), "RIGHT": (False, True), "FULL": (True, True)}


class RegularJoinOperator(GatheringOperator[RegularJoinFactory]):
    """Keeps the rows of both inputs, and joins what a batch changes of the one with what there is of the other.

    Results of a batch come in this order: pairs that go, pairs of rows that are replaced, pairs that come. A padded row
    is taken back before the first pair of its row comes, and given once all pairs have gone.
    """

    def __init__(self, factory: RegularJoinFactory) -> None:
        super().__init__(factory)
        self._has_pairs = factory.kind not in ("SEMI", "ANTI")
        self._is_tracked = _PADDED.get(factory.kind, (not self._has_pairs, False))
        """Whether the rows of each side are given by themselves, by how many partners they have."""
        self._sides = tuple(
            JoinSide(schema, unique, takes.is_insert_only, takes.updates, is_tracked)
            for schema, unique, takes, is_tracked in zip(
                self.input_schemas, factory.unique, factory.takes, self._is_tracked, strict=True
            )
        )
        matched = [pair for place, pair in enumerate(factory.keys) if place not in factory.nulls_equal]
        self._matched = tuple([pair[side] for pair in matched] for side in (0, 1))
        """The key columns of each side of which a NULL matches nothing."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        factory = self.factory
        self._condition = (
            None if factory.condition is None else JoinCondition(factory.condition, factory.input_rows, self.where)
        )
        self._results = JoinResults(factory.rows, factory.input_rows, factory.gives, context.batch_rows, self.emit)

    # -- rows

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        self._expire()
        is_null = any_null(rows, self._matched[input_index])
        if is_null is not None and not self._keeps_null_keys(input_index):
            kept = np.flatnonzero(~is_null)
            rows, keys, kinds = take(rows, from_numpy(kept)), keys[kept], None if kinds is None else kinds[kept]
        side = self._sides[input_index]
        changes = side.apply(rows, keys, kinds, self.now())
        if self.context.is_batch and self._waits_for_the_end:
            return
        self._join(changes, input_index)

    def _keeps_null_keys(self, side: int) -> bool:
        """Whether rows with NULL in their key, which match nothing, have results nevertheless."""
        return self._is_tracked[side] and self.factory.kind != "SEMI"

    def _join(self, changes: list[Changed], input_index: int) -> None:
        changes = [each for each in changes if each.rows.num_rows]
        for each in changes:
            if each.after is None and self._is_tracked[input_index]:
                self._take_back_own(each, input_index)
        touched = [self._join_rows(each, input_index) for each in changes]
        if self._is_tracked[1 - input_index] and touched:
            self._settle(distinct(np.concatenate(touched)), 1 - input_index)
        self._results.flush()

    def _join_rows(self, changed: Changed, input_index: int) -> Ids:
        """Gives the pairs of rows, counts them, and gives rows by themselves; the slots of partners whose count has
        changed."""
        other = self._sides[1 - input_index]
        is_null = any_null(changed.rows, self._matched[input_index])
        partners = Partners(changed.keys, None if is_null is None else ~is_null, other.store)
        own = _OwnRows(changed, self._sides[input_index])
        touched = (
            self._count_all(own, partners, other)
            if self._only_counts
            else self._count_pairs(own, partners, input_index)
        )
        if own.side.is_tracked and changed.after is not None:
            self._settle_own(own, input_index)
        return touched

    @property
    def _only_counts(self) -> bool:
        """Whether results depend on the number of partners alone, so that no pairs are looked at."""
        return not self._has_pairs and self._condition is None

    def _count_all(self, own: _OwnRows, partners: Partners, other: JoinSide) -> Ids:
        own.matches = partners.counts_of_rows(len(own.matches))
        change = (own.changed.after is not None) - (own.changed.before is not None)
        if not other.is_tracked or not change:
            return np.zeros(0, np.int64)
        other.store.numbers(MATCHES)[partners.slots] += change * partners.counts_of_slots()
        return partners.slots

    def _count_pairs(self, own: _OwnRows, partners: Partners, input_index: int) -> Ids:
        changed, other = own.changed, self._sides[1 - input_index]
        touched: list[Ids] = []
        for rows, slots in partners.pairs(most_pairs(self.context, changed.rows, other.store)):
            had, has = self._matches(changed, rows, slots, input_index)
            own.count(rows[has])
            if other.is_tracked:
                if self._has_pairs:
                    self._withdraw(distinct(slots[has]), 1 - input_index)
                changes = has.astype(np.int64) - had
                np.add.at(other.store.numbers(MATCHES), slots[changes != 0], changes[changes != 0])
                touched.append(slots[changes != 0])
            if self._has_pairs:
                if own.is_given is not None:
                    self._withdraw_replaced(own, distinct(rows[has]), input_index)
                self._give_pairs(changed, rows, slots, had, has, input_index)
        return np.concatenate(touched) if touched else np.zeros(0, np.int64)

    def _matches(self, changed: Changed, rows: Ids, slots: Ids, input_index: int) -> tuple[Flags, Flags]:
        """Whether each pair was one before, and is one now."""
        return (
            self._hold(changed.before, rows, slots, input_index),
            self._hold(changed.after, rows, slots, input_index),
        )

    def _hold(self, own: pa.RecordBatch | None, rows: Ids, slots: Ids, input_index: int) -> Flags:
        if own is None:
            return np.zeros(len(rows), np.bool_)
        if self._condition is None:
            return np.ones(len(rows), np.bool_)
        some, store = own, self._sides[1 - input_index].store
        sides = (
            lambda columns: take(some.select(columns), from_numpy(rows)),
            lambda columns: store.take(slots, columns),
        )
        left, right = sides if input_index == 0 else sides[::-1]
        return self._condition.holds(left, right, len(rows), self.now())

    def _give_pairs(self, changed: Changed, rows: Ids, slots: Ids, had: Flags, has: Flags, input_index: int) -> None:
        is_pair = had | has
        if not is_pair.all():
            rows, slots, had, has = rows[is_pair], slots[is_pair], had[is_pair], has[is_pair]
        if not len(rows):
            return
        others = self._sides[1 - input_index].store.take(slots)

        def pairs(own: pa.RecordBatch) -> pa.RecordBatch:
            taken = take(own, from_numpy(rows))
            return self._results.beside(*((taken, others) if input_index == 0 else (others, taken)))

        if changed.before is None:
            self._results.insert(pairs(changed.rows))
        elif changed.after is None:
            self._results.take_back(pairs(changed.rows))
        else:
            before, after = pairs(changed.before), pairs(changed.after)
            self._results.change(*changed_rows(before, after, had, has, with_before=self.factory.gives.before))

    # -- rows that are given by themselves

    def _alone(self, rows: pa.RecordBatch, side: int) -> pa.RecordBatch:
        return self._results.padded(rows, side) if self._has_pairs else rows

    def _is_due(self, matches: Ids) -> Flags:
        """Whether rows with so many partners are given by themselves."""
        return matches > 0 if self.factory.kind == "SEMI" else matches <= 0

    def _take_back_own(self, removed: Changed, side: int) -> None:
        assert removed.before is not None
        was_given = np.flatnonzero(self._sides[side].store.numbers(IS_GIVEN)[removed.slots_before])
        self._results.take_back(self._alone(take(removed.before, from_numpy(was_given)), side))

    def _withdraw(self, slots: Ids, side: int) -> None:
        """Takes padded rows of these slots back."""
        store = self._sides[side].store
        is_given = store.numbers(IS_GIVEN)
        given = slots[is_given[slots] > 0]
        if len(given):
            is_given[given] = 0
            self._results.take_back(self._alone(store.take(given), side))

    def _withdraw_replaced(self, own: _OwnRows, rows: Ids, side: int) -> None:
        """Takes padded rows back that are about to be replaced by pairs."""
        assert own.is_given is not None
        assert own.changed.before is not None
        given = rows[own.is_given[rows] > 0]
        if len(given):
            own.is_given[given] = 0
            self._results.take_back(self._alone(take(own.changed.before, from_numpy(given)), side))

    def _settle(self, slots: Ids, side: int) -> None:
        """Gives rows by themselves, or takes them back, by the partners that they have now."""
        store = self._sides[side].store
        is_given = store.numbers(IS_GIVEN)
        is_due, was_given = self._is_due(store.numbers(MATCHES)[slots]), is_given[slots] > 0
        gone, come = slots[was_given & ~is_due], slots[is_due & ~was_given]
        is_given[gone], is_given[come] = 0, 1
        self._results.take_back(self._alone(store.take(gone), side))
        self._results.insert(self._alone(store.take(come), side))

    def _settle_own(self, own: _OwnRows, side: int) -> None:
        """As `_settle`, of rows that were added or replaced others."""
        changed, store = own.changed, own.side.store
        assert changed.after is not None
        is_due = self._is_due(own.matches)
        store.numbers(MATCHES)[changed.slots_after] = own.matches
        store.numbers(IS_GIVEN)[changed.slots_after] = is_due
        if own.is_given is None or changed.before is None:
            self._results.insert(self._alone(take(changed.after, from_numpy(np.flatnonzero(is_due))), side))
            return
        was_given = own.is_given > 0
        rows = np.flatnonzero(was_given | is_due)
        before, after = (self._alone(take(each, from_numpy(rows)), side) for each in (changed.before, changed.after))
        had, has = was_given[rows], is_due[rows]
        is_same = had & has & ~differ(before, after)
        had, has = had & ~is_same, has & ~is_same
        self._results.change(*changed_rows(before, after, had, has, with_before=self.factory.gives.before))

    # -- batch programs

    @property
    def _waits_for_the_end(self) -> bool:
        """Whether results are final only at the end, so that a batch program, whose results are inserts, waits."""
        return any(self._is_tracked) or not all(each.is_insert_only for each in self.factory.takes)

    def on_watermark(self, timestamp: Timestamp) -> None:
        if self.context.is_batch and timestamp == MAX_TIMESTAMP and self._waits_for_the_end:
            self._join_all()
        super().on_watermark(timestamp)

    def _join_all(self) -> None:
        """Joins all rows of the left with all of the right."""
        left, right = (side.store for side in self._sides)
        slots = left.live_slots()
        none = np.zeros(0, np.int64)
        for start in range(0, len(slots), self.context.batch_rows):
            some = slots[start : start + self.context.batch_rows]
            self._join_rows(Changed(left.keys_of(some), None, none, left.take(some), some), 0)
        if self._is_tracked[1]:
            self._settle(right.live_slots(), 1)
        self._results.flush()

    # -- state

    def _expire(self) -> None:
        for side, ttl in zip(self._sides, self.factory.input_ttls_ms, strict=True):
            if ttl:
                side.expire(self.now() - ttl)

    @property
    def stores(self) -> Mapping[str, RowStore]:
        return {name: side.store for name, side in zip(_STATES, self._sides, strict=True)}

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        for side in self._sides:
            side.restored()


class _OwnRows:
    """The partners of rows that have changed, and whether those that they replace were given by themselves."""

    def __init__(self, changed: Changed, side: JoinSide) -> None:
        self.changed = changed
        self.side = side
        self.matches = np.zeros(len(changed.keys), np.int64)
        self.is_given = None
        if side.is_tracked and changed.before is not None and changed.after is not None:
            self.is_given = side.store.numbers(IS_GIVEN)[changed.slots_before].copy()

    def count(self, rows: Ids) -> None:
        """Counts a partner for each of these rows."""
        if self.side.is_tracked:
            self.matches += np.bincount(rows, minlength=len(self.matches))
