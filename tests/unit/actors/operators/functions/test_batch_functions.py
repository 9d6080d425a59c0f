"""map_batches: formats in, anything reasonable out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from actors.operators.contract.cancellation import TaskCanceled
from actors.operators.registry import create_operator
from flinkray.errors import InvalidProgramError, TypeMismatchError, UserFunctionError
from flinkray.functions.interfaces import Function, RuntimeContext
from flinkray.transformations.operator_factories import MapBatchesFactory
from flinkray.types.records import Kind, RecordType
from tests.support.operators import OperatorHarness, code

COLUMNS = {"a": [1, 2, 3], "s": ["x", "y", None]}


def driven(function: Any, batch_format: str = "pyarrow", output_type: RecordType | None = None) -> OperatorHarness:
    return OperatorHarness(create_operator([code(MapBatchesFactory(function, batch_format, output_type))], ["scale"]))


def run(function: Any, batch_format: str, rows: Any, timestamps: list[int] | None = None) -> OperatorHarness:
    harness = driven(function, batch_format)
    harness.push(rows, timestamps)
    return harness


def test_each_format_gets_its_own_kind_of_batch_and_may_return_any() -> None:
    def arrow(batch: pa.RecordBatch) -> pa.Table:
        assert isinstance(batch, pa.RecordBatch)
        return pa.table({"a": pc.add(batch.column("a"), 1)})

    def pandas(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(a=frame.a + 1)[["a"]]

    def numpy(columns: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        columns["a"] += 1  # the arrays are the function's own
        return {"a": columns["a"]}

    for function, batch_format in ((arrow, "pyarrow"), (pandas, "pandas"), (numpy, "numpy")):
        assert run(function, batch_format, COLUMNS).output.dicts == [{"a": 2}, {"a": 3}, {"a": 4}]


def test_scalars_come_under_value_and_stay_scalar_when_value_comes_back() -> None:
    doubled = run(lambda columns: {"value": columns["value"] * 2}, "numpy", [1, 2])
    assert (doubled.output.rows, doubled.output.batches[0].kind) == ([2, 4], Kind.SCALAR)
    renamed = run(lambda columns: {"twice": columns["value"] * 2}, "numpy", [1, 2])
    assert renamed.output.batches[0].kind is Kind.ROW
    assert run(lambda batch: batch, "pyarrow", [(1, "a")]).output.rows == [(1, "a")]


def test_objects_come_unpickled() -> None:
    sizes = run(lambda columns: {"value": [len(value) for value in columns["value"]]}, "numpy", [{1, 2}, set()])
    assert sizes.output.rows == [2, 0]
    with pytest.raises(
        TypeMismatchError, match=r"'op' \(subtask 1 of 1\): .*no Arrow columns; set output_type= of the"
    ):
        run(lambda batch: batch, "pyarrow", [{1, 2}])


def test_event_times_stay_where_the_number_of_rows_does_and_else_become_the_highest() -> None:
    assert run(lambda batch: batch, "pyarrow", COLUMNS, [30, 10, 20]).output.timestamps == [30, 10, 20]
    assert run(lambda batch: batch.slice(1), "pyarrow", COLUMNS, [30, 10, 20]).output.timestamps == [30, 30]


def test_generators_lists_and_nothing_are_results_too() -> None:
    def halves(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch.slice(0, 1)
        yield batch.slice(0, 0)
        yield batch.slice(1)

    assert [batch.num_rows for batch in run(halves, "pyarrow", COLUMNS).output.batches] == [1, 2]
    assert [b.num_rows for b in run(lambda batch: [batch, batch], "pyarrow", COLUMNS).output.batches] == [3, 3]
    for nothing in (None, {}, pd.DataFrame(), pa.table({})):
        assert run(lambda _, result=nothing: result, "pyarrow", COLUMNS).output.elements == []


class Model:
    """A class-based function, as for inference: made once per subtask."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.events: list[str] = []
        events.append(self.events)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.events.append(f"open {runtime_context.get_task_name()}")

    def __call__(self, columns: dict[str, Any]) -> dict[str, Any]:
        return {"value": columns["value"] + 0.5}

    def close(self) -> None:
        self.events.append("close")


events: list[list[str]] = []


class FunctionModel(Model, Function):
    """The same as a Function."""


@pytest.mark.parametrize("model", [Model, FunctionModel])
def test_a_class_is_made_opened_and_closed_once(model: type[Model]) -> None:
    events.clear()
    model.made = 0
    with driven(model, "numpy") as harness:
        harness.push([1])
        harness.push([2])
        assert harness.output.rows == [1.5, 2.5]
    assert (model.made, events) == (1, [["open op", "close"]])


def test_matrices_become_lists_of_fixed_size_and_come_back_as_matrices() -> None:
    first = run(lambda _: {"m": np.ones((2, 3, 2))}, "numpy", [1, 2])
    assert first.output.batches[0].data.schema.types == [pa.list_(pa.list_(pa.float64(), 2), 3)]
    shapes: list[Any] = []
    run(lambda columns: shapes.append(columns["m"].shape), "numpy", first.output.batches[0])
    assert shapes == [(2, 3, 2)]


def test_a_declared_type_is_cast_to_and_orders_the_columns() -> None:
    declared = RecordType(Kind.TUPLE, pa.schema([("f0", pa.float64()), ("f1", pa.string())]))
    harness = driven(lambda _: {"f1": ["x"], "f0": [1]}, "pyarrow", declared)
    harness.push([5])
    assert harness.output.rows == [(1.0, "x")]
    with pytest.raises(TypeMismatchError, match="returned columns f0, but output_type= has f0, f1"):
        driven(lambda _: {"f0": [1]}, "pyarrow", declared).push([5])
    with pytest.raises(TypeMismatchError, match="does not fit output_type="):
        driven(lambda _: {"f0": ["no number"], "f1": ["x"]}, "pyarrow", declared).push([5])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (5, "returned int; return a pyarrow.RecordBatch"),
        ("text", "returned str"),
        ([5], "returned int"),
        ({"a": [1], "b": [1, 2]}, "different lengths"),
        ({"a": 1}, "column 'a' is int; it must be an array"),
        ({"a": [1, "x"]}, "column 'a' fits no Arrow type"),
        ({1: [1]}, "column names must be text"),
        (pd.DataFrame({"a": [1, "x"]}), "the returned DataFrame"),
        (pd.DataFrame(index=["x", "y"]), "returned 2 rows without columns"),
        (pa.table({"a": [1, 2]}).select([]), "returned 2 rows without columns"),
        (pa.record_batch({"a": [1, 2]}).select([]), "returned 2 rows without columns"),
    ],
)
def test_a_wrong_result_names_the_operator_and_what_would_do(result: Any, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message) as caught:
        run(lambda _: result, "pyarrow", [1])
    assert str(caught.value).startswith("operator 'op' (subtask 1 of 1)")


def test_an_error_inside_shows_the_batch_not_its_rows() -> None:
    def fail(_: Any) -> Any:
        raise ValueError("no such model")

    def fail_later(batch: Any) -> Iterator[Any]:
        yield batch
        raise ValueError("no such model")

    for function in (fail, fail_later):
        with pytest.raises(UserFunctionError, match="no such model; the value was a batch of 3 rows with columns a, s"):
            run(function, "pandas", COLUMNS)


def test_unknown_formats_and_uncallable_classes_are_refused() -> None:
    with pytest.raises(InvalidProgramError, match="not 'polars'"):
        driven(lambda batch: batch, "polars")
    with pytest.raises(InvalidProgramError, match="needs a callable, but dict has no __call__"):
        driven(dict)


def test_nulls_survive_pandas_and_numpy() -> None:
    back = run(lambda frame: frame, "pandas", COLUMNS)
    assert [row["s"] for row in back.output.dicts] == ["x", "y", None]
    values: list[Any] = []
    run(lambda columns: values.extend(columns["value"]), "numpy", [1.5, None])
    assert values[0] == 1.5
    assert math.isnan(values[1])


def test_a_generator_of_empty_batches_ends_when_its_task_is_cancelled() -> None:
    def empty(_batch: Any) -> Iterator[dict[str, Any]]:
        yield {"n": []}
        harness.context.cancellation.set()
        yield {"n": []}
        raise AssertionError("nobody looked")

    harness = driven(empty)
    with pytest.raises(TaskCanceled):
        harness.push(COLUMNS)
