"""`pyflink.table.udf`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable
from flinkray.tables.api.user_functions import udaf, udf, udtf
from flinkray.tables.user_functions import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ScalarFunction,
    TableFunction,
    UserDefinedFunction,
)

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ScalarFunction",
    "TableFunction",
    "UserDefinedFunction",
    "udaf",
    "udf",
    "udtf",
]

__getattr__ = unavailable(
    __name__,
    "TableAggregateFunction udtaf",
    "there are scalar, table and aggregate functions here; an aggregate may give an ARRAY, which UNNEST makes rows of",
)
