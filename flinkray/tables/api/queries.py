"""Statements that are made of expressions. They are written as text and read again, so that errors show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.expression import Expression, Ordering, as_expression
from flinkray.tables.binding.binder import Binder
from flinkray.tables.catalog import Catalog
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax import queries
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.syntax.parsing.parser import parse_expression, parse_statement
from flinkray.tables.syntax.statements import QueryStatement
from flinkray.tables.syntax.unparsing.statements import statement_text

SELF = "self"
"""What statements call the table that they are made for."""
OTHER = "other"
"""What they call the table that it is joined or united with."""


class Planned(Struct, frozen=True):
    """The plan of a query, and the statement that it was made of."""

    plan: Plan
    statement: Node
    sql: str


def planned(query: syntax.Query, catalog: Catalog, tables: Mapping[str, Plan]) -> Planned:
    """The plan of a query over tables by name.

    Raises:
        SqlValidationError: a name is unknown, or types do not fit; shows the query that was made.
        InvalidProgramError: what is no value stands in the place of one.
    """
    try:
        sql = statement_text(QueryStatement(query))
    except NotImplementedError:
        raise InvalidProgramError(
            "asc and desc are for order_by, and rows and UNBOUNDED_ROW for the bounds of windows, not for values"
        ) from None
    statement = parse_statement(sql)
    assert isinstance(statement, QueryStatement)
    return Planned(Binder(catalog, sql, tables, joins_texts=True).query(statement), statement, sql)


def read_expression(given: Any) -> Expression:
    """An expression as it is, and text as SQL writes one, with `AS name` behind it or not.

    Raises:
        SqlParserError: text that is no expression.
    """
    if not isinstance(given, str):
        return as_expression(given)
    statement = parse_statement(f"SELECT {given}")
    if isinstance(statement, QueryStatement) and isinstance(statement.query.body, queries.Select):
        items = statement.query.body.items
        if len(items) == 1 and statement.query.body.source is None:
            alias = items[0].alias
            return Expression(items[0].expression, () if alias is None else (alias.text,))
        if len(items) > 1 and statement.query.body.source is None:
            raise InvalidProgramError(f"{given!r} is {len(items)} expressions; give each as an argument of its own")
    return Expression(parse_expression(given))


def item(expression: Expression) -> queries.SelectItem:
    """An expression as a column of SELECT."""
    name = Name(expression._names[0]) if expression._names else None
    return queries.SelectItem(expression._node, name)


def named_items(names: Sequence[tuple[str, str]]) -> tuple[queries.SelectItem, ...]:
    """Columns under new names, by pairs of old and new one."""
    return tuple(queries.SelectItem(reference(old), None if old == new else Name(new)) for old, new in names)


def reference(name: str) -> syntax.Reference:
    """A column by its name."""
    return syntax.Reference(Path((Name(name),)))


def table(name: str) -> queries.TableReference:
    """A table by its name."""
    return queries.TableReference(Path((Name(name),)))


STAR = (queries.SelectItem(syntax.Star()),)


def select(items: tuple[queries.SelectItem, ...], source: queries.Relation | None = None, **parts: Any) -> syntax.Query:
    """A SELECT from a relation, by custom from `self`."""
    return syntax.Query(queries.Select(items, source=source or table(SELF), **parts))


def order_item(key: Expression) -> syntax.OrderItem:
    """A key of ORDER BY."""
    node = key._node
    if isinstance(node, Ordering):
        return syntax.OrderItem(node.operand, node.descending)
    return syntax.OrderItem(node)


def rewritten(node: Any, change: Callable[[Node], Node]) -> Any:
    """A node of a statement with `change` made to all nodes in it, from the leaves up."""
    if isinstance(node, tuple):
        return tuple(rewritten(each, change) for each in node)
    if not isinstance(node, Node):
        return node
    fields = {name: getattr(node, name) for name in node.__struct_fields__}
    changed = {name: rewritten(value, change) for name, value in fields.items()}
    different = {name: value for name, value in changed.items() if value is not fields[name]}
    return change(replace(node, **different) if different else node)


def function_of(expression: Expression, what: str) -> syntax.Call:
    """The call that an expression is.

    Raises:
        InvalidProgramError: it is none.
    """
    if not isinstance(expression._node, syntax.Call):
        raise InvalidProgramError(f"{what} takes a call of a function, not {expression!r}")
    return expression._node
