"""StreamTableEnvironment: tables of streams, and streams of tables."""

from __future__ import annotations

from typing import Any, Protocol

from flinkray.errors import InvalidProgramError
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.data_stream import DataStream
from flinkray.streams.results import Program
from flinkray.tables.api.queries import Planned
from flinkray.tables.api.schemas import Schema
from flinkray.tables.api.table import Table
from flinkray.tables.environment.environment import TableEnvironment
from flinkray.tables.environment.statements import Runner
from flinkray.tables.lowering.queries import bound_in_braces, changes_of_stream, table_columns
from flinkray.tables.plans.changelogs import changes_of
from flinkray.tables.plans.nodes import row_type
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.types.arrow import stored_schema
from flinkray.types.changelogs import Changes
from flinkray.types.records import Kind, RecordType


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
            schema: columns that are taken, cast to its types, with computed ones and a watermark.
        Raises:
            InvalidProgramError: the types of the stream's columns are not known.
        """
        return self._from_data_stream(data_stream, schema, Changes())

    def from_changelog_stream(
        self, data_stream: DataStream, schema: Schema | None = None, changelog_mode: object = None
    ) -> Table:
        """A table of a stream that is a changelog: of `Row`s with kinds, or what `as_changelog` gave.

        Args:
            changelog_mode: taken for PyFlink's programs; all kinds of rows may come.
        """
        return self._from_data_stream(data_stream, schema, Changes(updates=True, deletes=True))

    def _from_data_stream(
        self, stream: DataStream, schema: Schema | None, changes: Changes, name: str = "the stream"
    ) -> Table:
        if stream._environment is not self._environment:
            raise InvalidProgramError("the stream belongs to another environment")
        columns = table_columns(name, stream.record_type)
        rows = row_type([each.name for each in columns], [each.type for each in columns])
        found = self._from_stream(stream._transformation, rows, not changes.is_insert_only)
        return found if schema is None else self._with_schema(found, schema)

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
        self, table: Table, target_schema: object = None, changelog_mode: object = None
    ) -> DataStream:
        """A stream of a table's rows, each with what it does: a changelog, unless they are inserts.

        Args:
            target_schema, changelog_mode: what PyFlink's programs may give; only None is taken.
        """
        if target_schema is not None or changelog_mode is not None:
            raise InvalidProgramError("to_changelog_stream gives the table's own columns, with all kinds of rows")
        query = table._query
        program = self._program([query.plan], [(query.statement, query.sql)])
        rows = program.rows(query.plan, query.statement, query.sql)
        record_type = RecordType(Kind.ROW, stored_schema(query.plan.row_type))
        return DataStream(self._environment, rows, KnownType.of(record_type))

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Table | DataStream, *fields_or_schema: Any
    ) -> None:
        """Makes a table or a stream known by a name."""
        found = table_or_data_stream
        if isinstance(found, DataStream):
            found = self.from_data_stream(found, *fields_or_schema)
        super().create_temporary_view(view_path, found)
