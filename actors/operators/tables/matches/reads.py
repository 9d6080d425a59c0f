"""What measures and conditions read of the rows of matches, as columns with an entry for each match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.operators.patterns.steps import Event
from actors.operators.tables.over.calls import argument_of, finished, is_of_values, of_ranges, parts_of
from actors.operators.tables.over.reductions import reduced
from flinkray.tables.plans.expressions import Column, MatchRead, WindowCall
from flinkray.tables.types.arrow import to_arrow

Rows = dict[str, list[Event]]
"""The rows of a match, or of a part of one, by their variables."""
Values = tuple[Any, ...]
"""What is kept of a row: a value of each column that is read, as `plain_values` has it."""


class MatchRows(Struct, frozen=True):
    """The rows of a match."""

    rows: Rows
    time: int
    """The time of its last row, in milliseconds."""

    def of(self, variable: str | None) -> list[Event]:
        """The rows of a variable in their order; None: all."""
        if variable is not None:
            return self.rows.get(variable, [])
        # A pattern's variables follow each other, and so do their rows.
        return [event for events in self.rows.values() for event in events]


def plain_values(column: pa.Array) -> list[Any]:
    """Values of Python that lose nothing: times are whole numbers of the unit of their type."""
    number = _number_type(column.type)
    values: list[Any] = (column if number is None else column.view(number)).to_pylist()
    return values


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The column of values that `plain_values` gave."""
    number = _number_type(kind)
    return pa.array(values, kind) if number is None else pa.array(values, number).view(kind)


def _number_type(kind: pa.DataType) -> pa.DataType | None:
    if not pa.types.is_temporal(kind):
        return None
    return pa.int32() if kind.bit_width == 32 else pa.int64()


class Reads:
    """Reads what `reads` say.

    Args:
        types: of the columns of the input.
    """

    def __init__(self, reads: Sequence[MatchRead], keys: Sequence[int], types: Sequence[pa.DataType]) -> None:
        self.reads = reads
        self.keys = keys
        self._types = types
        columns = {each.column for each in reads if each.column >= 0} | set(keys)
        for each in reads:
            if each.call is not None:
                columns |= {argument.index for argument in each.call.arguments if isinstance(argument, Column)}
        self.columns = sorted(columns)
        """The columns of the input that are kept of rows that are part of matches."""
        self._places = {column: place for place, column in enumerate(self.columns)}

    def value(self, read: MatchRead, events: Sequence[Event]) -> Any:
        """What FIRST or LAST reads of the rows of its variable."""
        if read.offset >= len(events):
            return None
        return self.of_row(read, events[read.offset if read.kind == "FIRST" else -1 - read.offset])

    def of_row(self, read: MatchRead, event: Event) -> Any:
        """What FIRST or LAST reads of a row."""
        return event.value[self._places[read.column]]

    def column(self, read: MatchRead, matches: Sequence[MatchRows], now_ms: int) -> pa.Array:
        """What is read of each match."""
        kind = to_arrow(read.type)
        if read.kind == "AGGREGATE":
            return self._aggregate(read, [match.of(read.variable) for match in matches])
        if read.kind in ("ROWTIME", "PROCTIME"):
            times = [match.time if read.kind == "ROWTIME" else now_ms for match in matches]
            return pa.array(times, pa.timestamp("ms", getattr(kind, "tz", None))).cast(kind)
        return column_of([self.value(read, match.of(read.variable)) for match in matches], kind)

    def key_columns(self, matches: Sequence[MatchRows]) -> list[pa.Array]:
        """The keys of each match."""
        firsts = [match.of(None)[0].value for match in matches]
        return [column_of([each[self._places[key]] for each in firsts], self._types[key]) for key in self.keys]

    def _aggregate(self, read: MatchRead, groups: Sequence[Sequence[Event]]) -> pa.Array:
        assert read.call is not None
        ends = np.cumsum([len(group) for group in groups], dtype=np.int64)
        begins = np.append(0, ends[:-1])
        events = [event for group in groups for event in group]

        def column(number: int) -> pa.Array:
            place = self._places[number]
            return column_of([event.value[place] for event in events], self._types[number])

        call = WindowCall(read.call.function, read.call.arguments, read.call.type, ignore_nulls=read.call.ignore_nulls)
        if is_of_values(call):
            return of_ranges(call, column, begins, ends - begins)
        argument = argument_of(call, column, len(events))
        return finished(call, [reduced(part.how, part.of(argument), begins, ends) for part in parts_of(call)])
