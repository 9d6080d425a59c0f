"""Queries over streams by name, from their text to transformations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flinkray.config.configuration import Configuration
from flinkray.config.options import AGG_PHASE_STRATEGY, RUNTIME_MODE
from flinkray.config.table_options import (
    ASYNC_AT_ONCE,
    ASYNC_ATTEMPTS,
    ASYNC_DELAY,
    ASYNC_RETRIES,
    ASYNC_TIMEOUT,
    CDC_DUPLICATES,
    DYNAMIC_OPTIONS,
    KEYED_SHUFFLE,
    LOCAL_TIME_ZONE,
    MINI_BATCH,
    MINI_BATCH_LATENCY,
    MINI_BATCH_SIZE,
    NOT_NULL_ENFORCER,
    REQUIRE_ON_CONFLICT,
    ROW_BY_ROW,
    SOURCE_IDLE_TIMEOUT,
    STATE_TTL,
    TYPE_LENGTH_ENFORCER,
    UPSERT_MATERIALIZE,
)
from flinkray.errors import ConfigurationError, InvalidProgramError, SqlError, SqlValidationError, did_you_mean
from flinkray.tables.binding.binder import Binder
from flinkray.tables.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, Catalog
from flinkray.tables.lowering.contract import SinkOptions, TableOptions, Unexecutable
from flinkray.tables.lowering.lowering import PlanLowering
from flinkray.tables.lowering.refusals import refusal
from flinkray.tables.lowering.times import rowtime_of
from flinkray.tables.plans.explain import explain
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.plans.rules.time_zones import in_time_zone
from flinkray.tables.plans.tables import Table, TableColumn, TablePath
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.syntax.statements import QueryStatement
from flinkray.tables.types.arrow import from_arrow, stored_schema
from flinkray.tables.user_functions import Awaiting
from flinkray.transformations.operator_factories import OBJECTS_IN_ARROW, ChangelogRole, changelog_role
from flinkray.transformations.transformation import PhysicalTransformation, Transformation
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.records import Kind, Millis, RecordType

_BRACES = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|\{([^\W\d]\w*)\}", re.DOTALL)
"""A name in braces, and what braces mean nothing in: strings, names in backticks, comments. A number in braces says how
many rows a variable of MATCH_RECOGNIZE takes."""
Stream = tuple[Transformation, RecordType | None]
"""A stream and what is known of the type of its records."""


def planned(
    query: str, streams: Mapping[str, Stream], options: TableOptions | None = None
) -> tuple[Transformation, RecordType]:
    """The rows of a query over streams by name, which may stand in braces; and their type.

    Raises:
        SqlError: the query is wrong, or cannot be executed yet; shows where.
        InvalidProgramError: the columns of a stream are not known, or SQL has no type for one.
    """
    statement, plan = _bound(query, streams)
    tables = {_path(name): transformation for name, (transformation, _) in streams.items()}
    try:
        options = options or TableOptions()
        transformation = PlanLowering(tables, options).of(in_time_zone(plan, options.time_zone))
    except Unexecutable as error:
        raise refusal(error, statement, query) from None
    return transformation, RecordType(Kind.ROW, stored_schema(plan.row_type))


def options_of(configuration: Configuration) -> TableOptions:
    """What a program has set for its queries.

    Raises:
        ConfigurationError: options do not fit each other.
    """
    least_rows, wait_ms = _mini_batch(configuration)
    return TableOptions(
        state_ttl_ms=configuration.get(STATE_TTL),
        is_batch=configuration.get(RUNTIME_MODE) == "batch",
        idle_timeout_ms=configuration.get(SOURCE_IDLE_TIMEOUT),
        phases="ONE_PHASE" if least_rows == 1 else configuration.get(AGG_PHASE_STRATEGY),
        time_zone=configuration.get(LOCAL_TIME_ZONE),
        least_rows=least_rows,
        wait_ms=wait_ms,
        has_duplicates=configuration.get(CDC_DUPLICATES),
        takes_table_options=configuration.get(DYNAMIC_OPTIONS),
        sinks=SinkOptions(
            nulls=configuration.get(NOT_NULL_ENFORCER),
            lengths=configuration.get(TYPE_LENGTH_ENFORCER),
            materialize=configuration.get(UPSERT_MATERIALIZE),
            shuffle=configuration.get(KEYED_SHUFFLE),
            refuses_conflicts=configuration.get(REQUIRE_ON_CONFLICT),
        ),
        awaiting=Awaiting(
            at_once=configuration.get(ASYNC_AT_ONCE),
            timeout_ms=configuration.get(ASYNC_TIMEOUT),
            attempts=configuration.get(ASYNC_ATTEMPTS) if configuration.get(ASYNC_RETRIES) == "FIXED_DELAY" else 1,
            delay_ms=configuration.get(ASYNC_DELAY),
        ),
    )


def _mini_batch(configuration: Configuration) -> tuple[int, Millis]:
    """How many rows wait for each other, and how long, as `TableOptions` has them."""
    if configuration.get(ROW_BY_ROW):
        if configuration.get(MINI_BATCH):
            raise ConfigurationError(
                f"{ROW_BY_ROW.key} and {MINI_BATCH.key} are both set: rows are processed one by one, or together"
            )
        return 1, Millis(0)
    if not configuration.get(MINI_BATCH):
        return 0, Millis(0)
    size, latency = configuration.get(MINI_BATCH_SIZE), configuration.get(MINI_BATCH_LATENCY)
    for option, value in ((MINI_BATCH_SIZE, size), (MINI_BATCH_LATENCY, latency)):
        if value <= 0:
            raise ConfigurationError(f"{MINI_BATCH.key} needs {option.key} above 0, and it is {value}")
    return size, latency


def explained(query: str, streams: Mapping[str, Stream]) -> str:
    """The plan of a query as text, whether or not it can be executed; errors as of `planned`."""
    return explain(_bound(query, streams)[1])


def _bound(query: str, streams: Mapping[str, Stream]) -> tuple[QueryStatement, Plan]:
    """The query as it is written, and its plan."""
    catalog = Catalog()
    for name, (transformation, record_type) in streams.items():
        columns = table_columns(f"stream {name!r}", record_type)
        changes = changes_of_stream(transformation)
        catalog.add(Table(_path(name), columns, rowtime_of(transformation, columns), changes=changes))
    statement, plan = bound_in_braces(query, catalog, dict.fromkeys(streams))
    return statement, optimized(plan)


def bound_in_braces(query: str, catalog: Catalog, tables: Mapping[str, Plan | None]) -> tuple[QueryStatement, Plan]:
    """A query whose tables may stand in braces, and its plan.

    Args:
        tables: the plans that names in braces are, which names without are too; None: of a table in the catalog.
    Raises:
        SqlError: the query is wrong; shows where.
    """
    # As long as the name in braces, so that places in the query stay what they are.
    sql = _BRACES.sub(lambda found: f"`{_known(found, query, tables)}`" if found[1] else found[0], query)
    plans = {name: plan for name, plan in tables.items() if plan is not None}
    try:
        statement = parse_statement(sql)
        if not isinstance(statement, QueryStatement):
            raise SqlValidationError("this takes a query: SELECT, VALUES or TABLE", sql, 0, len(sql))
        return statement, Binder(catalog, sql, plans).query(statement)
    except SqlError as error:
        raise type(error)(error.message, query, error.start, error.end) from error.__cause__


def changes_of_stream(stream: Transformation) -> Changes:
    """What the rows of a stream do, as far as it is known."""
    return Changes(updates=True, deletes=True) if _is_changelog(stream) else INSERTS


def _is_changelog(stream: Transformation) -> bool:
    """Whether rows of the stream may update and delete earlier ones."""
    if isinstance(stream, PhysicalTransformation):
        role = changelog_role(stream.factory)
        if role is not ChangelogRole.KEEPS:
            return role in (ChangelogRole.BEGINS, ChangelogRole.MAKES)
    return any(map(_is_changelog, stream.inputs))


def _path(name: str) -> TablePath:
    return (DEFAULT_CATALOG, DEFAULT_DATABASE, name)


def _known(found: re.Match[str], query: str, streams: Mapping[str, Any]) -> str:
    name = found[1]
    if name not in streams:
        message = f"there is no stream {name!r}{did_you_mean(name, streams)}; give it as {name}=..."
        raise SqlValidationError(message, query, found.start(), found.end())
    return name


def table_columns(name: str, record_type: RecordType | None) -> tuple[TableColumn, ...]:
    """A stream's columns as those of a table. Event times are none of them.

    Args:
        name: what errors call the stream.
    Raises:
        InvalidProgramError: the columns are not known, or SQL has no type for one.
    """
    if record_type is None:
        raise InvalidProgramError(
            f"sql: the types of the columns of {name} are not known before it runs, and SQL needs them: give "
            "the output_type= of the function before, a pa.schema say; behind operations on columns, "
            "map_batches(lambda rows: rows, output_type=...); of the input of a harness, type_info="
        )
    if record_type.kind is Kind.OBJECT:
        raise InvalidProgramError(f"sql: {name}: {OBJECTS_IN_ARROW}")
    columns = []
    for field in record_type.schema:
        try:
            columns.append(TableColumn(field.name, from_arrow(field.type)))
        except ValueError as error:
            raise InvalidProgramError(f"sql: column {field.name!r} of {name}: {error}") from error
    return tuple(columns)
