"""Queries as they are written: what SELECT selects, from which relations, grouped and ordered how."""

from __future__ import annotations

from flinkray.tables.syntax.expressions import (
    Call,
    Expression,
    Interval,
    OrderItem,
    Query,
    QueryBody,
    Reference,
    Window,
)
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.syntax.words import CONTEXT_FUNCTIONS


class Hint(Node, frozen=True):
    """One of `/*+ name(a, 'k' = 'v') */`: an option is (key, value), a plain word or string (None, word)."""

    name: str
    options: tuple[tuple[str | None, str], ...] = ()


class Values(QueryBody, frozen=True):
    """`VALUES (1, 'a'), (2, 'b')`: each row is a Row, or one expression."""

    rows: tuple[Expression, ...]


class ExplicitTable(QueryBody, frozen=True):
    """`TABLE t` as a query."""

    path: Path


class SetOperation(QueryBody, frozen=True):
    """`left UNION [ALL] right`; the kind is UNION, INTERSECT or EXCEPT."""

    kind: str
    left: QueryBody
    right: QueryBody
    all: bool = False


class SelectItem(Node, frozen=True):
    """`expression AS alias`; a star has no alias."""

    expression: Expression
    alias: Name | None = None


def own_name(item: SelectItem) -> str:
    """The name that a selected column has of itself; empty: it gets a number."""
    node = item.expression
    if item.alias is not None:
        return item.alias.text
    if isinstance(node, Reference):
        return node.path.texts[-1]
    if isinstance(node, Call) and not node.arguments and node.function.texts[-1].upper() in CONTEXT_FUNCTIONS:
        return node.function.texts[-1].upper()
    return ""


class GroupingSets(Node, frozen=True):
    """`GROUPING SETS (...)`, `CUBE (...)` or `ROLLUP (...)`. A set of several expressions, or none, is a Row."""

    kind: str
    items: tuple[Expression | GroupingSets, ...]


class NamedWindow(Node, frozen=True):
    """`name AS (PARTITION BY ...)` of WINDOW."""

    name: Name
    window: Window


class Select(QueryBody, frozen=True):
    """A SELECT. `group_by` is None without GROUP BY."""

    items: tuple[SelectItem, ...]
    distinct: bool = False
    hints: tuple[Hint, ...] = ()
    source: Relation | None = None
    where: Expression | None = None
    group_by: tuple[Expression | GroupingSets, ...] | None = None
    having: Expression | None = None
    windows: tuple[NamedWindow, ...] = ()
    qualify: Expression | None = None


# -- relations


class Alias(Node, frozen=True):
    """`AS name (columns)`."""

    name: Name
    columns: tuple[Name, ...] = ()


class Relation(Node, frozen=True):
    """Base of what stands in FROM."""


class TableReference(Relation, frozen=True):
    """A table or view by name, with hints, and with `FOR SYSTEM_TIME AS OF` as it was at a time."""

    path: Path
    hints: tuple[Hint, ...] = ()
    as_of: Expression | None = None
    alias: Alias | None = None


class DerivedTable(Relation, frozen=True):
    """A query in parentheses."""

    query: Query
    alias: Alias | None = None
    lateral: bool = False


class TableFunction(Relation, frozen=True):
    """`TABLE(f(...))`, or `f(...)` alone, with LATERAL before it or not."""

    call: Call
    alias: Alias | None = None
    lateral: bool = False


class Unnest(Relation, frozen=True):
    """`UNNEST(array)`, a row for each element."""

    expressions: tuple[Expression, ...]
    with_ordinality: bool = False
    alias: Alias | None = None


class Join(Relation, frozen=True):
    """Two relations; the kind is INNER, LEFT, RIGHT, FULL, CROSS or COMMA."""

    kind: str
    left: Relation
    right: Relation
    natural: bool = False
    condition: Expression | None = None
    using: tuple[Name, ...] = ()


# -- MATCH_RECOGNIZE


class Pattern(Node, frozen=True):
    """A pattern of rows: a variable, or patterns one after the other (`sequence`), or one of several (`choice`),
    or any order of them (`permute`), or nothing more (`start`, `end`, `exclude`)."""

    kind: str
    variable: Name | None = None
    parts: tuple[Pattern, ...] = ()
    least: int = 1
    most: int | None = 1
    """How often, at least and at most; None: no upper bound."""
    reluctant: bool = False


class Measure(Node, frozen=True):
    """`expression AS name` of MEASURES."""

    expression: Expression
    name: Name


class Definition(Node, frozen=True):
    """`variable AS condition` of DEFINE."""

    variable: Name
    condition: Expression


class Subset(Node, frozen=True):
    """`name = (variables)` of SUBSET."""

    name: Name
    variables: tuple[Name, ...]


class MatchRecognize(Relation, frozen=True):
    """Rows of a relation that match a pattern."""

    source: Relation
    pattern: Pattern
    definitions: tuple[Definition, ...]
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    measures: tuple[Measure, ...] = ()
    all_rows: bool = False
    """ALL ROWS PER MATCH; else one row for each match."""
    after: str = ""
    """Where the search goes on: NEXT ROW, PAST LAST ROW, FIRST, LAST, or empty where the text does not say."""
    after_variable: Name | None = None
    within: Interval | None = None
    subsets: tuple[Subset, ...] = ()
    alias: Alias | None = None
