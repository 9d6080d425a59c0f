"""Conditions of DEFINE that look at several rows, asked for one row at a time.

Comparisons of plain values and what joins them are computed on values of Python, which costs a fraction of what a call
of Arrow does for one row; anything else goes through the kernels of expressions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from actors.operators.patterns.steps import Event, Taken, events_of
from actors.operators.tables.matches.reads import MatchRows, Reads
from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Constant,
    MatchRead,
    PatternVariable,
    columns_of,
)
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import INTEGERS, TEXTS, DecimalType, LogicalType, TimestampType, TypeRoot

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARED = INTEGERS | TEXTS | {TypeRoot.DOUBLE, TypeRoot.DATE, TypeRoot.BOOLEAN}
Evaluate = Callable[[Mapping[int, Any]], Any]
"""The value of an expression, by the values of its columns; NULL is None."""


class Condition:
    """A condition of a variable."""

    def __init__(self, variable: PatternVariable, reads: Reads) -> None:
        assert variable.condition is not None
        self._name = variable.name
        self._condition = variable.condition
        self._reads = reads
        self._read = sorted(columns_of(variable.condition))
        self._aggregates = any(reads.reads[each].kind == "AGGREGATE" for each in self._read)
        self._simple = simple(variable.condition)
        self._prepared = prepared(variable.condition, EvaluationContext())

    def holds(self, event: Event, last: Taken | None, now_ms: int) -> bool:
        """Whether it is true for a row, which is one more of its variable behind those of a match."""
        row, reads = Taken(self._name, event, last), self._reads.reads
        if self._simple is not None and not self._aggregates:
            return bool(self._simple({each: self._value(reads[each], row) for each in self._read}))
        match = MatchRows(events_of(row), event.time)
        columns = {each: self._reads.column(reads[each], [match], now_ms) for each in self._read}
        context = EvaluationContext(now_micros=now_ms * 1000)
        return bool(calculate(self._prepared, columns, 1, context)[0].as_py())

    def _value(self, read: MatchRead, row: Taken) -> Any:
        """What FIRST or LAST reads; for LAST no further back than needed, as a match may have many rows."""
        if read.kind == "FIRST":
            return self._reads.value(read, MatchRows(events_of(row), row.event.time).of(read.variable))
        left, each = read.offset, row
        while True:
            if read.variable in (None, each.name):
                if not left:
                    return self._reads.of_row(read, each.event)
                left -= 1
            if each.before is None:
                return None
            each = each.before


def simple(expression: BoundExpression) -> Evaluate | None:
    """The expression on values of Python; None: it has something that is not computed on these."""
    match expression:
        case Column(index=index):
            return lambda values: values[index]
        case Constant(value=value, type=kind):
            return (lambda _: value) if value is None or _is_compared(kind) else None
        case Call(function="AND" | "OR", arguments=arguments):
            parts = [simple(each) for each in arguments]
            return None if None in parts else _joined([each for each in parts if each], expression.function == "OR")
        case Call(function="NOT", arguments=(argument,)):
            inner = simple(argument)
            return None if inner is None else _negated(inner)
        case Call(function="IS NULL" | "IS NOT NULL" as name, arguments=(argument,)):
            inner = simple(argument)
            return None if inner is None else _is_null(inner, name == "IS NULL")
        case Call(function=name, arguments=(left, right)) if name in _COMPARISONS and _are_alike(left, right):
            first, second = simple(left), simple(right)
            return None if first is None or second is None else _compared(_COMPARISONS[name], first, second)
    return None


def _is_compared(kind: LogicalType) -> bool:
    return kind.root in _COMPARED or isinstance(kind, DecimalType | TimestampType)


def _are_alike(left: BoundExpression, right: BoundExpression) -> bool:
    """Whether values of both compare as those of Python do."""
    first, second = left.type, right.type
    if isinstance(first, TimestampType) or isinstance(second, TimestampType):
        return bool(to_arrow(first) == to_arrow(second))
    both = {first.root, second.root}
    is_one_kind = both <= INTEGERS or both <= TEXTS or len(both) == 1
    return is_one_kind and _is_compared(first) and _is_compared(second)


def _joined(parts: Sequence[Evaluate], decides: bool) -> Evaluate:
    def joined(values: Mapping[int, Any]) -> bool | None:
        is_open = False
        for part in parts:
            found: bool | None = part(values)
            if found is decides:
                return decides
            is_open |= found is None
        return None if is_open else not decides

    return joined


def _negated(inner: Evaluate) -> Evaluate:
    def negated(values: Mapping[int, Any]) -> bool | None:
        found: bool | None = inner(values)
        return None if found is None else not found

    return negated


def _is_null(inner: Evaluate, expected: bool) -> Evaluate:
    return lambda values: (inner(values) is None) is expected


def _compared(compare: Callable[[Any, Any], bool], left: Evaluate, right: Evaluate) -> Evaluate:
    def compared(values: Mapping[int, Any]) -> bool | None:
        first, second = left(values), right(values)
        return None if first is None or second is None else bool(compare(first, second))

    return compared
