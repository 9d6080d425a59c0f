"""Plans as transformations: which operators they become, and what is refused where."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pytest

from flinkray.errors import InvalidProgramError, SqlError, SqlUnsupportedError, SqlValidationError
from flinkray.tables.lowering.contract import TableOptions
from flinkray.tables.lowering.queries import Stream, planned
from flinkray.transformations.operator_factories import AsChangelogFactory, CalcFactory, DropFactory
from flinkray.transformations.table_factories import GroupAggregateFactory, RankFactory
from flinkray.transformations.table_join_factories import RegularJoinFactory
from flinkray.transformations.transformation import (
    PhysicalTransformation,
    Transformation,
    UnionTransformation,
    upstream_of,
)
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.records import Kind, Millis, RecordType

F = TypeVar("F")
SCHEMA = pa.schema({"id": pa.int64(), "cents": pa.int32(), "list": pa.list_(pa.int64())})


def stream(schema: pa.Schema = SCHEMA, kind: Kind = Kind.ROW, parallelism: int | None = None) -> Stream:
    # Which operator gives the rows does not matter.
    transformation = PhysicalTransformation(name="orders", factory=DropFactory(("x",)), parallelism=parallelism)
    return transformation, RecordType(kind, schema)


def names(transformation: Transformation) -> list[str]:
    """The names of the operators, from the last one back to the inputs."""
    return [transformation.name, *(name for each in transformation.inputs for name in names(each))]


def factory_of(sql: str) -> CalcFactory:
    transformation, _ = planned(sql, {"orders": stream()})
    assert isinstance(transformation, PhysicalTransformation)
    assert isinstance(transformation.factory, CalcFactory)
    return transformation.factory


@pytest.mark.parametrize(
    ("sql", "operators"),
    [
        ("SELECT * FROM orders", ["Calc", "orders"]),
        ("SELECT d + 1 FROM (SELECT id * 2 AS d FROM orders WHERE cents > 0) WHERE d > 5", ["Calc", "orders"]),
        ("SELECT id FROM orders UNION ALL SELECT id FROM orders", ["Union", "Calc", "orders", "Calc", "orders"]),
        ("VALUES (1), (2)", ["Calc", "Source: Values"]),
        ("SELECT 1", ["Calc", "Source: Values"]),
        (
            "SELECT COUNT(*) FROM orders",
            ["Calc", "GroupAggregate", "Partition GLOBAL", "LocalGroupAggregate", "Calc", "orders"],
        ),
        (
            "SELECT id FROM orders GROUP BY id HAVING SUM(cents) > 1",
            ["Calc", "GroupAggregate", "Key by id", "LocalGroupAggregate", "Calc", "orders"],
        ),
        ("SELECT COUNT(DISTINCT id) FROM orders", ["Calc", "GroupAggregate", "Partition GLOBAL", "Calc", "orders"]),
        ("SELECT DISTINCT id FROM orders", ["GroupAggregate", "Key by id", "LocalGroupAggregate", "Calc", "orders"]),
        (
            "SELECT id FROM orders UNION SELECT 1",
            [
                "GroupAggregate",
                "Key by id",
                "LocalGroupAggregate",
                "Union",
                "Calc",
                "orders",
                "Calc",
                "Calc",
                "Source: Values",
            ],
        ),
        ("SELECT e FROM orders CROSS JOIN UNNEST(list) AS t(e)", ["Calc", "Unnest", "Calc", "orders"]),
        (
            "SELECT id FROM orders EXCEPT ALL SELECT id FROM orders",
            ["SetOperation", *("Key by id", "Calc", "orders") * 2],
        ),
        (
            "SELECT a.id FROM orders AS a JOIN orders AS b ON a.id = b.id + 1",
            ["Calc", "Join", *("Key by id", "Calc", "orders"), *("Key by key$3", "Calc", "orders")],
        ),
        (
            "SELECT cents FROM orders WHERE id NOT IN (SELECT id FROM orders)",
            ["Calc", "Join", *("Partition GLOBAL", "Calc", "orders") * 2],
        ),
    ],
)
def test_nodes_become_operators_and_projections_and_filters_one(sql: str, operators: list[str]) -> None:
    transformation, _ = planned(sql, {"orders": stream()})
    assert names(transformation) == operators


def test_aggregates_have_one_phase_where_that_is_asked_for() -> None:
    query = "SELECT DISTINCT id FROM orders"
    transformation, _ = planned(query, {"orders": stream()}, TableOptions(phases="ONE_PHASE"))
    assert names(transformation) == ["GroupAggregate", "Key by id", "Calc", "orders"]


@pytest.mark.parametrize(
    ("calls", "warned"),
    [
        ("SUM(cents), MAX(cents) FROM orders", ""),
        ("COUNT(DISTINCT cents), MAX(cents), ARRAY_AGG(cents) FROM orders", "COUNT(DISTINCT cents), ARRAY_AGG(cents)"),
        ("SUM(n), MAX(n) FROM (SELECT id, COUNT(*) AS n FROM orders GROUP BY id, cents) AS orders", "MAX(n)"),
    ],
)
def test_what_keeps_all_values_without_a_time_to_live_is_warned_of(
    calls: str, warned: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = f"SELECT id, {calls} GROUP BY id"
    planned(query, {"orders": stream()})
    assert [f"for {warned}, " in record.getMessage() for record in caplog.records] == [True] * bool(warned)
    caplog.clear()
    planned(query, {"orders": stream()}, TableOptions(state_ttl_ms=Millis(1)))
    assert not caplog.records


def test_only_columns_that_are_read_are_asked_of_a_stream() -> None:
    assert [name for name, _ in factory_of("SELECT id FROM orders WHERE cents > 0").columns] == ["id", "cents"]


def test_the_columns_of_a_result_may_be_null_whatever_their_types_in_the_query() -> None:
    _, record_type = planned("SELECT 1 AS a, id AS b FROM orders", {"orders": stream()})
    assert record_type == RecordType(Kind.ROW, pa.schema({"a": pa.int32(), "b": pa.int64()}))


def test_a_union_has_the_names_of_its_first_query() -> None:
    transformation, record_type = planned("SELECT id AS a FROM orders UNION ALL VALUES (1)", {"orders": stream()})
    assert isinstance(transformation, UnionTransformation)
    assert record_type.schema.names == ["a"]
    for each in transformation.inputs:
        assert isinstance(each, PhysicalTransformation)
        assert isinstance(each.factory, CalcFactory)
        assert [name for name, _ in each.factory.projections] == ["a"]


@pytest.mark.parametrize(
    ("parallelisms", "union", "inputs"),
    [
        ((3, 3), 3, ["Calc", "Calc"]),
        ((None, None), None, ["Calc", "Calc"]),
        ((1, None), None, ["Partition GLOBAL", "Calc"]),
        ((1, 3), None, ["Partition GLOBAL", "Partition GLOBAL"]),
    ],
)
def test_changes_of_a_subtask_go_to_one_behind_a_union_of_several_parallelisms(
    parallelisms: tuple[int | None, ...], union: int | None, inputs: list[str]
) -> None:
    streams = {}
    for name, parallelism in zip("ab", parallelisms, strict=True):
        rows, record_type = stream(parallelism=parallelism)
        factory = AsChangelogFactory("op")
        changes = PhysicalTransformation(
            name=name, factory=factory, input_transformations=(rows,), parallelism=parallelism
        )
        streams[name] = (changes, record_type)
    transformation, _ = planned("SELECT id FROM a UNION ALL SELECT id FROM b", streams)
    assert transformation.parallelism == union
    assert [each.name for each in transformation.inputs] == inputs


@pytest.mark.parametrize("parallelism", [None, 3])
def test_a_calc_has_the_parallelism_of_its_input_so_that_changes_stay_in_order(parallelism: int | None) -> None:
    transformation, _ = planned("SELECT id FROM orders", {"orders": stream(parallelism=parallelism)})
    assert transformation.parallelism == parallelism


def test_a_calc_says_what_it_does() -> None:
    transformation, _ = planned("SELECT id + 1 AS a FROM orders WHERE cents > 0", {"orders": stream()})
    assert transformation.description == "SELECT id + 1 AS a WHERE cents > 0"


RANKED = "SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY cents) AS r FROM orders"


@pytest.mark.parametrize(
    ("sql", "operators"),
    [
        (f"SELECT id FROM ({RANKED}) WHERE r <= 2", ["Calc", "Rank", "Key by id", "Calc", "orders"]),
        ("SELECT id FROM orders ORDER BY id LIMIT 2", ["SortLimit", "Partition GLOBAL", "Calc", "orders"]),
        ("SELECT id FROM orders LIMIT 2", ["Limit", "Partition GLOBAL", "Calc", "orders"]),
    ],
)
def test_the_first_rows_of_a_key_are_found_in_one_subtask(sql: str, operators: list[str]) -> None:
    transformation, _ = planned(sql, {"orders": stream()})
    assert names(transformation) == operators
    rank = next(each for each in upstream_of(transformation) if each.name in ("Rank", "SortLimit", "Limit"))
    assert rank.parallelism == (None if "Rank" in operators else 1)


def test_a_stream_that_is_a_changelog_is_one_as_a_table() -> None:
    orders, record_type = stream()
    changes = PhysicalTransformation(name="c", factory=AsChangelogFactory("op"), input_transformations=(orders,))
    for kept, expected in ((orders, INSERTS), (changes, Changes(updates=True, deletes=True))):
        narrowed = PhysicalTransformation(name="d", factory=DropFactory(("x",)), input_transformations=(kept,))
        transformation, _ = planned("SELECT id FROM orders LIMIT 2", {"orders": (narrowed, record_type)})
        assert isinstance(transformation, PhysicalTransformation)
        assert isinstance(transformation.factory, RankFactory)
        assert transformation.factory.takes == (expected,)


def test_in_batch_mode_final_rows_are_given() -> None:
    sql = "SELECT id FROM orders ORDER BY id LIMIT 2"
    for is_batch in (False, True):
        transformation, _ = planned(sql, {"orders": stream()}, TableOptions(is_batch=is_batch))
        assert isinstance(transformation, PhysicalTransformation)
        assert isinstance(transformation.factory, RankFactory)
        assert transformation.factory.gives.is_insert_only == is_batch


@pytest.mark.parametrize(
    ("sql", "what", "place"),
    [
        ("SELECT COUNT(*), ARRAY_AGG(id ORDER BY id) FROM orders GROUP BY id", "the aggregate ARRAY_AGG", "ARRAY_AGG(id ORDER BY id)"),  # noqa: E501
        ("SELECT id FROM orders /*+ OPTIONS('a' = 'b') */", "the hint OPTIONS", "OPTIONS('a' = 'b')"),
    ],
)  # fmt: skip
def test_what_cannot_be_executed_is_refused_where_it_stands(sql: str, what: str, place: str) -> None:
    with pytest.raises(SqlUnsupportedError) as caught:
        planned(sql, {"orders": stream()})
    assert caught.value.message == f"{what} cannot be executed yet"
    assert sql[caught.value.start : caught.value.end] == place


@pytest.mark.parametrize(
    ("sql", "reason", "place"),
    [
        ("SELECT ARRAY(SELECT id FROM orders)", "by an aggregate: (SELECT ARRAY_AGG(x) FROM ...)", "ARRAY(SELECT id FROM orders)"),  # noqa: E501
        ("SELECT (SELECT JSON_ARRAYAGG(p.id) FROM orders AS p WHERE p.id < o.id) FROM orders AS o", "JSON_ARRAYAGG over no rows", "(SELECT JSON_ARRAYAGG(p.id) FROM orders AS p WHERE p.id < o.id)"),  # noqa: E501
        ("SELECT 1 FROM orders AS o, LATERAL (SELECT COUNT(*) FROM orders AS p WHERE p.id > o.id GROUP BY ROLLUP (id))", "its grouping sets cannot have ()", "LATERAL (SELECT COUNT(*) FROM orders AS p WHERE p.id > o.id GROUP BY ROLLUP (id))"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_query_that_is_asked_for_each_row_is_refused_with_what_stands_in_the_way(
    sql: str, reason: str, place: str
) -> None:
    with pytest.raises(SqlUnsupportedError) as caught:
        planned(sql, {"orders": stream()})
    assert reason in caught.value.message
    assert sql[caught.value.start : caught.value.end] == place


def test_names_in_braces_are_streams_and_those_in_strings_are_not() -> None:
    sql = "SELECT '{orders}' /* {nothing} */ FROM {orders} -- {nothing}"
    transformation, _ = planned(sql, {"orders": stream()})
    assert transformation.description == "SELECT '{orders}' AS EXPR$0"


def test_errors_show_the_query_as_it_was_written() -> None:
    with pytest.raises(SqlValidationError, match=r"no column 'idd'(.|\n)*SELECT idd FROM \{orders\}\n         \^\^\^$"):
        planned("SELECT idd FROM {orders}", {"orders": stream()})
    with pytest.raises(SqlValidationError, match=r"did you mean 'orders'\?; give it as order=") as caught:
        planned("SELECT id FROM\n {order}", {"orders": stream()})
    assert (caught.value.line, caught.value.column) == (2, 2)


@pytest.mark.parametrize("sql", ["INSERT INTO orders VALUES (1)", "DROP TABLE orders"])
def test_a_statement_that_is_no_query_is_refused(sql: str) -> None:
    with pytest.raises(SqlError, match="this takes a query"):
        planned(sql, {"orders": stream()})


def test_streams_whose_columns_sql_cannot_know_are_refused_by_name() -> None:
    transformation, _ = stream()
    with pytest.raises(InvalidProgramError, match=r"stream 'orders' are not known before it runs.*output_type="):
        planned("SELECT 1", {"orders": (transformation, None)})
    with pytest.raises(InvalidProgramError, match="stream 'orders': its input is objects"):
        planned("SELECT 1", {"orders": stream(pa.schema({"value": pa.binary()}), Kind.OBJECT)})
    with pytest.raises(InvalidProgramError, match="column 'd' of stream 'orders': SQL has no type for"):
        planned("SELECT 1", {"orders": stream(pa.schema({"d": pa.decimal256(50, 2)}))})


def upwards(transformation: Transformation, factory: type[F]) -> F:
    """The nearest factory of that type."""
    found = next(each for each in upstream_of(transformation) if isinstance(getattr(each, "factory", None), factory))
    assert isinstance(found, PhysicalTransformation)
    assert isinstance(found.factory, factory)
    return found.factory


def test_hints_say_how_long_the_state_of_each_table_is_kept() -> None:
    options, tables = TableOptions(state_ttl_ms=Millis(7)), {name: stream() for name in ("orders", "more")}

    def ttls(hint: str, sql: str) -> tuple[int, int]:
        transformation, _ = planned(sql.replace("SELECT", f"SELECT /*+ {hint} */", 1), tables, options)
        return upwards(transformation, RegularJoinFactory).input_ttls_ms

    joined = "SELECT o.id FROM orders AS o JOIN more ON o.id = more.id"
    assert ttls("STATE_TTL('o' = '1 d', 'more' = '0')", joined) == (86_400_000, 0)
    assert ttls("STATE_TTL('more' = '2 s')", joined) == (7, 2_000)
    assert ttls("BROADCAST(o)", joined) == (7, 7)
    both = "SELECT o.id FROM orders AS o JOIN more ON o.id = more.id JOIN orders AS p ON p.id = o.id"
    assert ttls("STATE_TTL('o' = '1 s', 'p' = '3 s')", both) == (7, 3_000), "what is joined has no name of its own"
    grouped = "SELECT /*+ STATE_TTL('orders' = '5 s') */ id, COUNT(*) FROM orders GROUP BY id"
    for sql in (grouped, grouped.replace("GROUP BY id", "GROUP BY CUBE (id)")):
        assert upwards(planned(sql, tables, options)[0], GroupAggregateFactory).state_ttl_ms == 5_000


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("STATE_TTL('other' = '1 d')", "STATE_TTL names 'other', which is no table in FROM; tables: o, orders"),
        (
            "STATE_TTL('o' = 'long')",
            "STATE_TTL of 'o': cannot read 'long' as a duration; write for example '500 ms', '10 s', '5 min', '1 h'",
        ),
        ("STATE_TTL(o)", "STATE_TTL takes a table and a duration, 'orders' = '1 d', not 'o'"),
        ("OPTIONS('a' = 'b')", "OPTIONS stands behind the name of its table, not behind SELECT"),
        ("BROADCAST(other)", "BROADCAST names 'other', which is no table in FROM; tables: o, orders"),
    ],
)
def test_hints_that_mean_nothing_are_refused_where_they_stand(hint: str, message: str) -> None:
    sql = f"SELECT /*+ {hint} */ o.id FROM orders AS o JOIN orders ON o.id = orders.id"
    with pytest.raises(SqlValidationError) as caught:
        planned(sql, {"orders": stream()})
    assert (caught.value.message, sql[caught.value.start : caught.value.end]) == (message, hint)


def test_a_hint_that_has_no_effect_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    planned("SELECT /*+ NEST_LOOP(orders) */ id FROM orders", {"orders": stream()})
    assert [record.getMessage() for record in caplog.records] == [
        "the hint NEST_LOOP has no effect: tables are joined in one way"
    ]
