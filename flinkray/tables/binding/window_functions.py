"""TUMBLE, HOP, CUMULATE and SESSION in FROM: their arguments by place or by name."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.tables.binding.constants import interval
from flinkray.tables.binding.context import Context
from flinkray.tables.binding.expressions import ExpressionBinder
from flinkray.tables.plans.expressions import Column, Plan
from flinkray.tables.plans.nodes import WindowTableFunction
from flinkray.tables.syntax.expressions import (
    Call,
    Descriptor,
    Expression,
    Interval,
    NamedArgument,
    Subquery,
    TableArgument,
)
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.types.logical import TIMESTAMP, RowField, TimestampType

# The parameters of each function in their order; those in parentheses may be left out.
_PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "(OFFSET)"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "(OFFSET)"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "(OFFSET)"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
WINDOW_FUNCTIONS = frozenset(_PARAMETERS)
_COLUMNS = ("window_start", "window_end", "window_time")


def table_argument(call: Call, context: Context) -> TableArgument:
    """The table that a window function is called with."""
    data = _arguments(call, context)["DATA"]
    if isinstance(data, Subquery):
        return TableArgument(data.query, span=data.span)
    if not isinstance(data, TableArgument):
        context.fail(data, f"{_name(call)} takes a table: TABLE name, or TABLE (query)")
    return data


def window_table_function(call: Call, source: Plan, binder: ExpressionBinder) -> WindowTableFunction:
    """The windows of the rows of a table; the binder binds over its columns.

    Raises:
        SqlValidationError: an argument is missing or of another kind, or the column is no time attribute.
    """
    context, name = binder.context, _name(call)
    arguments = _arguments(call, context)
    time, kind = _time_column(name, arguments["TIMECOL"], source, context)
    lengths = {each: _length(name, each, node, context) for each, node in arguments.items() if each not in _TABLES}
    size = lengths.get("SIZE", lengths.get("GAP", 0))
    slide = lengths.get("SLIDE", lengths.get("STEP", 0))
    if name == "CUMULATE" and size % slide:
        context.fail(arguments["SIZE"], "the size of CUMULATE is a multiple of its step")
    table = table_argument(call, context)
    if table.partition_by and name != "SESSION":
        context.fail(table.partition_by[0], f"PARTITION BY is for SESSION, not for {name}")
    partition_by = []
    for node in table.partition_by:
        column = binder.bind(node)
        if not isinstance(column, Column):
            context.fail(node, "PARTITION BY of a table takes its columns")
        partition_by.append(column.index)
    bounds = TIMESTAMP(3).not_null()
    types = (bounds, bounds, replace(kind, nullable=False, precision=3))  # windows end with a millisecond
    columns = tuple(RowField(each, of) for each, of in zip(_COLUMNS, types, strict=True))
    taken = next((each for each in _COLUMNS if each in source.row_type.names), None)
    if taken is not None:
        context.fail(call, f"the table has a column {taken!r} already; give it another name in a subquery")
    return WindowTableFunction(source, name, time, size, slide, lengths.get("OFFSET", 0), tuple(partition_by), columns)


_TABLES = ("DATA", "TIMECOL")


def _name(call: Call) -> str:
    return call.function.texts[-1].upper()


def _arguments(call: Call, context: Context) -> dict[str, Expression]:
    """The arguments by the names of their parameters."""
    name = _name(call)
    parameters = [each.strip("()") for each in _PARAMETERS[name]]
    optional = {each.strip("()") for each in _PARAMETERS[name] if each.startswith("(")}
    found: dict[str, Expression] = {}
    for place, argument in enumerate(call.arguments):
        if isinstance(argument, NamedArgument):
            key = argument.name.text.upper()
            if key not in parameters:
                context.fail(argument, f"{name} has no argument {argument.name.text}; it takes {', '.join(parameters)}")
            found[key] = argument.value
        elif place < len(parameters):
            found[parameters[place]] = argument
        else:
            context.fail(argument, f"{name} takes {', '.join(parameters)}, and nothing more")
    for parameter in parameters:
        if parameter not in found and parameter not in optional:
            context.fail(call, f"{name} needs {parameter}; it takes {', '.join(parameters)}")
    return found


def _time_column(name: str, node: Expression, source: Plan, context: Context) -> tuple[int, TimestampType]:
    if not isinstance(node, Descriptor) or len(node.columns) != 1:
        context.fail(node, f"{name} takes its time as DESCRIPTOR(column)")
    column = node.columns[0].text
    rows = source.row_type
    if column not in rows.names:
        known = ", ".join(rows.names)
        context.fail(node.columns[0], f"no column {column!r} in the table; columns: {known}")
    index = rows.names.index(column)
    kind = rows.types[index]
    if not isinstance(kind, TimestampType) or kind.attribute is None:
        context.fail(node.columns[0], f"{name} is over a time attribute, and {column!r} is {kind}; {_REMEDY}")
    return index, kind


_REMEDY = (
    "declare it with WATERMARK FOR, or as PROCTIME(), in a table; of a stream that has event times, "
    "stream.with_rowtime('rowtime') gives a column of them; what is computed of a time attribute, a CAST too, is none"
)


def _length(name: str, parameter: str, node: Node, context: Context) -> int:
    if not isinstance(node, Interval):
        context.fail(node, f"{parameter} of {name} is an interval, such as INTERVAL '10' SECOND")
    found = interval(node, context)
    if node.units.first in ("YEAR", "QUARTER", "MONTH"):
        context.fail(node, f"{parameter} of {name} is of days to seconds: months are not equally long")
    if found.value <= 0 and parameter != "OFFSET":
        context.fail(node, f"{parameter} of {name} is longer than nothing")
    value: int = found.value
    return value
