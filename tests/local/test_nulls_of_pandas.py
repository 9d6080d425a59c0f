"""`pd.NaT` and `pd.NA` are null wherever rows are made of Python values, as they are in a DataFrame."""

from __future__ import annotations

import datetime
from typing import Any

import pandas as pd
import pytest

from flinkray import Configuration, Count, KeyedProcessFunction, Row, StreamExecutionEnvironment, Types
from flinkray.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from tests.support.whole_jobs import rows

DAY = datetime.datetime(2020, 1, 1)
NULLS = pytest.mark.parametrize("null", [pd.NaT, pd.NA], ids=["NaT", "NA"])
TIMED = Types.ROW_NAMED(["a", "t"], [Types.LONG(), Types.SQL_TIMESTAMP()])


@NULLS
@pytest.mark.parametrize("declared", [None, TIMED], ids=["inferred", "declared"])
def test_records_of_a_frame_are_its_rows(env: StreamExecutionEnvironment, null: Any, declared: Any) -> None:
    records = [{"a": 1, "t": null}, {"a": 2, "t": pd.Timestamp(DAY)}]
    assert rows(env.from_collection(records, declared)) == [Row(a=1, t=None), Row(a=2, t=DAY)]
    assert rows(env.from_collection(records, declared).key_by("t").aggregate(n=Count("t"))) == [
        Row(t=None, n=0),
        Row(t=DAY, n=1),
    ]


@NULLS
def test_values_and_what_is_in_them_are_null(env: StreamExecutionEnvironment, null: Any) -> None:
    assert rows(env.from_collection([null, null])) == [None, None]
    assert rows(env.from_collection([null, "x"])) == ["x", None]
    assert rows(env.from_collection([(null, [1, null], {"b": null, "c": (null, 2)}, {1: null})])) == [
        (None, [1, None], {"b": None, "c": (None, 2)}, {1: None})
    ]


@NULLS
@pytest.mark.parametrize("declared", [None, TIMED], ids=["inferred", "declared"])
@pytest.mark.parametrize("is_fused", [True, False], ids=["fused", "apart"])
def test_functions_see_none_for_what_others_gave(
    env: StreamExecutionEnvironment, null: Any, declared: Any, is_fused: bool
) -> None:
    given = env.from_collection([1]).map(lambda n: {"a": n, "t": null}, output_type=declared)
    seen = (given if is_fused else given.rebalance()).map(lambda row: [row.a, row.t is None])
    assert rows(seen) == [[1, True]]


@NULLS
def test_a_key_that_a_function_gives_is_null(env: StreamExecutionEnvironment, null: Any) -> None:
    counted = env.from_collection([1, 2]).key_by(lambda n: (null, n % 1)).aggregate(n=Count())
    assert rows(counted) == [Row(key_0=None, key_1=0, n=1), Row(key_0=None, key_1=0, n=2)]


class Kept(KeyedProcessFunction):
    """Gives back what its state has, of which a value is null."""

    def __init__(self, null: Any) -> None:
        self._null = null

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", TIMED))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.last.update(Row(a=value, t=self._null))
        self.all.add({"a": value, "t": self._null})
        yield self.last.value()
        yield from self.all.get()


@NULLS
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_may_hold_them(null: Any, backend: str) -> None:
    configuration = Configuration({"execution.target": "local", "state.backend.type": backend})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    kept = env.from_collection([1]).key_by(lambda n: n).process(Kept(null), output_type=TIMED)
    assert rows(kept) == [Row(a=1, t=None)] * 2
