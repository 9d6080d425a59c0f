"""Expressions of the Table API: what SQL says, written in Python. Immutable."""

from __future__ import annotations

import datetime
import decimal
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.expressions import tree
from flinkray.tables.api.data_types import type_name
from flinkray.tables.api.methods import (
    ARGUMENTS,
    CASTS,
    INTERVALS,
    SQL_NAMES,
    TESTS,
    WITHOUT_ARGUMENTS,
    signature_of,
)
from flinkray.tables.api.words import word
from flinkray.tables.functions.registry import FUNCTIONS
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax.names import IntervalUnits, Name, Path
from flinkray.tables.syntax.unparsing.expressions import expression_text


class Expression:
    """A value of each row, or of each group. Made with `col` and `lit`; operators and methods make others of it.

    Besides the methods below, each function of SQL is a method by its name in lower case, with the expression as first
    argument: `col("a").regexp_replace("x", "y")`. Those of PyFlink that take no argument need no parentheses:
    `col("a").sum`.
    """

    def __init__(self, node: syntax.Expression, names: tuple[str, ...] = (), functions: tuple[Any, ...] = ()) -> None:
        self._node = node
        self._names = names
        """What `alias` calls it."""
        self._functions = functions
        """The functions of the user's that are called in it."""

    # -- operators

    def __add__(self, other: Any) -> Expression:
        return _sum(self, other)

    def __radd__(self, other: Any) -> Expression:
        return _sum(other, self)

    def __sub__(self, other: Any) -> Expression:
        return self._infix("-", other)

    def __rsub__(self, other: Any) -> Expression:
        return as_expression(other)._infix("-", self)

    def __mul__(self, other: Any) -> Expression:
        return self._infix("*", other)

    def __rmul__(self, other: Any) -> Expression:
        return as_expression(other)._infix("*", self)

    def __truediv__(self, other: Any) -> Expression:
        return self._infix("/", other)

    def __rtruediv__(self, other: Any) -> Expression:
        return as_expression(other)._infix("/", self)

    def __mod__(self, other: Any) -> Expression:
        return self._infix("%", other)

    def __rmod__(self, other: Any) -> Expression:
        return as_expression(other)._infix("%", self)

    def __pow__(self, other: Any) -> Expression:
        return function_call("POWER", self, other)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._infix("=", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._infix("<>", other)

    def __lt__(self, other: Any) -> Expression:
        return self._infix("<", other)

    def __le__(self, other: Any) -> Expression:
        return self._infix("<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self._infix(">", other)

    def __ge__(self, other: Any) -> Expression:
        return self._infix(">=", other)

    def __and__(self, other: Any) -> Expression:
        return combined("AND", self, other)

    def __rand__(self, other: Any) -> Expression:
        return combined("AND", other, self)

    def __or__(self, other: Any) -> Expression:
        return combined("OR", self, other)

    def __ror__(self, other: Any) -> Expression:
        return combined("OR", other, self)

    def __invert__(self) -> Expression:
        return self._with(syntax.Prefix("NOT", self._node))

    def __neg__(self) -> Expression:
        return self._with(syntax.Prefix("-", self._node))

    def __pos__(self) -> Expression:
        return self

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> NoReturn:
        raise InvalidProgramError("an expression has no value yet: combine conditions with &, | and ~")

    def __getitem__(self, index: Any) -> Expression:
        """An element of an array from 1, a value of a map by its key, or a field of a ROW by its place from 1, as in
        Flink."""
        return self.at(index)

    # -- names and order

    def alias(self, name: str, *extra_names: str) -> Expression:
        """The same value as a column of that name; of a table function, its columns' names."""
        return Expression(self._node, (name, *extra_names), self._functions)

    @property
    def asc(self) -> Expression:
        """For `order_by`: from the least value on."""
        return self._with(Ordering(self._node))

    @property
    def desc(self) -> Expression:
        """For `order_by`: from the greatest value on."""
        return self._with(Ordering(self._node, descending=True))

    # -- what has a syntax of its own

    def cast(self, data_type: Any) -> Expression:
        """The value as one of another type; what does not fit fails the job."""
        return self._with(syntax.Cast(self._node, type_name(data_type)))

    def try_cast(self, data_type: Any) -> Expression:
        """The value as one of another type; NULL where it does not fit."""
        return self._with(syntax.Cast(self._node, type_name(data_type), tries=True))

    def between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        low, high = as_expression(lower_bound), as_expression(upper_bound)
        return self._with(syntax.Between(self._node, low._node, high._node), low, high)

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        return ~self.between(lower_bound, upper_bound)

    def in_(self, first_element_or_table: Any, *remaining_elements: Any) -> Expression:
        """Whether it is one of these values, or of those in the only column of a table."""
        if hasattr(first_element_or_table, "_as_subquery"):
            return self._with(syntax.InQuery(self._node, first_element_or_table._as_subquery()))
        items = [as_expression(each) for each in (first_element_or_table, *remaining_elements)]
        return self._with(syntax.InList(self._node, tuple(each._node for each in items)), *items)

    def like(self, pattern: Any = None, escape: Any = None) -> Expression:
        return self._like("LIKE", pattern, escape)

    def similar(self, pattern: Any = None) -> Expression:
        return self._like("SIMILAR TO", pattern, None)

    def _like(self, operator: str, pattern: Any, escape: Any) -> Expression:
        wanted = as_expression(pattern)
        given = None if escape is None else as_expression(escape)._node
        return self._with(syntax.Like(self._node, wanted._node, operator, given), wanted)

    def then(self, if_true: Any, if_false: Any) -> Expression:
        """One value where the condition is true, else another one."""
        yes, no = as_expression(if_true), as_expression(if_false)
        return self._with(syntax.Case(None, (syntax.When(self._node, yes._node),), no._node), yes, no)

    @property
    def distinct(self) -> Expression:
        """An aggregate of each value once: `col("a").count.distinct`."""
        if not isinstance(self._node, syntax.Call):
            raise InvalidProgramError("distinct stands behind an aggregate: col('a').count.distinct")
        return self._with(replace(self._node, distinct=True))

    @property
    def sum0(self) -> Expression:
        """The sum, which is 0 where there is nothing to add."""
        return function_call("COALESCE", function_call("SUM", self), 0)

    def over(self, alias: Any) -> Expression:
        """An aggregate over the rows of a window that `over_window` names."""
        name = as_expression(col(alias) if isinstance(alias, str) else alias)._node
        if not isinstance(self._node, syntax.Call) or not isinstance(name, syntax.Reference):
            raise InvalidProgramError("over stands behind an aggregate: col('a').sum.over(col('w'))")
        return self._with(replace(self._node, over=syntax.Window(name.path.names[0], is_reference=True)))

    def get(self, name_or_index: str | int) -> Expression:
        """A field of a ROW by its name, or its place from 0."""
        node: syntax.Expression = self._node
        if isinstance(name_or_index, int):
            found = self.at(name_or_index + 1)
        elif isinstance(node, syntax.Reference):
            found = self._with(syntax.Reference(Path((*node.path.names, Name(name_or_index)))))
        else:
            found = self._with(syntax.Field(node, Name(name_or_index)))
        if not isinstance(node, syntax.Reference):
            return found
        own = f"_{name_or_index}" if isinstance(name_or_index, int) else name_or_index
        return found.alias("$".join([*node.path.texts, own]))

    @property
    def flatten(self) -> Expression:
        """For `select`: the fields of a ROW as columns."""
        return self._with(Flattened(self._node))

    def at(self, index: Any) -> Expression:
        """An element of an array from 1, or a value of a map by its key."""
        place = as_expression(index)
        return self._with(syntax.Subscript(self._node, place._node), place)

    def extract(self, time_interval_unit: Any) -> Expression:
        """A part of a time, such as "DAY"."""
        return self._with(_call("EXTRACT", syntax.Symbol(word(time_interval_unit)), self._node))

    def floor(self, time_interval_unit: Any = None) -> Expression:
        """The next lower whole number, or beginning of a unit of time."""
        return self._rounded("FLOOR", time_interval_unit)

    def ceil(self, time_interval_unit: Any = None) -> Expression:
        """The next higher whole number, or beginning of a unit of time."""
        return self._rounded("CEIL", time_interval_unit)

    def _rounded(self, name: str, unit: Any) -> Expression:
        units = () if unit is None else (syntax.Symbol(word(unit)),)
        return self._with(_call(name, self._node, *units))

    def log(self, base: Any = None) -> Expression:
        return function_call("LN", self) if base is None else function_call("LOG", base, self)

    def trim(self, character: Any = " ") -> Expression:
        return self._trimmed("BOTH", character)

    def trim_leading(self, character: Any = " ") -> Expression:
        return self._trimmed("LEADING", character)

    def trim_trailing(self, character: Any = " ") -> Expression:
        return self._trimmed("TRAILING", character)

    def _trimmed(self, where: str, character: Any) -> Expression:
        wanted = as_expression(character)
        return self._with(_call("TRIM", syntax.Symbol(where), wanted._node, self._node), wanted)

    def json_value(
        self,
        path: str,
        returning_type: Any = None,
        on_empty: Any = None,
        default_on_empty: Any = None,
        on_error: Any = None,
        default_on_error: Any = None,
    ) -> Expression:
        """A value in a JSON text. Where it is not there, or the text is no JSON: NULL (by custom), ERROR or DEFAULT."""
        clauses = [] if returning_type is None else [syntax.Clause("RETURNING", type=type_name(returning_type))]
        for when, behavior, default in (("EMPTY", on_empty, default_on_empty), ("ERROR", on_error, default_on_error)):
            value = as_expression(default)._node if behavior is not None and word(behavior) == "DEFAULT" else None
            clauses += [replace(each, value=value) for each in _behavior(when, behavior)]
        return self._json("JSON_VALUE", path, *clauses)

    def json_query(
        self, path: str, wrapping_behavior: Any = "WITHOUT_ARRAY", on_empty: Any = None, on_error: Any = None
    ) -> Expression:
        """What is found in a JSON text, as JSON. Where nothing is: NULL (by custom), EMPTY_ARRAY, EMPTY_OBJECT or
        ERROR."""
        kind = word(wrapping_behavior).replace("_", " ")
        wrapper = [] if kind == "WITHOUT ARRAY" else [syntax.Clause(f"WITH {kind} WRAPPER")]
        return self._json("JSON_QUERY", path, *wrapper, *_behavior("EMPTY", on_empty), *_behavior("ERROR", on_error))

    def json_exists(self, path: str, on_error: Any = None) -> Expression:
        """Whether a JSON text has what a path says; for what is no JSON `on_error`: TRUE, FALSE, UNKNOWN or ERROR."""
        return self._json("JSON_EXISTS", path, *_behavior("ERROR", on_error))

    def _json(self, name: str, path: str, *clauses: syntax.Clause) -> Expression:
        return self._with(replace(_call(name, self._node, syntax.Text(path)), clauses=clauses))

    def is_json(self, json_type: Any = None) -> Expression:
        """Whether it is JSON, of a type such as "OBJECT"."""
        kind = "" if json_type is None else f" {word(json_type)}"
        return self._with(syntax.Is(self._node, f"JSON{kind}"))

    # -- all functions of SQL

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in TESTS:
            test, negated = TESTS[name]
            return self._with(syntax.Is(self._node, test, negated))
        if name in CASTS:
            return self.cast(CASTS[name])
        if name in INTERVALS:
            return self._interval(INTERVALS[name], name.startswith("milli"))
        sql_name = SQL_NAMES.get(name, name.upper())
        if name in WITHOUT_ARGUMENTS:
            return CalledProperty(_call(sql_name, self._node), (), self._functions)
        if sql_name not in FUNCTIONS:
            known = [*map(str.lower, FUNCTIONS), *SQL_NAMES, *WITHOUT_ARGUMENTS]
            raise AttributeError(f"an expression has no method {name!r}{did_you_mean(name, known)}")
        return _Method(sql_name, self, ARGUMENTS.get(name, "*arguments"))

    def _interval(self, unit: str, is_millis: bool) -> Expression:
        if not isinstance(self._node, syntax.Number):
            raise InvalidProgramError(f"an interval is made of a number: lit(10).{unit.lower()}s")
        text = self._node.text
        if is_millis:
            text = format(decimal.Decimal(text) / 1000, ".3f")
        return self._with(syntax.Interval(text, IntervalUnits(unit)))

    # -- inside

    def _with(self, node: syntax.Expression, *others: Expression) -> Expression:
        functions = dict.fromkeys([*self._functions, *(each for other in others for each in other._functions)])
        return Expression(node, (), tuple(functions))

    def _infix(self, operator: str, other: Any) -> Expression:
        right = as_expression(other)
        return self._with(syntax.Infix(operator, self._node, right._node), right)

    def __str__(self) -> str:
        """The expression in SQL, which what takes texts of expressions reads."""
        try:
            return expression_text(self._node)
        except NotImplementedError:  # an order, or the bound of a window, which no expression of SQL is
            return str(self._node)

    def __repr__(self) -> str:
        return f"<Expression {self}>"


class CalledProperty(Expression):
    """A call without further arguments, with or without parentheses."""

    def __call__(self) -> Expression:
        return self._with(self._node)


class _Method:
    """A function of SQL with its first argument."""

    def __init__(self, name: str, first: Expression, arguments: str) -> None:
        self._name = name
        self._first = first
        self._arguments = arguments

    @property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self._arguments)

    def __call__(self, *arguments: Any, **named: Any) -> Expression:
        bound = self.__signature__.bind(*arguments, **named)
        bound.apply_defaults()
        given = list(bound.args)
        while given and given[-1] is None:
            del given[-1]  # how PyFlink's programs leave an argument out
        return function_call(self._name, self._first, *given)


class Flattened(syntax.Expression, frozen=True):
    """The fields of a ROW as columns of `select`."""

    operand: syntax.Expression


class Ordering(syntax.Expression, frozen=True):
    """A key of `order_by` with its direction."""

    operand: syntax.Expression
    descending: bool = False


def _call(name: str, *arguments: syntax.Expression) -> syntax.Call:
    return syntax.Call(Path((Name(name),)), arguments)


def _behavior(when: str, behavior: Any) -> list[syntax.Clause]:
    """`NULL ON EMPTY` and the like; nothing where nothing is said."""
    return [] if behavior is None else [syntax.Clause(f"{word(behavior).replace('_', ' ')} ON {when}")]


def function_call(name: str, *arguments: Any) -> Expression:
    """A call of a function of SQL by its name."""
    given = [as_expression(each) for each in arguments]
    functions = dict.fromkeys(function for each in given for function in each._functions)
    return Expression(_call(name, *(each._node for each in given)), (), tuple(functions))


def combined(operator: str, *conditions: Any) -> Expression:
    """Conditions with AND or OR between them."""
    given = [as_expression(each) for each in conditions]
    functions = dict.fromkeys(function for each in given for function in each._functions)
    return Expression(syntax.Junction(operator, tuple(each._node for each in given)), (), tuple(functions))


def col(name: str) -> Expression:
    """A column by its name; `*`, in `select`, is all columns."""
    return Expression(syntax.Star() if name == "*" else syntax.Reference(Path((Name(name),))))


def lit(v: Any, data_type: Any = None) -> Expression:
    """A constant, with the type that SQL has for it or another one.

    Raises:
        InvalidProgramError: SQL has no way to write it.
    """
    literal = Expression(literal_node(v))
    return literal if data_type is None else literal.cast(data_type)


def literal_node(value: Any) -> syntax.Expression:
    """A value of Python as SQL writes it."""
    if value is None:
        return syntax.Null()
    for kinds, make in _LITERALS:
        if isinstance(value, kinds):
            return make(value)
    if isinstance(value, tree.Expression):
        raise InvalidProgramError(
            f"{value!r} is an expression of streams: take col from flinkray.tables.api.expressions, or give text"
        )
    raise InvalidProgramError(f"lit({value!r}): a {type(value).__name__} is no constant of SQL")


def _number(value: Any) -> syntax.Expression:
    if (isinstance(value, float) and value != value) or value in (float("inf"), float("-inf")):
        raise InvalidProgramError(f"lit({value!r}): SQL has no such number")
    text = format(abs(value), "f") if isinstance(value, decimal.Decimal) else repr(abs(value))
    if isinstance(value, float) and "e" not in text:
        text += "e0"  # with an exponent it is a DOUBLE
    return syntax.Prefix("-", syntax.Number(text)) if value < 0 else syntax.Number(text)


def _sum(left: Any, right: Any) -> Expression:
    """`left + right`; beside a text that stands there it joins texts, as in Flink."""
    operands = as_expression(left), as_expression(right)
    if not any(isinstance(each._node, syntax.Text) for each in operands):
        return operands[0]._infix("+", operands[1])
    texts = [each if isinstance(each._node, syntax.Text) else each.cast("STRING") for each in operands]
    return texts[0]._infix("||", texts[1])


def _interval(value: datetime.timedelta) -> syntax.Expression:
    millis = value // datetime.timedelta(milliseconds=1)
    text = f"{abs(millis) // 1000}.{abs(millis) % 1000:03}"
    return syntax.Interval(text, IntervalUnits("SECOND"), negative=millis < 0)


def _timestamp(value: datetime.datetime) -> syntax.Expression:
    kind, moment = "TIMESTAMP", value
    if value.tzinfo is not None:
        kind, moment = "TIMESTAMP_LTZ", value.astimezone(datetime.UTC).replace(tzinfo=None)
    return syntax.Temporal(kind, moment.isoformat(" "))


def _collection(values: Iterable[Any]) -> syntax.Expression:
    return syntax.ArrayOf(tuple(as_expression(each)._node for each in values))


def _map(values: dict[Any, Any]) -> syntax.Expression:
    pairs = [as_expression(each)._node for pair in values.items() for each in pair]
    return syntax.MapOf(tuple(pairs))


_LITERALS: tuple[tuple[Any, Callable[[Any], syntax.Expression]], ...] = (
    (bool, syntax.Truth),
    ((int, float, decimal.Decimal), _number),
    (str, syntax.Text),
    (bytes, syntax.Binary),
    (datetime.datetime, _timestamp),
    (datetime.date, lambda value: syntax.Temporal("DATE", value.isoformat())),
    (datetime.time, lambda value: syntax.Temporal("TIME", value.isoformat())),
    (datetime.timedelta, _interval),
    (list, _collection),
    (dict, _map),
)


def as_expression(value: Any) -> Expression:
    """An expression as it is, and any other value as a constant."""
    return value if isinstance(value, Expression) else lit(value)
