"""All aggregates of one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column
from actors.keys.index import Ids
from actors.operators.tables.aggregates.calls import State, result_of
from actors.operators.tables.aggregates.states.arguments import Source, Taken, flags_of, taken
from actors.operators.tables.aggregates.states.group_state import Captured, GroupState, array_of
from actors.operators.tables.aggregates.states.grouped_rows import Flags, GroupedRows
from actors.operators.tables.aggregates.states.linear import Counts
from actors.operators.tables.aggregates.states.value_sets import MOST_SEEN_WAYS, SeenValues, ValueSets
from actors.operators.tables.aggregates.user_aggregates import Functions
from flinkray.errors import IncompatibleStateError
from flinkray.tables.plans.expressions import AggregateCall, BoundExpression

_ALL_ROWS = Source(())
GROUPS = "groups"
"""The part of a snapshot with a row for each group."""


class _Distinct(Struct):
    """The sources that take each value of the same arguments once, and the sets of values that they share."""

    sources: list[Source]
    sets: ValueSets | None = None


class Aggregates:
    """Adds batches to the states of aggregates, which share what they can, and gives their results.

    Args:
        is_insert_only: whether nothing is ever taken back.
        functions: the user's aggregates that are among the calls.
    """

    def __init__(self, calls: Sequence[AggregateCall], is_insert_only: bool, functions: Functions = ()) -> None:
        self.functions = dict(functions)
        self.is_insert_only = is_insert_only
        self._states: dict[tuple[Source, str], GroupState] = {}
        self.rows = self.state(_ALL_ROWS, "count", Counts)
        """How many rows each group has."""
        self._results = [result_of(call, self) for call in calls]
        self._distinct: dict[Source, _Distinct] = {}
        for source in dict.fromkeys(source for source, _ in self._states):
            if source.is_distinct:
                self._distinct.setdefault(_whole(source), _Distinct([])).sources.append(source)
        for whole, each in self._distinct.items():
            ways = len(each.sources)
            make = SeenValues if is_insert_only and ways <= MOST_SEEN_WAYS else ValueSets
            each.sets = self.state(whole, "distinct values", partial(make, whole.types, ways))

    def state(self, source: Source, kind: str, make: Callable[[], State]) -> State:
        if (source, kind) not in self._states:
            self._states[source, kind] = make()
        return self._states[source, kind]  # type: ignore[return-value]

    def add(self, data: pa.RecordBatch, rows: GroupedRows) -> None:
        """Adds a batch, for whose groups there is room."""
        batch = _Batch(data, rows, self._distinct)
        for (source, kind), state in self._states.items():
            if kind != "distinct values":
                state.add(batch.taken(source))
        for each in self._distinct.values():
            assert each.sets is not None
            each.sets.forget_unused()

    def partial(self, size: int) -> dict[str, pa.Array]:
        """What is kept of the groups 0 ... size - 1, for `merge`; nothing is added behind that."""
        columns = self.capture(np.arange(size))[GROUPS].columns()
        return {name: array_of(column) for name, column in columns.items()}

    def merge(self, columns: Sequence[pa.Array], rows: GroupedRows) -> None:
        """Adds the columns that `partial` gave, of groups for which there is room."""
        expected = sum(len(state.columns) for state in self._states.values())
        if len(columns) != expected:
            raise IncompatibleStateError(
                f"rows in flight have {len(columns)} columns of partial aggregates, and now {expected} are kept: "
                "they are of an unaligned checkpoint of a former version. Go on from a savepoint of that version"
            )
        left = iter(columns)
        for state in self._states.values():
            state.merge(rows, {name: next(left) for name in state.columns})

    def results(self, groups: Ids) -> list[pa.Array]:
        """The result of each call for these groups."""
        return [result(groups) for result in self._results]

    def grow(self, size: int) -> None:
        """Makes room for the groups 0 ... size - 1."""
        for state in self._states.values():
            state.grow(size)

    def reset(self, groups: Ids) -> None:
        """Makes distinct groups as if none of their rows had come."""
        if len(groups):
            for state in self._states.values():
                state.reset(groups)

    def retain(self, groups: Ids) -> None:
        """Forgets all other groups; these, which ascend, become 0, 1, ..."""
        for state in self._states.values():
            state.retain(groups)

    # -- snapshots

    def capture(self, groups: Ids) -> dict[str, Captured]:
        """What is kept for these groups, which ascend, by the part of a snapshot that it is."""
        parts, by_group = {}, []
        for number, state in enumerate(self._states.values()):
            captured = state.capture(groups)
            if state.has_row_per_group:
                by_group.append((number, captured))
            else:
                parts[_part(number)] = captured

        def columns() -> dict[str, Column]:
            return {
                f"{number}:{name}": column
                for number, captured in by_group
                for name, column in captured.columns().items()
            }

        return {GROUPS: Captured(groups, columns), **parts}

    @cached_property
    def parts(self) -> list[str]:
        """The parts of a snapshot, the one with all groups first."""
        states = enumerate(self._states.values())
        return [GROUPS, *(_part(number) for number, state in states if not state.has_row_per_group)]

    def restore(self, part: str, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        """Adds a part of a snapshot.

        Args:
            groups: the group of each of its rows; there is room for them.
        """
        for number, state in enumerate(self._states.values()):
            if part == _part(number):
                state.restore(groups, columns)
            elif part == GROUPS and state.has_row_per_group:
                prefix = f"{number}:"
                own = {name.removeprefix(prefix): each for name, each in columns.items() if name.startswith(prefix)}
                state.restore(groups, own)


def _part(number: int) -> str:
    return f"values {number}"


def _whole(source: Source) -> Source:
    """The source whose values one that is distinct chooses from."""
    return Source(source.arguments, takes_null=source.takes_null)


class _Batch:
    """What sources take of one batch."""

    def __init__(self, data: pa.RecordBatch, rows: GroupedRows, distinct: Mapping[Source, _Distinct]) -> None:
        self._data = data
        self._rows = rows
        self._distinct = distinct
        self._taken: dict[Source, Taken] = {}
        self._flags: dict[BoundExpression, Flags] = {}

    def taken(self, source: Source) -> Taken:
        if source not in self._taken:
            if source.is_distinct:
                self._take_distinct(_whole(source))
            else:
                self._taken[source] = taken(source, self._data, self._rows)
        return self._taken[source]

    def _take_distinct(self, whole: Source) -> None:
        """What the sources that choose from the same values take; values are numbered once for all of them."""
        distinct, every = self._distinct[whole], taken(whole, self._data, self._rows)
        sets, rows = distinct.sets, every.rows
        assert sets is not None
        numbers = sets.numbers_of(rows.groups[rows.places], every.batch)
        ways = [self._way(each.filter, every.chosen) for each in distinct.sources]
        found = sets.first_of_each(numbers, rows.weights, ways)
        for source, (first, weights) in zip(distinct.sources, found, strict=True):
            self._taken[source] = every.select(first, weights)

    def _way(self, condition: BoundExpression | None, chosen: Flags | None) -> Flags | None:
        """Which of the chosen rows a filter takes; None: all."""
        if condition is None:
            return None
        if condition not in self._flags:
            self._flags[condition] = flags_of(condition, self._data)
        flags = self._flags[condition]
        return flags if chosen is None else flags[chosen]
