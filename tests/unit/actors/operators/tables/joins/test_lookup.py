"""Rows with those that a table, which is asked, has for their key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from actors.operators.tables.joins.lookup import LookupJoinOperator
from flinkray.batches.batch import Batch
from flinkray.connectors.lookup import FOR_EVER, LookupCache, LookupReader, LookupTable
from flinkray.errors import TypeMismatchError
from flinkray.tables.plans.expressions import Call, Column
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import BIGINT, BOOLEAN, INT, ROW, STRING
from flinkray.transformations.table_join_factories import LookupJoinFactory, RetriedLookupJoinFactory
from flinkray.types.changelogs import Changes
from flinkray.types.records import Kind, Millis
from tests.support.operators import OperatorHarness

LEFT = ROW(("n", INT), ("k", STRING))
TABLE = ROW(("name", STRING), ("size", BIGINT))
BOTH = ROW(("n", INT), ("k", STRING), ("name", STRING), ("size", BIGINT))
BIG = Call(BOOLEAN, "<", (Column(INT, 0), Column(BIGINT, 3)))
ALL = Changes(updates=True, deletes=True)


class Rows(LookupTable):
    """A table in memory, which remembers what it was asked for."""

    def __init__(
        self, rows: Sequence[tuple[str, int]], cache_ms: int = 0, idle_ms: int = FOR_EVER, keeps_missing: bool = True
    ) -> None:
        self.rows = list(rows)
        self.cache = LookupCache(cache_ms, 3, idle_ms, keeps_missing)
        self.asked: list[list[str]] = []

    def reader(self, keys: Sequence[str], columns: Sequence[str]) -> LookupReader:
        assert (list(keys), list(columns)) == (["name"], ["name", "size"])
        return _Reader(self)


class _Reader(LookupReader):
    def __init__(self, table: Rows) -> None:
        self._table = table

    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        self._table.asked.append(keys["name"].to_pylist())
        rows = [row for row in self._table.rows if row[0] in self._table.asked[-1]]
        # The operator casts what it gets.
        return pa.table(
            {
                "name": pa.array([row[0] for row in rows], pa.string()),
                "size": [row[1] for row in rows] or pa.array([], pa.int32()),
            }
        )


def harness(table: LookupTable, kind: str = "LEFT", **options: Any) -> OperatorHarness:
    made = LookupJoinFactory(
        input_rows=(LEFT,),
        rows=BOTH,
        takes=(ALL,),
        gives=ALL,
        table=table,
        table_rows=TABLE,
        kind=kind,
        keys=((1, 0),),
        **options,
    )
    return OperatorHarness(LookupJoinOperator(made), batch_rows=2)


def push(
    operator: OperatorHarness, *rows: tuple[int, str | None], kinds: list[int] | None = None
) -> list[tuple[Any, ...]]:
    columns = [pa.array([row[0] for row in rows], pa.int32()), pa.array([row[1] for row in rows], pa.string())]
    data = pa.RecordBatch.from_arrays(columns, schema=stored_schema(LEFT))
    operator.push(Batch(data, Kind.ROW, kinds=None if kinds is None else pa.array(kinds, pa.int8())))
    found = [
        (change, row["n"], row["size"])
        for batch in operator.output.batches
        for change, row in zip(batch.row_kinds.to_pylist(), batch.data.to_pylist(), strict=True)
    ]
    operator.output.clear()
    return found


@pytest.mark.parametrize("kind", ["INNER", "LEFT"])
def test_a_row_comes_with_all_that_the_table_has_for_its_key_in_the_order_of_rows(kind: str) -> None:
    table = Rows([("a", 1), ("b", 2), ("a", 3)])
    alone = [(1, 2, None), (2, 4, None)] if kind == "LEFT" else []
    with harness(table, kind) as operator:
        found = push(operator, (1, "a"), (2, None), (3, "b"), (4, "x"), (5, "a"), kinds=[0, 1, 2, 2, 3])
    assert table.asked == [["a", "b", "x"]]
    assert found == sorted([(0, 1, 1), (0, 1, 3), *alone, (2, 3, 2), (3, 5, 1), (3, 5, 3)], key=lambda row: row[1])


def test_the_condition_says_which_of_them_count() -> None:
    with harness(Rows([("a", 1), ("a", 3)]), condition=BIG) as operator:
        assert push(operator, (2, "a"), (3, "a")) == [(0, 2, 3), (0, 3, None)]


def test_what_was_found_is_good_for_its_time_and_there_is_only_so_much_of_it() -> None:
    table = Rows([("a", 1)], cache_ms=100)
    with harness(table) as operator:
        assert push(operator, (1, "a"), (2, "x")) == [(0, 1, 1), (0, 2, None)]
        table.rows = [("x", 5)]
        operator.advance(99)
        assert push(operator, (1, "a"), (2, "x"), (3, "y")) == [(0, 1, 1), (0, 2, None), (0, 3, None)]
        operator.advance(1)
        assert push(operator, (1, "a"), (2, "x"), (3, "y")) == [(0, 1, None), (0, 2, 5), (0, 3, None)]
        assert table.asked == [["a", "x"], ["y"], ["a", "x"]]
        table.rows = [("m", number) for number in range(4)]
        push(operator, (1, "m"))
        push(operator, (1, "m"))
        assert table.asked[3:] == [["m"], ["m"]]


def test_keys_without_rows_count_as_well() -> None:
    table = Rows([("a", 1)], cache_ms=100)
    with harness(table) as operator:
        push(operator, (1, "a"), (2, "x"))
        push(operator, (3, "y"), (4, "z"))
        push(operator, (1, "a"))
    assert table.asked == [["a", "x"], ["y", "z"], ["a"]]


def test_what_no_row_asks_for_is_forgotten_earlier() -> None:
    table = Rows([("a", 1), ("b", 2)], cache_ms=100, idle_ms=40)
    with harness(table) as operator:
        push(operator, (1, "a"), (2, "b"))
        operator.advance(39)
        push(operator, (1, "a"))
        operator.advance(39)
        push(operator, (1, "a"), (2, "b"))
        operator.advance(22)
        push(operator, (1, "a"), (2, "b"))
    assert table.asked == [["a", "b"], ["b"], ["a"]]


@pytest.mark.parametrize("keeps_missing", [True, False])
@pytest.mark.parametrize("idle_ms", [40, FOR_EVER])
def test_keys_that_never_come_again_do_not_stay(keeps_missing: bool, idle_ms: int) -> None:
    table = Rows([("0 0", 1)], cache_ms=100, idle_ms=idle_ms, keeps_missing=keeps_missing)
    table.cache = msgspec.structs.replace(table.cache, rows=2**62)
    with harness(table) as operator:
        for begin in range(5):
            push(operator, *((number, f"{begin} {number}") for number in range(2_000)))
            operator.advance(1_000)
        assert len(operator.operator._index) <= 4_000


def test_a_key_without_rows_may_be_asked_for_again() -> None:
    table = Rows([("a", 1)], cache_ms=100, keeps_missing=False)
    with harness(table) as operator:
        assert push(operator, (1, "a"), (2, "x")) == [(0, 1, 1), (0, 2, None)]
        table.rows = [("x", 5)]
        assert push(operator, (1, "a"), (2, "x")) == [(0, 1, 1), (0, 2, 5)]
        assert push(operator, (1, "a"), (2, "x")) == [(0, 1, 1), (0, 2, 5)]
    assert table.asked == [["a", "x"], ["x"]]


def test_rows_of_other_columns_are_refused() -> None:
    class Strange(Rows):
        def reader(self, keys: Sequence[str], columns: Sequence[str]) -> LookupReader:
            return _Strange()

    class _Strange(LookupReader):
        def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
            return keys

    with harness(Strange([])) as operator, pytest.raises(TypeMismatchError, match=r"asked for \['name', 'size'\]"):
        push(operator, (1, "a"))


def test_a_table_without_rows_for_a_key_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Rows([("b", 2)], cache_ms=1000)
    made = RetriedLookupJoinFactory(
        input_rows=(LEFT,),
        rows=BOTH,
        takes=(ALL,),
        gives=ALL,
        table=table,
        table_rows=TABLE,
        kind="LEFT",
        keys=((1, 0),),
        retry_delay_ms=Millis(30),
        retries=2,
    )
    operator = OperatorHarness(LookupJoinOperator(made), batch_rows=2)
    delays: list[float] = []

    def call_later(delay_ms: float, mail: Callable[[], None], description: str) -> None:
        delays.append(delay_ms)
        if len(delays) == 2:
            table.rows.append(("c", 3))  # it is late
        operator.context.execute(mail, description)

    monkeypatch.setattr(operator.context, "call_later", call_later)
    assert push(operator, (1, "a"), (2, "b"), (3, "c")) == [(0, 1, None), (0, 2, 2), (0, 3, 3)]
    assert (table.asked, delays) == ([["a", "b", "c"], ["a", "c"], ["a", "c"]], [30, 30])
    assert push(operator, (4, "a"), (5, "c")) == [(0, 4, None), (0, 5, 3)]
    assert len(table.asked) == 3, "what there is not is remembered, too"
