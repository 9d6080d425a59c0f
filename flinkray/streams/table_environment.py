"""StreamTableEnvironment: tables of streams, and streams of tables."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.data_stream import DataStream
from flinkray.streams.results import Program
from flinkray.tables.api.expression import Expression
from flinkray.tables.api.queries import Planned, reference
from flinkray.tables.api.schemas import Schema
from flinkray.tables.api.table import Table
from flinkray.tables.environment.environment import TableEnvironment
from flinkray.tables.environment.statements import Runner
from flinkray.tables.lowering.queries import bound_in_braces, changes_of_stream, table_columns
from flinkray.tables.lowering.times import with_event_times
from flinkray.tables.plans.changelogs import changes_of
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import row_type
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.plans.upsert_keys import upsert_keys
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.expressions import Cast
from flinkray.tables.types.arrow import stored_schema
from flinkray.types.changelogs import ChangelogMode, Changes
from flinkray.types.records import Kind, RecordType

_ROWTIME = "rowtime"
"""The metadata of a stream that is its event time."""


def _takes_event_time(schema: Schema) -> bool:
    return any(isinstance(column, syntax.MetadataColumn) for column in schema.columns)


def with_metadata(stream: DataStream, schema: Schema | None) -> DataStream:
    """The stream with a column for what a schema takes of its metadata, which is its event time.

    Raises:
        InvalidProgramError: the stream has no such metadata, or a column of that name.
    """
    for column in () if schema is None else schema.columns:
        if not isinstance(column, syntax.MetadataColumn):
            continue
        name = column.name.text
        if (column.key or name) != _ROWTIME:
            raise InvalidProgramError(
                f"column {name!r}: a stream has no metadata {column.key or name!r}, but rowtime, its event time"
            )
        if name in (stream._known.columns or ()):
            raise InvalidProgramError(f"column {name!r} is one of the stream: call its event time otherwise")
        stream = stream._with_event_times_where_read(name)
    return stream


def _check_key(plan: Plan, schema: Schema | None) -> None:
    """
    Raises:
        InvalidProgramError: rows of the plan are not replaced by the key of the schema.
    """
    names = plan.row_type.names
    key = {name.text for each in (() if schema is None else schema.keys) for name in each.columns}
    if not key:
        raise InvalidProgramError("to_changelog_stream: UPSERT replaces rows by a key: Schema...primary_key(...)")
    if not any({names[each] for each in found} <= key for found in upsert_keys(plan)):
        raise InvalidProgramError(
            f"to_changelog_stream: UPSERT: rows of the table are not told apart by {', '.join(sorted(key))}"
        )


class StreamRunner(Program, Runner, Protocol):
    """What tables and streams need of the StreamExecutionEnvironment that they share."""


class StreamTableEnvironment(TableEnvironment):
    """Tables over the streams of an environment: `env.tables`."""

    def __init__(self, environment: StreamRunner) -> None:
        super().__init__(environment)
        self._environment = environment

    def from_data_stream(self, data_stream: DataStream, schema: Schema | None = None) -> Table:
        """A table of a stream's rows, which are inserts.

        Args:
            schema: columns that are taken, cast to its types, with computed ones and a watermark; a METADATA column
                `rowtime` is the event time, and SOURCE_WATERMARK() are the watermarks that come.
        Raises:
            InvalidProgramError: the types of the stream's columns are not known, or it has no such metadata.
        """
        return self._from_data_stream(data_stream, schema, Changes())

    def from_changelog_stream(
        self, data_stream: DataStream, schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> Table:
        """A table of a stream that is a changelog: of `Row`s with kinds, or what `as_changelog` gave.

        Args:
            changelog_mode: of UPSERT, updates come without -U, and the schema has a key that tells what they replace.
        """
        is_upsert = changelog_mode is ChangelogMode.UPSERT
        if is_upsert and (schema is None or not schema.keys):
            raise InvalidProgramError("from_changelog_stream: UPSERT replaces rows by a key: Schema...primary_key(...)")
        changes = Changes() if changelog_mode is ChangelogMode.INSERT_ONLY else Changes(updates=True, deletes=True)
        return self._from_data_stream(data_stream, schema, replace(changes, before=not is_upsert))

    def _from_data_stream(
        self, stream: DataStream, schema: Schema | None, changes: Changes, name: str = "the stream"
    ) -> Table:
        if stream._environment is not self._environment:
            raise InvalidProgramError("the stream belongs to another environment")
        stream = with_metadata(stream, schema)
        columns = table_columns(name, stream.record_type)
        rows = row_type([each.name for each in columns], [each.type for each in columns])
        found = self._from_stream(stream._transformation, rows, not changes.is_insert_only)
        return found if schema is None else self._with_schema(found, schema, changes.before)

    def over(self, query: str, /, **tables: Any) -> Table:
        """The table of a query, in which names, in braces or not, are those of streams, `Table`s, DataFrames, and what
        `from_arrow` takes: `over("SELECT * FROM {orders}", orders=frame)`. Other names are those of the catalog.

        Raises:
            SqlError: the query is wrong; shows where.
            InvalidProgramError: the types of a stream's columns are not known.
        """
        plans = {name: self._table_of(name, each)._plan for name, each in tables.items()}
        statement, plan = bound_in_braces(query, self.catalog, plans)
        return Table(self, Planned(plan, statement, query))

    def _table_of(self, name: str, given: Any) -> Table:
        if isinstance(given, Table):
            return given
        if not isinstance(given, DataStream):
            is_frame = type(given).__module__.partition(".")[0] == "pandas"
            return self.from_pandas(given) if is_frame else self.from_arrow(given)
        if given._environment is not self._environment:
            raise InvalidProgramError(f"sql: stream {name!r} belongs to another environment")
        changes = changes_of_stream(given._transformation)
        return self._from_data_stream(given, None, changes, f"stream {name!r}")

    def to_data_stream(self, table: Table) -> DataStream:
        """A stream of a table's rows, which has to be one of inserts.

        Raises:
            SqlUnsupportedError: the query cannot be executed yet; shows what of it.
            InvalidProgramError: its rows are updated, so that they are a changelog.
        """
        changes = changes_of(optimized(table._plan))
        if not changes.is_insert_only:
            raise InvalidProgramError(
                f"to_data_stream takes tables whose rows stay as they are, and those of this one change ({changes}); "
                "to_changelog_stream takes them"
            )
        return self.to_changelog_stream(table)

    def to_changelog_stream(
        self, table: Table, target_schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataStream:
        """A stream of a table's rows, each with what it does: a changelog, unless they are inserts.

        Args:
            target_schema: the columns of the stream, cast to its types; where it has other names, by their places. A
                METADATA column `rowtime` is the event time; computed columns are left out.
            changelog_mode: of UPSERT, a -U takes its row away, and is there only behind a filter, which may keep the
                new row back; elsewhere +U replaces the row. INSERT_ONLY takes tables whose rows stay as they are.
        Raises:
            SqlError: a column is not there, or its type does not fit.
            InvalidProgramError: rows are updated, and the mode has no updates; or UPSERT has no key.
        """
        mode = changelog_mode or ChangelogMode.ALL
        if target_schema is not None:
            table = self._cast_to(table, target_schema)
        plan = optimized(table._plan)
        changes = changes_of(plan)
        if mode is ChangelogMode.INSERT_ONLY and not changes.is_insert_only:
            raise InvalidProgramError(
                f"to_changelog_stream: rows of the table change ({changes}): INSERT_ONLY has none"
            )
        if mode is ChangelogMode.UPSERT:
            _check_key(plan, target_schema)
        query = table._query
        program = self._program([query.plan], [(query.statement, query.sql)])
        rows = program.rows(query.plan, query.statement, query.sql, before=mode is not ChangelogMode.UPSERT)
        kind = query.plan.row_type
        if target_schema is not None and _takes_event_time(target_schema):
            rows = with_event_times(rows, _ROWTIME, 0, drops=True)
            kind = row_type(kind.names[:-1], kind.types[:-1])
        return DataStream(self._environment, rows, KnownType.of(RecordType(Kind.ROW, stored_schema(kind))))

    def _cast_to(self, table: Table, schema: Schema) -> Table:
        """The columns of a schema; the one that is the event time comes last."""
        taken = [column for column in schema.columns if not isinstance(column, syntax.ComputedColumn)]
        names = [column.name.text for column in taken]
        if not set(names) <= set(table.columns) and len(names) == len(table.columns):
            table = table.alias(*names)
        columns, last = [], []
        for column, name in zip(taken, names, strict=True):
            if isinstance(column, syntax.PhysicalColumn):
                own, cast = (Expression(each) for each in (reference(name), Cast(reference(name), column.type)))
                kinds = [table.select(each).row_type.types[0].as_nullable() for each in (own, cast)]
                # A cast that changes nothing would hide that rows have the key of the column.
                columns.append((own if kinds[0] == kinds[1] else cast).alias(name))
            elif isinstance(column, syntax.MetadataColumn) and (column.key or name) == _ROWTIME:
                last.append(Expression(reference(name)).alias(_ROWTIME))
            else:
                raise InvalidProgramError(
                    f"to_changelog_stream: a stream has no column {name!r} beside its own and rowtime"
                )
        return table.select(*columns, *last)

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Table | DataStream, *fields_or_schema: Any
    ) -> None:
        """Makes a table or a stream known by a name."""
        found = table_or_data_stream
        if isinstance(found, DataStream):
            found = self.from_data_stream(found, *fields_or_schema)
        super().create_temporary_view(view_path, found)
