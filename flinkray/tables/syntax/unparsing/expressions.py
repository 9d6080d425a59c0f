"""Expressions and types to text, with parentheses where precedence needs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import singledispatch

from flinkray.tables.syntax.expressions import (
    Apart,
    ArrayOf,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    CollectionOfQuery,
    Default,
    Descriptor,
    Exists,
    Expression,
    Field,
    Frame,
    FrameBound,
    Infix,
    InList,
    InQuery,
    Interval,
    Is,
    Junction,
    KeyValue,
    Like,
    MapOf,
    ModelArgument,
    NamedArgument,
    Null,
    Number,
    OrderItem,
    Prefix,
    Quantified,
    Query,
    Reference,
    Row,
    Star,
    Subquery,
    Subscript,
    Symbol,
    TableArgument,
    Temporal,
    Text,
    Truth,
    Window,
)
from flinkray.tables.syntax.names import FieldType, IntervalUnits, Name, Path, TypeName
from flinkray.tables.syntax.parsing.expressions import AND, COMPARISON, INFIX, IS, NOT, OR, RANGE, SIGN, SUM
from flinkray.tables.syntax.words import CONTEXT_FUNCTIONS, JSON_FUNCTIONS, RESERVED, RESERVED_FUNCTIONS

PRIMARY = 90
_SPECIAL = frozenset(
    {"EXTRACT", "POSITION", "SUBSTRING", "OVERLAY", "TRIM", "FLOOR", "CEIL", "TIMESTAMPADD", "TIMESTAMPDIFF"}
    | {"TRANSLATE", "DATE", "TIME", "TIMESTAMP"}
    | JSON_FUNCTIONS
)
"""Reserved words that the parser reads as functions where `(` follows."""
_AMBIGUOUS = frozenset({"DESCRIPTOR", "FINAL", "RUNNING", "MODEL", "KEY"})
_query_texts: list[Callable[[Query], str]] = []


def write_queries_with(write: Callable[[Query], str]) -> None:
    """Have subqueries written by a function, which the module that writes queries brings: it needs this one."""
    _query_texts[:] = [write]


def _query(query: Query) -> str:
    return f"({_query_texts[0](query)})"


# -- names, strings, types


def name_text(name: Name) -> str:
    """A name in backticks."""
    return "`" + name.text.replace("`", "``") + "`"


def path_text(path: Path) -> str:
    """Names in backticks with dots between them."""
    return ".".join(name_text(name) for name in path.names)


def string_text(value: str) -> str:
    """A string in single quotes."""
    return "'" + value.replace("'", "''") + "'"


def names_text(names: Iterable[Name]) -> str:
    """Names in parentheses."""
    return f"({', '.join(name_text(name) for name in names)})"


def type_text(kind: TypeName) -> str:
    """A type as Flink writes it."""
    if kind.name == "":
        text = ".".join(name_text(Name(each)) for each in kind.texts)
    elif kind.name in ("ARRAY", "MULTISET", "MAP"):
        text = f"{kind.name}<{', '.join(type_text(each) for each in kind.elements)}>"
    elif kind.name == "ROW":
        text = f"ROW<{', '.join(_field_text(each) for each in kind.fields)}>"
    elif kind.name == "STRUCTURED":
        parts = [string_text(kind.texts[0]), *(_field_text(each) for each in kind.fields)]
        text = f"STRUCTURED<{', '.join(parts)}>"
    elif kind.name == "RAW":
        text = f"RAW({', '.join(string_text(each) for each in kind.texts)})"
    elif kind.interval is not None:
        text = f"INTERVAL {interval_units_text(kind.interval)}"
    else:
        text = _with_numbers(kind.name, kind.numbers)
    return text + {None: "", True: " NOT NULL", False: " NULL"}[kind.not_null]


def _with_numbers(name: str, numbers: tuple[int, ...]) -> str:
    if not numbers:
        return name
    first, *rest = name.split(" ", 1)
    return " ".join([f"{first}({', '.join(map(str, numbers))})", *rest])


def _field_text(field: FieldType) -> str:
    comment = "" if field.comment is None else f" {string_text(field.comment)}"
    return f"{name_text(field.name)} {type_text(field.type)}{comment}"


def interval_units_text(units: IntervalUnits) -> str:
    """`DAY(2) TO SECOND(3)`."""
    if units.last is None and units.fraction is not None:
        return f"{units.first}({units.precision}, {units.fraction})"
    text = units.first if units.precision is None else f"{units.first}({units.precision})"
    if units.last is not None:
        text += f" TO {units.last}"
        text += "" if units.fraction is None else f"({units.fraction})"
    return text


# -- expressions


def expression_text(expression: Expression, least: int = 0) -> str:
    """An expression, in parentheses where it binds less tightly than `least`."""
    text = _text(expression)
    return f"({text})" if _power(expression) < least else text


def _list(expressions: Iterable[Expression]) -> str:
    return ", ".join(expression_text(each) for each in expressions)


def _power(expression: Expression) -> int:
    if isinstance(expression, Junction):
        return OR if expression.operator == "OR" else AND
    if isinstance(expression, Prefix):
        return NOT if expression.operator in ("NOT", "FINAL", "RUNNING") else SIGN
    if isinstance(expression, Infix):
        return INFIX.get(expression.operator, IS)
    if isinstance(expression, Is):
        return IS
    if isinstance(expression, Quantified):
        return COMPARISON
    if isinstance(expression, Between | InList | InQuery | Like):
        return RANGE
    return PRIMARY


@singledispatch
def _text(expression: Expression) -> str:
    raise NotImplementedError(type(expression).__name__)


@_text.register
def _(expression: Reference) -> str:
    return path_text(expression.path)


@_text.register
def _(expression: Star) -> str:
    return "*" if expression.path is None else f"{path_text(expression.path)}.*"


@_text.register
def _(expression: Number) -> str:
    return expression.text


@_text.register
def _(expression: Text) -> str:
    return string_text(expression.value)


@_text.register
def _(expression: Binary) -> str:
    return f"X'{expression.value.hex().upper()}'"


@_text.register
def _(expression: Truth) -> str:
    return "UNKNOWN" if expression.value is None else str(expression.value).upper()


@_text.register
def _(_expression: Null) -> str:
    return "NULL"


@_text.register
def _(_expression: Default) -> str:
    return "DEFAULT"


@_text.register
def _(expression: Temporal) -> str:
    kind = "TIMESTAMP WITH LOCAL TIME ZONE" if expression.kind == "TIMESTAMP_LTZ" else expression.kind
    return f"{kind} {string_text(expression.text)}"


@_text.register
def _(expression: Interval) -> str:
    sign = "-" if expression.negative else ""
    return f"INTERVAL {sign}{string_text(expression.text)} {interval_units_text(expression.units)}"


@_text.register
def _(expression: Symbol) -> str:
    return expression.name


@_text.register
def _(expression: Prefix) -> str:
    if expression.operator in ("NOT", "FINAL", "RUNNING"):
        return f"{expression.operator} {expression_text(expression.operand, NOT)}"
    operand = expression_text(expression.operand, SIGN)
    return f"{expression.operator}{' ' if operand[0] in '+-' else ''}{operand}"


@_text.register
def _(expression: Infix) -> str:
    power = INFIX.get(expression.operator, IS)
    right = expression_text(expression.right, SUM if power == IS else power + 1)
    return f"{expression_text(expression.left, power)} {expression.operator} {right}"


@_text.register
def _(expression: Apart) -> str:
    return f"({_text(Infix('-', expression.end, expression.begin))}) {interval_units_text(expression.units)}"


@_text.register
def _(expression: Junction) -> str:
    power = _power(expression)
    return f" {expression.operator} ".join(expression_text(each, power + 1) for each in expression.operands)


@_text.register
def _(expression: Is) -> str:
    negation = "NOT " if expression.negated else ""
    return f"{expression_text(expression.operand, IS)} IS {negation}{expression.test}"


def _negatable(operand: Expression, negated: bool, operator: str) -> str:
    return f"{expression_text(operand, RANGE)} {'NOT ' if negated else ''}{operator}"


@_text.register
def _(expression: Between) -> str:
    symmetric = "SYMMETRIC" if expression.symmetric else "ASYMMETRIC"
    start = _negatable(expression.operand, expression.negated, f"BETWEEN {symmetric}")
    return f"{start} {expression_text(expression.low, RANGE + 1)} AND {expression_text(expression.high, RANGE + 1)}"


@_text.register
def _(expression: InList) -> str:
    return _negatable(expression.operand, expression.negated, f"IN ({_list(expression.items)})")


@_text.register
def _(expression: InQuery) -> str:
    return _negatable(expression.operand, expression.negated, f"IN {_query(expression.query)}")


@_text.register
def _(expression: Quantified) -> str:
    left = expression_text(expression.operand, COMPARISON)
    return f"{left} {expression.operator} {expression.quantifier} {_query(expression.query)}"


@_text.register
def _(expression: Exists) -> str:
    return f"EXISTS {_query(expression.query)}"


@_text.register
def _(expression: Subquery) -> str:
    return _query(expression.query)


@_text.register
def _(expression: Like) -> str:
    text = _negatable(expression.operand, expression.negated, expression.operator)
    text += f" {expression_text(expression.pattern, RANGE + 1)}"
    return text if expression.escape is None else f"{text} ESCAPE {expression_text(expression.escape, RANGE + 1)}"


@_text.register
def _(expression: Case) -> str:
    parts = ["CASE"]
    if expression.operand is not None:
        parts.append(expression_text(expression.operand))
    parts += [
        f"WHEN {expression_text(each.condition)} THEN {expression_text(each.result)}" for each in expression.whens
    ]
    if expression.otherwise is not None:
        parts.append(f"ELSE {expression_text(expression.otherwise)}")
    return " ".join([*parts, "END"])


@_text.register
def _(expression: Cast) -> str:
    function = "TRY_CAST" if expression.tries else "CAST"
    return f"{function}({expression_text(expression.operand)} AS {type_text(expression.type)})"


@_text.register
def _(expression: Row) -> str:
    return f"ROW({_list(expression.items)})"


@_text.register
def _(expression: ArrayOf) -> str:
    return f"ARRAY[{_list(expression.items)}]"


@_text.register
def _(expression: MapOf) -> str:
    return f"MAP[{_list(expression.items)}]"


@_text.register
def _(expression: CollectionOfQuery) -> str:
    return f"{expression.kind}{_query(expression.query)}"


@_text.register
def _(expression: Subscript) -> str:
    return f"{expression_text(expression.operand, PRIMARY)}[{expression_text(expression.index)}]"


@_text.register
def _(expression: Field) -> str:
    operand = expression_text(expression.operand, PRIMARY)
    if isinstance(expression.operand, Reference | Number):
        operand = f"({operand})"
    return f"{operand}.{name_text(expression.name)}"


@_text.register
def _(expression: KeyValue) -> str:
    return f"KEY {expression_text(expression.key)} VALUE {expression_text(expression.value)}"


@_text.register
def _(expression: NamedArgument) -> str:
    return f"{name_text(expression.name)} => {expression_text(expression.value)}"


@_text.register
def _(expression: Descriptor) -> str:
    return f"DESCRIPTOR{names_text(expression.columns)}"


@_text.register
def _(expression: ModelArgument) -> str:
    return f"MODEL {path_text(expression.model)}"


@_text.register
def _(expression: TableArgument) -> str:
    table = path_text(expression.table) if isinstance(expression.table, Path) else _query(expression.table)
    text = f"TABLE {table}"
    if expression.partition_by:
        text += f" PARTITION BY ({_list(expression.partition_by)})"
    if expression.order_by:
        text += f" ORDER BY ({', '.join(order_item_text(each) for each in expression.order_by)})"
    return text


# -- calls


@_text.register
def _(call: Call) -> str:
    name = call.function.names[-1].text.upper() if len(call.function.names) == 1 else ""
    if name in CONTEXT_FUNCTIONS and not call.arguments:
        text = name
    elif name in _FORMS and not call.clauses:
        # IN belongs to POSITION, not to its first argument.
        least = RANGE + 1 if name == "POSITION" else 0
        text = f"{name}({_FORMS[name]([expression_text(each, least) for each in call.arguments])})"
    else:
        text = _function_text(call.function) + f"({_inside(call)})"
    if call.ignore_nulls is not None:
        text += " IGNORE NULLS" if call.ignore_nulls else " RESPECT NULLS"
    if call.within_group and not name.startswith("JSON_"):
        text += f" WITHIN GROUP ({_order_by_text(call.within_group)})"
    if call.filter is not None:
        text += f" FILTER (WHERE {expression_text(call.filter)})"
    if call.over is not None:
        text += f" OVER {window_text(call.over)}"
    return text


def _inside(call: Call) -> str:
    parts = [("DISTINCT " if call.distinct else "") + _list(call.arguments)]
    for clause in call.clauses:
        words = clause.words
        if clause.type is not None:
            words = f"{words} {type_text(clause.type)}"
        if clause.value is not None:
            words = words.replace("DEFAULT", f"DEFAULT {expression_text(clause.value)}", 1)
        parts.append(words)
    if call.within_group and call.function.names[-1].text.upper().startswith("JSON_"):
        parts.append(_order_by_text(call.within_group))
    return " ".join(part for part in parts if part)


def _function_text(path: Path) -> str:
    word = path.names[-1].text
    key = word.upper()
    is_plain = re.fullmatch(r"[A-Za-z_]\w*", word, re.ASCII) is not None
    is_known = key not in RESERVED or key in RESERVED_FUNCTIONS | _SPECIAL
    if len(path.names) == 1 and is_plain and is_known and key not in _AMBIGUOUS:
        return word
    return path_text(path)


def _join_with(*separators: str) -> Callable[[list[str]], str]:
    """What is between the arguments of a function with a syntax of its own."""

    def write(arguments: list[str]) -> str:
        text = arguments[0]
        for separator, argument in zip(separators, arguments[1:], strict=False):
            text += f"{separator}{argument}"
        return text

    return write


def _trim(arguments: list[str]) -> str:
    return arguments[0] if len(arguments) == 1 else f"{' '.join(arguments[:-1])} FROM {arguments[-1]}"


def _to_unit(arguments: list[str]) -> str:
    has_unit = len(arguments) == 2 and arguments[1].isupper() and arguments[1].isalpha()
    return " TO ".join(arguments) if has_unit else ", ".join(arguments)


_FORMS: dict[str, Callable[[list[str]], str]] = {
    "EXTRACT": _join_with(" FROM "),
    "POSITION": _join_with(" IN ", " FROM "),
    "SUBSTRING": _join_with(" FROM ", " FOR "),
    "OVERLAY": _join_with(" PLACING ", " FROM ", " FOR "),
    "FLOOR": _to_unit,
    "CEIL": _to_unit,
    "TRIM": _trim,
}


# -- order and windows


def order_item_text(item: OrderItem) -> str:
    """`a DESC NULLS LAST`."""
    text = expression_text(item.expression)
    text += " DESC" if item.descending else ""
    return text + {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[item.nulls_first]


def _order_by_text(items: Iterable[OrderItem]) -> str:
    return f"ORDER BY {', '.join(order_item_text(item) for item in items)}"


def window_text(window: Window) -> str:
    """`w`, or `(w PARTITION BY ... ORDER BY ... ROWS ...)`."""
    if window.is_reference and window.name is not None:
        return name_text(window.name)
    parts = [name_text(window.name)] if window.name is not None else []
    if window.partition_by:
        parts.append(f"PARTITION BY {_list(window.partition_by)}")
    if window.order_by:
        parts.append(_order_by_text(window.order_by))
    if window.frame is not None:
        parts.append(_frame_text(window.frame))
    return f"({' '.join(parts)})"


def _frame_text(frame: Frame) -> str:
    start = _bound_text(frame.start)
    bounds = start if frame.end is None else f"BETWEEN {start} AND {_bound_text(frame.end)}"
    return f"{frame.unit} {bounds}"


def _bound_text(bound: FrameBound) -> str:
    if bound.direction == "CURRENT ROW":
        return bound.direction
    return f"{'UNBOUNDED' if bound.offset is None else expression_text(bound.offset, SUM)} {bound.direction}"
