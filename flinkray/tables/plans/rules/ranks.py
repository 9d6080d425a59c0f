"""`WHERE ROW_NUMBER() OVER (...) <= n`: the first rows of each key, of which no more have to be kept."""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Constant,
    Plan,
    SortKey,
    WindowCall,
    columns_of,
    conjunction,
    conjuncts,
)
from flinkray.tables.plans.nodes import Deduplicate, Filter, Project, Rank, Values, Window
from flinkray.tables.plans.rules.rewriting import bottom_up, columns
from flinkray.tables.types.logical import INTEGERS, RowField, TimestampType

_RANKINGS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
UNBOUNDED = 2**62
"""The last rank where no number says which."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def find_ranks(plan: Plan) -> Plan:
    """The plan with `Rank`, or `Deduplicate` by a time attribute, for filters on row numbers."""
    return bottom_up(plan, _ranked)


def _ranked(plan: Plan) -> Plan:
    if not isinstance(plan, Filter) or not isinstance(plan.input, Window) or len(plan.input.calls) != 1:
        return plan
    window = plan.input
    call = window.calls[0]
    if call.function not in _RANKINGS:
        return plan
    place = len(window.input.row_type.fields)
    first, last, rest = 1, None, []
    for condition in conjuncts(plan.condition):
        bounds = _bounds(condition, place)
        if bounds is None:
            rest.append(condition)
            continue
        first = max(first, bounds[0])
        last = bounds[1] if last is None else last if bounds[1] is None else min(last, bounds[1])
    keys = _keys(call)
    if last is None and not _is_over_time(call) and any(_is_of_column(each, place) for each in rest):
        last = UNBOUNDED  # the filter above says for each row whether its rank is wanted
    if last is None or keys is None:
        return plan
    if last < first:
        return Values((), plan.row_type)
    found = _node(window, call, keys, first, last)
    remaining = conjunction(rest)
    return found if remaining is None else Filter(found, remaining)


def _node(
    window: Window, call: WindowCall, keys: tuple[tuple[int, ...], tuple[SortKey, ...]], first: int, last: int
) -> Plan:
    partition, order = keys
    number = RowField(window.names[0], call.type)
    rows = window.input.row_type
    kind = rows.types[order[0].index] if order else None
    by_time = len(order) == 1 and isinstance(kind, TimestampType) and kind.attribute is not None
    by_time = by_time and order[0].nulls_first is not order[0].descending  # NULL is before all times
    if call.function == "ROW_NUMBER" and (first, last) == (1, 1) and by_time and partition:
        deduplicated = Deduplicate(window.input, partition, order[0].index, order[0].descending)
        one = Constant(call.type, 1)
        return Project(deduplicated, (*columns(deduplicated), one), window.row_type.names)
    return Rank(window.input, call.function, partition, order, first, last, True, number)


def _keys(call: WindowCall) -> tuple[tuple[int, ...], tuple[SortKey, ...]] | None:
    """The columns that the call is partitioned and ordered by."""
    partition = [each.index for each in call.partition_by if isinstance(each, Column)]
    order = [
        SortKey(each.index, descending, nulls) for each, descending, nulls in call.order_by if isinstance(each, Column)
    ]
    is_whole = len(partition) == len(call.partition_by) and len(order) == len(call.order_by)
    return (tuple(partition), tuple(order)) if is_whole else None


def _bounds(condition: BoundExpression, place: int) -> tuple[int, int | None] | None:
    """The least and the largest row number for which a condition holds; None: it is not on the row number alone."""
    if not isinstance(condition, Call) or condition.function not in _TURNED:
        return None
    operator, sides = condition.function, condition.arguments
    if _is_number(sides[0]):
        operator, sides = _TURNED[operator], sides[::-1]
    return _range(operator, sides, place)


def _is_of_column(condition: BoundExpression, place: int) -> bool:
    """Whether it compares the row number with a column of the row, above which it wants none."""
    if not isinstance(condition, Call) or condition.function not in _TURNED:
        return False
    operator, (number, bound) = condition.function, condition.arguments
    if isinstance(bound, Column) and bound.index == place:
        operator, number, bound = _TURNED[operator], bound, number
    is_number = isinstance(number, Column) and number.index == place
    return is_number and operator in ("<", "<=", "=") and bool(others := columns_of(bound)) and place not in others


def _is_over_time(call: WindowCall) -> bool:
    """Whether rows come in the order of the window, so that a number once given stays."""
    if len(call.order_by) != 1:
        return False
    key, descending, _ = call.order_by[0]
    return isinstance(key.type, TimestampType) and key.type.attribute is not None and not descending


def _is_number(expression: BoundExpression) -> bool:
    return isinstance(expression, Constant) and expression.type.root in INTEGERS and expression.value is not None


def _range(operator: str, sides: Sequence[BoundExpression], place: int) -> tuple[int, int | None] | None:
    column, constant = sides
    if not isinstance(column, Column) or column.index != place or not isinstance(constant, Constant):
        return None
    if not _is_number(constant):
        return None
    value: int = constant.value
    ranges: dict[str, tuple[int, int | None]] = {
        "<": (1, value - 1),
        "<=": (1, value),
        "=": (value, value),
        ">": (value + 1, None),
        ">=": (value, None),
    }
    return ranges[operator]
