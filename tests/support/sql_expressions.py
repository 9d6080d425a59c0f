"""Expressions of SQL as bound trees, for tests of functions: enough of the grammar for what a test writes."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from typing import Any

from flinkray.tables.binding.calls import cast_to
from flinkray.tables.functions.registry import resolve
from flinkray.tables.functions.signatures import NO_LITERAL, Argument
from flinkray.tables.plans.expressions import BoundExpression, Call, Column, Constant
from flinkray.tables.types import logical as types
from flinkray.tables.types.logical import LogicalType, RowType

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<bytes>[xX]'[0-9a-fA-F]*')|(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)"
    r"|(?P<word>[A-Za-z_][\w$]*)|(?P<sign><>|<=|>=|\|\||[-+*/%=<>(),\[\].]))"
)
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_NILADIC = {"CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME"}
_UNITS_OF_INTERVALS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_SECONDS = {"WEEK": 604_800, "DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
_NAMED_TYPES = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TINYINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INT,
    "INTEGER": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "STRING": types.STRING,
    "BYTES": types.BYTES,
    "DATE": types.DATE,
}
_TYPES_WITH_NUMBERS: dict[str, Any] = {
    "DECIMAL": types.DECIMAL,
    "CHAR": types.CHAR,
    "VARCHAR": lambda length=types.MAX_LENGTH: types.VARCHAR(length),
    "BINARY": types.BINARY,
    "VARBINARY": types.VARBINARY,
    "TIME": types.TIME,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP_LTZ": types.TIMESTAMP_LTZ,
}


def bound_call(name: str, *arguments: BoundExpression, target: LogicalType | None = None) -> Call:
    """A call of a function by its name, with its arguments cast to what it takes."""
    given = [Argument(each.type, each.value if isinstance(each, Constant) else NO_LITERAL) for each in arguments]
    found = resolve(name, given, target)
    cast = tuple(cast_to(each, kind) for each, kind in zip(arguments, found.argument_types, strict=True))
    return Call(found.result_type, found.name, cast, found.is_deterministic)


def bind(sql: str, row: RowType | None = None) -> BoundExpression:
    """The expression that the text is, over columns with the names and types of the row's fields."""
    parser = _Parser(sql, row or types.ROW())
    found = parser.expression()
    parser.end()
    return found


def read_type(text: str) -> LogicalType:
    """The type that the text is."""
    parser = _Parser(text, types.ROW())
    found = parser.type()
    parser.end()
    return found


def symbol(name: str) -> Constant:
    """A keyword among arguments."""
    return Constant(types.CHAR(len(name)).not_null(), name)


def number(text: str) -> Constant:
    """A literal number: of type INT, BIGINT, DECIMAL or, with an exponent, DOUBLE."""
    if "e" in text.lower():
        return Constant(types.DOUBLE.not_null(), float(text))
    if "." not in text:
        value = int(text)
        return Constant((types.INT if value < 2**31 else types.BIGINT).not_null(), value)
    digits = text.lstrip(".")
    scale = len(text.partition(".")[2])
    return Constant(types.DECIMAL(len(digits.replace(".", "")), scale).not_null(), decimal.Decimal(text))


class _Parser:
    def __init__(self, sql: str, row: RowType) -> None:
        self._row = row
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(sql.rstrip()):
            found = _TOKEN.match(sql, at)
            assert found is not None, f"{sql!r} at {sql[at:]!r}"
            kind = str(found.lastgroup)
            self._tokens.append((kind, found[kind]))
            at = found.end()
        self._tokens.append(("end", ""))
        self._at = 0

    # -- tokens

    def _is(self, *words: str) -> bool:
        following = self._tokens[self._at : self._at + len(words)]
        return [w for _, w in following] == list(words) and all(kind != "text" for kind, _ in following)

    def _take(self, *words: str) -> bool:
        if self._is(*words):
            self._at += len(words)
            return True
        return False

    def _need(self, *words: str) -> None:
        assert self._take(*words), f"{words} wanted, and not {self._tokens[self._at :]}"

    def _next(self) -> tuple[str, str]:
        self._at += 1
        return self._tokens[self._at - 1]

    def end(self) -> None:
        assert self._tokens[self._at][0] == "end", self._tokens[self._at :]

    # -- operators, the weakest first

    def expression(self) -> BoundExpression:
        return self._or()

    def _or(self) -> BoundExpression:
        left = self._and()
        while self._take("OR"):
            left = bound_call("OR", left, self._and())
        return left

    def _and(self) -> BoundExpression:
        left = self._not()
        while self._take("AND"):
            left = bound_call("AND", left, self._not())
        return left

    def _not(self) -> BoundExpression:
        return bound_call("NOT", self._not()) if self._take("NOT") else self._predicate()

    def _predicate(self) -> BoundExpression:
        left = self._sum()
        while True:
            negated = self._is("NOT") and self._tokens[self._at + 1][1] in ("IN", "BETWEEN", "LIKE", "SIMILAR")
            if negated:
                self._at += 1
            found = self._predicate_after(left)
            if found is None:
                return left
            left = bound_call("NOT", found) if negated else found

    def _predicate_after(self, left: BoundExpression) -> BoundExpression | None:
        for sign in _COMPARISONS:
            if self._take(sign):
                return bound_call(sign, left, self._sum())
        if self._take("IS"):
            return self._is_after(left)
        if self._take("IN"):
            self._need("(")
            return bound_call("IN", left, *self._list(")"))
        if self._take("BETWEEN"):
            symmetric = self._take("SYMMETRIC")
            low = self._sum()
            self._need("AND")
            high = self._sum()
            between = bound_call("BETWEEN", left, low, high)
            return bound_call("OR", between, bound_call("BETWEEN", left, high, low)) if symmetric else between
        for name, words in (("LIKE", ("LIKE",)), ("SIMILAR TO", ("SIMILAR", "TO"))):
            if self._take(*words):
                pattern = self._sum()
                return bound_call(name, left, pattern, *([self._sum()] if self._take("ESCAPE") else []))
        return None

    def _is_after(self, left: BoundExpression) -> BoundExpression:
        negation = "NOT " if self._take("NOT") else ""
        if self._take("DISTINCT", "FROM"):
            return bound_call(f"IS {negation}DISTINCT FROM", left, self._sum())
        word = self._next()[1]
        if word == "JSON":
            kinds = [symbol(self._next()[1])] if self._tokens[self._at][1] in ("SCALAR", "ARRAY", "OBJECT") else []
            found = bound_call("IS JSON", left, *kinds)
            return bound_call("NOT", found) if negation else found
        return bound_call(f"IS {negation}{word}", left)

    def _sum(self) -> BoundExpression:
        left = self._product()
        while self._tokens[self._at][1] in ("+", "-", "||") and self._tokens[self._at][0] == "sign":
            left = bound_call(self._next()[1], left, self._product())
        return left

    def _product(self) -> BoundExpression:
        left = self._signed()
        while self._tokens[self._at][1] in ("*", "/", "%") and self._tokens[self._at][0] == "sign":
            left = bound_call(self._next()[1], left, self._signed())
        return left

    def _signed(self) -> BoundExpression:
        if self._take("+"):
            return self._signed()
        if self._take("-"):
            inner = self._signed()
            if isinstance(inner, Constant) and not isinstance(inner.value, dt.timedelta | str):
                is_lowest = inner.value == 2**31 and isinstance(inner.value, int)
                return Constant(types.INT.not_null() if is_lowest else inner.type, -inner.value)
            return bound_call("-", inner)
        return self._accessed()

    def _accessed(self) -> BoundExpression:
        value = self._primary()
        while True:
            if self._take("["):
                value = bound_call("ITEM", value, self.expression())
                self._need("]")
            elif self._take("."):
                value = bound_call("ITEM", value, symbol(self._next()[1]))
            else:
                return value

    # -- values

    def _primary(self) -> BoundExpression:
        kind, word = self._next()
        if kind == "number":
            return number(word)
        if kind == "text":
            text = word[1:-1].replace("''", "'")
            return Constant(types.CHAR(len(text)).not_null(), text)
        if kind == "bytes":
            value = bytes.fromhex(word[2:-1])
            return Constant(types.BINARY(len(value)).not_null(), value)
        if word == "(":
            return self._parenthesised()
        assert kind == "word", word
        return self._named(word)

    def _parenthesised(self) -> BoundExpression:
        difference = self._difference()
        if difference is not None:
            return difference
        inner = self.expression()
        if self._take(","):
            begin = [inner, *self._list(")")]
            self._need("OVERLAPS", "(")
            return bound_call("OVERLAPS", *begin, *self._list(")"))
        self._need(")")
        return inner

    def _difference(self) -> BoundExpression | None:
        """`end - begin) UNIT`, where that is what comes."""
        depth = 0
        place = self._at - 1
        for place, (_, word) in enumerate(self._tokens[self._at :], self._at):  # noqa: B007
            depth += (word == "(") - (word == ")")
            if depth < 0:
                break
        unit = self._tokens[place + 1][1]
        if unit not in _SECONDS and unit not in _UNITS_OF_INTERVALS:
            return None
        end = self._product()
        self._need("-")
        begin = self._product()
        self._need(")", unit)
        target = types.INTERVAL("MONTH") if unit in _UNITS_OF_INTERVALS else types.INTERVAL("SECOND", fraction=3)
        return bound_call("-", end, begin, target=target)

    def _named(self, word: str) -> BoundExpression:
        if word in ("TRUE", "FALSE"):
            return Constant(types.BOOLEAN.not_null(), word == "TRUE")
        if word in ("UNKNOWN", "NULL"):
            return Constant(types.BOOLEAN if word == "UNKNOWN" else types.NULL, None)
        if word in ("DATE", "TIME", "TIMESTAMP", "INTERVAL") and self._tokens[self._at][0] == "text":
            return self._temporal(word, self._next()[1][1:-1])
        if word == "CASE":
            return self._case()
        if word in ("ARRAY", "MAP") and self._take("["):
            return bound_call(word, *self._list("]"))
        if word in _NILADIC:
            return bound_call(word)
        if word in self._row.names:
            place = self._row.names.index(word)
            return Column(self._row.types[place], place)
        self._need("(")
        return self._call(word)

    def _list(self, close: str) -> list[BoundExpression]:
        found: list[BoundExpression] = []
        while not self._take(close):
            found.append(self.expression())
            self._take(",")
        return found

    def _temporal(self, word: str, text: str) -> BoundExpression:
        if word == "DATE":
            return Constant(types.DATE.not_null(), dt.date.fromisoformat(text))
        if word == "INTERVAL":
            return self._interval(text)
        digits = len(text.partition(".")[2])
        if word == "TIME":
            return Constant(types.TIME(digits).not_null(), dt.time.fromisoformat(text.zfill(8)))
        return Constant(types.TIMESTAMP(digits).not_null(), dt.datetime.fromisoformat(text))

    def _interval(self, text: str) -> Constant:
        units = [self._next()[1]]
        self._parenthesised_numbers()
        if self._take("TO"):
            units.append(self._next()[1])
            self._parenthesised_numbers()
        sign = -1 if text.startswith("-") else 1
        parts = re.split(r"[ :-]", text.lstrip("-"))
        if units[0] in _UNITS_OF_INTERVALS:
            every = list(_UNITS_OF_INTERVALS.values())
            sizes = [_UNITS_OF_INTERVALS[units[0]]] if len(parts) == 1 else [every[0], every[2]]
            months = sum(int(part) * size for part, size in zip(parts, sizes, strict=True))
            return Constant(types.INTERVAL("MONTH").not_null(), sign * months)
        names = list(_SECONDS)
        first = names.index(units[0])
        seconds = sum(float(part) * _SECONDS[names[first + place]] for place, part in enumerate(parts))
        kind = types.INTERVAL("SECOND", fraction=3).not_null()
        return Constant(kind, sign * dt.timedelta(seconds=seconds))

    def _case(self) -> BoundExpression:
        subject = None if self._is("WHEN") else self.expression()
        arguments: list[BoundExpression] = []
        while self._take("WHEN"):
            condition = self.expression()
            self._need("THEN")
            arguments += [condition if subject is None else bound_call("=", subject, condition), self.expression()]
        if self._take("ELSE"):
            arguments.append(self.expression())
        self._need("END")
        return bound_call("CASE", *arguments)

    # -- calls with words in them

    def _call(self, name: str) -> BoundExpression:
        special = getattr(self, f"_call_{name.lower()}", None)
        if special is not None:
            return special()  # type: ignore[no-any-return]
        if name in ("TIMESTAMPADD", "TIMESTAMPDIFF"):
            unit = symbol(self._next()[1])
            self._need(",")
            return bound_call(name, unit, *self._list(")"))
        if name in ("CAST", "TRY_CAST"):
            value = self.expression()
            self._need("AS")
            target = self.type()
            self._need(")")
            return bound_call(name, value, target=target)
        if name in ("FLOOR", "CEIL"):
            value = self.expression()
            unit = [symbol(self._next()[1])] if self._take("TO") else []
            self._need(")")
            return bound_call(name, value, *unit)
        return bound_call(name, *self._list(")"))

    def _call_extract(self) -> BoundExpression:
        unit = symbol(self._next()[1])
        self._need("FROM")
        return bound_call("EXTRACT", unit, *self._list(")"))

    def _call_position(self) -> BoundExpression:
        wanted = self._sum()
        self._need("IN")
        return bound_call("POSITION", wanted, *self._list(")"))

    def _call_substring(self) -> BoundExpression:
        text = self.expression()
        arguments = [text]
        while not self._take(")"):
            assert self._take("FROM") or self._take("FOR") or self._take(",")
            arguments.append(self.expression())
        return bound_call("SUBSTRING", *arguments)

    def _call_overlay(self) -> BoundExpression:
        arguments = [self.expression()]
        while not self._take(")"):
            assert self._take("PLACING") or self._take("FROM") or self._take("FOR")
            arguments.append(self.expression())
        return bound_call("OVERLAY", *arguments)

    def _call_trim(self) -> BoundExpression:
        sides = [side for side in ("BOTH", "LEADING", "TRAILING") if self._take(side)]
        first = self.expression()
        if self._take("FROM"):
            first, characters = self.expression(), first
        else:
            characters = Constant(types.CHAR(1).not_null(), " ")
        self._need(")")
        return bound_call("TRIM", symbol(sides[0] if sides else "BOTH"), characters, first)

    def _call_json_value(self) -> BoundExpression:
        text, path, target = self._json_start()
        empty: list[BoundExpression] = [symbol("NULL"), Constant(types.NULL, None)]
        error = list(empty)
        while not self._take(")"):
            word = self._next()[1]
            value = self._primary() if word == "DEFAULT" else Constant(types.NULL, None)
            self._need("ON")
            (empty if self._next()[1] == "EMPTY" else error)[:] = [symbol(word), value]
        return bound_call("JSON_VALUE", text, path, *empty, *error, target=target)

    def _call_json_query(self) -> BoundExpression:
        text, path, target = self._json_start()
        wrapper, empty, error = "WITHOUT", "NULL", "NULL"
        while not self._take(")"):
            word = self._next()[1]
            if word == "WITH":
                wrapper = "CONDITIONAL" if self._take("CONDITIONAL") else "UNCONDITIONAL"
                self._take("UNCONDITIONAL")
                self._need("WRAPPER")
                continue
            word = f"EMPTY {self._next()[1]}" if word == "EMPTY" else word
            self._need("ON")
            if self._next()[1] == "EMPTY":
                empty = word
            else:
                error = word
        return bound_call("JSON_QUERY", text, path, symbol(wrapper), symbol(empty), symbol(error), target=target)

    def _json_start(self) -> tuple[BoundExpression, BoundExpression, LogicalType | None]:
        text = self.expression()
        self._need(",")
        path = self.expression()
        return text, path, self.type() if self._take("RETURNING") else None

    def _call_json_exists(self) -> BoundExpression:
        text, path, _ = self._json_start()
        more = []
        if not self._take(")"):
            more = [symbol(self._next()[1])]
            self._need("ON", "ERROR", ")")
        return bound_call("JSON_EXISTS", text, path, *more)

    def _call_json_object(self) -> BoundExpression:
        return self._json_made("JSON_OBJECT", "NULL")

    def _call_json_array(self) -> BoundExpression:
        return self._json_made("JSON_ARRAY", "ABSENT")

    def _json_made(self, name: str, on_null: str) -> BoundExpression:
        arguments: list[BoundExpression] = []
        while not self._take(")"):
            if self._take("NULL", "ON", "NULL") or self._take("ABSENT", "ON", "NULL"):
                on_null = self._tokens[self._at - 3][1]
                continue
            arguments.append(self.expression())
            assert self._take(",") or self._take("VALUE") or self._tokens[self._at][1] in (")", "NULL", "ABSENT")
        return bound_call(name, symbol(on_null), *arguments)

    # -- types

    def _parenthesised_numbers(self) -> list[int]:
        numbers: list[int] = []
        if self._take("("):
            while not self._take(")"):
                numbers.append(int(self._next()[1]))
                self._take(",")
        return numbers

    def type(self) -> LogicalType:
        """A type, nullable as long as it does not say NOT NULL."""
        word = self._next()[1]
        if word in _NAMED_TYPES:
            found: LogicalType = _NAMED_TYPES[word]
        elif word in _TYPES_WITH_NUMBERS:
            found = _TYPES_WITH_NUMBERS[word](*self._parenthesised_numbers())
        else:
            self._need("<")
            found = self._nested(word)
            self._need(">")
        return found.not_null() if self._take("NOT", "NULL") else found

    def _nested(self, word: str) -> LogicalType:
        if word in ("ARRAY", "MULTISET"):
            return (types.ARRAY if word == "ARRAY" else types.MULTISET)(self.type())
        if word == "MAP":
            key = self.type()
            self._need(",")
            return types.MAP(key, self.type())
        fields = []
        while not self._is(">"):
            name = self._next()[1]
            fields.append((name, self.type()))
            self._take(",")
        return types.ROW(*fields)
