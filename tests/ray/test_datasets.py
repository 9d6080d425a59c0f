"""Ray Datasets as sources and results of jobs, on Ray and in the driver's process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flinkray import (
    Count,
    InvalidProgramError,
    JobExecutionError,
    MissingDependencyError,
    Row,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
    col,
)
from tests.support.jobs import environment

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("ray_cluster"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),  # Ray Data's own settings
    pytest.mark.filterwarnings("ignore:`use_push_based_shuffle`"),
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """No progress bars of Ray Data's."""
    import ray.data

    context = ray.data.DataContext.get_current()
    shown, context.enable_progress_bars = context.enable_progress_bars, False
    level = logging.getLogger("ray.data").level
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    yield
    logging.getLogger("ray.data").setLevel(level)
    context.enable_progress_bars = shown


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    """Jobs run in this process, which is fast; only the rows are in Ray."""
    return environment()


def data() -> Any:
    import ray.data

    return ray.data


TABLE = pa.table(
    {
        "n": list(range(1000)),
        "key": [f"k{n % 3}" for n in range(1000)],
        "x": pa.array([None if n % 10 == 0 else n / 2 for n in range(1000)], pa.float64()),
        "list": [[n] for n in range(1000)],
    }
)


def blocks_of(table: pa.Table, blocks: int) -> Any:
    step = -(-table.num_rows // blocks)
    return data().from_arrow([table.slice(start, step) for start in range(0, table.num_rows, step)])


@pytest.mark.parametrize("target", ["local", "ray"])
def test_a_dataset_through_a_job_into_a_dataset(target: str) -> None:
    env = environment(target=target)
    rows = env.from_ray_dataset(blocks_of(TABLE, 7))
    assert rows.record_type is not None
    assert rows.record_type.schema.equals(TABLE.schema)
    kept = rows.where(col("n") % 2 == 0).with_columns(twice=col("n") * 2).to_ray_dataset("through")
    found = pa.concat_tables(data().from_arrow_refs(kept.to_arrow_refs()).iter_batches(batch_format="pyarrow"))
    even = TABLE.filter(pa.compute.equal(pa.compute.bit_wise_and(TABLE["n"], 1), 0))
    expected = even.append_column("twice", pa.compute.multiply(even["n"], 2))
    assert found.sort_by("n").equals(expected)


def test_rows_come_in_the_order_of_the_dataset(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    assert env.from_ray_dataset(blocks_of(TABLE, 5)).to_arrow()["n"].to_pylist() == list(range(1000))
    assert [row["n"] for row in env.from_ray_dataset(blocks_of(TABLE, 5)).to_ray_dataset().take_all()] == list(
        range(1000)
    )


def test_event_time_from_a_dataset(env: StreamExecutionEnvironment) -> None:
    event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("n")
    windows = env.from_ray_dataset(blocks_of(TABLE, 4), event_time, "numbers").key_by("key")
    sums = windows.window(TumblingEventTimeWindows.of(100)).aggregate(n=Count(), total=Sum("n")).to_ray_dataset()
    frame = sums.to_pandas()
    assert (frame["n"].sum(), frame["total"].sum()) == (1000, sum(range(1000)))
    assert len(frame) == 30


def test_a_lazy_dataset_runs_when_the_job_does(env: StreamExecutionEnvironment) -> None:
    lazy = data().range(10, override_num_blocks=2).map_batches(lambda batch: {"half": batch["id"] / 2})
    stream = env.from_ray_dataset(lazy)
    assert sorted(stream.to_arrow()["half"].to_pylist()) == [n / 2 for n in range(10)]
    assert sorted(row.half for row in stream.execute_and_collect()) == [n / 2 for n in range(10)]


def test_pandas_blocks(env: StreamExecutionEnvironment) -> None:
    frame = pd.DataFrame({"a": [1, 2], "text": ["x", None], "at": pd.to_datetime(["2020-01-01", "2021-06-01"])})
    dataset = data().from_pandas(frame).map_batches(lambda batch: batch, batch_format="pandas")
    found = env.from_ray_dataset(dataset).to_pandas().sort_values("a")
    assert found["a"].tolist() == [1, 2]
    # What is missing is NaN in the text columns of pandas 3, and None in those of pandas 2.
    assert [None if pd.isna(text) else text for text in found["text"]] == ["x", None]
    assert found["at"].tolist() == frame["at"].tolist()


def test_tensors_are_arrays_of_their_shape_in_numpy(env: StreamExecutionEnvironment) -> None:
    tensors = np.arange(24, dtype=np.float32).reshape(4, 2, 3)

    def total(batch: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        assert batch["data"].shape[1:] == (2, 3)
        assert batch["data"].dtype == np.float32
        return {"total": batch["data"].sum(axis=(1, 2))}

    totals = env.from_ray_dataset(data().from_numpy(tensors)).map_batches(total, "numpy")
    assert sorted(totals.to_arrow()["total"].to_pylist()) == tensors.sum(axis=(1, 2)).tolist()


def test_blocks_of_different_columns_become_one_table(env: StreamExecutionEnvironment) -> None:
    first = data().from_arrow(pa.table({"a": [1], "b": ["x"]}))
    both = first.union(data().from_arrow(pa.table({"a": [2], "b": pa.nulls(1, pa.string())})))
    assert env.from_ray_dataset(both).to_arrow().sort_by("a").to_pydict() == {"a": [1, 2], "b": ["x", None]}


def test_a_result_widens_to_what_all_subtasks_gave(env: StreamExecutionEnvironment) -> None:
    mixed = env.from_sequence(1, 4).map(lambda n: n if n < 3 else n + 0.5)
    assert sorted(row["value"] for row in mixed.to_ray_dataset().take_all()) == [1.0, 2.0, 3.5, 4.5]


@pytest.mark.parametrize("declared", [None, Types.LONG()])
def test_an_empty_stream_is_an_empty_dataset(env: StreamExecutionEnvironment, declared: Any) -> None:
    nothing = env.from_sequence(1, 4).map(lambda n: n, output_type=declared).where(col("value") > 9)
    dataset = nothing.to_ray_dataset()
    assert dataset.count() == 0
    assert env.from_ray_dataset(data().from_arrow(TABLE.slice(0, 0))).to_arrow().num_rows == 0


def test_a_result_stays_readable_after_the_job_and_other_jobs(env: StreamExecutionEnvironment) -> None:
    first = env.from_collection([1, 2]).to_ray_dataset()
    env.from_collection([3]).to_ray_dataset()
    assert [row["value"] for row in first.take_all()] == [1, 2]
    assert [row["value"] for row in first.map(lambda row: {"value": row["value"] * 10}).take_all()] == [10, 20]


def test_a_failed_job_has_no_result(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
        env.from_collection([0]).map(lambda n: 1 // n).to_ray_dataset()


def test_what_is_no_dataset_is_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match=r"takes a ray\.data\.Dataset, not"):
        env.from_ray_dataset(TABLE)


def test_python_objects_cannot_become_a_dataset(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobExecutionError, match="output_type that Arrow has"):
        env.from_collection([{1, 2}]).to_ray_dataset()


def test_missing_packages_are_named_with_the_way_to_install_them(
    env: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.delattr(ray, "data")
    monkeypatch.setitem(sys.modules, "ray.data", None)  # None makes an import statement raise
    with pytest.raises(MissingDependencyError, match=r"pip install 'flinkray\[ray-data\]'"):
        env.from_ray_dataset(None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'flinkray\[ray-data\]'"):
        env.from_collection([Row(a=1)]).to_ray_dataset()
