"""Expressions: operators by their precedence, and what stands between them.

The numbers are Calcite's: what binds more tightly has the larger one. `a = b IS NULL` is `(a = b) IS NULL`, and
`a = b LIKE c` is `a = (b LIKE c)`.
"""

from __future__ import annotations

from flinkray.tables.syntax.expressions import (
    Apart,
    ArrayOf,
    Between,
    Binary,
    Case,
    Cast,
    CollectionOfQuery,
    Descriptor,
    Exists,
    Expression,
    Field,
    Infix,
    InList,
    InQuery,
    Interval,
    Is,
    Junction,
    Like,
    MapOf,
    Null,
    Number,
    Prefix,
    Quantified,
    Query,
    Reference,
    Row,
    Star,
    Subquery,
    Subscript,
    Temporal,
    Text,
    Truth,
    When,
)
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.parsing.types import TypeParser
from flinkray.tables.syntax.tokens import BINARY, NUMBER, QUOTED, STRING, WORD
from flinkray.tables.syntax.words import CONTEXT_FUNCTIONS, RESERVED_FUNCTIONS

OR, AND, NOT, IS, COMPARISON, RANGE, SUM, PRODUCT, SIGN = 22, 24, 26, 28, 30, 32, 40, 60, 80

INFIX = {
    "=": COMPARISON,
    "<>": COMPARISON,
    "!=": COMPARISON,
    "<": COMPARISON,
    "<=": COMPARISON,
    ">": COMPARISON,
    ">=": COMPARISON,
    "OVERLAPS": COMPARISON,
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "%": PRODUCT,
    "||": PRODUCT,
}
LONGEST_CHAIN = 100
"""Operators one after the other, as in `a + b + c`; AND and OR have no such limit."""
_UNITS_BEHIND = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
"""Units of a difference of times; reserved words, so that none is the name of a column."""
_JSON_KINDS = ("VALUE", "OBJECT", "ARRAY", "SCALAR")


class ExpressionParser(TypeParser):
    """Reads expressions; what reads queries and calls comes with the classes that extend it."""

    def query(self) -> Query:
        """A query without parentheses."""
        raise NotImplementedError

    def call(self, path: Path) -> Expression:
        """The call of a function whose name is behind."""
        raise NotImplementedError

    def special_call(self) -> Expression | None:
        """A call with a syntax of its own, such as EXTRACT, where one comes next."""
        raise NotImplementedError

    def escape(self) -> Expression:
        """What JDBC has in braces."""
        raise NotImplementedError

    def at_query(self) -> bool:
        """Whether a query comes next, perhaps in parentheses."""
        count = self._parentheses()
        return self._is_query_behind(count)

    def _parentheses(self) -> int:
        count = 0
        while self.ahead(count).key == "(":
            count += 1
        return count

    def _is_query_behind(self, count: int) -> bool:
        word = self.ahead(count).key
        return word in ("SELECT", "WITH", "VALUES") or (word == "TABLE" and self.ahead(count + 1).key != "(")

    def query_in_parentheses(self) -> Query | None:
        """A query with parentheses around it, or None where something else comes: what begins with two of them may be
        a query in parentheses, or an expression or a join of one: `((SELECT 1) + 1)`."""
        if not self.at("(") or not self.at_query():
            return None
        if self._parentheses() > 1:
            return self.attempt(self._query_in_parentheses)
        return self._query_in_parentheses()

    def _query_in_parentheses(self) -> Query:
        self.expect("(")
        query = self.query()
        self.expect(")")
        return query

    # -- operators

    def expression(self, least: int = 0) -> Expression:
        """An expression of operators that bind at least as tightly as `least`."""
        return self.nested(lambda: self._expression(least))

    def _expression(self, least: int) -> Expression:
        mark = self.mark()
        left = self._prefix()
        for _ in range(LONGEST_CHAIN):
            further = self._infix(left, least, mark)
            if further is None:
                return left
            left = further
        return self.fail(f"this is a chain of more than {LONGEST_CHAIN} operators; put parts of it in parentheses")

    def _prefix(self) -> Expression:
        mark = self.mark()
        if self.accept("NOT"):
            operand = self.expression(NOT)
            return Prefix("NOT", operand, span=self.since(mark))
        if sign := self.accept_any("-", "+"):
            operand = self.expression(SIGN)
            return Prefix(sign, operand, span=self.since(mark))
        return self._with_suffixes(self._primary(), mark)

    def _infix(self, left: Expression, least: int, mark: int) -> Expression | None:
        key = self.token.key
        if key in ("AND", "OR"):
            return self._junction(left, key, mark) if (AND if key == "AND" else OR) >= least else None
        power = INFIX.get(key)
        if power is not None:
            return self._operation(left, key, power, mark) if power >= least else None
        if key == "IS":
            return self._is(left, mark) if least <= IS else None
        return self._range(left, mark) if least <= RANGE else None

    def _junction(self, left: Expression, key: str, mark: int) -> Expression:
        operands = [left]
        while self.accept(key):
            operands.append(self.expression((AND if key == "AND" else OR) + 1))
        return Junction(key, tuple(operands), span=self.since(mark))

    def _operation(self, left: Expression, key: str, power: int, mark: int) -> Expression:
        self.take()
        operator = "<>" if key == "!=" else key
        if power == COMPARISON and (word := self.accept_any("ALL", "ANY", "SOME")):
            query = self.query_in_parentheses() or self.fail_expecting("a query in parentheses")
            quantifier = "ALL" if word == "ALL" else "ANY"
            return Quantified(left, operator, quantifier, query, span=self.since(mark))
        right = self.expression(power + 1)
        return Infix(operator, left, right, span=self.since(mark))

    def _is(self, left: Expression, mark: int) -> Expression:
        self.expect("IS")
        negated = self.accept("NOT")
        if self.accept("DISTINCT", "FROM"):
            right = self.expression(SUM)
            operator = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
            return Infix(operator, left, right, span=self.since(mark))
        if self.accept("JSON"):
            test = f"JSON {self.accept_any(*_JSON_KINDS) or 'VALUE'}"
        else:
            test = self.expect_any("NULL", "TRUE", "FALSE", "UNKNOWN")
        return Is(left, test, negated, span=self.since(mark))

    def _range(self, left: Expression, mark: int) -> Expression | None:
        """BETWEEN, IN and LIKE, with NOT before them or not."""
        place = self.place()
        negated = self.accept("NOT")
        if self.accept("BETWEEN"):
            return self._between(left, negated, mark)
        if self.accept("IN"):
            return self._in(left, negated, mark)
        for words in (("LIKE",), ("ILIKE",), ("RLIKE",), ("SIMILAR", "TO")):
            if self.accept(*words):
                pattern = self.expression(RANGE + 1)
                escape = self.expression(RANGE + 1) if self.accept("ESCAPE") else None
                return Like(left, pattern, " ".join(words), escape, negated, span=self.since(mark))
        if negated:
            self.back_to(place)
        return None

    def _between(self, left: Expression, negated: bool, mark: int) -> Expression:
        symmetric = self.accept_any("SYMMETRIC", "ASYMMETRIC") == "SYMMETRIC"
        low = self.expression(RANGE + 1)
        self.expect("AND")
        high = self.expression(RANGE + 1)
        return Between(left, low, high, symmetric, negated, span=self.since(mark))

    def _in(self, left: Expression, negated: bool, mark: int) -> Expression:
        query = self.query_in_parentheses()
        if query is not None:
            return InQuery(left, query, negated, span=self.since(mark))
        items = self.in_parentheses(self.expression)
        return InList(left, items, negated, span=self.since(mark))

    def _with_suffixes(self, found: Expression, mark: int) -> Expression:
        """`[index]` and `.field` behind what they are of."""
        for _ in range(LONGEST_CHAIN):
            if self.accept("["):
                index = self.expression()
                self.expect("]")
                found = Subscript(found, index, span=self.since(mark))
            elif self.accept("."):
                found = Field(found, self.name("a field"), span=self.since(mark))
            else:
                return found
        return self.fail(f"these are more than {LONGEST_CHAIN} fields and indexes one after the other")

    # -- what stands between operators

    def _primary(self) -> Expression:
        mark = self.mark()
        token = self.token
        if token.kind == NUMBER:
            self.take()
            return Number(token.text, span=token.span)
        if token.kind == STRING:
            text = self.string()
            return Text(text, span=self.since(mark))
        if token.kind == BINARY:
            self.take()
            return Binary(bytes.fromhex(token.text), span=token.span)
        if token.key == "(":
            return self._in_round_parentheses()
        if token.kind in (WORD, QUOTED):
            return self._word()
        if token.key == "{":
            return self.escape()
        return self.fail_expecting("an expression")

    def _in_round_parentheses(self) -> Expression:
        """`(expression)`, `(row, of, several)`, `(query)`, `(end - begin) DAY`."""
        mark = self.mark()
        query = self.query_in_parentheses()
        if query is not None:
            return Subquery(query, span=self.since(mark))
        items = self.in_parentheses(self.expression)
        if len(items) > 1:
            return Row(items, span=self.since(mark))
        match items[0]:
            case Infix("-", left, right) if self.token.key in _UNITS_BEHIND:
                units = self.interval_units()
                return Apart(left, right, units, span=self.since(mark))
        return items[0]

    def _word(self) -> Expression:
        mark = self.mark()
        key = self.token.key
        found = self._constant(key) or self._constructor(key) or self.special_call()
        if found is not None:
            return found
        if key in CONTEXT_FUNCTIONS or (key in RESERVED_FUNCTIONS and self.ahead(1).key == "("):
            return self.call(self.reserved_path())
        if key in ("DATE", "TIME", "TIMESTAMP") and self.ahead(1).key == "(":
            return self.call(self.reserved_path())
        path = self.path("a column")
        if self.at("("):
            return self.call(path)
        if self.accept(".", "*"):
            return Star(path, span=self.since(mark))
        return Reference(path, span=path.span)

    def reserved_path(self) -> Path:
        """The name of a function that is a reserved word."""
        token = self.take()
        return Path((Name(token.text, span=token.span),), span=token.span)

    def _constant(self, key: str) -> Expression | None:
        mark = self.mark()
        if key in ("TRUE", "FALSE", "UNKNOWN"):
            self.take()
            return Truth({"TRUE": True, "FALSE": False}.get(key), span=self.since(mark))
        if self.accept("NULL"):
            return Null(span=self.since(mark))
        if key in ("DATE", "TIME", "TIMESTAMP") and self.ahead(1).kind == STRING:
            self.take()
            text = self.string()
            return Temporal(key, text, span=self.since(mark))
        if self.accept("TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE"):
            text = self.string()
            return Temporal("TIMESTAMP_LTZ", text, span=self.since(mark))
        return self._interval() if self.accept("INTERVAL") else None

    def _interval(self) -> Interval:
        mark = self.ahead(-1).span.start
        negative = self.accept_any("-", "+") == "-"
        text = (
            str(self.integer()) if self.token.kind == NUMBER else self.string("the length of the interval as a string")
        )
        units = self.interval_units()
        return Interval(text, units, negative, span=self.since(mark))

    def _constructor(self, key: str) -> Expression | None:
        mark = self.mark()
        behind = self.ahead(1).key
        if key == "CASE":
            return self._case()
        if key in ("CAST", "TRY_CAST") and behind == "(":
            return self._cast()
        if self.accept("EXISTS"):
            query = self.query_in_parentheses() or self.fail_expecting("a query in parentheses")
            return Exists(query, span=self.since(mark))
        if key == "ROW" and behind == "(":
            self.take()
            items = self._items("(", ")")
            return Row(items, span=self.since(mark))
        if key in ("ARRAY", "MAP", "MULTISET") and behind == "(" and self._is_query_behind(2):
            self.take()
            query = self._query_in_parentheses()
            return CollectionOfQuery(key, query, span=self.since(mark))
        if key in ("ARRAY", "MAP") and behind == "[":
            self.take()
            items = self._items("[", "]")
            if key == "MAP" and len(items) % 2:
                self.fail("a MAP takes keys and values by turns; the last value is missing", self.ahead(-1))
            return (MapOf if key == "MAP" else ArrayOf)(items, span=self.since(mark))
        if key == "DESCRIPTOR" and behind == "(":
            self.take()
            return Descriptor(self.names(), span=self.since(mark))
        return None

    def _items(self, opening: str, closing: str) -> tuple[Expression, ...]:
        self.expect(opening)
        items = () if self.at(closing) else self.separated(self.expression)
        self.expect(closing)
        return items

    def _case(self) -> Expression:
        mark = self.mark()
        self.expect("CASE")
        operand = None if self.at("WHEN") else self.expression()
        whens: list[When] = []
        while not whens or self.at("WHEN"):
            place = self.mark()
            self.expect("WHEN")
            conditions = (self.expression(),) if operand is None else self.separated(self.expression)
            self.expect("THEN")
            result = self.expression()
            whens += [When(condition, result, span=self.since(place)) for condition in conditions]
        otherwise = self.expression() if self.accept("ELSE") else None
        self.expect("END")
        return Case(operand, tuple(whens), otherwise, span=self.since(mark))

    def _cast(self) -> Expression:
        mark = self.mark()
        tries = self.take().key == "TRY_CAST"
        self.expect("(")
        operand = self.expression()
        self.expect("AS")
        target = self.type_name()
        self.expect(")")
        return Cast(operand, target, tries, span=self.since(mark))
