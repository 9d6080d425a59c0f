"""Logical plans as text: a line for each node, its inputs below it, columns by their names."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import singledispatch

from flinkray.tables.plans import nodes
from flinkray.tables.plans.changelogs import changes_of, inputs_need_before
from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    Call,
    Column,
    Constant,
    FieldAccess,
    Frame,
    FrameBound,
    MatchRead,
    OuterColumn,
    PatternVariable,
    Plan,
    SortKey,
    Subquery,
    WindowCall,
    expressions_of,
    walk,
)
from flinkray.tables.types.logical import TEXTS, IntervalType, TimestampType, TypeRoot

_INFIX = frozenset(["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "LIKE", "SIMILAR TO"]) | frozenset(
    ["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
)
_EPOCH = datetime.datetime(1970, 1, 1)
_PER_SECOND = {range(1): 1, range(1, 4): 10**3, range(4, 7): 10**6, range(7, 10): 10**9}


def explain(plan: Plan, before: bool | None = None) -> str:
    """The plan as text, which is the same for equal plans; ends with a newline.

    Args:
        before: shows what the rows of each node do, where what reads the plan needs -U or not (of an INSERT, its
            table); None: does not show it.
    """
    return "".join(f"{line}\n" for line in _lines(plan, before))


def node_text(plan: Plan) -> str:
    """A node as text, without its inputs."""
    return _text(plan)


def _lines(plan: Plan, before: bool | None) -> list[str]:
    lines = [_text(plan) + _changes_text(plan, before)]
    below = [_lines(each, need) for each, need in zip(plan.inputs, _needs_below(plan, before), strict=True)]
    for number, (title, each) in enumerate(_subqueries(plan), 1):
        below.append([f"{title}{number}: {each[0]}", *each[1:]])
    for place, each in enumerate(below):
        is_last = place == len(below) - 1
        lines.append(("+- " if is_last else "|- ") + each[0])
        lines += [("   " if is_last else "|  ") + line for line in each[1:]]
    return lines


def _changes_text(plan: Plan, before: bool | None) -> str:
    """As Flink writes the kinds of rows."""
    if before is None:
        return ""
    return f", changelogMode=[{'NONE' if isinstance(plan, nodes.Insert) else changes_of(plan, before)}]"


def _needs_below(plan: Plan, before: bool | None) -> tuple[bool | None, ...]:
    if before is None:
        return (None,) * len(plan.inputs)
    return (before,) if isinstance(plan, nodes.Insert) else inputs_need_before(plan, before)


def _subqueries(plan: Plan) -> list[tuple[str, list[str]]]:
    """The plans of queries in the node's expressions."""
    found = [each for expression in expressions_of(plan) for each in walk(expression) if isinstance(each, Subquery)]
    return [("query", _lines(each.plan, None)) for each in dict.fromkeys(found)]


# -- expressions


def expression_text(expression: BoundExpression, names: Sequence[str]) -> str:
    """An expression over columns with these names."""
    match expression:
        case Column(index=index):
            return names[index] if index < len(names) else f"${index}"
        case OuterColumn(index=index, level=level):
            return f"outer{level if level > 1 else ''}.${index}"
        case Constant():
            return _constant_text(expression)
        case FieldAccess(operand=operand, name=name):
            return f"{_operand(operand, names)}.{name}"
        case Subquery(kind=kind, operands=operands):
            left = ", ".join(expression_text(each, names) for each in operands)
            return f"{left} {kind} (query)".strip() if operands else f"{kind}(query)"
        case Call():
            return _call_text(expression, names)
    return type(expression).__name__


def _call_text(call: Call, names: Sequence[str]) -> str:
    name, count = call.function, len(call.arguments)
    if name in ("AND", "OR") or (name in _INFIX and count == 2):
        return f" {name} ".join(_operand(each, names) for each in call.arguments)
    if name.startswith("IS ") and count == 1:
        return f"{_operand(call.arguments[0], names)} {name}"
    if name == "IN":
        items = ", ".join(expression_text(each, names) for each in call.arguments[1:])
        return f"{_operand(call.arguments[0], names)} IN ({items})"
    if name == "ITEM":
        return f"{_operand(call.arguments[0], names)}[{expression_text(call.arguments[1], names)}]"
    texts = [expression_text(each, names) for each in call.arguments]
    if name in ("CAST", "TRY_CAST"):
        return f"{name}({texts[0]} AS {call.type.as_nullable()})"
    if name == "CASE":
        whens = [f"WHEN {texts[place]} THEN {texts[place + 1]}" for place in range(0, len(texts) - 1, 2)]
        otherwise = [f"ELSE {texts[-1]}"] if len(texts) % 2 else []
        return " ".join(["CASE", *whens, *otherwise, "END"])
    return f"{name}({', '.join(texts)})"


def _operand(expression: BoundExpression, names: Sequence[str]) -> str:
    text = expression_text(expression, names)
    is_open = isinstance(expression, Subquery) and bool(expression.operands)
    if isinstance(expression, Call):
        name = expression.function
        is_open = name in _INFIX and len(expression.arguments) == 2
        is_open = is_open or name in ("AND", "OR", "IN") or name.startswith("IS ")
    return f"({text})" if is_open else text


def _constant_text(constant: Constant) -> str:
    value, kind = constant.value, constant.type
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if kind.root in TEXTS:
        return "'" + str(value).replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if kind.root is TypeRoot.DATE:
        return f"DATE '{(_EPOCH + datetime.timedelta(days=value)).date()}'"
    if isinstance(kind, TimestampType):
        per_second = next(unit for digits, unit in _PER_SECOND.items() if kind.precision in digits)
        seconds, rest = divmod(value, per_second)
        fraction = f".{rest:0{len(str(per_second)) - 1}d}" if per_second > 1 else ""
        return f"{kind.kind.value} '{_EPOCH + datetime.timedelta(seconds=seconds)}{fraction}'"
    if isinstance(kind, IntervalType):
        return f"INTERVAL '{value}' MONTH" if kind.root is TypeRoot.INTERVAL_YEAR_MONTH else milliseconds(value)
    return str(value)


def milliseconds(length: int) -> str:
    """A length of time in the largest unit that makes it a whole number."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if length and length % size == 0:
            return f"{length // size} {unit}"
    return f"{length} ms"


# -- nodes


@singledispatch
def _text(plan: Plan) -> str:
    """One line for a node, without its inputs."""
    return type(plan).__name__


def _node(plan: Plan, *parts: str) -> str:
    return f"{type(plan).__name__}({', '.join(part for part in parts if part)})"


def _part(title: str, texts: Sequence[str]) -> str:
    return f"{title}=[{', '.join(texts)}]" if texts else ""


def _names_of(plan: Plan) -> tuple[str, ...]:
    names = [name for each in plan.inputs for name in each.row_type.names]
    return tuple(nodes.unique_names(names))


def keys_text(keys: Sequence[SortKey], names: Sequence[str]) -> list[str]:
    """Each key of an order as SQL has it."""
    return [names[key.index] + _direction(key.descending, key.nulls_first) for key in keys]


def _direction(descending: bool, nulls_first: bool) -> str:
    nulls = "" if nulls_first is not descending else " NULLS FIRST" if nulls_first else " NULLS LAST"
    return f"{' DESC' if descending else ''}{nulls}"


@_text.register
def _(plan: nodes.Scan) -> str:
    stored = plan.table.stored_columns
    return _node(plan, ".".join(plan.table.path), _part("columns", [stored[each].name for each in plan.columns]))


@_text.register
def _(plan: nodes.Values) -> str:
    rows = [f"({', '.join(expression_text(each, ()) for each in row)})" for row in plan.rows]
    return _node(plan, *rows)


@_text.register
def _(plan: nodes.Filter) -> str:
    return _node(plan, expression_text(plan.condition, _names_of(plan)))


@_text.register
def _(plan: nodes.Project) -> str:
    names = _names_of(plan)
    texts = []
    for expression, name in zip(plan.expressions, plan.names, strict=True):
        text = expression_text(expression, names)
        texts.append(text if text == name else f"{text} AS {name}")
    return _node(plan, *texts)


@_text.register
def _(plan: nodes.WatermarkAssigner) -> str:
    names = _names_of(plan)
    return _node(plan, f"{names[plan.column]} AS {expression_text(plan.watermark, names)}")


@_text.register
def _(plan: nodes.Aggregate) -> str:
    names = _names_of(plan)
    sets = [f"({', '.join(names[plan.keys[each]] for each in group)})" for group in plan.grouping_sets]
    results = plan.names[len(plan.keys) :]
    calls = [f"{aggregate_text(call, names)} AS {name}" for call, name in zip(plan.calls, results, strict=False)]
    window = ""
    if plan.window is not None:
        lengths = [milliseconds(each) for each in (plan.window.slide, plan.window.size) if each]
        window = f"window={plan.window.kind}({', '.join([names[plan.window.time], *lengths])})"
    properties = [each.kind for each in plan.properties]
    keys = _part("keys", [names[each] for each in plan.keys])
    return _node(plan, keys, _part("sets", sets), window, _part("calls", calls), _part("properties", properties))


def aggregate_text(call: AggregateCall, names: Sequence[str]) -> str:
    """A call of an aggregate over columns with these names."""
    arguments = ", ".join(expression_text(each, names) for each in call.arguments)
    if call.function == "COUNT" and not arguments:
        arguments = "*"
    text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{arguments})"
    text += _order_text(" WITHIN GROUP (ORDER BY {})", call.order, names)
    return text if call.filter is None else f"{text} FILTER ({expression_text(call.filter, names)})"


def _order_text(form: str, order: Sequence[tuple[BoundExpression, bool, bool]], names: Sequence[str]) -> str:
    texts = [f"{expression_text(each, names)}{_direction(down, nulls)}" for each, down, nulls in order]
    return form.format(", ".join(texts)) if texts else ""


@_text.register
def _(plan: nodes.WindowTableFunction) -> str:
    names = _names_of(plan)
    lengths = [milliseconds(each) for each in (plan.slide, plan.size) if each]
    offset = f"offset={milliseconds(plan.offset)}" if plan.offset else ""
    partition = _part("partition", [names[each] for each in plan.partition_by])
    return _node(plan, f"{plan.kind}({', '.join([names[plan.time], *lengths])})", partition, offset)


@_text.register
def _(plan: nodes.KindsAsColumn) -> str:
    return _node(plan, plan.name)


@_text.register
def _(plan: nodes.KindsOfColumn) -> str:
    return _node(plan, _names_of(plan)[-1])


@_text.register
def _(plan: nodes.Window) -> str:
    names = _names_of(plan)
    return _node(plan, *(_window_text(call, names) for call in plan.calls))


def _window_text(call: WindowCall, names: Sequence[str]) -> str:
    arguments = ", ".join(expression_text(each, names) for each in call.arguments)
    parts = []
    if call.partition_by:
        parts.append(f"PARTITION BY {', '.join(expression_text(each, names) for each in call.partition_by)}")
    parts.append(_order_text("ORDER BY {}", call.order_by, names))
    parts.append("" if call.frame is None else _frame_text(call.frame, names))
    over = " ".join(part for part in parts if part)
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{arguments}) OVER ({over})"


def _frame_text(frame: Frame, names: Sequence[str]) -> str:
    def bound(each: FrameBound) -> str:
        if each.direction == "CURRENT ROW":
            return each.direction
        return f"{'UNBOUNDED' if each.offset is None else expression_text(each.offset, names)} {each.direction}"

    return f"{frame.unit} BETWEEN {bound(frame.start)} AND {bound(frame.end)}"


@_text.register
def _(plan: nodes.Sort) -> str:
    return _node(plan, *keys_text(plan.keys, _names_of(plan)))


@_text.register
def _(plan: nodes.Limit) -> str:
    return _node(plan, "" if plan.count is None else str(plan.count), f"offset={plan.offset}" if plan.offset else "")


@_text.register
def _(plan: nodes.Rank) -> str:
    names = _names_of(plan)
    partition = _part("partition", [names[each] for each in plan.partition_by])
    order = _part("order", keys_text(plan.order, names))
    number = f"number={plan.number.name}" if plan.has_number else ""
    return _node(plan, plan.kind, f"{plan.first} to {plan.last}", partition, order, number)


@_text.register
def _(plan: nodes.Match) -> str:
    names = plan.input.row_type.names
    reads = [_read_text(each, names) for each in plan.reads]
    results = zip(plan.measures, plan.names[len(plan.partition_by) :], strict=True)
    defined = [_defined_text(each, names, reads) for each in plan.variables if each.conditions or each.condition]
    return _node(
        plan,
        _part("partitionBy", [names[each] for each in plan.partition_by]),
        _part("order", keys_text(plan.order, names)),
        _part("measures", [f"{expression_text(each, reads)} AS {name}" for each, name in results]),
        f"skip=[{' '.join(each for each in plan.skip if each)}]",
        f"pattern=[{' '.join(map(str, plan.variables))}]",
        "" if plan.window_ms is None else f"within=[{milliseconds(plan.window_ms)}]",
        _part("define", defined),
    )


def _read_text(read: MatchRead, names: Sequence[str]) -> str:
    of = "*" if read.variable is None else read.variable
    if read.call is not None:
        arguments = ", ".join(expression_text(each, [f"{of}.{name}" for name in names]) for each in read.call.arguments)
        return f"{read.call.function}({arguments or f'{of}.*'})"
    return f"{read.kind}({of}.{names[read.column]}, {read.offset})" if read.column >= 0 else f"MATCH_{read.kind}()"


def _defined_text(variable: PatternVariable, names: Sequence[str], reads: Sequence[str]) -> str:
    texts = [names[each] for each in variable.conditions]
    texts += [] if variable.condition is None else [expression_text(variable.condition, reads)]
    return f"{variable.name} AS {' AND '.join(texts)}"


@_text.register
def _(plan: nodes.Deduplicate) -> str:
    names = _names_of(plan)
    kept = "last" if plan.keeps_last else "first"
    return _node(plan, f"{kept} by {names[plan.time]}", _part("keys", [names[each] for each in plan.keys]))


@_text.register
def _(plan: nodes.Unnest) -> str:
    outer = "outer" if plan.is_outer else ""
    return _node(plan, expression_text(plan.collection, _names_of(plan)), _part("columns", plan.columns.names), outer)


@_text.register
def _(plan: nodes.TableFunctionCall) -> str:
    arguments = ", ".join(expression_text(each, _names_of(plan)) for each in plan.arguments)
    outer = "outer" if plan.is_outer else ""
    return _node(plan, f"{plan.function}({arguments})", _part("columns", plan.columns.names), outer)


def _join_parts(plan: nodes.Join | nodes.TemporalJoin) -> list[str]:
    left, right = plan.left.row_type.names, plan.right.row_type.names
    keys = [f"{left[first]} = {right[second]}" for first, second in plan.keys]
    condition = "" if plan.condition is None else f"condition={expression_text(plan.condition, _names_of(plan))}"
    return [plan.kind, _part("keys", keys), condition]


@_text.register
def _(plan: nodes.Join) -> str:
    return _node(plan, *_join_parts(plan), "null-aware" if plan.is_null_aware else "")


@_text.register
def _(plan: nodes.TemporalJoin) -> str:
    return _node(plan, *_join_parts(plan), f"as of {expression_text(plan.time, plan.left.row_type.names)}")


@_text.register
def _(plan: nodes.Correlate) -> str:
    return _node(plan, plan.kind)


@_text.register
def _(plan: nodes.SetOperation) -> str:
    return _node(plan, f"{plan.kind} ALL" if plan.all else plan.kind)


@_text.register
def _(plan: nodes.Insert) -> str:
    return _node(plan, ".".join(plan.table.path), "overwrite" if plan.overwrite else "")
