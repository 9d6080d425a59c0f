"""The rows of a logical plan, computed row by row in Python: slow, and plain enough to be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flinkray.tables.plans import nodes
from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    Call,
    Column,
    Constant,
    OuterColumn,
    Plan,
    SortKey,
    Subquery,
)

Row = tuple[Any, ...]
Tables = Mapping[str, Sequence[Row]]
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "||": lambda a, b: a + b,
}


def value_of(expression: BoundExpression, row: Row, outer: tuple[Row, ...], tables: Tables) -> Any:
    """The value of an expression for a row, within the rows of the queries around, the nearest first."""

    def value(each: BoundExpression) -> Any:
        return value_of(each, row, outer, tables)

    match expression:
        case Column(index=index):
            return row[index]
        case OuterColumn(index=index, level=level):
            return outer[level - 1][index]
        case Constant(value=constant):
            return constant
        case Subquery():
            return _subquery(expression, [value(each) for each in expression.operands], (row, *outer), tables)
        case Call(function="AND" | "OR" as name, arguments=arguments):
            values = [value(each) for each in arguments]
            decisive = name == "OR"
            return decisive if decisive in values else None if None in values else not decisive
        case Call(function="NOT", arguments=(operand,)):
            found = value(operand)
            return None if found is None else not found
        case Call(function="IS NULL", arguments=(operand,)):
            return value(operand) is None
        case Call(function="IS TRUE", arguments=(operand,)):
            return value(operand) is True
        case Call(function="IS NOT NULL", arguments=(operand,)):
            return value(operand) is not None
        case Call(function="IS NOT FALSE", arguments=(operand,)):
            return value(operand) is not False
        case Call(function="IS NOT DISTINCT FROM", arguments=(left, right)):
            return bool(value(left) == value(right))
        case Call(function="CAST", arguments=(operand,)):
            return value(operand)
        case Call(function="COALESCE", arguments=arguments):
            return next((found for each in arguments if (found := value(each)) is not None), None)
        case Call(function="IN", arguments=(operand, *items)):
            return _contains([value(each) for each in items], value(operand))
        case Call(function="CASE", arguments=arguments):
            for place in range(0, len(arguments) - 1, 2):
                if value(arguments[place]) is True:
                    return value(arguments[place + 1])
            return value(arguments[-1]) if len(arguments) % 2 else None
        case Call(function=name, arguments=(left, right)):
            first, second = value(left), value(right)
            return None if first is None or second is None else _COMPARISONS[name](first, second)
    raise NotImplementedError(expression)


def _contains(items: Sequence[Any], sought: Any) -> bool | None:
    if not items:
        return False
    if sought is not None and sought in items:
        return True
    return None if sought is None or None in items else False


def _subquery(subquery: Subquery, operands: list[Any], outer: tuple[Row, ...], tables: Tables) -> Any:
    rows = rows_of(subquery.plan, tables, outer)
    if subquery.kind == "EXISTS":
        return bool(rows)
    if subquery.kind == "SCALAR":
        assert len(rows) < 2
        return rows[0][0] if rows else None
    if subquery.kind == "IN":
        found = [_equal(row, operands) for row in rows]
        return True if True in found else None if None in found else False
    operator, quantifier = subquery.kind.split()
    found = [None if None in (row[0], operands[0]) else _COMPARISONS[operator](operands[0], row[0]) for row in rows]
    decisive = quantifier == "ANY"
    return decisive if decisive in found else None if None in found else not decisive


def _equal(row: Row, operands: list[Any]) -> bool | None:
    found = [None if None in pair else pair[0] == pair[1] for pair in zip(row, operands, strict=True)]
    return False if False in found else None if None in found else True


def rows_of(plan: Plan, tables: Tables, outer: tuple[Row, ...] = ()) -> list[Row]:
    """The rows of a plan over tables by name."""

    def value(expression: BoundExpression, row: Row) -> Any:
        return value_of(expression, row, outer, tables)

    if isinstance(plan, nodes.Correlate):
        left = rows_of(plan.left, tables, outer)
        nothing = [(None,) * len(plan.right.row_type.fields)] if plan.kind == "LEFT" else []
        return [(*row, *other) for row in left for other in rows_of(plan.right, tables, (row, *outer)) or nothing]
    inputs = [rows_of(each, tables, outer) for each in plan.inputs]
    match plan:
        case nodes.Scan():
            return [tuple(row[each] for each in plan.columns) for row in tables[plan.table.path[2]]]
        case nodes.Values():
            return [tuple(value(each, ()) for each in row) for row in plan.rows]
        case nodes.Filter():
            return [row for row in inputs[0] if value(plan.condition, row) is True]
        case nodes.Project():
            return [tuple(value(each, row) for each in plan.expressions) for row in inputs[0]]
        case nodes.WatermarkAssigner():
            return inputs[0]
        case nodes.Distinct():
            return list(dict.fromkeys(inputs[0]))
        case nodes.Sort():
            return _sorted(inputs[0], plan.keys)
        case nodes.Limit():
            return inputs[0][plan.offset :][: plan.count]
        case nodes.SetOperation():
            return _set_operation(plan, inputs[0], inputs[1])
        case nodes.Join():
            return list(_join(plan, inputs[0], inputs[1], value))
        case nodes.Aggregate():
            return list(_aggregate(plan, inputs[0], value))
        case nodes.Window():
            return list(_window(plan, inputs[0], value))
        case nodes.Rank():
            return list(_rank(plan, inputs[0]))
        case nodes.Deduplicate():
            return list(_deduplicate(plan, inputs[0]))
    raise NotImplementedError(plan)


Value = Callable[[BoundExpression, Row], Any]


def _sorted(rows: list[Row], keys: Sequence[SortKey]) -> list[Row]:
    for key in reversed(keys):
        nulls = [row for row in rows if row[key.index] is None]
        others = [row for row in rows if row[key.index] is not None]
        others.sort(key=lambda row: row[key.index], reverse=key.descending)
        rows = nulls + others if key.nulls_first else others + nulls
    return rows


def _set_operation(plan: nodes.SetOperation, left: list[Row], right: list[Row]) -> list[Row]:
    if plan.kind == "UNION":
        return left + right if plan.all else list(dict.fromkeys(left + right))
    assert not plan.all
    keeps = plan.kind == "INTERSECT"
    return [row for row in dict.fromkeys(left) if (row in right) == keeps]


def _join(plan: nodes.Join, left: list[Row], right: list[Row], value: Value) -> Iterator[Row]:
    def pairs(row: Row, other: Row) -> bool | None:
        found = [None if row[a] is None or other[b] is None else row[a] == other[b] for a, b in plan.strict_keys]
        found += [row[plan.keys[place][0]] == other[plan.keys[place][1]] for place in plan.nulls_equal]
        found += [] if plan.condition is None else [value(plan.condition, row + other)]
        return False if False in found else None if None in found else True

    matched = set()
    for row in left:
        results = [pairs(row, other) for other in right]
        hits = [place for place, result in enumerate(results) if result is True]
        matched.update(hits)
        if plan.kind == "SEMI":
            yield from [row] if hits else []
        elif plan.kind == "ANTI":
            yield from [] if hits or (plan.is_null_aware and None in results) else [row]
        else:
            yield from (row + right[place] for place in hits)
            if not hits and plan.kind in ("LEFT", "FULL"):
                yield row + (None,) * len(plan.right.row_type.fields)
    if plan.kind in ("RIGHT", "FULL"):
        nothing = (None,) * len(plan.left.row_type.fields)
        yield from (nothing + other for place, other in enumerate(right) if place not in matched)


def _aggregate(plan: nodes.Aggregate, rows: list[Row], value: Value) -> Iterator[Row]:
    everything = tuple(range(len(plan.keys)))
    for chosen in plan.grouping_sets or (everything,):
        groups: dict[Row, list[Row]] = {} if chosen else {(None,) * len(plan.keys): []}
        for row in rows:
            key = tuple(row[key] if place in chosen else None for place, key in enumerate(plan.keys))
            groups.setdefault(key, []).append(row)
        for key, members in groups.items():
            yield (*key, *(_result(call, members, value) for call in plan.calls))


def _result(call: AggregateCall, rows: list[Row], value: Value) -> Any:
    if call.filter is not None:
        rows = [row for row in rows if value(call.filter, row) is True]
    if not call.arguments:
        return len(rows)
    found = [each for row in rows if (each := value(call.arguments[0], row)) is not None]
    found = list(dict.fromkeys(found)) if call.distinct else found
    if call.function == "COUNT":
        return len(found)
    if call.function == "SINGLE_VALUE":
        assert len(rows) < 2
        return found[0] if found else None
    return {"SUM": sum, "MIN": min, "MAX": max}[call.function](found) if found else None


def _window(plan: nodes.Window, rows: list[Row], value: Value) -> Iterator[Row]:
    results: list[dict[int, Any]] = []
    for call in plan.calls:
        groups: dict[Row, list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(tuple(value(each, row) for each in call.partition_by), []).append(place)
        found: dict[int, Any] = {}
        for places in groups.values():
            if call.function == "ROW_NUMBER":
                keyed = [(*(value(each, rows[place]) for each, _, _ in call.order_by), place) for place in places]
                keys = [SortKey(n, down, nulls) for n, (_, down, nulls) in enumerate(call.order_by)]
                found |= {row[-1]: number for number, row in enumerate(_sorted(keyed, keys), 1)}
            else:
                whole = AggregateCall(call.function, call.arguments, call.type)
                result = _result(whole, [rows[place] for place in places], value)
                found |= dict.fromkeys(places, result)
        results.append(found)
    for place, row in enumerate(rows):
        yield (*row, *(found[place] for found in results))


def _rank(plan: nodes.Rank, rows: list[Row]) -> Iterator[Row]:
    assert plan.kind == "ROW_NUMBER"
    for members in _groups(rows, plan.partition_by):
        for number, row in enumerate(_sorted(members, plan.order), 1):
            if plan.first <= number <= plan.last:
                yield (*row, number) if plan.has_number else row


def _deduplicate(plan: nodes.Deduplicate, rows: list[Row]) -> Iterator[Row]:
    for members in _groups(rows, plan.keys):
        yield _sorted(members, [SortKey(plan.time, plan.keeps_last, not plan.keeps_last)])[0]


def _groups(rows: list[Row], keys: Sequence[int]) -> Iterator[list[Row]]:
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    yield from groups.values()
