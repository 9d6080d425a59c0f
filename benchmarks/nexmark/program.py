"""Nexmark's queries as programs of flinkray."""

from __future__ import annotations

import functools

import pyarrow as pa

from benchmarks.nexmark.answers import Answer, folded
from benchmarks.nexmark.queries import SIDE_INPUT_ROWS, Query, table_statements
from flinkray import DataStream, Source, StreamExecutionEnvironment, WatermarkStrategy
from flinkray.streams.checks.known_types import KnownType
from flinkray.tables.binding.binder import Binder, execute_ddl
from flinkray.tables.catalog import Catalog
from flinkray.tables.lowering.contract import Unexecutable
from flinkray.tables.lowering.lowering import PlanLowering
from flinkray.tables.lowering.refusals import refusal
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.plans.rules.row_fields import fields_read
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.syntax.statements import QueryStatement
from flinkray.tables.types.arrow import stored_schema
from flinkray.types.records import Kind, RecordType

KIND = "row_kind"
"""The column of what each row of an answer does."""


@functools.cache
def catalog() -> Catalog:
    """Nexmark's tables and views."""
    made = Catalog()
    for statement in table_statements().values():
        execute_ddl(made, statement)
    return made


def query_plan(query: Query) -> tuple[QueryStatement, Plan]:
    """A query as it is written, and its plan."""
    statement = parse_statement(query.sql)
    assert isinstance(statement, QueryStatement)
    return statement, optimized(Binder(catalog(), query.sql).query(statement))


def query_stream(env: StreamExecutionEnvironment, query: Query, events: Source) -> DataStream:
    """The rows of a query over a source of events.

    Raises:
        SqlUnsupportedError: it cannot be executed yet; says why.
    """
    statement, plan = query_plan(query)
    events = events.reading(fields_read(plan)[catalog().path(("events",))])
    side_input = pa.table({"key": range(SIDE_INPUT_ROWS), "value": [str(each) for each in range(SIDE_INPUT_ROWS)]})
    streams = {
        "events": env.from_source(events, WatermarkStrategy.no_watermarks(), "events"),
        "side_input": env.from_arrow(side_input, name="side_input"),
    }
    tables = {catalog().path((name,)): stream._transformation for name, stream in streams.items()}
    try:
        transformation = PlanLowering(tables).of(plan)
    except Unexecutable as error:
        raise refusal(error, statement, query.sql) from None
    return DataStream(env, transformation, KnownType.of(RecordType(Kind.ROW, stored_schema(plan.row_type))))


def stream_answer(env: StreamExecutionEnvironment, query: Query, events: Source) -> Answer:
    """The rows that a query comes to.

    Raises:
        SqlUnsupportedError: it cannot be executed yet; says why.
        WrongChangelog: a row is taken back that is not there.
    """
    rows = query_stream(env, query, events).kinds_as_column(KIND).to_arrow()
    kinds = rows.column(KIND).to_pylist()
    columns = [rows.column(place).to_pylist() for place in range(rows.num_columns - 1)]
    return folded(zip(kinds, zip(*columns, strict=True), strict=True), query)
