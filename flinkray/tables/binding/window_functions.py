"""Functions in FROM that take a table, TUMBLE, HOP, CUMULATE, SESSION, TO_CHANGELOG and FROM_CHANGELOG: their arguments
by place or by name."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.tables.binding.calls import plain
from flinkray.tables.binding.constants import interval
from flinkray.tables.binding.context import Context
from flinkray.tables.binding.expressions import ExpressionBinder
from flinkray.tables.plans.expressions import Call as BoundCall
from flinkray.tables.plans.expressions import Column, Constant, Plan, children, equal
from flinkray.tables.plans.nodes import Filter, KindsAsColumn, KindsOfColumn, Project, WindowTableFunction
from flinkray.tables.plans.rules.folding import folded
from flinkray.tables.plans.window_columns import TIME_REMEDY
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
from flinkray.tables.types.logical import BOOLEAN, STRING, TEXTS, TIMESTAMP, RowField, TimestampType
from flinkray.types.rows import SHORT_STRINGS

# The parameters of each function in their order; those in parentheses may be left out.
_PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "(OFFSET)"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "(OFFSET)"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "(OFFSET)"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
    "TO_CHANGELOG": ("INPUT", "(OP)", "(OP_MAPPING)"),
    "FROM_CHANGELOG": ("INPUT", "(OP)", "(OP_MAPPING)"),
}
TABLE_FUNCTIONS = frozenset(_PARAMETERS)
_KINDS = dict(zip(("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"), SHORT_STRINGS, strict=True))
_KIND = "$kind"
_COLUMNS = ("window_start", "window_end", "window_time")


def table_argument(call: Call, context: Context) -> TableArgument:
    """The table that a function is called with."""
    data = _arguments(call, context)[_PARAMETERS[_name(call)][0]]
    if isinstance(data, Subquery):
        return TableArgument(data.query, span=data.span)
    if not isinstance(data, TableArgument):
        context.fail(data, f"{_name(call)} takes a table: TABLE name, or TABLE (query)")
    return data


def window_table_function(call: Call, source: Plan, binder: ExpressionBinder) -> WindowTableFunction:
    """The windows of the rows of a table; the binder binds over its columns.

    Raises:
        SqlValidationError: an argument is missing or of another kind, or the column is no time.
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
    if not isinstance(kind, TimestampType):
        context.fail(node.columns[0], f"{name} is over a time attribute, and {column!r} is {kind}; {TIME_REMEDY}")
    return index, kind


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


# -- between changes and rows


def changelog_function(call: Call, source: Plan, binder: ExpressionBinder) -> Plan:
    """The changes of a table as rows that say what they do, or such rows as changes.

    Raises:
        SqlValidationError: an argument is missing or of another kind.
    """
    context, name = binder.context, _name(call)
    arguments = _arguments(call, context)
    table = table_argument(call, context)
    if table.partition_by:
        context.fail(table.partition_by[0], f"PARTITION BY is for SESSION, not for {name}")
    operation = "op"
    if "OP" in arguments:
        node = arguments["OP"]
        if not isinstance(node, Descriptor) or len(node.columns) != 1:
            context.fail(node, f"{name} takes the column that says what rows do as DESCRIPTOR(column)")
        operation = node.columns[0].text
    codes = {kind: kind for kind in _KINDS}
    if "OP_MAPPING" in arguments:
        codes = _codes(arguments["OP_MAPPING"], binder, is_read=name == "FROM_CHANGELOG")
    if name == "TO_CHANGELOG":
        return _as_rows(call, source, operation, codes, context)
    return _as_changes(call, source, operation, codes, context)


def _codes(node: Expression, binder: ExpressionBinder, is_read: bool) -> dict[str, str]:
    """What stands for what: codes for kinds, which are read, or kinds for codes, several of them with commas."""
    bound = folded(binder.bind(node))
    texts = [each.value if isinstance(each, Constant) else None for each in children(bound)]
    if not isinstance(bound, BoundCall) or bound.function != "MAP" or not all(isinstance(each, str) for each in texts):
        binder.context.fail(node, "OP_MAPPING is a map of texts as they stand, such as MAP['INSERT', 'c']")
    found: dict[str, str] = {}
    # Of a key that is there twice a map has the last value.
    for key, value in dict(zip(map(str, texts[::2]), map(str, texts[1::2]), strict=True)).items():
        listed, one = [each.strip() for each in key.split(",")], value.strip() if is_read else value
        for kind in [one] if is_read else listed:
            if kind not in _KINDS:
                binder.context.fail(node, f"OP_MAPPING names {kind!r}, and rows are {', '.join(_KINDS)}")
        if is_read and one in found.values():
            binder.context.fail(node, f"OP_MAPPING has {one} twice: write all its codes as one text, such as 'c, r'")
        for each in listed:
            if each in found:
                binder.context.fail(node, f"OP_MAPPING says twice what {each!r} is")
            found[each] = one
    if is_read and "UPDATE_AFTER" in found.values() and "UPDATE_BEFORE" not in found.values():
        binder.context.fail(node, "OP_MAPPING has UPDATE_AFTER, and needs UPDATE_BEFORE, the rows as they were")
    return found


def _as_rows(call: Call, source: Plan, operation: str, codes: dict[str, str], context: Context) -> Plan:
    rows = source.row_type
    if operation in rows.names:
        context.fail(call, f"the table has a column {operation!r} already; name another by op => DESCRIPTOR(...)")
    kind = Column(STRING.not_null(), len(rows.fields))
    parts = [(equal(kind, _text(_KINDS[each])), _text(code)) for each, code in codes.items()]
    code = BoundCall(STRING, "CASE", (*(each for part in parts for each in part), Constant(STRING, None)))
    own = [Column(plain(each), place) for place, each in enumerate(rows.types)]
    found = Project(KindsAsColumn(source, _KIND), (code, *own), (operation, *rows.names))
    if len(codes) == len(_KINDS):
        return found
    return Filter(found, BoundCall(BOOLEAN.not_null(), "IS NOT NULL", (Column(STRING, 0),)))


def _as_changes(call: Call, source: Plan, operation: str, codes: dict[str, str], context: Context) -> Plan:
    rows = source.row_type
    if operation not in rows.names or rows.types[rows.names.index(operation)].root not in TEXTS:
        context.fail(call, f"no column {operation!r} of text in the table; columns: {', '.join(rows.names)}")
    place = rows.names.index(operation)
    given = Column(rows.types[place], place)
    parts = [(equal(given, _text(code)), _text(_KINDS[kind])) for code, kind in codes.items()]
    # What is none of the codes is no kind either: the operator says which it was.
    other = BoundCall(STRING, "||", (_text("code "), given))
    kind = BoundCall(STRING, "CASE", (*(each for part in parts for each in part), other))
    own = [number for number in range(len(rows.fields)) if number != place]
    columns = [Column(plain(rows.types[each]), each) for each in own]
    return KindsOfColumn(Project(source, (*columns, kind), (*(rows.names[each] for each in own), _KIND)))


def _text(value: str) -> Constant:
    return Constant(STRING.not_null(), value)
