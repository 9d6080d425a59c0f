"""Which changes come out of a plan, and where -U is needed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flinkray.tables.binding.binder import Binder, bind_query
from flinkray.tables.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, Catalog
from flinkray.tables.plans.changelogs import changes_of, inputs_need_before
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import Aggregate, Deduplicate, Join, Rank
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.plans.tables import Table, TableColumn
from flinkray.tables.plans.upsert_keys import upsert_keys
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.syntax.statements import CreateTable, QueryStatement
from flinkray.tables.types.logical import BIGINT, STRING
from flinkray.types.changelogs import INSERTS, Changes
from tests.support.sql import nexmark_catalog, nexmark_statements

COLUMNS = (TableColumn("id", BIGINT.not_null()), TableColumn("name", STRING), TableColumn("n", BIGINT))

RANKED = "SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY n) AS r FROM t"


def plan_of(sql: str) -> Plan:
    """The plan of a query over `t` of inserts and `c`, a changelog with the key `id`."""
    catalog = Catalog()
    catalog.add(Table((DEFAULT_CATALOG, DEFAULT_DATABASE, "t"), COLUMNS))
    changes = Changes(updates=True, deletes=True)
    catalog.add(Table((DEFAULT_CATALOG, DEFAULT_DATABASE, "c"), COLUMNS, primary_key=("id",), changes=changes))
    statement = parse_statement(sql)
    assert isinstance(statement, QueryStatement)
    return optimized(Binder(catalog, sql).query(statement))


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("SELECT id + 1 FROM t WHERE n > 2", "I"),
        ("SELECT id FROM c WHERE n > 2", "I,UB,UA,D"),
        ("SELECT name, COUNT(*) FROM t GROUP BY name", "I,UB,UA"),
        ("SELECT name, COUNT(*) FROM c GROUP BY name", "I,UB,UA,D"),
        ("SELECT COUNT(*) FROM c", "I,UB,UA"),
        ("SELECT DISTINCT name FROM t", "I"),
        ("SELECT DISTINCT name FROM c", "I,D"),
        ("SELECT MAX(n) FROM (SELECT name, SUM(n) AS n FROM t GROUP BY name)", "I,UB,UA"),
        ("SELECT t.id FROM t JOIN t AS u ON t.id = u.id", "I"),
        ("SELECT t.id FROM t JOIN c ON t.id = c.id", "I,UB,UA,D"),
        ("SELECT t.id FROM t LEFT JOIN t AS u ON t.id = u.id", "I,UB,UA,D"),
        ("SELECT id FROM t WHERE id IN (SELECT id FROM t)", "I"),
        ("SELECT id FROM t WHERE id IN (SELECT id FROM c)", "I,D"),
        ("SELECT id FROM t UNION ALL SELECT id FROM c", "I,UB,UA,D"),
        ("SELECT * FROM t ORDER BY n LIMIT 3", "I,UB,UA,D"),
        ("SELECT * FROM t LIMIT 3", "I"),
        ("SELECT * FROM c LIMIT 3", "I,UB,UA,D"),
    ],
)
def test_what_a_plan_makes_follows_from_its_inputs(sql: str, changes: str) -> None:
    assert str(changes_of(plan_of(sql))) == changes


def test_updates_come_without_what_they_replace_where_nobody_needs_that() -> None:
    plan = plan_of("SELECT name, COUNT(*) FROM t GROUP BY name")
    assert str(changes_of(plan, before=False)) == "I,UA"
    assert changes_of(plan_of("SELECT id FROM t"), before=False) == INSERTS


@pytest.mark.parametrize(
    ("sql", "needs"),
    [
        ("SELECT id + 1 AS a FROM c", (False,)),
        # What was may have passed the filter, and what is may not.
        ("SELECT id, name, n FROM c WHERE n > 2", (True,)),
        ("SELECT name, SUM(n) FROM c GROUP BY name", (True,)),
        # The key of the join is the row's own: no update changes which rows it meets.
        ("SELECT * FROM c JOIN c AS d ON c.id = d.id", (False, False)),
        ("SELECT * FROM c JOIN c AS d ON c.id = d.n", (False, True)),
    ],
)
def test_what_updates_replace_is_asked_for_where_it_is_needed(sql: str, needs: tuple[bool, ...]) -> None:
    plan = plan_of(sql)
    while plan.inputs and type(plan).__name__ == "Project" and type(plan.inputs[0]).__name__ != "Scan":
        plan = plan.inputs[0]
    assert inputs_need_before(plan, before=False) == needs


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT name, id, id AS again FROM c", [{1}, {2}]),
        ("SELECT name FROM c", []),
        ("SELECT name, n, COUNT(*) FROM t GROUP BY name, n", [{0, 1}]),
        ("SELECT COUNT(*) FROM t", [set()]),
        ("SELECT DISTINCT name, n FROM t", [{0, 1}]),
        ("SELECT c.id, t.id FROM t JOIN c ON t.id = c.id", []),
        ("SELECT c.id, d.id FROM c JOIN c AS d ON c.n = d.n", [{0, 1}]),
        ("SELECT c.id, d.name FROM c LEFT JOIN c AS d ON c.n = d.id", [{0}]),
        ("SELECT c.id, d.id FROM c FULL JOIN c AS d ON c.n = d.n", [{0, 1}]),
        # Without a partner NULL of either side is NULL, NULL.
        ("SELECT l.n, r.n FROM (SELECT DISTINCT n FROM t) l FULL JOIN (SELECT DISTINCT n FROM c) r ON l.n = r.n", []),
        ("SELECT id FROM c WHERE name IN (SELECT name FROM t)", [{0}]),
        ("SELECT * FROM c UNION ALL SELECT * FROM c", []),
        (
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY n) AS r FROM t) WHERE r <= 2",
            [{1, 3}],
        ),
        (
            "SELECT n, name FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY n) AS r FROM t) WHERE r = 1",
            [{1}],
        ),
        # An update has a row with another id in the place of the one that had the rank.
        (
            "SELECT id, r, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY n ORDER BY name) AS r FROM c) WHERE r < 3",
            [{1, 2}],
        ),
        ("SELECT id FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS r FROM c) WHERE r < 3", [{0}]),
        # A row that comes to have another name is added in one subtask, and may still be there in another.
        ("SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY n) AS r FROM c) WHERE r < 3", []),
        ("SELECT id, name FROM c LIMIT 1", [set()]),
    ],
)
def test_the_columns_that_tell_rows_apart(sql: str, keys: list[set[int]]) -> None:
    assert upsert_keys(plan_of(sql)) == frozenset(map(frozenset, keys))


def test_a_key_tells_rows_of_windows_apart_where_each_row_is_in_one_that_its_time_does_not_end() -> None:
    """A row that changes its time leaves the session in which it was, and an update would leave it there."""
    catalog, sql = Catalog(), "CREATE TABLE c (id INT NOT NULL, t TIMESTAMP(3), WATERMARK FOR t AS t) WITH ('x' = 'y')"
    created = parse_statement(sql)
    assert isinstance(created, CreateTable)
    table = Binder(catalog, sql).table(created)[0]
    catalog.add(replace(table, primary_key=("id",), changes=Changes(updates=True, deletes=True)))
    keys = {}
    minute = "INTERVAL '1' MINUTE"
    for window, sizes in (("TUMBLE", [minute]), ("HOP", [minute, "INTERVAL '1' HOUR"]), ("SESSION", [minute])):
        query = f"SELECT * FROM {window}(TABLE c, DESCRIPTOR(t), {', '.join(sizes)})"
        statement = parse_statement(query)
        assert isinstance(statement, QueryStatement)
        keys[window] = upsert_keys(Binder(catalog, query).query(statement))
    assert keys == {"TUMBLE": frozenset([frozenset([0])]), "HOP": frozenset(), "SESSION": frozenset()}


NEXMARK = {
    "q3": ["I"],
    "q4": ["I,UA,D", "I,UB,UA", "I"],
    "q5": ["I", "I", "I", "I"],
    "q7": ["I", "I"],
    "q8": ["I", "I", "I"],
    # Flink says I of the rank, which updates all the same.
    "q9": ["I,UA,D", "I"],
    "q11": ["I"],
    "q15": ["I,UA"],
    "q16": ["I,UA"],
    "q17": ["I,UA"],
    # Flink says that the last rows of keys are deleted too, which they never are.
    "q18": ["I,UA"],
    "q19": ["I,UA,D"],
    "q20": ["I"],
    "q22": [],
}
"""The changes of the joins, aggregates and ranks of queries from the top, as Flink's EXPLAIN CHANGELOG_MODE has them
for a sink that takes any."""


def changes_below(plan: Plan, before: bool) -> list[str]:
    """The changes of the nodes of a plan that keep rows."""
    own = [str(changes_of(plan, before))] if isinstance(plan, Join | Aggregate | Rank | Deduplicate) else []
    needs = zip(plan.inputs, inputs_need_before(plan, before), strict=True)
    return own + [each for below, need in needs for each in changes_below(below, need)]


@pytest.mark.parametrize("name", NEXMARK)
def test_the_changes_in_a_query_of_nexmark_are_those_that_flink_finds(name: str) -> None:
    plan = optimized(bind_query(nexmark_catalog(), nexmark_statements()[name]))
    assert changes_below(plan, before=False) == NEXMARK[name]
