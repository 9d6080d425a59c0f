"""Queries: WITH, SELECT with its clauses, set operations, VALUES, ORDER BY and LIMIT."""

from __future__ import annotations

from flinkray.tables.syntax.expressions import CommonTable, Expression, Query, QueryBody, Row, Star, Window
from flinkray.tables.syntax.names import Name
from flinkray.tables.syntax.parsing.expressions import LONGEST_CHAIN
from flinkray.tables.syntax.parsing.relations import RelationParser
from flinkray.tables.syntax.queries import (
    ExplicitTable,
    GroupingSets,
    NamedWindow,
    Relation,
    Select,
    SelectItem,
    SetOperation,
    Values,
)


class QueryParser(RelationParser):
    """Reads queries."""

    def query(self) -> Query:
        """`[WITH ...] body [ORDER BY ...] [LIMIT ...] [OFFSET ...]`."""
        return self.nested(self._query)

    def _query(self) -> Query:
        mark = self.mark()
        common_tables: tuple[CommonTable, ...] = ()
        recursive = False
        if self.accept("WITH"):
            recursive = self.accept("RECURSIVE")
            common_tables = self.separated(self._common_table)
        body = self._union()
        order_by = self.separated(self.order_item) if self.accept("ORDER", "BY") else ()
        offset, limit = self._limits()
        if isinstance(body, Query) and not (common_tables or order_by or offset or limit):
            return body
        return Query(body, common_tables, recursive, order_by, offset, limit, span=self.since(mark))

    def _common_table(self) -> CommonTable:
        mark = self.mark()
        name = self.name("the name of a table")
        columns = self.names() if self.at("(") else ()
        self.expect("AS")
        query = self.query_in_parentheses() or self.fail_expecting("a query in parentheses")
        return CommonTable(name, query, columns, span=self.since(mark))

    def _limits(self) -> tuple[Expression | None, Expression | None]:
        """`LIMIT n [OFFSET m]`, or `OFFSET m ROWS [FETCH FIRST n ROWS ONLY]`: (offset, limit)."""
        offset = limit = None
        if self.accept("LIMIT") and not self.accept("ALL"):
            limit = self.expression()
        if self.accept("OFFSET"):
            offset = self.expression()
            self.accept_any("ROW", "ROWS")
            if self.at("LIMIT"):
                self.fail("LIMIT stands before OFFSET")
        if self.accept("FETCH"):
            self.expect_any("FIRST", "NEXT")
            limit = self.expression()
            self.expect_any("ROW", "ROWS")
            self.expect("ONLY")
        return offset, limit

    # -- set operations

    def _union(self) -> QueryBody:
        mark = self.mark()
        left = self._intersect()
        count = 0
        while kind := self.accept_any("UNION", "EXCEPT"):
            count += 1
            if count > LONGEST_CHAIN:
                self.fail(
                    f"these are more than {LONGEST_CHAIN} queries; put parts of them in subqueries", self.ahead(-1)
                )
            is_all = self.accept_any("ALL", "DISTINCT") == "ALL"
            right = self._intersect()
            left = SetOperation(kind, left, right, is_all, span=self.since(mark))
        return left

    def _intersect(self) -> QueryBody:
        mark = self.mark()
        left = self._body()
        while self.accept("INTERSECT"):
            is_all = self.accept_any("ALL", "DISTINCT") == "ALL"
            right = self._body()
            left = SetOperation("INTERSECT", left, right, is_all, span=self.since(mark))
        return left

    def _body(self) -> QueryBody:
        mark = self.mark()
        if self.at("SELECT"):
            return self._select()
        if self.accept("VALUES"):
            rows = self.separated(self.expression)
            return Values(rows, span=self.since(mark))
        if self.accept("TABLE"):
            path = self.path("a table")
            return ExplicitTable(path, span=self.since(mark))
        if self.at("("):
            self.take()
            query = self.query()
            self.expect(")")
            return query
        return self.fail_expecting("a query")

    # -- SELECT

    def _select(self) -> Select:
        mark = self.mark()
        self.expect("SELECT")
        hints = self.hints()
        distinct = self.accept_any("DISTINCT", "ALL") == "DISTINCT"
        items = self.separated(self._select_item)
        source: Relation | None = self.relations() if self.accept("FROM") else None
        where = self.expression() if self.accept("WHERE") else None
        group_by = self.separated(self._grouping) if self.accept("GROUP", "BY") else None
        having = self.expression() if self.accept("HAVING") else None
        windows = self.separated(self._named_window) if self.accept("WINDOW") else ()
        qualify = self.expression() if self.accept("QUALIFY") else None
        return Select(items, distinct, hints, source, where, group_by, having, windows, qualify, span=self.since(mark))

    def _select_item(self) -> SelectItem:
        mark = self.mark()
        if self.at("*"):
            token = self.take()
            return SelectItem(Star(span=token.span), span=token.span)
        expression = self.expression()
        alias: Name | None = None
        if self.accept("AS") or self.at_name():
            alias = self.name("the name of a column")
        return SelectItem(expression, alias, span=self.since(mark))

    def _grouping(self) -> Expression | GroupingSets:
        mark = self.mark()
        for kind in ("GROUPING SETS", "CUBE", "ROLLUP"):
            if self.accept(*kind.split()):
                items = self.in_parentheses(self._grouping)
                return GroupingSets(kind, items, span=self.since(mark))
        if self.accept("(", ")"):
            return Row((), span=self.since(mark))
        return self.expression()

    def _named_window(self) -> NamedWindow:
        mark = self.mark()
        name = self.name("a window")
        self.expect("AS")
        window: Window = self.window()
        return NamedWindow(name, window, span=self.since(mark))
