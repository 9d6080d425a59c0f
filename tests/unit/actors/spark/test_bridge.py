"""What `from_spark` is given by mistake."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame

from actors.spark.bridge import SparkBridge, SparkDataFrameSource
from flinkray.errors import InvalidProgramError


def test_a_data_frame_of_pandas_is_told_from_sparks() -> None:
    with pytest.raises(InvalidProgramError, match="from_spark takes a Spark DataFrame, not DataFrame of pandas"):
        SparkBridge().source(pd.DataFrame({"a": [1]}))  # type: ignore[arg-type]


def test_rows_are_ordered_by_names() -> None:
    class Empty(DataFrame):
        isStreaming = False
        columns: Any = ("t",)

        def __new__(cls) -> Any:
            """Without a session, which PySpark 4 makes one with."""
            return object.__new__(cls)

        def __init__(self) -> None:
            pass

    with pytest.raises(InvalidProgramError, match="takes names of columns, which sort ascending, not 5"):
        SparkDataFrameSource(Empty(), [5])  # type: ignore[list-item]
