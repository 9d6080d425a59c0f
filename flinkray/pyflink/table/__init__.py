"""`pyflink.table`, as far as DataStream programs use it: types of columns, and the source of made-up rows.

There is no Table API and no SQL here.
"""

from __future__ import annotations

from flinkray.pyflink.table.environment import Schema, StreamTableEnvironment, Table, TableDescriptor
from flinkray.pyflink.table.types import DataTypes
from flinkray.pyflink.unavailable import unavailable
from flinkray.types.rows import Row, RowKind

__all__ = ["DataTypes", "Row", "RowKind", "Schema", "StreamTableEnvironment", "Table", "TableDescriptor"]

__getattr__ = unavailable(
    __name__,
    "AggregateFunction BatchTableEnvironment EnvironmentSettings ExplainDetail FormatDescriptor FunctionContext "
    "GroupWindowedTable GroupedTable ListView MapView Module OverWindowedTable ResultKind ScalarFunction StatementSet "
    "TableAggregateFunction TableConfig TableEnvironment TableFunction TableResult TableSchema UserDefinedType "
    "WindowGroupedTable",
    "there is no Table API and no SQL here; write it with column expressions, "
    "stream.where(...).select(...).key_by(...).aggregate(...), or in Spark, env.from_spark(spark.sql(...))",
)
