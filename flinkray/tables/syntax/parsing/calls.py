"""Calls of functions and aggregates, those with a syntax of their own among them, and windows of OVER."""

from __future__ import annotations

from collections.abc import Callable

from flinkray.errors import did_you_mean
from flinkray.tables.syntax.expressions import (
    Call,
    Clause,
    Default,
    Expression,
    Frame,
    FrameBound,
    Infix,
    KeyValue,
    ModelArgument,
    NamedArgument,
    OrderItem,
    Prefix,
    Star,
    Symbol,
    TableArgument,
    Temporal,
    Window,
)
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.parsing.expressions import ExpressionParser
from flinkray.tables.syntax.tokens import QUOTED, WORD
from flinkray.tables.syntax.words import JSON_FUNCTIONS, TIME_UNITS

_UNITS = {unit: unit for unit in TIME_UNITS} | {
    f"SQL_TSI_{unit}": unit
    for unit in ("MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
}
_WRAPPERS = (
    "WITHOUT ARRAY WRAPPER",
    "WITHOUT WRAPPER",
    "WITH CONDITIONAL ARRAY WRAPPER",
    "WITH CONDITIONAL WRAPPER",
    "WITH UNCONDITIONAL ARRAY WRAPPER",
    "WITH UNCONDITIONAL WRAPPER",
    "WITH ARRAY WRAPPER",
    "WITH WRAPPER",
)
_JSON_CLAUSES = _WRAPPERS + tuple(
    f"{what} ON {when}"
    for what in ("NULL", "ERROR", "TRUE", "FALSE", "UNKNOWN", "ABSENT", "EMPTY ARRAY", "EMPTY OBJECT")
    for when in ("NULL", "EMPTY", "ERROR")
)


_TIMES_IN_BRACES = {"D": "DATE", "T": "TIME", "TS": "TIMESTAMP"}
_OF_JDBC = {
    name: name
    for name in (
        *("ABS", "ACOS", "ASIN", "ATAN", "ATAN2", "COS", "COT", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "DEGREES"),
        *("EXP", "FLOOR", "HOUR", "LOG10", "LTRIM", "MINUTE", "MOD", "MONTH", "PI", "POWER", "QUARTER", "RADIANS"),
        *("RAND", "REPLACE", "ROUND", "RTRIM", "SECOND", "SIGN", "SIN", "SQRT", "SUBSTRING", "TAN", "TRUNCATE"),
        *("TIMESTAMPADD", "TIMESTAMPDIFF", "WEEK", "YEAR"),
    )
} | {
    "CEILING": "CEIL",
    "CONCAT": "||",
    "CURDATE": "CURRENT_DATE",
    "CURTIME": "LOCALTIME",
    "IFNULL": "COALESCE",
    "INSERT": "OVERLAY",
    "LCASE": "LOWER",
    "LENGTH": "CHAR_LENGTH",
    "LOCATE": "POSITION",
    "LOG": "LN",
    "NOW": "CURRENT_TIMESTAMP",
    "UCASE": "UPPER",
}
"""Functions of JDBC's `{fn name(...)}` as they are called here."""


class CallParser(ExpressionParser):
    """Reads calls."""

    def escape(self) -> Expression:
        """`{fn name(arguments)}`, `{d 'date'}`, `{t 'time'}` and `{ts 'timestamp'}` of JDBC."""
        mark = self.mark()
        self.expect("{")
        kind = self.expect_any("FN", *_TIMES_IN_BRACES)
        found: Expression
        if kind == "FN":
            found = self._of_jdbc()
        else:
            text = self.string()
            found = Temporal(_TIMES_IN_BRACES[kind], text, span=self.since(mark))
        self.expect("}")
        return found

    def _of_jdbc(self) -> Expression:
        mark, token = self.mark(), self.token
        name = _OF_JDBC.get(token.key)
        if name is None:
            hint = did_you_mean(token.key, _OF_JDBC)
            self.fail(f"JDBC has no function {token.text!r} in braces{hint}: write it without")
        self.take()
        self.expect("(")
        arguments = self._with_unit_first() if name.startswith("TIMESTAMP") else self._arguments(is_json=False)
        self.expect(")")
        if name == "||" and len(arguments) == 2:
            return Infix(name, *arguments, span=self.since(mark))
        if name == "OVERLAY" and len(arguments) == 4:
            text, start, length, replacement = arguments
            arguments = (text, replacement, start, length)
        return Call(Path((Name(name, span=token.span),), span=token.span), arguments, span=self.since(mark))

    def special_call(self) -> Expression | None:
        """A call with a syntax of its own, such as EXTRACT, where one comes next."""
        key = self.token.key
        if key in ("FINAL", "RUNNING") and self.ahead(1).kind == WORD and self.ahead(2).key == "(":
            mark = self.mark()
            self.take()
            call = self.expression(80)
            return Prefix(key, call, span=self.since(mark))
        if self.ahead(1).key != "(":
            return None
        if key in JSON_FUNCTIONS:
            return self.call(self.reserved_path())
        readers: dict[str, Callable[[], tuple[Expression, ...]]] = {
            "EXTRACT": self._extract,
            "TIMESTAMPADD": self._with_unit_first,
            "TIMESTAMPDIFF": self._with_unit_first,
            "FLOOR": self._to_unit,
            "CEIL": self._to_unit,
            "CEILING": self._to_unit,
            "TRIM": self._trim,
            "POSITION": self._position,
            "SUBSTRING": self._substring,
            "OVERLAY": self._overlay,
            "TRANSLATE": lambda: self.separated(self.expression),
        }
        if key not in readers:
            return None
        mark = self.mark()
        name = Name("CEIL" if key == "CEILING" else key, span=self.token.span)
        self.take()
        self.expect("(")
        arguments = readers[key]()
        self.expect(")")
        return Call(Path((name,), span=name.span), arguments, span=self.since(mark))

    # -- with a syntax of their own

    def unit(self) -> Symbol:
        """A unit of time as an argument."""
        token = self.token
        if token.key not in _UNITS:
            self.fail_expecting("a unit of time such as SECOND, MINUTE, HOUR, DAY, MONTH or YEAR")
        self.take()
        return Symbol(_UNITS[token.key], span=token.span)

    def _extract(self) -> tuple[Expression, ...]:
        unit = self.unit()
        self.expect("FROM")
        return (unit, self.expression())

    def _with_unit_first(self) -> tuple[Expression, ...]:
        unit = self.unit()
        self.expect(",")
        return (unit, *self.separated(self.expression))

    def _to_unit(self) -> tuple[Expression, ...]:
        arguments = self.separated(self.expression)
        return (*arguments, self.unit()) if self.accept("TO") else arguments

    def _trim(self) -> tuple[Expression, ...]:
        """`[BOTH | ...] [characters] FROM text` as (where, characters, text), `TRIM(text)` as (text,)."""
        token = self.token
        where = Symbol(self.accept_any("BOTH", "LEADING", "TRAILING") or "BOTH", span=token.span)
        characters: Expression | None = None
        if not self.at("FROM"):
            characters = self.expression()
        if not self.accept("FROM"):
            if token.key == where.name or characters is None:
                self.fail_expecting("FROM")
            return (characters,)
        text = self.expression()
        return (where, text) if characters is None else (where, characters, text)

    def _position(self) -> tuple[Expression, ...]:
        sought = self.expression(33)
        self.expect("IN")
        text = self.expression()
        return (sought, text, self.expression()) if self.accept("FROM") else (sought, text)

    def _substring(self) -> tuple[Expression, ...]:
        text = self.expression()
        if self.accept("FROM"):
            start = self.expression()
            return (text, start, self.expression()) if self.accept("FOR") else (text, start)
        self.expect(",")
        return (text, *self.separated(self.expression))

    def _overlay(self) -> tuple[Expression, ...]:
        text = self.expression()
        self.expect("PLACING")
        replacement = self.expression()
        self.expect("FROM")
        start = self.expression()
        found = (text, replacement, start)
        return (*found, self.expression()) if self.accept("FOR") else found

    # -- calls

    def call(self, path: Path) -> Expression:
        """The call of a function whose name is behind."""
        mark = path.span.start
        is_json = path.names[-1].text.upper() in JSON_FUNCTIONS
        if not self.at("("):
            return Call(path, span=self.since(mark))
        self.expect("(")
        distinct = self.accept_any("DISTINCT", "ALL") == "DISTINCT"
        arguments = self._arguments(is_json)
        clauses = self._json_clauses() if is_json else ()
        within = self._order_by() if self.at("ORDER") else ()
        clauses += self._json_clauses() if is_json else ()
        ignore_nulls = self._nulls()
        self.expect(")")
        if ignore_nulls is None:
            ignore_nulls = self._nulls()
        if self.accept("WITHIN", "GROUP"):
            self.expect("(")
            within = self._order_by()
            self.expect(")")
        condition = self._filter()
        over = self.window_reference() if self.accept("OVER") else None
        return Call(path, arguments, distinct, clauses, within, condition, ignore_nulls, over, span=self.since(mark))

    def _nulls(self) -> bool | None:
        for word in ("IGNORE", "RESPECT"):
            if self.accept(word, "NULLS"):
                return word == "IGNORE"
        return None

    def _filter(self) -> Expression | None:
        if not self.accept("FILTER"):
            return None
        self.expect("(", "WHERE")
        condition = self.expression()
        self.expect(")")
        return condition

    def _arguments(self, is_json: bool) -> tuple[Expression, ...]:
        if self.at(")"):
            return ()
        if self.at("*"):
            token = self.take()
            return (Star(span=token.span),)
        if is_json and self._json_clause_is_next():
            return ()
        return self.separated(self._json_argument if is_json else self._argument)

    def _argument(self) -> Expression:
        mark = self.mark()
        token = self.token
        if token.kind in (WORD, QUOTED) and self.ahead(1).key == "=>":
            name = self.name("the name of an argument")
            self.expect("=>")
            value = self._argument()
            return NamedArgument(name, value, span=self.since(mark))
        if self.accept("DEFAULT"):
            return Default(span=self.since(mark))
        if self.accept("TABLE"):
            return self._table_argument(mark)
        if self.at("MODEL") and self.ahead(1).kind in (WORD, QUOTED):
            self.take()
            return ModelArgument(self.path("a model"), span=self.since(mark))
        return self.expression()

    def _table_argument(self, mark: int) -> Expression:
        table = self.query_in_parentheses() or self.path("a table")
        partition_by: tuple[Expression, ...] = ()
        if self.accept("PARTITION", "BY"):
            # Without parentheses there is one column: a comma would begin the next argument.
            partition_by = self.in_parentheses(self.expression) if self.at("(") else (self.expression(),)
        order_by: tuple[OrderItem, ...] = ()
        if self.accept("ORDER", "BY"):
            order_by = self.in_parentheses(self.order_item) if self.at("(") else (self.order_item(),)
        return TableArgument(table, partition_by, order_by, span=self.since(mark))

    # -- JSON

    def _json_argument(self) -> Expression:
        """`KEY k VALUE v`, `k VALUE v` and `k : v` are one; all else is an expression."""
        mark = self.mark()
        has_key = self.at("KEY") and self.ahead(1).key not in (",", ")", ".")
        if has_key:
            self.take()
        key = self.expression()
        if self.accept("VALUE") or self.accept(":"):
            value = self.expression()
            if self.accept("FORMAT", "JSON"):
                value = Call(Path((Name("JSON"),)), (value,), span=self.since(mark))
            return KeyValue(key, value, span=self.since(mark))
        if has_key:
            self.fail_expecting("VALUE")
        return key

    def _json_clause_is_next(self) -> bool:
        place = self.place()
        found = self._json_clause() is not None
        self.back_to(place)
        return found

    def _json_clauses(self) -> tuple[Clause, ...]:
        return tuple(iter(self._json_clause, None))

    def _json_clause(self) -> Clause | None:
        mark = self.mark()
        if self.accept("RETURNING"):
            kind = self.type_without_nullability()
            return Clause("RETURNING", type=kind, span=self.since(mark))
        if self.accept("DEFAULT"):
            value = self.expression()
            self.expect("ON")
            when = self.expect_any("EMPTY", "ERROR")
            return Clause(f"DEFAULT ON {when}", value, span=self.since(mark))
        for words in _JSON_CLAUSES:
            if self.accept(*words.split()):
                return Clause(words, span=self.since(mark))
        return None

    # -- order and windows

    def _order_by(self) -> tuple[OrderItem, ...]:
        self.expect("ORDER", "BY")
        return self.separated(self.order_item)

    def order_item(self) -> OrderItem:
        """`expression [ASC | DESC] [NULLS FIRST | LAST]`."""
        mark = self.mark()
        expression = self.expression()
        descending = self.accept_any("DESC", "ASC") == "DESC"
        nulls_first = self.expect_any("FIRST", "LAST") == "FIRST" if self.accept("NULLS") else None
        return OrderItem(expression, descending, nulls_first, span=self.since(mark))

    def window_reference(self) -> Window:
        """What stands behind OVER: a name, or a window in parentheses."""
        mark = self.mark()
        if self.at("("):
            return self.window()
        name = self.name("a window")
        return Window(name, is_reference=True, span=self.since(mark))

    def window(self) -> Window:
        """`([name] [PARTITION BY ...] [ORDER BY ...] [ROWS | RANGE ...])`."""
        mark = self.mark()
        self.expect("(")
        name = self.name("a window") if self.at_name() else None
        partition_by = self.separated(self.expression) if self.accept("PARTITION", "BY") else ()
        order_by = self._order_by() if self.at("ORDER") else ()
        frame = self._frame()
        self.expect(")")
        return Window(name, partition_by, order_by, frame, span=self.since(mark))

    def _frame(self) -> Frame | None:
        mark = self.mark()
        unit = self.accept_any("ROWS", "RANGE")
        if not unit:
            return None
        if not self.accept("BETWEEN"):
            start = self._frame_bound()
            return Frame(unit, start, span=self.since(mark))
        start = self._frame_bound()
        self.expect("AND")
        end = self._frame_bound()
        return Frame(unit, start, end, span=self.since(mark))

    def _frame_bound(self) -> FrameBound:
        mark = self.mark()
        if self.accept("CURRENT", "ROW"):
            return FrameBound("CURRENT ROW", span=self.since(mark))
        offset = None if self.accept("UNBOUNDED") else self.expression(40)
        direction = self.expect_any("PRECEDING", "FOLLOWING")
        return FrameBound(direction, offset, span=self.since(mark))
