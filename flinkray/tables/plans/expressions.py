"""Expressions of plans: columns by number, constants, calls. Each has its type; equal ones compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.types.logical import BOOLEAN, LogicalType, RowType, TypeRoot


class Plan(Struct, frozen=True):
    """Base of all nodes of a plan (see `nodes`)."""

    @property
    def row_type(self) -> RowType:
        """Names and types of the columns of its rows."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Plan, ...]:
        """What its rows are made of."""
        return ()

    @property
    def levels(self) -> tuple[int, ...]:
        """How many levels of `OuterColumn` begin at each input: one where it reads columns of another input."""
        return (0,) * len(self.inputs)

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        """The same node over other inputs."""
        raise NotImplementedError


class BoundExpression(Struct, frozen=True):
    """Base of all expressions of plans."""

    type: LogicalType


class Column(BoundExpression, frozen=True):
    """A column of the input by its number."""

    index: int


class OuterColumn(BoundExpression, frozen=True):
    """A column of a query around this one: of the nearest for level 1, of the one around that for level 2."""

    index: int
    level: int = 1


class Constant(BoundExpression, frozen=True):
    """A constant. Of dates, times and intervals the value is a whole number: days since 1970; milliseconds, or what the
    precision asks for, of the day or since 1970; months or milliseconds."""

    value: Any


class Call(BoundExpression, frozen=True):
    """A function of `functions.registry` by its name, or one of the user's."""

    function: str
    arguments: tuple[BoundExpression, ...] = ()
    is_deterministic: bool = True
    time_zone: str | None = None
    """In which instants are dates and times of day, where the call depends on that; None: in UTC."""


class FieldAccess(BoundExpression, frozen=True):
    """A field of a ROW by its number."""

    operand: BoundExpression
    index: int
    name: str


class Subquery(BoundExpression, frozen=True):
    """A query in an expression. The kind is EXISTS, IN (the operands are compared with its columns), SCALAR (its one
    value), an ANY or ALL with the comparison before it (`> ALL`), or ARRAY, MAP or MULTISET of its rows."""

    kind: str
    plan: Plan
    operands: tuple[BoundExpression, ...] = ()
    why_not: str = ""
    """Why it stays in a plan that rules have been applied to, and the way out; "": nobody knows."""


class SortKey(Struct, frozen=True):
    """One key of an order, by a column of the input."""

    index: int
    descending: bool = False
    nulls_first: bool = True


class AggregateCall(Struct, frozen=True):
    """An aggregate of columns of the input; the filter is a column too."""

    function: str
    arguments: tuple[BoundExpression, ...]
    type: LogicalType
    distinct: bool = False
    filter: BoundExpression | None = None
    order: tuple[tuple[BoundExpression, bool, bool], ...] = ()
    """WITHIN GROUP: expression, whether descending, whether nulls come first."""
    ignore_nulls: bool | None = None


class FrameBound(Struct, frozen=True):
    """One end of a frame: PRECEDING, FOLLOWING or CURRENT ROW, with the offset, or None where it is unbounded."""

    direction: str
    offset: BoundExpression | None = None


class Frame(Struct, frozen=True):
    """The rows that a call OVER a window sees; unit is ROWS or RANGE."""

    unit: str
    start: FrameBound
    end: FrameBound


class WindowCall(Struct, frozen=True):
    """A call OVER a window of rows with the same keys."""

    function: str
    arguments: tuple[BoundExpression, ...]
    type: LogicalType
    partition_by: tuple[BoundExpression, ...] = ()
    order_by: tuple[tuple[BoundExpression, bool, bool], ...] = ()
    frame: Frame | None = None
    distinct: bool = False
    filter: BoundExpression | None = None
    ignore_nulls: bool | None = None


class PatternVariable(Struct, frozen=True):
    """A variable of a pattern of rows, and how many rows it takes."""

    name: str
    least: int = 1
    most: int | None = 1
    """None: any number."""
    is_greedy: bool = True
    conditions: tuple[int, ...] = ()
    """Columns of the input that have to be true for its rows."""
    condition: BoundExpression | None = None
    """What else has to hold; its columns are the numbers of the reads of the match."""

    def __str__(self) -> str:
        most = "" if self.most is None else str(self.most)
        return f"{self.name}{{{self.least},{most}}}{'' if self.is_greedy else '?'}"


class MatchRead(Struct, frozen=True):
    """What is read of the rows that a match has so far.

    The kind is FIRST or LAST (the row that is `offset` behind or before it), AGGREGATE, ROWTIME (the time of the last
    row) or PROCTIME.
    """

    kind: str
    type: LogicalType
    variable: str | None = None
    """Of the rows of this variable; None: of all."""
    offset: int = 0
    column: int = -1
    """The column of the input, of FIRST and LAST."""
    call: AggregateCall | None = None
    """Of AGGREGATE; its arguments are columns of the input, or constants."""


TRUE = Constant(BOOLEAN.not_null(), True)
FALSE = Constant(BOOLEAN.not_null(), False)


# -- looking at expressions, and rewriting them


def children(expression: BoundExpression) -> tuple[BoundExpression, ...]:
    """The expressions directly below one; those of a subquery's plan are not among them."""
    if isinstance(expression, Call):
        return expression.arguments
    if isinstance(expression, FieldAccess):
        return (expression.operand,)
    return expression.operands if isinstance(expression, Subquery) else ()


def walk(expression: BoundExpression) -> Iterator[BoundExpression]:
    """The expression and all below it."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def columns_of(*expressions: BoundExpression) -> frozenset[int]:
    """The numbers of the columns that expressions read, those that their subqueries read among them."""
    found = set()
    for expression in expressions:
        for each in walk(expression):
            if isinstance(each, Column):
                found.add(each.index)
            elif isinstance(each, Subquery):
                found |= outer_columns_of(each.plan)
    return frozenset(found)


def outer_columns_of(plan: Plan, level: int = 1) -> frozenset[int]:
    """The columns of the query `level` levels around that a plan reads."""
    found = set()
    for expression in expressions_of(plan):
        for each in walk(expression):
            if isinstance(each, OuterColumn) and each.level == level:
                found.add(each.index)
            elif isinstance(each, Subquery):
                found |= outer_columns_of(each.plan, level + 1)
    for child, more in zip(plan.inputs, plan.levels, strict=True):
        found |= outer_columns_of(child, level + more)
    return frozenset(found)


def expressions_of(value: Any) -> Iterator[BoundExpression]:
    """The expressions that a node of a plan has itself."""
    if isinstance(value, BoundExpression):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from expressions_of(each)
    elif isinstance(value, Struct) and not isinstance(value, LogicalType):
        fields = (getattr(value, name) for name in value.__struct_fields__)
        for field in fields:
            if not isinstance(field, Plan):
                yield from expressions_of(field)


def rewritten(expression: BoundExpression, change: Callable[[BoundExpression], BoundExpression]) -> BoundExpression:
    """The expression with `change` made to everything in it, from the leaves up."""
    if isinstance(expression, Call):
        arguments = tuple(rewritten(each, change) for each in expression.arguments)
        if arguments != expression.arguments:
            expression = replace(expression, arguments=arguments)
    elif isinstance(expression, FieldAccess):
        expression = replace(expression, operand=rewritten(expression.operand, change))
    elif isinstance(expression, Subquery) and expression.operands:
        expression = replace(expression, operands=tuple(rewritten(each, change) for each in expression.operands))
    return change(expression)


def with_columns(expression: BoundExpression, columns: Callable[[int], BoundExpression]) -> BoundExpression:
    """The expression with other expressions in the place of its columns."""
    return rewritten(expression, lambda each: columns(each.index) if isinstance(each, Column) else each)


def shifted(expression: BoundExpression, by: int) -> BoundExpression:
    """The expression over columns that stand `by` places further right."""
    return rewritten(
        expression, lambda each: replace(each, index=each.index + by) if isinstance(each, Column) else each
    )


def has_subquery(expression: BoundExpression) -> bool:
    """Whether a query is in it."""
    return any(isinstance(each, Subquery) for each in walk(expression))


def is_deterministic(expression: BoundExpression) -> bool:
    """Whether the same columns always give the same value."""
    return all(each.is_deterministic for each in walk(expression) if isinstance(each, Call))


def conjuncts(condition: BoundExpression | None) -> tuple[BoundExpression, ...]:
    """The conditions that all have to hold."""
    if condition is None or condition == TRUE:
        return ()
    if isinstance(condition, Call) and condition.function == "AND":
        return tuple(part for each in condition.arguments for part in conjuncts(each))
    return (condition,)


def conjunction(conditions: Iterable[BoundExpression]) -> BoundExpression | None:
    """The condition that all of these hold, each once; None where there are none."""
    found = tuple(dict.fromkeys(conditions))
    if len(found) < 2:
        return found[0] if found else None
    return Call(BOOLEAN.with_nullability(any(each.type.nullable for each in found)), "AND", found)


def equal(left: BoundExpression, right: BoundExpression) -> Call:
    """`left = right`."""
    return Call(BOOLEAN.with_nullability(left.type.nullable or right.type.nullable), "=", (left, right))


def is_null_constant(expression: BoundExpression) -> bool:
    """Whether it is NULL, cast to whatever type."""
    return isinstance(expression, Constant) and (expression.value is None or expression.type.root is TypeRoot.NULL)
