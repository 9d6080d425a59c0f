"""`pyflink.table`: names over flinkray's own tables (`env.tables`), so that PyFlink's programs find them."""

from __future__ import annotations

from flinkray.pyflink.table.environment_settings import EnvironmentSettings
from flinkray.pyflink.table.explain_detail import ExplainDetail
from flinkray.pyflink.table.schema import Schema
from flinkray.pyflink.table.statement_set import StatementSet
from flinkray.pyflink.table.table import (
    GroupedTable,
    GroupWindowedTable,
    OverWindowedTable,
    Table,
    WindowGroupedTable,
)
from flinkray.pyflink.table.table_config import TableConfig
from flinkray.pyflink.table.table_descriptor import FormatDescriptor, TableDescriptor
from flinkray.pyflink.table.table_environment import StreamTableEnvironment, TableEnvironment
from flinkray.pyflink.table.table_result import ResultKind, TableResult
from flinkray.pyflink.table.types import DataTypes
from flinkray.pyflink.table.udf import AggregateFunction, FunctionContext, ScalarFunction, TableFunction
from flinkray.pyflink.unavailable import unavailable
from flinkray.types.rows import Row, RowKind

__all__ = [
    "AggregateFunction",
    "DataTypes",
    "EnvironmentSettings",
    "ExplainDetail",
    "FormatDescriptor",
    "FunctionContext",
    "GroupWindowedTable",
    "GroupedTable",
    "OverWindowedTable",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "Schema",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TableResult",
    "WindowGroupedTable",
]

__getattr__ = unavailable(
    __name__,
    "AsyncScalarFunction BatchTableEnvironment ListView MapView Module ModuleEntry TableAggregateFunction TableSchema "
    "UserDefinedType",
    "there is no such thing in flinkray's tables; docs/limitations.md says what is not there",
)
