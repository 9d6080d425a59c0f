"""Joins whose condition holds rows near each other in time, so that a row has no partners any more after a while."""

from __future__ import annotations

from msgspec import Struct

from flinkray.tables.plans.expressions import BoundExpression, Call, Column, Constant, conjunction, conjuncts
from flinkray.tables.plans.nodes import Join
from flinkray.tables.types.logical import IntervalType, TimeAttribute, TimestampType, TypeRoot

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


class IntervalBounds(Struct, frozen=True):
    """What a condition says of time: `lower_ms <= right's time - left's time <= upper_ms`, and what else it says."""

    left: int
    """The column of the left's time."""
    right: int
    """The column of the right's time, in the right input."""
    lower_ms: int
    upper_ms: int
    attribute: TimeAttribute
    condition: BoundExpression | None


def interval_bounds(plan: Join) -> IntervalBounds | None:
    """The bounds of the first pair of time attributes of both inputs, of the same kind, that the condition bounds on
    both sides; None: there is none, or the join is none of an interval."""
    if plan.kind in ("SEMI", "ANTI"):
        return None
    for left, right in dict.fromkeys((*_compared(plan), *plan.strict_keys)):
        found = _bounds(plan, left, right)
        if found is not None:
            return found
    return None


def _bounds(plan: Join, left: int, right: int) -> IntervalBounds | None:
    attribute = _attribute(plan.left.row_type.types[left])
    if attribute is None or attribute is not _attribute(plan.right.row_type.types[right]):
        return None
    # Of times that are equal the key says so.
    lowest, highest = ([0], [0]) if (left, right) in plan.strict_keys else ([], [])
    rest: list[BoundExpression] = []
    for each in _conditions(plan):
        found = _difference(each, len(plan.left.row_type.fields))
        if found is None or (found.left, found.right) != (left, right):
            rest.append(each)
            continue
        if found.comparison in (">", ">=", "="):
            lowest.append(found.ms + (found.comparison == ">"))
        if found.comparison in ("<", "<=", "="):
            highest.append(found.ms - (found.comparison == "<"))
    if not lowest or not highest:
        return None
    return IntervalBounds(left, right, max(lowest), min(highest), attribute, conjunction(rest))


class _Difference(Struct, frozen=True):
    """The right's time less the left's, compared with milliseconds."""

    left: int
    right: int
    comparison: str
    ms: int


def _conditions(plan: Join) -> list[BoundExpression]:
    return [] if plan.condition is None else list(conjuncts(plan.condition))


def _compared(plan: Join) -> list[tuple[int, int]]:
    """The pairs of times that the condition compares."""
    found = [_difference(each, len(plan.left.row_type.fields)) for each in _conditions(plan)]
    return [(each.left, each.right) for each in found if each is not None]


def _difference(condition: BoundExpression, width: int) -> _Difference | None:
    """What a comparison of two times comes to: `a.t + x >= b.t + y` is `b.t - a.t <= x - y`."""
    if not isinstance(condition, Call) or condition.function not in _MIRRORED:
        return None
    one, other = map(_moved_time, condition.arguments)
    if one is None or other is None:
        return None
    (first, first_ms), (second, second_ms) = one, other
    if first < width <= second:
        return _Difference(first, second - width, _MIRRORED[condition.function], first_ms - second_ms)
    if second < width <= first:
        return _Difference(second, first - width, condition.function, second_ms - first_ms)
    return None


def _moved_time(expression: BoundExpression) -> tuple[int, int] | None:
    """A column of times of milliseconds, and how many it is moved by."""
    match expression:
        case Column(index=index) if _attribute(expression.type) is not None:
            return index, 0
        case Call(function="+" | "-" as sign, arguments=(moved, Constant() as constant)):
            found, by = _moved_time(moved), _milliseconds(constant)
        case Call(function="+" as sign, arguments=(Constant() as constant, moved)):
            found, by = _moved_time(moved), _milliseconds(constant)
        case _:
            return None
    if found is None or by is None:
        return None
    return found[0], found[1] + (by if sign == "+" else -by)


def _milliseconds(constant: Constant) -> int | None:
    is_length = isinstance(constant.type, IntervalType) and constant.type.root is TypeRoot.INTERVAL_DAY_TIME
    return int(constant.value) if is_length and constant.value is not None else None


def _attribute(kind: object) -> TimeAttribute | None:
    return kind.attribute if isinstance(kind, TimestampType) else None
