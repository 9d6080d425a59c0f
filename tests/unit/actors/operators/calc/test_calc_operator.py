"""Statements run by the operator alone: their rows, what a batch keeps, and what errors name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkray.batches.batch import Batch
from flinkray.errors import RecordError, TypeMismatchError, UnknownColumnError
from flinkray.types.records import Kind
from flinkray.types.rows import RowKind
from tests.support.calc import calc, results

ORDERS = pa.record_batch(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "cents": pa.array([250, None, -5, 0], pa.int32()),
        "item": pa.array(["tea", "Coffee", None, "tea"]).dictionary_encode(),
        "ts": pa.array([0, 86_400_000, 1, None], pa.timestamp("ms")),
        "price": pa.array([Decimal("2.50"), None, Decimal("-0.05"), Decimal(0)], pa.decimal128(10, 2)),
        "buyer": pa.array([{"name": "Ada", "age": 36}, None, {"name": None, "age": 7}, {"name": "Bo", "age": None}]),
        "tags": pa.array([["a", "b"], [], None, ["c"]], pa.large_list(pa.large_string())),
        "rank": pa.array([1, 2, 3, 4], pa.uint8()),
    }
)
DAY = dt.datetime(1970, 1, 1)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        # projections
        ("SELECT id FROM t", [(1,), (2,), (3,), (4,)]),
        ("SELECT item, id FROM t", [("tea", 1), ("Coffee", 2), (None, 3), ("tea", 4)]),
        ("SELECT id + cents FROM t", [(251,), (None,), (-2,), (4,)]),
        ("SELECT id * 2 - 1 AS odd FROM t", [(1,), (3,), (5,), (7,)]),
        ("SELECT 'x', 1, CAST(NULL AS INT) FROM t", [("x", 1, None)] * 4),
        ("SELECT UPPER(item) || '!' FROM t", [("TEA!",), ("COFFEE!",), (None,), ("TEA!",)]),
        ("SELECT price * 2 FROM t", [(Decimal("5.00"),), (None,), (Decimal("-0.10"),), (Decimal("0.00"),)]),
        ("SELECT CAST(cents AS STRING) FROM t", [("250",), (None,), ("-5",), ("0",)]),
        ("SELECT TRY_CAST(item AS INT) FROM t", [(None,)] * 4),
        ("SELECT CAST(ts AS DATE) FROM t", [(DAY.date(),), (dt.date(1970, 1, 2),), (DAY.date(),), (None,)]),
        ("SELECT EXTRACT(DAY FROM ts) FROM t", [(1,), (2,), (1,), (None,)]),
        ("SELECT ts + INTERVAL '1' HOUR FROM t WHERE id = 1", [(dt.datetime(1970, 1, 1, 1),)]),
        ("SELECT CASE WHEN cents > 0 THEN 'paid' ELSE 'free' END FROM t", [("paid",), ("free",), ("free",), ("free",)]),
        ("SELECT COALESCE(item, 'none') FROM t", [("tea",), ("Coffee",), ("none",), ("tea",)]),
        ("SELECT NULLIF(item, 'tea') FROM t", [(None,), ("Coffee",), (None,), (None,)]),
        ("SELECT IF(id > 2, id, -id) FROM t", [(-1,), (-2,), (3,), (4,)]),
        ("SELECT CASE WHEN cents <> 0 THEN 100 / cents END FROM t", [(0,), (None,), (-20,), (None,)]),
        ("SELECT t.buyer.name FROM t", [("Ada",), (None,), (None,), ("Bo",)]),
        ("SELECT t.buyer.age + 1 FROM t", [(37,), (None,), (8,), (None,)]),
        ("SELECT ROW(id, item).EXPR$0 FROM t WHERE id = 2", [(2,)]),
        ("SELECT tags[1], CARDINALITY(tags) FROM t", [("a", 2), (None, 0), (None, None), ("c", 1)]),
        ("SELECT tags, buyer FROM t WHERE id = 1", [(["a", "b"], {"name": "Ada", "age": 36})]),
        ("SELECT `rank` * 100 FROM t", [(100,), (200,), (300,), (400,)]),
        ("SELECT id AS a, id AS a FROM t WHERE id = 1", [(1, 1)]),
        # filters
        ("SELECT id FROM t WHERE cents > 0", [(1,)]),
        ("SELECT id FROM t WHERE NOT cents > 0", [(3,), (4,)]),
        ("SELECT id FROM t WHERE cents IS NULL", [(2,)]),
        ("SELECT id FROM t WHERE item = 'tea' AND cents >= 0", [(1,), (4,)]),
        ("SELECT id FROM t WHERE item = 'tea' OR cents IS NULL", [(1,), (2,), (4,)]),
        ("SELECT id FROM t WHERE item LIKE '%ff%'", [(2,)]),
        ("SELECT id FROM t WHERE item NOT IN ('tea', 'milk')", [(2,)]),
        ("SELECT id FROM t WHERE cents BETWEEN -5 AND 0", [(3,), (4,)]),
        ("SELECT id FROM t WHERE item IS DISTINCT FROM 'tea'", [(2,), (3,)]),
        ("SELECT id FROM t WHERE cents <> 0 AND 100 / cents < 0", [(3,)]),
        ("SELECT id FROM t WHERE t.buyer.age > 10", [(1,)]),
        ("SELECT id FROM t WHERE ts > TIMESTAMP '1970-01-01 00:00:00'", [(2,), (3,)]),
        ("SELECT 'any' FROM t WHERE id > 3", [("any",)]),
        ("SELECT 1 FROM t", [(1,)] * 4),
        ("SELECT id FROM t WHERE FALSE", []),
        ("SELECT id FROM t WHERE id > 4", []),
        # queries of queries
        ("SELECT d FROM (SELECT id * 2 AS d, item FROM t) WHERE d > 4 AND item IS NOT NULL", [(8,)]),
        ("WITH w AS (SELECT id, cents FROM t WHERE cents >= 0) SELECT id FROM w WHERE id > 1", [(4,)]),
        ("SELECT id FROM t WHERE id = 1 UNION ALL SELECT cents FROM t WHERE id = 3", [(1,), (-5,)]),
        ("SELECT id AS a FROM t WHERE id = 1 UNION ALL VALUES (7), (8)", [(1,), (7,), (8,)]),
        # no table
        ("SELECT 1 + 1, 'a'", [(2, "a")]),
        ("VALUES (1, 'a'), (2, NULL)", [(1, "a"), (2, None)]),
        ("VALUES (CAST('7' AS BIGINT), DATE '1970-01-02'), (8, CAST('1970-01-03' AS DATE))",
         [(7, dt.date(1970, 1, 2)), (8, dt.date(1970, 1, 3))]),
        ("VALUES (1.5, TIMESTAMP '1970-01-01 00:00:01', INTERVAL '1' DAY)",
         [(Decimal("1.5"), DAY + dt.timedelta(seconds=1), dt.timedelta(1))]),
    ],
)  # fmt: skip
def test_a_statement_gives_its_rows(sql: str, wanted: list[Any]) -> None:
    assert results(sql, ORDERS) == wanted


def test_rows_keep_their_times_and_what_they_do_in_a_changelog() -> None:
    kinds = [kind.value for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)]
    batch = Batch(ORDERS, Kind.ROW, pa.array([10, 20, 30, 40]), kinds=pa.array(kinds, pa.int8()))
    with calc("SELECT id * 10 AS tens FROM t WHERE id <> 3", ORDERS.schema) as harness:
        harness.push(batch)
    (found,) = harness.output.batches
    assert found.data.to_pydict() == {"tens": [10, 20, 40]}
    assert (harness.output.timestamps, found.row_kinds.to_pylist()) == ([10, 20, 40], [kinds[0], kinds[1], kinds[3]])


@pytest.mark.parametrize("sql", ["SELECT 'a' FROM t WHERE id > 1", "SELECT 'a' FROM t"])
def test_rows_of_which_no_column_is_read_keep_their_times(sql: str) -> None:
    with calc(sql, ORDERS.schema) as harness:
        harness.push(ORDERS, timestamps=[10, 20, 30, 40])
    assert harness.output.timestamps == ([20, 30, 40] if "WHERE" in sql else [10, 20, 30, 40])


def test_an_error_names_the_operator_the_expression_and_the_value() -> None:
    with calc("SELECT CAST(item AS INT) FROM t", ORDERS.schema) as harness, pytest.raises(RecordError) as caught:
        harness.push(ORDERS)
    assert "operator 'op' (subtask 1 of 1): CAST(item AS INT): CAST: " in str(caught.value)
    assert "'tea'" in str(caught.value)


def test_a_batch_whose_columns_are_not_those_that_were_declared_is_refused_by_their_names() -> None:
    with calc("SELECT id FROM t WHERE cents > 0", ORDERS.schema) as harness:
        with pytest.raises(UnknownColumnError, match="cents"):
            harness.push(ORDERS.select(["id"]))
        with pytest.raises(TypeMismatchError, match=r"column 'cents' was declared as INT, and is string"):
            harness.push({"id": [1], "cents": ["many"]})


def test_columns_are_found_by_their_names_wherever_they_stand() -> None:
    with calc("SELECT id FROM t WHERE cents > 0", ORDERS.schema) as harness:
        harness.push({"cents": [1, 0], "more": [0, 0], "id": [5, 6]})
    assert harness.output.dicts == [{"id": 5}]


def test_the_time_of_a_batch_is_that_of_the_operators_clock() -> None:
    with calc("SELECT CURRENT_TIMESTAMP AS now FROM t WHERE id = 1", ORDERS.schema) as harness:
        harness.advance(5_000)
        harness.push(ORDERS)
    assert harness.output.dicts[0]["now"].timestamp() * 1000 == harness.context.clock.now_ms()
