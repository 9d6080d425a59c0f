"""Column expressions: `col("price") * 0.9`, `col("name").str.lower()`, `when(...).then(...).otherwise(...)`.

Descriptions only: an expression is an immutable tree of columns, literals and calls that survives pickling. The runtime
evaluates it on a whole batch (`actors.operators.expressions.column_operators.evaluate`).

Meaning: null in gives null out (SQL), except where a function is about nulls; `&` and `|` follow SQL's three values.
`/` gives double; `//` and `%` round towards minus infinity, and those of decimals towards zero, as Python's do. Whole
numbers and decimals that overflow, or are divided by zero, are an error; floats give infinity or NaN. Sums, differences
and products of decimals are exact, and so are `//` and `%`; what needs more than 38 digits is an error. Beside a float,
a decimal is one. Integers are compared with a constant as Python does it, and with a column of floats as doubles.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from flinkray.errors import InvalidProgramError
from flinkray.time.durations import Duration, to_millis
from flinkray.types.type_names import type_of_name

_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "modulo": "%",
    "power": "**",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "&",
    "or": "|",
}
_PREFIX = {"negate": "-", "invert": "~"}
_CALENDAR_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_LITERALS = (
    bool,
    int,
    float,
    str,
    bytes,
    decimal.Decimal,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    list,
    pa.Scalar,
)


class Expression:
    """An expression over the columns of one batch; made with `col` and `lit`, and operators and methods on them."""

    __slots__ = ()

    # -- what is in it

    @property
    def output_name(self) -> str | None:
        """The name of the column it makes: a column's own, or its alias; None where it needs one."""
        return None

    def children(self) -> tuple[Expression, ...]:
        """The expressions that it is made of."""
        return ()

    def columns(self) -> frozenset[str]:
        """Names of all columns that it reads."""
        return frozenset[str]().union(*(child.columns() for child in self.children()))

    def is_same(self, other: object) -> bool:
        """Whether both are the same tree (`==` makes an expression instead of comparing)."""
        return isinstance(other, Expression) and repr(self) == repr(other)

    # -- arithmetic

    def __add__(self, other: object) -> Expression:
        return _call("add", self, other)

    def __radd__(self, other: object) -> Expression:
        return _call("add", other, self)

    def __sub__(self, other: object) -> Expression:
        return _call("subtract", self, other)

    def __rsub__(self, other: object) -> Expression:
        return _call("subtract", other, self)

    def __mul__(self, other: object) -> Expression:
        return _call("multiply", self, other)

    def __rmul__(self, other: object) -> Expression:
        return _call("multiply", other, self)

    def __truediv__(self, other: object) -> Expression:
        return _call("divide", self, other)

    def __rtruediv__(self, other: object) -> Expression:
        return _call("divide", other, self)

    def __floordiv__(self, other: object) -> Expression:
        return _call("floor_divide", self, other)

    def __rfloordiv__(self, other: object) -> Expression:
        return _call("floor_divide", other, self)

    def __mod__(self, other: object) -> Expression:
        return _call("modulo", self, other)

    def __rmod__(self, other: object) -> Expression:
        return _call("modulo", other, self)

    def __pow__(self, other: object) -> Expression:
        return _call("power", self, other)

    def __rpow__(self, other: object) -> Expression:
        return _call("power", other, self)

    def __neg__(self) -> Expression:
        return _call("negate", self)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return self.abs()

    def abs(self) -> Expression:
        """The absolute value, of the same type. The lowest integer of a type has none, which is an error."""
        return _call("abs", self)

    def round(self, digits: int = 0) -> Expression:
        """Rounded to `digits` decimal places, halves to the even neighbour; the type stays.

        A float is a half where `value * 10**digits` is one as a double: 2.675 gives 2.68, where Python gives 2.67.
        """
        return _call("round", self, digits=digits)

    def floor(self) -> Expression:
        """The largest whole number that is not above it; the type stays."""
        return _call("floor", self)

    def ceil(self) -> Expression:
        """The smallest whole number that is not below it; the type stays."""
        return _call("ceil", self)

    def sqrt(self) -> Expression:
        """NaN for negative numbers."""
        return _call("sqrt", self)

    def exp(self) -> Expression:
        """e to the power of it, as double."""
        return _call("exp", self)

    def log(self) -> Expression:
        """Natural logarithm; minus infinity for 0, NaN below."""
        return _call("log", self)

    def log2(self) -> Expression:
        """Logarithm to base 2; minus infinity for 0, NaN below."""
        return _call("log2", self)

    def log10(self) -> Expression:
        """Logarithm to base 10; minus infinity for 0, NaN below."""
        return _call("log10", self)

    def sign(self) -> Expression:
        """-1, 0 or 1."""
        return _call("sign", self)

    # -- comparisons and logic

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _call("equal", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _call("not_equal", self, other)

    def __lt__(self, other: object) -> Expression:
        return _call("less", self, other)

    def __le__(self, other: object) -> Expression:
        return _call("less_equal", self, other)

    def __gt__(self, other: object) -> Expression:
        return _call("greater", self, other)

    def __ge__(self, other: object) -> Expression:
        return _call("greater_equal", self, other)

    def __and__(self, other: object) -> Expression:
        return _call("and", self, other)

    def __rand__(self, other: object) -> Expression:
        return _call("and", other, self)

    def __or__(self, other: object) -> Expression:
        return _call("or", self, other)

    def __ror__(self, other: object) -> Expression:
        return _call("or", other, self)

    def __invert__(self) -> Expression:
        return _call("invert", self)

    def __bool__(self) -> NoReturn:
        raise InvalidProgramError(
            f"{self!r} has no truth value before it meets rows: use & | ~ (with parentheses around comparisons) "
            "instead of and, or, not; is_in() instead of in; between() instead of a < x < b"
        )

    def __hash__(self) -> int:
        return hash(repr(self))

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{self!r} is an expression over columns: it cannot be iterated")

    def between(self, low: object, high: object) -> Expression:
        """Whether it is from `low` to `high`, both included."""
        return (self >= low) & (self <= high)

    def is_in(self, values: Iterable[object]) -> Expression:
        """Whether it is one of the values; never null: a null is in exactly where the values have None.

        Takes the types that `==` takes.
        """
        if isinstance(values, str | bytes):
            raise InvalidProgramError(f"is_in takes a collection of values, not {values!r}; did you mean [{values!r}]?")
        return _call("is_in", self, values=tuple(values))

    # -- nulls, types, names

    def is_null(self) -> Expression:
        """Whether it is null (NaN is not)."""
        return _call("is_null", self)

    def is_not_null(self) -> Expression:
        """Whether it is not null (NaN is not null)."""
        return _call("is_not_null", self)

    def is_nan(self) -> Expression:
        """Whether it is the float NaN; null where it is null."""
        return _call("is_nan", self)

    def fill_null(self, value: object) -> Expression:
        """The same, with `value` where it is null."""
        return _call("coalesce", self, value)

    def cast(self, target: pa.DataType | str) -> Expression:
        """The same value in another Arrow type, also given by name: "int64", or as errors and schemas print it. A
        value that would change is an error."""
        if isinstance(target, str):
            target = type_of_name(target)
        if not isinstance(target, pa.DataType):
            raise InvalidProgramError(f"cast takes an Arrow type, not {target!r}")
        return _call("cast", self, target=target)

    def alias(self, name: str) -> Expression:
        """The same expression with a name for its column."""
        return Alias(self, name)

    def field(self, name: str) -> Expression:
        """A field of a struct."""
        return _call("field", self, name=name)

    @property
    def str(self) -> StringFunctions:
        """Functions of text."""
        return StringFunctions(self)

    @property
    def dt(self) -> TemporalFunctions:
        """Functions of dates and timestamps."""
        return TemporalFunctions(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Column(Expression):
    """The column of that name."""

    name: str

    @property
    def output_name(self) -> str | None:
        return self.name

    def columns(self) -> frozenset[str]:
        return frozenset((self.name,))

    def __repr__(self) -> str:
        return f"col({self.name!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(Expression):
    """The same value in each row; None: null."""

    value: Any

    def __repr__(self) -> str:
        return f"lit({self.value!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Alias(Expression):
    """An expression with a name."""

    expression: Expression
    name: str

    @property
    def output_name(self) -> str | None:
        return self.name

    def children(self) -> tuple[Expression, ...]:
        return (self.expression,)

    def __repr__(self) -> str:
        return f"{_operand(self.expression)}.alias({self.name!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expression):
    """A function of expressions. `function` names a kernel; `options` are constants by name."""

    function: str
    arguments: tuple[Expression, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def children(self) -> tuple[Expression, ...]:
        return self.arguments

    def __repr__(self) -> str:
        if self.function in _INFIX:
            left, right = self.arguments
            return f"{_operand(left)} {_INFIX[self.function]} {_operand(right)}"
        if self.function in _PREFIX:
            return f"{_PREFIX[self.function]}{_operand(self.arguments[0])}"
        options = [_option(value) for _, value in self.options]
        if self.function == "struct":
            names, *_ = (names for _, names in self.options)
            return f"struct({', '.join(map(_field, names, self.arguments))})"
        if self.function in ("if_else", "coalesce", "least", "greatest"):
            return f"{self.function}({', '.join([*map(_plain, self.arguments), *options])})"
        first, *rest = self.arguments
        return f"{_operand(first)}.{self.function}({', '.join([*map(_plain, rest), *options])})"


@dataclass(frozen=True, slots=True)
class StringFunctions:
    """`col("name").str`: functions of text. Lengths and positions count characters."""

    expression: Expression

    def lower(self) -> Expression:
        """The text in lower case."""
        return _call("str.lower", self.expression)

    def upper(self) -> Expression:
        """The text in upper case."""
        return _call("str.upper", self.expression)

    def strip(self, characters: str | None = None) -> Expression:
        """The text without white space (or the given characters) at both ends."""
        return _call("str.strip", self.expression, characters=characters)

    def contains(self, text: str) -> Expression:
        """Whether `text` occurs in it, as it is (`matches` takes a pattern)."""
        return _call("str.contains", self.expression, text=text)

    def matches(self, pattern: str) -> Expression:
        """Whether the regular expression (RE2) matches some part of it."""
        return _call("str.matches", self.expression, pattern=pattern)

    def startswith(self, prefix: str) -> Expression:
        """Whether it begins with `prefix`, as it is (no pattern)."""
        return _call("str.startswith", self.expression, prefix=prefix)

    def endswith(self, suffix: str) -> Expression:
        """Whether it ends with `suffix`, as it is (no pattern)."""
        return _call("str.endswith", self.expression, suffix=suffix)

    def replace(self, old: str, new: str) -> Expression:
        """The text with every `old` replaced by `new`, as they are (no pattern)."""
        if not old:
            raise InvalidProgramError(
                "str.replace needs a text to replace, not ''; to put text before or behind it, use lit(text) + column"
            )
        return _call("str.replace", self.expression, old=old, new=new)

    def split(self, separator: str | None = None) -> Expression:
        """A list of its parts; None: at runs of white space."""
        if separator == "":
            raise InvalidProgramError("str.split needs a text to split at, not ''; with none it splits at white space")
        return _call("str.split", self.expression, separator=separator)

    def length(self) -> Expression:
        """Number of characters, int64."""
        return _call("str.length", self.expression)

    def slice(self, start: int, stop: int | None = None) -> Expression:
        """Characters from `start` up to, without, `stop`; negative positions count from the end."""
        return _call("str.slice", self.expression, start=start, stop=stop)


@dataclass(frozen=True, slots=True)
class TemporalFunctions:
    """`col("departed").dt`: functions of timestamps and dates; int64 is read as epoch milliseconds in UTC.

    Parts are int64, in the timestamp's own time zone.
    """

    expression: Expression

    def year(self) -> Expression:
        """The year."""
        return _call("dt.year", self.expression)

    def month(self) -> Expression:
        """1 ... 12."""
        return _call("dt.month", self.expression)

    def day(self) -> Expression:
        """Day of the month, 1 ... 31."""
        return _call("dt.day", self.expression)

    def hour(self) -> Expression:
        """0 ... 23."""
        return _call("dt.hour", self.expression)

    def minute(self) -> Expression:
        """0 ... 59."""
        return _call("dt.minute", self.expression)

    def second(self) -> Expression:
        """Whole seconds, 0 ... 59."""
        return _call("dt.second", self.expression)

    def day_of_week(self) -> Expression:
        """0 (Monday) ... 6 (Sunday), as `datetime.weekday`."""
        return _call("dt.day_of_week", self.expression)

    def floor(self, unit: Duration) -> Expression:
        """The start of the period that it is in, of the same type.

        `unit` is "second", "minute", "hour", "day", "week" (from Monday), "month", "quarter" or "year" of the
        timestamp's own time zone; or a duration such as "15 min", whose periods count from the epoch (for a time of
        day, from midnight). Where clocks skip the start, the period starts when they go on.
        """
        if isinstance(unit, str) and unit.lower() in _CALENDAR_UNITS:
            return _call("dt.floor", self.expression, unit=unit.lower())
        length = to_millis(unit, "dt.floor")
        if length <= 0:
            raise InvalidProgramError(f"dt.floor takes a positive duration, not {unit!r}")
        return _call("dt.floor", self.expression, unit=int(length))

    def epoch_ms(self) -> Expression:
        """Milliseconds since 1970-01-01 UTC as int64, rounded down; a time without zone is read as UTC."""
        return _call("dt.epoch_ms", self.expression)


def col(name: str) -> Expression:
    """The column `name`."""
    if not isinstance(name, str) or not name:
        raise InvalidProgramError(f"col takes the name of a column, not {name!r}")
    return Column(name)


def lit(value: object) -> Expression:
    """The same value in every row: a number, text, bytes, bool, decimal, date, time, list, Arrow scalar, or None."""
    if value is not None and not isinstance(value, _LITERALS):
        item = getattr(value, "item", None)  # numpy scalars
        if not callable(item) or getattr(value, "ndim", None) != 0:
            raise InvalidProgramError(f"lit cannot take {value!r} of type {type(value).__name__}")
        value = _of_numpy(value, item())
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise InvalidProgramError(
            f"lit takes integers of 64 bits, -2**63 ... 2**64 - 1, not {value}; use a float, or a decimal.Decimal"
        )
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise InvalidProgramError(f"lit cannot take {value!r}: half of a surrogate pair is no character")
    if isinstance(value, decimal.Decimal) and not value.is_finite():
        raise InvalidProgramError(f"lit cannot take {value!r}, which no column of decimals can hold; use a float")
    return Literal(value)


def as_expression(value: object) -> Expression:
    """An expression as it is; anything else as a literal."""
    return value if isinstance(value, Expression) else lit(value)


def _of_numpy(scalar: Any, item: object) -> object:
    """The Python value of a numpy scalar; of a time in a unit that Python's own have not, an Arrow scalar."""
    if not isinstance(item, int) or scalar.dtype.kind not in "mM":
        return item
    try:
        return pa.scalar(scalar)
    except pa.ArrowException as error:
        raise InvalidProgramError(f"lit cannot take {scalar!r}: {error}") from error


def _call(function: str, *arguments: object, **options: object) -> Expression:
    return Call(function, tuple(as_expression(argument) for argument in arguments), tuple(options.items()))


def _plain(expression: Expression) -> str:
    """A literal as Python writes it, without `lit`."""
    return repr(expression.value) if isinstance(expression, Literal) else repr(expression)


def _operand(expression: Expression) -> str:
    """The text of an operand, in parentheses where it could be misread inside a larger expression."""
    if isinstance(expression, Call) and (expression.function in _INFIX or expression.function in _PREFIX):
        return f"({expression!r})"
    return _plain(expression)


def _field(name: str, expression: Expression) -> str:
    is_column = isinstance(expression, Column) and expression.name == name
    return repr(name) if is_column else f"{name}={expression!r}"


def _option(value: object) -> str:
    return str(value) if isinstance(value, pa.DataType) else repr(value)
