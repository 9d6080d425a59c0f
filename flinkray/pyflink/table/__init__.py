"""`pyflink.table`: names over flinkray's own tables (`env.tables`), so that PyFlink's programs find them."""

from __future__ import annotations

from typing import Any

from flinkray.pyflink.table.changelog_mode import ChangelogMode
from flinkray.pyflink.table.compiled_plan import CompiledPlan
from flinkray.pyflink.table.data_view import DataView, ListView, MapView
from flinkray.pyflink.table.environment_settings import EnvironmentSettings
from flinkray.pyflink.table.explain_detail import ExplainDetail
from flinkray.pyflink.table.expression import Expression
from flinkray.pyflink.table.plan_reference import PlanReference
from flinkray.pyflink.table.schema import Schema
from flinkray.pyflink.table.sql_dialect import SqlDialect
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
from flinkray.pyflink.table.table_pipeline import TablePipeline
from flinkray.pyflink.table.table_result import ResultKind, TableResult
from flinkray.pyflink.table.table_schema import TableSchema
from flinkray.pyflink.table.types import DataTypes
from flinkray.pyflink.table.udf import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
)
from flinkray.pyflink.unavailable import unavailable
from flinkray.types.rows import Row, RowKind

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "ChangelogMode",
    "CompiledPlan",
    "DataTypes",
    "DataView",
    "EnvironmentSettings",
    "ExplainDetail",
    "Expression",
    "FormatDescriptor",
    "FunctionContext",
    "GroupWindowedTable",
    "GroupedTable",
    "ListView",
    "MapView",
    "OverWindowedTable",
    "PlanReference",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "Schema",
    "SqlDialect",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableAggregateFunction",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TablePipeline",
    "TableResult",
    "TableSchema",
    "WindowGroupedTable",
]

_of_older_versions = unavailable(
    __name__,
    "BatchTableEnvironment CsvTableSink CsvTableSource TableSink TableSource WriteMode",
    "PyFlink has no such thing any more; tables are declared with CREATE TABLE or TableDescriptor.for_connector, in "
    "TableEnvironment.create(EnvironmentSettings.in_batch_mode()) or in_streaming_mode()",
)


def __getattr__(name: str) -> Any:
    try:
        return _of_older_versions(name)
    except AttributeError:
        return _missing(name)


_missing = unavailable(
    __name__,
    "Module ModuleEntry UserDefinedType",
    "there is no such thing in flinkray's tables; docs/limitations.md says what is not there",
)
