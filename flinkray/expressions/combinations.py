"""Expressions of several others: one of them, as conditions, nulls or their order choose; or all, as a row."""

from __future__ import annotations

from dataclasses import dataclass

from flinkray.errors import InvalidProgramError
from flinkray.expressions.tree import Call, Expression, as_expression, col


@dataclass(frozen=True, slots=True)
class Then:
    """What `when(...).then(...)` gives: add another `when(...).then(...)`, and end with `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]

    def when(self, condition: Expression) -> When:
        """Another condition, for rows for which none of those before holds."""
        return When(_as_condition(condition), self.branches)

    def otherwise(self, value: object) -> Expression:
        """The value where no condition holds; None for null."""
        result = as_expression(value)
        for condition, chosen in reversed(self.branches):
            result = Call("if_else", (condition, chosen, result))
        return result


@dataclass(frozen=True, slots=True)
class When:
    """A condition that waits for its `then`."""

    condition: Expression
    earlier: tuple[tuple[Expression, Expression], ...] = ()

    def then(self, value: object) -> Then:
        """The value where the condition holds: an expression, or a constant."""
        return Then((*self.earlier, (self.condition, as_expression(value))))


def when(condition: Expression) -> When:
    """Starts `when(a > 1).then("many").when(...).then(...).otherwise("one")`: the first condition that holds decides.

    A null condition does not hold.
    """
    return When(_as_condition(condition))


def if_else(condition: Expression, then: object, otherwise: object) -> Expression:
    """`then` where the condition holds, else `otherwise` (also where the condition is null)."""
    return when(condition).then(then).otherwise(otherwise)


def coalesce(*values: object) -> Expression:
    """The first of the values that is not null."""
    return _several("coalesce", values)


def least(*values: object) -> Expression:
    """The smallest of the values, nulls left out."""
    return _several("least", values)


def greatest(*values: object) -> Expression:
    """The largest of the values, nulls left out."""
    return _several("greatest", values)


def struct(*columns: str, **fields: object) -> Expression:
    """Several columns as one value, a row: `struct("item", "price")`, or `struct("item", cents=col("price") * 100)`. A
    text is the name of a column here; `lit("text")` is one.

    So an aggregate takes more than one column: `ArgMax(struct("item", "price"), by="price")`.
    """
    if not columns and not fields:
        raise InvalidProgramError('struct needs at least one column: struct("item", "price")')
    named = {name: col(name) for name in columns} | {name: _column_or_value(each) for name, each in fields.items()}
    if len(named) < len(columns) + len(fields):
        raise InvalidProgramError(f"struct: two fields have one name: {', '.join([*columns, *fields])}")
    return Call("struct", tuple(named.values()), (("names", tuple(named)),))


def _column_or_value(value: object) -> Expression:
    return col(value) if isinstance(value, str) else as_expression(value)


def _several(function: str, values: tuple[object, ...]) -> Expression:
    if not values:
        raise InvalidProgramError(f"{function} needs at least one value")
    return Call(function, tuple(as_expression(value) for value in values))


def _as_condition(condition: object) -> Expression:
    if not isinstance(condition, Expression):
        raise InvalidProgramError(f"when takes an expression as its condition, not {condition!r}")
    return condition
