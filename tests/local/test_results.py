"""to_arrow and to_pandas give what execute_and_collect gives, also where batches come with different types."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkray import DataGenSource, InvalidProgramError, TypeMismatchError, WatermarkStrategy
from tests.support.jobs import environment

ROWS = 20_000


def changing(early: Any, late: Any) -> Any:
    return environment().from_sequence(0, ROWS - 1).map(lambda i: early if i < ROWS // 2 else late)


def test_decimals_keep_the_38_digits_of_the_encoder_whatever_their_scales() -> None:
    early, late = decimal.Decimal("1"), decimal.Decimal("1.123")
    column = changing(early, late).to_arrow().column("value")
    assert column.type == pa.decimal128(38, 3)
    assert set(column.to_pylist()) == {early, late}


def test_empty_dicts_go_with_maps() -> None:
    column = changing({"q": {}}, {"q": {1: 1}}).to_arrow().column("q")
    assert column.type == pa.map_(pa.int64(), pa.int64())
    frame = changing({"q": {}}, {"q": {1: 1}}).to_pandas()
    assert len(frame) == len(column) == ROWS


def test_results_that_have_no_type_in_common_are_an_error_that_names_the_column() -> None:
    stream = environment().from_arrow(pa.table({"n": list(range(ROWS))}))
    mixed = stream.map_batches(lambda batch: {"x": batch["n"] if batch["n"][0].as_py() < 1 else ["a"] * len(batch)})
    with pytest.raises(TypeMismatchError, match=r"column 'x' is (int64 in .* string|string in .* int64) in others"):
        mixed.to_arrow()


def ticks(env: Any) -> Any:
    return env.from_source(DataGenSource({"n": lambda rows: rows}), WatermarkStrategy.no_watermarks(), "ticks")


@pytest.mark.parametrize("method", ["to_arrow", "to_pandas", "to_ray_dataset"])
def test_a_stream_without_an_end_is_refused_before_it_runs(method: str) -> None:
    env = environment()
    endless = ticks(env)
    for stream in (endless, env.from_sequence(0, 1).map(lambda n: {"n": n}).union(endless.map(lambda row: row))):
        with pytest.raises(InvalidProgramError, match=rf"{method}\(\) waits for the end of .*ticks' has none: bound"):
            getattr(stream, method)()


def test_to_spark_is_refused_before_spark_is_asked() -> None:
    endless = environment().from_source(
        DataGenSource({"n": lambda rows: rows}), WatermarkStrategy.no_watermarks(), "ticks"
    )
    with pytest.raises(InvalidProgramError, match=r"to_spark\(\) waits for the end"):
        endless.to_spark(None)


def test_a_function_that_returns_is_a_stream_that_ends() -> None:
    assert environment().add_source(lambda: iter([1, 2])).to_arrow()["value"].to_pylist() == [1, 2]
