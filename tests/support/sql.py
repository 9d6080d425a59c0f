"""Statements of tests/data/sql, and random trees of syntax."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from hypothesis import strategies as st

from benchmarks.nexmark.queries import QUERIES, table_statements
from flinkray.errors import SqlError
from flinkray.tables.binding.binder import execute_ddl
from flinkray.tables.catalog import Catalog
from flinkray.tables.syntax.expressions import (
    Apart,
    ArrayOf,
    Between,
    Binary,
    Call,
    Case,
    Cast,
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
    OrderItem,
    Prefix,
    Quantified,
    Query,
    Reference,
    Row,
    Star,
    Subscript,
    Symbol,
    Temporal,
    Text,
    Truth,
    When,
    Window,
)
from flinkray.tables.syntax.names import FieldType, IntervalUnits, Name, TypeName
from flinkray.tables.syntax.names import Path as NamePath
from flinkray.tables.syntax.queries import (
    Alias,
    DerivedTable,
    GroupingSets,
    Join,
    Select,
    SelectItem,
    SetOperation,
    TableReference,
    Values,
)
from tests.support.flink_statements import DATA, named_statements


def wrong_statements(folder: str) -> list[str]:
    """The names of the wrong statements of tests/data/sql/wrong, which keep their messages."""
    return sorted(path.stem for path in (DATA / "wrong" / folder).glob("*.txt"))


def assert_stored_message(folder: str, name: str, run: Callable[[str], object]) -> None:
    """A wrong statement raises the message that is stored below it; UPDATE_SQL=1 stores the message anew."""
    path = DATA / "wrong" / folder / f"{name}.txt"
    sql, _, message = path.read_text().partition("\n----\n")
    try:
        run(sql)
    except SqlError as error:
        raised = f"{type(error).__name__}: {error}\n"
    else:
        raised = "nothing is wrong with it\n"
    if os.environ.get("UPDATE_SQL"):
        path.write_text(f"{sql}\n----\n{raised}")
    else:
        assert raised == message


# -- random trees, such as the parser makes them

NAMES = st.sampled_from(["a", "b", "T", "order", "it`s", "µ", "with blank", "first", "day", "EXPR$0"]).map(Name)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: NamePath(tuple(names)))
UNITS = st.sampled_from(["YEAR", "MONTH", "DAY", "HOUR", "SECOND"])
INTERVAL_UNITS = st.one_of(
    st.builds(IntervalUnits, UNITS, st.none() | st.integers(1, 9)),
    st.just(IntervalUnits("DAY", 2, "SECOND", 3)),
    st.just(IntervalUnits("YEAR", None, "MONTH")),
    st.just(IntervalUnits("SECOND", 2, None, 3)),
)
NOT_NULL = st.sampled_from([None, True, False])
TYPES: st.SearchStrategy[TypeName] = st.recursive(
    st.one_of(
        st.builds(TypeName, st.sampled_from(["INT", "STRING", "BOOLEAN", "TIMESTAMP_LTZ"]), not_null=NOT_NULL),
        st.builds(TypeName, st.just("DECIMAL"), st.sampled_from([(), (5,), (10, 2)])),
        st.builds(TypeName, st.just("INTERVAL"), interval=INTERVAL_UNITS),
    ),
    lambda types: st.one_of(
        st.builds(TypeName, st.sampled_from(["ARRAY", "MULTISET"]), elements=st.tuples(types), not_null=NOT_NULL),
        st.builds(TypeName, st.just("MAP"), elements=st.tuples(types, types)),
        st.builds(
            TypeName,
            st.just("ROW"),
            fields=st.lists(st.builds(FieldType, NAMES, types, st.none() | st.text(max_size=3)), max_size=2).map(tuple),
        ),
    ),
    max_leaves=4,
)
TEXTS = st.text(max_size=4).map(Text)
LEAVES = st.one_of(
    st.builds(Reference, PATHS),
    st.sampled_from(["0", "12", "1.50", ".5", "1e3"]).map(Number),
    TEXTS,
    st.binary(max_size=3).map(Binary),
    st.sampled_from([True, False, None]).map(Truth),
    st.just(Null()),
    st.builds(Temporal, st.sampled_from(["DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"]), st.text(max_size=3)),
    st.builds(Interval, st.text(max_size=3), INTERVAL_UNITS, st.booleans()),
)
_OPERATORS = ["+", "-", "*", "/", "%", "||", "=", "<>", "<", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


def _tuples(items: st.SearchStrategy[Expression], least: int = 1) -> st.SearchStrategy[tuple[Expression, ...]]:
    return st.lists(items, min_size=least, max_size=3).map(tuple)


def _calls(items: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def call(name: str, *arguments: st.SearchStrategy[Expression]) -> st.SearchStrategy[Call]:
        return st.builds(Call, st.just(NamePath((Name(name),))), st.tuples(*arguments))

    order = st.builds(OrderItem, items, st.booleans(), st.sampled_from([None, True, False]))
    windows = st.one_of(
        st.builds(Window, NAMES, is_reference=st.just(True)),
        st.builds(Window, st.none() | NAMES, _tuples(items, 0), st.lists(order, max_size=2).map(tuple)),
    )
    return st.one_of(
        call("EXTRACT", UNITS.map(Symbol), items),
        call("FLOOR", st.builds(Reference, PATHS), UNITS.map(Symbol)),
        call("TIMESTAMPADD", UNITS.map(Symbol), items, items),
        call("SUBSTRING", items, items, items),
        call("POSITION", items, items),
        call("TRIM", st.sampled_from(["BOTH", "LEADING", "TRAILING"]).map(Symbol), items, items),
        call("CURRENT_TIMESTAMP"),
        st.builds(
            Call,
            st.sampled_from(["my_function", "MAX", "left", "of course", "select"]).map(lambda n: NamePath((Name(n),))),
            _tuples(items, 0) | st.just((Star(),)),
            filter=st.none() | items,
            ignore_nulls=NOT_NULL,
            over=st.none() | windows,
        ),
        st.builds(Call, PATHS.filter(lambda path: len(path.names) > 1), _tuples(items), st.booleans()),
    )


def _larger(items: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    queries = st.builds(lambda item: Query(Select((SelectItem(item),))), items)
    whens = st.lists(st.builds(When, items, items), min_size=1, max_size=2).map(tuple)
    return st.one_of(
        st.builds(Infix, st.sampled_from(_OPERATORS), items, items),
        st.builds(Apart, items, items, st.sampled_from([IntervalUnits("DAY"), IntervalUnits("DAY", last="SECOND")])),
        st.builds(Junction, st.sampled_from(["AND", "OR"]), _tuples(items, 2)),
        st.builds(Prefix, st.sampled_from(["-", "+", "NOT"]), items),
        st.builds(Is, items, st.sampled_from(["NULL", "TRUE", "FALSE", "UNKNOWN", "JSON VALUE"]), st.booleans()),
        st.builds(Between, items, items, items, st.booleans(), st.booleans()),
        st.builds(InList, items, _tuples(items, 2), st.booleans()),
        st.builds(InQuery, items, queries, st.booleans()),
        st.builds(Quantified, items, st.sampled_from(["=", "<"]), st.sampled_from(["ANY", "ALL"]), queries),
        st.builds(Exists, queries),
        st.builds(
            Like, items, items, st.sampled_from(["LIKE", "SIMILAR TO"]), st.none() | items, negated=st.booleans()
        ),
        st.builds(Case, st.none() | items, whens, st.none() | items),
        st.builds(Cast, items, TYPES, st.booleans()),
        st.builds(Row, _tuples(items)),
        st.builds(ArrayOf, _tuples(items, 0)),
        st.builds(MapOf, st.tuples(items, items)),
        st.builds(Subscript, items, items),
        st.builds(Field, items, NAMES),
        _calls(items),
    )


EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(LEAVES, _larger, max_leaves=8)

SMALL = LEAVES | st.builds(Infix, st.sampled_from(_OPERATORS), LEAVES, LEAVES)
GROUPINGS = SMALL | st.builds(GroupingSets, st.sampled_from(["CUBE", "ROLLUP", "GROUPING SETS"]), _tuples(SMALL))


@st.composite
def selects(draw: st.DrawFn, depth: int = 2) -> Select:
    """A SELECT with any of its clauses."""
    items = draw(st.lists(st.builds(SelectItem, SMALL, st.none() | NAMES), min_size=1, max_size=3))
    return Select(
        tuple(items),
        draw(st.booleans()),
        source=draw(st.none() | relations(depth)),
        where=draw(st.none() | SMALL),
        group_by=draw(st.none() | st.lists(GROUPINGS, min_size=1, max_size=2).map(tuple)),
        having=draw(st.none() | SMALL),
    )


@st.composite
def relations(draw: st.DrawFn, depth: int) -> TableReference | DerivedTable | Join:
    """A table, a query in parentheses, or a join."""
    alias = draw(st.none() | st.builds(Alias, NAMES, st.lists(NAMES, max_size=2).map(tuple)))
    kinds = ["table"] if depth <= 0 else ["table", "query", "join", "join"]
    kind = draw(st.sampled_from(kinds))
    if kind == "table":
        return TableReference(draw(PATHS), as_of=draw(st.none() | st.builds(Reference, PATHS)), alias=alias)
    if kind == "query":
        return DerivedTable(draw(queries(depth - 1)), alias, draw(st.booleans()))
    left, right = draw(relations(depth - 1)), draw(relations(depth - 1))
    join = draw(st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL", "CROSS", "COMMA"]))
    if join in ("CROSS", "COMMA"):
        return Join(join, left, right)
    how = draw(st.sampled_from(["on", "using", "natural"]))
    if how == "natural":
        return Join(join, left, right, natural=True)
    return (
        Join(join, left, right, using=(draw(NAMES),))
        if how == "using"
        else Join(join, left, right, condition=draw(LEAVES))
    )


@st.composite
def queries(draw: st.DrawFn, depth: int = 2) -> Query:
    """A query with ORDER BY, LIMIT and OFFSET, or none of them."""
    kind = draw(st.sampled_from(["select", "values", "union"] if depth > 0 else ["select"]))
    body: Select | Values | SetOperation | Query
    if kind == "values":
        body = Values(draw(_tuples(LEAVES)))
    elif kind == "union":
        operation = draw(st.sampled_from(["UNION", "EXCEPT", "INTERSECT"]))
        # A query in parentheses keeps them where it stands in a set operation.
        body = SetOperation(operation, draw(selects(depth - 1)), draw(queries(depth - 1)), draw(st.booleans()))
    else:
        body = draw(selects(depth - 1))
    order = st.lists(st.builds(OrderItem, LEAVES, st.booleans(), NOT_NULL), max_size=2).map(tuple)
    number = st.none() | st.just(Number("3"))
    return Query(body, order_by=draw(order), offset=draw(number), limit=draw(number))


@functools.cache
def nexmark_catalog() -> Catalog:
    """Nexmark's tables and views."""
    catalog = Catalog()
    for statement in table_statements().values():
        execute_ddl(catalog, statement)
    return catalog


def nexmark_statements() -> dict[str, str]:
    """Nexmark's tables, views and queries by name, and those queries of `nexmark.sql`."""
    queries = {query.name: query.sql for query in QUERIES.values()}
    return {**table_statements(), **queries, **named_statements("nexmark.sql")}
