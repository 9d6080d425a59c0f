"""`pyflink.table.udf`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.tables.api.user_functions import udaf, udf, udtaf, udtf
from flinkray.tables.user_functions import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ImperativeAggregateFunction,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
    UserDefinedFunction,
)

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ImperativeAggregateFunction",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "UserDefinedFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]

__getattr__ = imported(__name__)
