"""All aggregates of one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column
from actors.keys.index import Ids
from actors.operators.tables.aggregates.arguments import Source, Taken, selection, taken
from actors.operators.tables.aggregates.calls import State, result_of
from actors.operators.tables.aggregates.group_state import Captured, GroupState, array_of
from actors.operators.tables.aggregates.grouped_rows import GroupedRows
from actors.operators.tables.aggregates.linear import Counts
from actors.operators.tables.aggregates.user_aggregates import Functions
from actors.operators.tables.aggregates.value_sets import ValueSets, distinct_rows
from flinkray.tables.plans.expressions import AggregateCall

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
            each.sets = self.state(whole, "distinct values", partial(ValueSets, whole.types, len(each.sources)))

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
        for way, source in enumerate(distinct.sources):
            flags = selection(Source((), source.filter), self._data, ())
            if flags is None:
                own, of_own = every, numbers
            else:
                flags = flags if every.chosen is None else flags[every.chosen]
                own, of_own = every.select(flags), numbers[flags]
            self._taken[source] = distinct_rows(own, sets, of_own, way)
