"""Nodes of logical plans.

Each says what its rows are (`row_type`). A node that keeps its input's columns and adds some has the new ones last.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    MatchRead,
    PatternVariable,
    Plan,
    SortKey,
    WindowCall,
)
from flinkray.tables.plans.tables import Table
from flinkray.tables.syntax.queries import Hint
from flinkray.tables.types.logical import INT, STRING, LogicalType, RowField, RowType
from flinkray.types.records import Millis


def row_type(names: Sequence[str], types: Sequence[LogicalType]) -> RowType:
    """The type of rows with these columns."""
    return RowType(tuple(RowField(name, kind) for name, kind in zip(names, types, strict=True)), nullable=False)


def as_nullable(rows: RowType) -> RowType:
    """The type of rows of which any column may be NULL, as an outer join makes them."""
    return row_type(rows.names, [each.as_nullable() for each in rows.types])


def beside(left: RowType, right: RowType) -> RowType:
    """The type of rows that have the columns of both. What is called as another column before it gets a number."""
    names = unique_names([*left.names, *right.names])
    return row_type(names, [*left.types, *right.types])


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, each with the first number behind it that makes it another one than those before: `a`, `a0`, `a1`."""
    taken: set[str] = set()
    found = []
    for name in names:
        unique, number = name, 0
        while unique in taken:
            unique, number = f"{name}{number}", number + 1
        taken.add(unique)
        found.append(unique)
    return found


# -- where rows come from


class Scan(Plan, frozen=True):
    """The rows of a table: its physical and metadata columns, or those of `columns`."""

    table: Table
    columns: tuple[int, ...]
    """Numbers of the physical and metadata columns that are read."""
    hints: tuple[Hint, ...] = ()

    @property
    def row_type(self) -> RowType:
        stored = self.table.stored_columns
        chosen = [stored[each] for each in self.columns]
        return row_type([each.name for each in chosen], [each.type for each in chosen])


class Values(Plan, frozen=True):
    """Rows of constants, or of expressions without columns."""

    rows: tuple[tuple[BoundExpression, ...], ...]
    columns: RowType

    @property
    def row_type(self) -> RowType:
        return self.columns


# -- with one input


class SingleInput(Plan, frozen=True):
    """Base of nodes with one input."""

    input: Plan

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        return replace(self, input=inputs[0])


class SameColumns(SingleInput, frozen=True):
    """Base of nodes whose rows have the columns of their input."""

    @property
    def row_type(self) -> RowType:
        return self.input.row_type


class Filter(SameColumns, frozen=True):
    """The rows for which a condition is true."""

    condition: BoundExpression


class Project(SingleInput, frozen=True):
    """An expression for each column."""

    expressions: tuple[BoundExpression, ...]
    names: tuple[str, ...]

    @property
    def row_type(self) -> RowType:
        return row_type(self.names, [each.type for each in self.expressions])


class WatermarkAssigner(SingleInput, frozen=True):
    """Makes a column the rowtime attribute, with watermarks from an expression."""

    column: int
    watermark: BoundExpression
    type: LogicalType
    """The type of the column as a time attribute."""

    @property
    def row_type(self) -> RowType:
        fields = list(self.input.row_type.fields)
        fields[self.column] = RowField(fields[self.column].name, self.type)
        return RowType(tuple(fields), nullable=False)


class Distinct(SameColumns, frozen=True):
    """Each row once."""


class GroupWindow(Struct, frozen=True):
    """`TUMBLE(time, size)`, HOP or SESSION in GROUP BY, from before windows were tables. Lengths in milliseconds."""

    kind: str
    time: int
    """The column of the time attribute."""
    size: int
    slide: int = 0


class WindowProperty(Struct, frozen=True):
    """What an aggregate over a group window tells of it: START, END, ROWTIME or PROCTIME."""

    kind: str
    type: LogicalType


class Aggregate(SingleInput, frozen=True):
    """Keys, then the results of aggregates, then properties of the group window, a row for each group.

    With `grouping_sets`, each a set of places in `keys`, there is a row for each group of each set, in which other keys
    are NULL.
    """

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    grouping_sets: tuple[tuple[int, ...], ...] = ()
    window: GroupWindow | None = None
    properties: tuple[WindowProperty, ...] = ()
    ttl_ms: Millis | None = None
    """How long a group is kept that gets no rows; None: as long as the program says."""

    @property
    def row_type(self) -> RowType:
        rows = self.input.row_type
        types: list[LogicalType] = []
        for place, key in enumerate(self.keys):
            is_missing = any(place not in group for group in self.grouping_sets)
            types.append(rows.types[key].as_nullable() if is_missing else rows.types[key])
        types += [call.type for call in self.calls]
        types += [each.type for each in self.properties]
        return row_type(self.names, types)


class Expand(SingleInput, frozen=True):
    """Each row once for each grouping set: its columns, then the keys, NULL where the set is without them, and then the
    number of the set. Made where an aggregate with grouping sets is executed."""

    keys: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]

    @property
    def row_type(self) -> RowType:
        rows = self.input.row_type
        keys = row_type(
            [rows.names[each] for each in self.keys], [rows.types[each].as_nullable() for each in self.keys]
        )
        return beside(beside(rows, keys), row_type(["$set"], [INT.not_null()]))


class WindowTableFunction(SingleInput, frozen=True):
    """Rows with the columns window_start, window_end and window_time of each window that they belong to.

    The kind is TUMBLE, HOP, CUMULATE or SESSION; lengths are in milliseconds.
    """

    kind: str
    time: int
    """The column of the time attribute."""
    size: int
    """Of SESSION, the gap."""
    slide: int = 0
    """Of HOP the slide, of CUMULATE the step."""
    offset: int = 0
    partition_by: tuple[int, ...] = ()
    window_columns: tuple[RowField, ...] = ()

    @property
    def row_type(self) -> RowType:
        return RowType(self.input.row_type.fields + self.window_columns, nullable=False)


class KindsAsColumn(SingleInput, frozen=True):
    """Changes as rows that are only added, with a last column that says what each does: +I, -U, +U or -D."""

    name: str

    @property
    def row_type(self) -> RowType:
        return beside(self.input.row_type, row_type((self.name,), [STRING.not_null()]))


class KindsOfColumn(SingleInput, frozen=True):
    """Rows as the changes that their last column says, which is taken out."""

    @property
    def row_type(self) -> RowType:
        return RowType(self.input.row_type.fields[:-1], nullable=False)


class Window(SingleInput, frozen=True):
    """Rows with the results of calls OVER windows behind their columns."""

    calls: tuple[WindowCall, ...]
    names: tuple[str, ...]

    @property
    def row_type(self) -> RowType:
        return beside(self.input.row_type, row_type(self.names, [call.type for call in self.calls]))


class Sort(SameColumns, frozen=True):
    """Rows in an order."""

    keys: tuple[SortKey, ...]


class Limit(SameColumns, frozen=True):
    """At most `count` rows (None: all), after the first `offset`."""

    count: int | None
    offset: int = 0


class Rank(SingleInput, frozen=True):
    """The first rows of each key in an order, with their rank behind their columns where it `has_number`.

    The kind is ROW_NUMBER, RANK or DENSE_RANK. Made by a rule.
    """

    kind: str
    partition_by: tuple[int, ...]
    order: tuple[SortKey, ...]
    first: int
    last: int
    has_number: bool
    number: RowField

    @property
    def row_type(self) -> RowType:
        rows = self.input.row_type
        return beside(rows, RowType((self.number,))) if self.has_number else rows


class Deduplicate(SameColumns, frozen=True):
    """The first or the last row of each key by a time attribute. Made by a rule."""

    keys: tuple[int, ...]
    time: int
    keeps_last: bool


class Match(SingleInput, frozen=True):
    """Matches of a pattern of rows, in an order that begins with time, a row for each (MATCH_RECOGNIZE)."""

    partition_by: tuple[int, ...]
    order: tuple[SortKey, ...]
    variables: tuple[PatternVariable, ...]
    """In the order of the pattern."""
    skip: tuple[str, str | None]
    """Where the search goes on: NEXT ROW or PAST LAST ROW, or FIRST or LAST of a variable."""
    window_ms: int | None
    """The time from the first row to the last one; None: any."""
    reads: tuple[MatchRead, ...]
    measures: tuple[BoundExpression, ...]
    """The results behind the columns of `partition_by`; their columns are the numbers of `reads`."""
    names: tuple[str, ...]

    @property
    def row_type(self) -> RowType:
        rows = self.input.row_type
        keys = [rows.types[each] for each in self.partition_by]
        return row_type(self.names, [*keys, *(each.type for each in self.measures)])


class Unnest(SingleInput, frozen=True):
    """A row for each element of a collection, with the element's columns behind those of the row; where it `is_outer`,
    one with NULLs for a row without elements. With ordinality, the place of the element from 1 comes last."""

    collection: BoundExpression
    columns: RowType
    is_outer: bool = False
    with_ordinality: bool = False
    replaces: bool = False
    """Whether what becomes of a row that is updated are other rows, of which the former ones are deleted, as a table
    aggregate has it."""

    @property
    def row_type(self) -> RowType:
        return beside(self.input.row_type, as_nullable(self.columns) if self.is_outer else self.columns)


class TableFunctionCall(SingleInput, frozen=True):
    """The rows that a table function gives for each row, behind its columns."""

    function: str
    arguments: tuple[BoundExpression, ...]
    columns: RowType
    is_outer: bool = False

    @property
    def row_type(self) -> RowType:
        return beside(self.input.row_type, as_nullable(self.columns) if self.is_outer else self.columns)


# -- with two inputs


class Joining(Plan, frozen=True):
    """Base of what has the columns of a left and of a right input. The kind is INNER, LEFT, RIGHT, FULL, or, with the
    columns of the left input alone, SEMI or ANTI."""

    kind: str
    left: Plan
    right: Plan

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        return replace(self, left=inputs[0], right=inputs[1])

    @property
    def row_type(self) -> RowType:
        left, right = self.left.row_type, self.right.row_type
        if self.kind in ("SEMI", "ANTI"):
            return left
        if self.kind in ("RIGHT", "FULL"):
            left = as_nullable(left)
        if self.kind in ("LEFT", "FULL"):
            right = as_nullable(right)
        return beside(left, right)


class Join(Joining, frozen=True):
    """Pairs of rows whose keys are equal and for which the condition is true.

    `keys` pairs columns of the left and of the right input, which a rule takes out of the condition. An ANTI join that
    `is_null_aware` is that of NOT IN: a NULL among the keys leaves open whether there is an equal one.
    """

    condition: BoundExpression | None = None
    keys: tuple[tuple[int, int], ...] = ()
    ttls_ms: tuple[Millis | None, ...] = ()
    """How long rows of each input are kept; None, or nothing at all: as long as the program says."""
    is_null_aware: bool = False
    nulls_equal: tuple[int, ...] = ()
    """The places of those keys of which a NULL is equal to another one: `IS NOT DISTINCT FROM`."""

    @property
    def strict_keys(self) -> tuple[tuple[int, int], ...]:
        """The keys of which a NULL is equal to nothing."""
        return tuple(pair for place, pair in enumerate(self.keys) if place not in self.nulls_equal)


class TemporalJoin(Joining, frozen=True):
    """Each row of the left with what the right was at a time: `FOR SYSTEM_TIME AS OF`."""

    time: BoundExpression
    """The time, over the left input's columns."""
    condition: BoundExpression | None = None
    keys: tuple[tuple[int, int], ...] = ()
    hints: tuple[Hint, ...] = ()


class Correlate(Joining, frozen=True):
    """For each row of the left the rows of the right, which reads the left row as `OuterColumn`s."""

    why_not: str = ""
    """As of a `Subquery`."""

    @property
    def levels(self) -> tuple[int, ...]:
        return (0, 1)


class SetOperation(Plan, frozen=True):
    """UNION, INTERSECT or EXCEPT of rows, with ALL or not."""

    kind: str
    all: bool
    left: Plan
    right: Plan
    columns: RowType

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        return replace(self, left=inputs[0], right=inputs[1])

    @property
    def row_type(self) -> RowType:
        return self.columns


# -- what is done with the rows


class Insert(SingleInput, frozen=True):
    """Rows into a table, in the order of its columns that are written."""

    table: Table
    overwrite: bool = False
    partition: tuple[tuple[str, str], ...] = ()
    hints: tuple[Hint, ...] = ()

    @property
    def row_type(self) -> RowType:
        return self.table.written_row_type
