"""What a workload is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.definitions import DISORDER_MS, KEYS, MULTIPLIER, WINDOW_MS, Result, checked_sum
from flinkray import (
    DataGenSource,
    DataStream,
    SequenceField,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

Rows = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]

WINDOWS = TumblingEventTimeWindows.of(WINDOW_MS)


def key_column(rows: Rows, keys: int = KEYS) -> Rows:
    """`rows * MULTIPLIER % keys`: numpy has a vectorised division by a constant, but no such remainder."""
    products = rows * MULTIPLIER
    multiples = products // keys
    multiples *= keys
    return np.subtract(products, multiples, out=multiples)


def value_column(rows: Rows) -> npt.NDArray[np.float64]:
    return np.multiply(rows, 0.5, dtype=np.float64)


FIELDS: dict[str, Callable[[Rows], Any]] = {"k": key_column, "v": value_column}


def generated(
    env: StreamExecutionEnvironment, rows: int, fields: Mapping[str, Any] | None = None, name: str = "rows"
) -> DataStream:
    """Rows without event time; without `fields` they have only the row number."""
    source = DataGenSource(fields or {"value": SequenceField()}, rows)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), name)


def timed(
    env: StreamExecutionEnvironment, rows: int, time_of: Callable[[Rows], Rows], name: str = "rows"
) -> DataStream:
    """Rows (k, v, ts) with event time, up to five seconds out of order."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER_MS).with_timestamp_assigner("ts")
    return env.from_source(DataGenSource({**FIELDS, "ts": time_of}, rows), strategy, name)


class Workload(ABC):
    """A program whose throughput is measured, and what its results must be."""

    name: ClassVar[str]
    title: ClassVar[str]
    """The title of its chart."""
    work: ClassVar[str]
    """What it does, for people."""
    unit: ClassVar[str] = "rows/s"
    checked_columns: ClassVar[tuple[str, ...]]
    """The columns of results that `checked_sum` takes."""
    check_rows: ClassVar[int] = 20_000

    @abstractmethod
    def stream(self, env: StreamExecutionEnvironment, rows: int) -> DataStream:
        """The results of so many rows (those of the left stream where there are two), for a sink."""

    @abstractmethod
    def expected(self, rows: int) -> Result:
        """Count and checked sum of the results, computed without any engine."""

    def found(self, results: pa.Table) -> Result:
        """The same of an engine's results."""
        columns = [results.column(name).to_pylist() for name in self.checked_columns]
        return checked_sum(self.name, zip(*columns, strict=True))

    def rows_counted(self, rows: int) -> int:
        """The number of rows that its unit counts."""
        return rows


def expected_from(columns: Columns, workload: str) -> Result:
    """The sum over the checked columns, computed with numpy."""
    return checked_sum(workload, zip(*(column.tolist() for column in columns.values()), strict=True))
