"""Aggregates of SQL as the built-in ones of streams, and what makes SQL's results of theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    Call,
    Column,
    Constant,
    with_columns,
)
from flinkray.tables.plans.nodes import Aggregate as AggregatePlan
from flinkray.tables.types.logical import (
    APPROXIMATE,
    BIGINT,
    BOOLEAN,
    DATETIMES,
    DECIMAL,
    DOUBLE,
    INT,
    INTERVAL,
    MAX_PRECISION,
    NUMBERS,
    TEXTS,
    DecimalType,
    LogicalType,
)
from flinkray.windows.aggregates import Aggregate, Avg, Count, CountDistinct, First, Last, Max, Min, Sum

_COMPARED = NUMBERS | TEXTS | DATETIMES | {BOOLEAN.root}
"""Types whose values MIN and MAX compare."""
ColumnOf = Callable[[str, LogicalType], Column]
"""The column of the window operator's results that has a name and a type."""
ONE = Constant(INT.not_null(), 1)


class NotBuiltIn(Exception):
    """No built-in aggregate of streams computes a call."""


class WindowCalls:
    """The calls of an aggregate over windows.

    Args:
        columns: those of the aggregate's input, over what is below.
    Raises:
        NotBuiltIn: no built-in aggregate computes one of the calls.
    """

    def __init__(self, plan: AggregatePlan, columns: Sequence[BoundExpression]) -> None:
        self._plan = plan
        self._columns = columns
        self._names: dict[BoundExpression, str] = {}
        self._found: dict[Aggregate, tuple[str, LogicalType]] = {}
        self._results = [self._call(each) for each in plan.calls]
        if not self._found:  # each group once, as DISTINCT has it
            self._add(Count(), BIGINT)

    @property
    def arguments(self) -> list[tuple[str, BoundExpression]]:
        """The columns that the aggregates read."""
        return [(name, expression) for expression, name in self._names.items()]

    @property
    def aggregates(self) -> list[tuple[str, Aggregate]]:
        """The built-in aggregates, by the names of their results."""
        return [(name, aggregate) for aggregate, (name, _) in self._found.items()]

    def result(self, number: int, column: ColumnOf) -> BoundExpression:
        """The result of a call over the columns of the window operator's results."""
        call, parts = self._plan.calls[number], [column(*each) for each in self._results[number]]
        found: BoundExpression = parts[0]
        if len(parts) == 2:
            found = Call(BIGINT, "/", (parts[0], Call(BIGINT, "NULLIF", (parts[1], Constant(BIGINT.not_null(), 0)))))
        is_same = found.type.as_nullable() == call.type.as_nullable()
        return found if is_same else Call(call.type, "CAST", (found,))

    def _call(self, call: AggregateCall) -> list[tuple[str, LogicalType]]:
        """The built-in aggregates that a call consists of: one, or a sum and a count."""
        name = "COUNT DISTINCT" if call.distinct and call.function == "COUNT" else call.function
        is_repeatable = name in ("MIN", "MAX", "COUNT DISTINCT", "APPROX_COUNT_DISTINCT")
        if (call.distinct and not is_repeatable) or call.order or call.ignore_nulls is False:
            raise NotBuiltIn
        if name == "COUNT" and (not call.arguments or not call.arguments[0].type.nullable):
            return [self._add(Count(self._argument(ONE, call)) if call.filter is not None else Count(), BIGINT)]
        if len(call.arguments) != 1:
            raise NotBuiltIn
        kind, argument = call.arguments[0].type, self._argument(call.arguments[0], call)
        if name == "AVG" and not kind.is_one_of(APPROXIMATE) and not isinstance(kind, DecimalType):
            return [self._add(Sum(argument), BIGINT), self._add(Count(argument), BIGINT)]
        found = _built_in(name, argument, kind)
        if found is None:
            raise NotBuiltIn
        return [self._add(*found)]

    def _argument(self, argument: BoundExpression, call: AggregateCall) -> str:
        """The name of the column that has the argument; NULL, which no aggregate here takes, where the filter of the
        call is not true."""
        found = with_columns(argument, self._columns.__getitem__)
        if call.filter is not None:
            condition = with_columns(call.filter, self._columns.__getitem__)
            kind = found.type.as_nullable()
            found = Call(kind, "CASE", (condition, found, Constant(kind, None)))
        return self._names.setdefault(found, f"a{len(self._names)}")

    def _add(self, aggregate: Aggregate, kind: LogicalType) -> tuple[str, LogicalType]:
        return self._found.setdefault(aggregate, (f"r{len(self._found)}", kind))


def _built_in(name: str, argument: str, kind: LogicalType) -> tuple[Aggregate, LogicalType] | None:
    """The built-in aggregate of a function, and the type of its results; None: there is none."""
    match name:
        case "COUNT":
            return Count(argument), BIGINT
        case "COUNT DISTINCT" | "APPROX_COUNT_DISTINCT":
            return CountDistinct(argument), BIGINT
        case "SUM" | "AVG" if isinstance(kind, DecimalType):
            scale = kind.scale if name == "SUM" else max(6, kind.scale)
            return (Sum if name == "SUM" else Avg)(argument), DECIMAL(MAX_PRECISION, scale)
        case "SUM":
            return Sum(argument), DOUBLE if kind.is_one_of(APPROXIMATE) else BIGINT
        case "AVG":
            return Avg(argument), DOUBLE
        case "MIN" | "MAX" if kind.root in _COMPARED:
            return (Min if name == "MIN" else Max)(argument), kind.as_nullable()
        case "FIRST_VALUE" | "LAST_VALUE":
            return (First if name == "FIRST_VALUE" else Last)(argument), kind.as_nullable()
    return None


def call_of_interval(time: BoundExpression, millis: int) -> BoundExpression:
    """A time so many milliseconds later."""
    return Call(time.type, "+", (time, Constant(INTERVAL("SECOND", fraction=3).not_null(), millis)))
