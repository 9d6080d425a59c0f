"""What stands in FROM: tables, queries, table functions, joins, hints."""

from __future__ import annotations

from flinkray.tables.syntax.expressions import Call, Expression
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.parsing.patterns import PatternParser
from flinkray.tables.syntax.queries import (
    Alias,
    DerivedTable,
    Hint,
    Join,
    Relation,
    TableFunction,
    TableReference,
    Unnest,
)
from flinkray.tables.syntax.tokens import NUMBER, STRING, WORD

_JOINS = {
    ("JOIN",): "INNER",
    ("INNER", "JOIN"): "INNER",
    ("LEFT", "JOIN"): "LEFT",
    ("LEFT", "OUTER", "JOIN"): "LEFT",
    ("RIGHT", "JOIN"): "RIGHT",
    ("RIGHT", "OUTER", "JOIN"): "RIGHT",
    ("FULL", "JOIN"): "FULL",
    ("FULL", "OUTER", "JOIN"): "FULL",
}


class RelationParser(PatternParser):
    """Reads relations."""

    def relations(self) -> Relation:
        """Relations with commas between them, each joined with others."""
        mark = self.mark()
        left = self._joined()
        while self.accept(","):
            right = self._joined()
            left = Join("COMMA", left, right, span=self.since(mark))
        return left

    def _joined(self) -> Relation:
        mark = self.mark()
        left = self.relation()
        while True:
            if self.accept("CROSS", "JOIN"):
                right = self.relation()
                left = Join("CROSS", left, right, span=self.since(mark))
                continue
            natural = self.accept("NATURAL")
            kind = next((kind for words, kind in _JOINS.items() if self.accept(*words)), None)
            if kind is None:
                return left if not natural else self.fail_expecting("JOIN")
            right = self.relation()
            condition, using = (None, ()) if natural else self._join_condition()
            left = Join(kind, left, right, natural, condition, using, span=self.since(mark))

    def _join_condition(self) -> tuple[Expression | None, tuple[Name, ...]]:
        if self.accept("ON"):
            return self.expression(), ()
        if self.accept("USING"):
            return None, self.names()
        return self.fail_expecting("ON or USING")

    def relation(self) -> Relation:
        """One relation with its alias, perhaps with MATCH_RECOGNIZE behind it."""
        return self.nested(self._relation)

    def _relation(self) -> Relation:
        mark = self.mark()
        found = self._primary_relation(mark)
        if self.at("MATCH_RECOGNIZE"):
            return self.match_recognize(found, mark)
        return found

    def _primary_relation(self, mark: int) -> Relation:
        lateral = self.accept("LATERAL")
        query = self.query_in_parentheses()
        if query is not None:
            alias = self.alias()
            return DerivedTable(query, alias, lateral, span=self.since(mark))
        if self.at("UNNEST"):
            return self._unnest(mark)
        if self.accept("TABLE", "("):
            call = self._table_function(self.path("a table function"))
            self.expect(")")
            alias = self.alias()
            return TableFunction(call, alias, lateral, span=self.since(mark))
        if not lateral and self.accept("("):
            joined = self.relations()
            self.expect(")")
            return joined
        self.accept("TABLE")
        path = self.path("a table")
        if self.at("("):
            call = self._table_function(path)
            alias = self.alias()
            return TableFunction(call, alias, lateral, span=self.since(mark))
        hints = self.hints()
        as_of = self.expression(32) if self.accept("FOR", "SYSTEM_TIME", "AS", "OF") else None
        alias = self.alias()
        return TableReference(path, hints, as_of, alias, span=self.since(mark))

    def _table_function(self, path: Path) -> Call:
        if not self.at("("):
            self.fail_expecting("the arguments of the table function in parentheses")
        call = self.call(path)
        assert isinstance(call, Call)
        return call

    def _unnest(self, mark: int) -> Relation:
        self.expect("UNNEST")
        expressions = self.in_parentheses(self.expression)
        ordinality = self.accept("WITH", "ORDINALITY")
        alias = self.alias()
        return Unnest(expressions, ordinality, alias, span=self.since(mark))

    def alias(self) -> Alias | None:
        """`[AS] name [(columns)]`, where one comes next."""
        mark = self.mark()
        if not (self.accept("AS") or self.at_name()):
            return None
        name = self.name("the name of a table")
        columns = self.names() if self.at("(") else ()
        return Alias(name, columns, span=self.since(mark))

    # -- hints

    def hints(self) -> tuple[Hint, ...]:
        """`/*+ A, B(t), C('k' = 'v') */`, where they come next."""
        if not self.accept("/*+"):
            return ()
        found: list[Hint] = []
        while not self.at("*/"):
            found.append(self._hint_in_comment())
            self.accept(",")
        self.expect("*/")
        return tuple(found)

    def _hint_in_comment(self) -> Hint:
        mark = self.mark()
        name = self.name("the name of a hint").text
        options = self.in_parentheses(self._hint_option) if self.at("(") else ()
        return Hint(name, options, span=self.since(mark))

    def _hint_option(self) -> tuple[str | None, str]:
        token = self.token
        if token.kind not in (STRING, NUMBER) and not (token.kind == WORD or self.at_name()):
            self.fail_expecting("an option of the hint")
        key = self.take().text
        while self.accept("."):
            key += f".{self.take().text}"
        return (key, self.string()) if self.accept("=") else (None, key)
