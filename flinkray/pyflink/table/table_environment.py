"""`pyflink.table.table_environment`."""

from __future__ import annotations

from typing import Any, NoReturn

from flinkray.errors import InvalidProgramError
from flinkray.pyflink.datastream.data_stream import DataStream
from flinkray.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkray.pyflink.table.environment_settings import EnvironmentSettings
from flinkray.pyflink.table.explain_detail import ExplainDetail
from flinkray.pyflink.table.table_config import TableConfig
from flinkray.streams import data_stream, table_environment
from flinkray.tables.api.expression import Expression
from flinkray.tables.api.schemas import Schema
from flinkray.tables.api.table import Table
from flinkray.types.changelogs import Changes
from flinkray.types.records import Kind

__all__ = ["StreamTableEnvironment", "TableEnvironment"]


class TableEnvironment(table_environment.StreamTableEnvironment):
    """flinkray's, by PyFlink's names. Made with `TableEnvironment.create(settings)`."""

    def __init__(self, environment: StreamExecutionEnvironment) -> None:
        super().__init__(environment)
        self._code = environment
        self._config = TableConfig(environment)

    @staticmethod
    def create(environment_settings: Any = None) -> TableEnvironment:
        return TableEnvironment(_environment(environment_settings))

    def get_config(self) -> TableConfig:
        return self._config

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:  # type: ignore[override]
        return super().explain_sql(stmt, *(each.name for each in extra_details))

    def add_python_file(self, file_path: str) -> None:
        """As `StreamExecutionEnvironment.add_python_file`."""
        self._code.add_python_file(file_path)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """As `StreamExecutionEnvironment.set_python_requirements`."""
        self._code.set_python_requirements(requirements_file_path, requirements_cache_dir)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """As `StreamExecutionEnvironment.add_python_archive`."""
        self._code.add_python_archive(archive_path, target_dir)


class StreamTableEnvironment(TableEnvironment):
    """A TableEnvironment over the streams of a StreamExecutionEnvironment."""

    @staticmethod
    def create(  # type: ignore[override]  # PyFlink's own signatures
        stream_execution_environment: Any = None, environment_settings: Any = None
    ) -> StreamTableEnvironment:
        if isinstance(stream_execution_environment, StreamExecutionEnvironment):
            if environment_settings is not None:
                stream_execution_environment.configure(environment_settings.options)
            return StreamTableEnvironment(stream_execution_environment)
        return StreamTableEnvironment(_environment(environment_settings or stream_execution_environment))

    def from_data_stream(self, data_stream: data_stream.DataStream, *fields_or_schema: Any) -> Table:
        """A table of a stream; with expressions, of these columns under these names."""
        if not fields_or_schema or isinstance(fields_or_schema[0], Schema):
            return super().from_data_stream(data_stream, *fields_or_schema)
        found = super().from_data_stream(data_stream)
        if not all(isinstance(each, Expression) for each in fields_or_schema):
            raise InvalidProgramError("from_data_stream takes a Schema, or columns: col('a'), col('b')")
        return found.alias(*fields_or_schema)

    def _from_data_stream(
        self, stream: data_stream.DataStream, schema: Schema | None, changes: Changes, name: str = "the stream"
    ) -> Table:
        found = super()._from_data_stream(stream, None, changes, name)
        if stream.record_type is not None and stream.record_type.kind is Kind.SCALAR:
            found = found.alias("f0")  # what Flink calls the column of bare values
        return found if schema is None else self._with_schema(found, schema)

    def to_data_stream(self, table: Table) -> DataStream:
        return DataStream.of(super().to_data_stream(table))

    def to_changelog_stream(
        self, table: Table, target_schema: object = None, changelog_mode: object = None
    ) -> DataStream:
        return DataStream.of(super().to_changelog_stream(table, target_schema, changelog_mode))

    def to_append_stream(self, table: Table, type_info: object = None) -> DataStream:
        """As `to_data_stream`; rows have the table's own types."""
        return self.to_data_stream(table)

    def to_retract_stream(self, table: Table, type_info: object = None) -> NoReturn:
        raise InvalidProgramError("to_retract_stream: to_changelog_stream gives rows that say what they do")


def _environment(settings: Any) -> StreamExecutionEnvironment:
    options = settings.options if isinstance(settings, EnvironmentSettings) else settings
    return StreamExecutionEnvironment.get_execution_environment(options)
