"""`pyflink.table.table_environment`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa

from flinkray.errors import InvalidProgramError
from flinkray.pyflink.datastream.data_stream import DataStream
from flinkray.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.table.catalog import NO_MODELS, Catalog, CatalogDescriptor
from flinkray.pyflink.table.environment_settings import EnvironmentSettings
from flinkray.pyflink.table.explain_detail import ExplainDetail
from flinkray.pyflink.table.stream_fields import EVENT_TIME, StreamField, columns_of
from flinkray.pyflink.table.table_config import TableConfig
from flinkray.pyflink.table.table_result import TableResult
from flinkray.pyflink.unavailable import refused
from flinkray.streams import data_stream, table_environment
from flinkray.tables import catalog as catalogs
from flinkray.tables.api.expression import Expression
from flinkray.tables.api.schemas import Schema, TableDescriptor
from flinkray.tables.api.table import Table
from flinkray.tables.environment.changes import Changes as CatalogChanges
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.names import Name
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.syntax.unparsing.statements import statement_text
from flinkray.types.changelogs import ChangelogMode, Changes
from flinkray.types.records import Kind
from flinkray.types.rows import Row
from flinkray.types.value_types import has_rows, with_rows

__all__ = ["StreamTableEnvironment", "TableEnvironment"]

__getattr__ = imported(__name__)

_ONE_MODULE = "there is one module, core, and it is always used"
_KIND = "op"
"""The column that says what a row does."""


class TableEnvironment(table_environment.StreamTableEnvironment):
    """flinkray's, by PyFlink's names. Made with `TableEnvironment.create(settings)`."""

    _result_type = TableResult

    def __init__(self, environment: StreamExecutionEnvironment, settings: Any = None) -> None:
        super().__init__(environment)
        self._code = environment
        self._config = TableConfig(environment)
        if isinstance(settings, EnvironmentSettings):
            self.catalog = catalogs.Catalog(settings.get_built_in_catalog_name(), settings.get_built_in_database_name())

    @staticmethod
    def create(environment_settings: Any = None) -> TableEnvironment:
        """
        Raises:
            InvalidProgramError: it is given an environment of streams.
        """
        if isinstance(environment_settings, StreamExecutionEnvironment):
            raise InvalidProgramError(
                "TableEnvironment.create takes EnvironmentSettings or a Configuration; tables over the streams of an "
                "environment are those of StreamTableEnvironment.create(env)"
            )
        return TableEnvironment(_environment(environment_settings), environment_settings)

    def from_elements(self, elements: Iterable[Any], schema: Any = None, verify_schema: bool = True) -> Table:
        """A table of Python values; where nothing names the columns of tuples, they are _1, _2, ..."""
        rows = list(elements)
        found = super().from_elements(rows, schema, verify_schema)
        has_names = any(
            isinstance(each, dict | Expression) or (isinstance(each, Row) and each._is_named) for each in rows
        )
        if schema is not None or has_names:
            return found
        return found.alias(*(f"_{place}" for place in range(1, len(found.columns) + 1)))

    def create_table(self, path: str, descriptor: TableDescriptor, ignoreIfExists: bool = False) -> bool:
        return super().create_table(path, descriptor, ignoreIfExists)

    def create_temporary_table(self, path: str, descriptor: TableDescriptor, ignoreIfExists: bool = False) -> None:
        super().create_temporary_table(path, descriptor, ignoreIfExists)

    def create_catalog(self, catalog_name: str, catalog_descriptor: CatalogDescriptor) -> None:
        """CREATE CATALOG of a catalog in memory."""
        options = tuple(catalog_descriptor.get_configuration().to_dict().items())
        self._change(syntax.CreateCatalog(Name(catalog_name), options, catalog_descriptor.get_comment()))

    def get_catalog(self, catalog_name: str) -> Catalog | None:
        """What a catalog has; None: there is none of that name."""
        return Catalog(self, catalog_name) if catalog_name in self.catalog.catalogs() else None

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

    def create_java_function(
        self, path: str, function_class_name: str, ignore_if_exists: bool | None = None
    ) -> NoReturn:
        raise InvalidProgramError(f"{function_class_name} is a class of Java: write the function in Python, with udf")

    def create_java_temporary_function(self, path: str, function_class_name: str) -> NoReturn:
        self.create_java_function(path, function_class_name)

    def create_java_temporary_system_function(self, name: str, function_class_name: str) -> NoReturn:
        self.create_java_function(name, function_class_name)

    def register_catalog(self, catalog_name: str, catalog: object) -> NoReturn:
        raise InvalidProgramError("catalogs are in memory: create_catalog(name, CatalogDescriptor.of(name, ...))")

    def drop_temporary_system_function(self, name: str) -> bool:
        return self.drop_function(name)

    def drop_temporary_view(self, view_path: str) -> bool:
        return self.drop_temporary_table(view_path)

    def drop_view(self, view_path: str, ignore_if_not_exists: bool = True) -> bool:
        return self.drop_table(view_path, ignore_if_not_exists)

    load_module = refused("load_module", _ONE_MODULE)
    unload_module = refused("unload_module", _ONE_MODULE)
    use_modules = refused("use_modules", _ONE_MODULE)
    list_full_modules = refused("list_full_modules", _ONE_MODULE)
    create_model = refused("create_model", NO_MODELS)
    create_temporary_model = refused("create_temporary_model", NO_MODELS)
    drop_model = refused("drop_model", NO_MODELS)
    drop_temporary_model = refused("drop_temporary_model", NO_MODELS)

    def list_modules(self) -> list[str]:
        return ["core"]

    def list_models(self) -> list[str]:
        return []

    list_temporary_models = list_models
    list_materialized_tables = list_models

    def _change(self, node: syntax.Statement) -> None:
        """Carries out a statement that changes a catalog."""
        sql = statement_text(node)
        statement = parse_statement(sql)
        assert isinstance(statement, syntax.Statement)
        CatalogChanges(self.catalog, sql, self._load_function).change(statement)


class StreamTableEnvironment(TableEnvironment):
    """A TableEnvironment over the streams of a StreamExecutionEnvironment."""

    @staticmethod
    def create(  # type: ignore[override]  # PyFlink's own signatures
        stream_execution_environment: Any = None, environment_settings: Any = None
    ) -> StreamTableEnvironment:
        if isinstance(stream_execution_environment, StreamExecutionEnvironment):
            if environment_settings is not None:
                stream_execution_environment.configure(_options(environment_settings))
            return StreamTableEnvironment(stream_execution_environment, environment_settings)
        settings = environment_settings or stream_execution_environment
        return StreamTableEnvironment(_environment(settings), settings)

    def from_data_stream(self, data_stream: data_stream.DataStream, *fields_or_schema: Any) -> Table:
        """A table of a stream, with the columns of a schema or those that expressions choose: by their names where one
        is a column or has an alias, otherwise by their places. `col("t").rowtime` is the event time of rows, as a time
        of UTC, and `col("p").proctime` the clock."""
        if not fields_or_schema or isinstance(fields_or_schema[0], Schema):
            return super().from_data_stream(data_stream, *fields_or_schema)
        if not all(isinstance(each, Expression) for each in fields_or_schema):
            raise InvalidProgramError("from_data_stream takes a Schema, or columns: col('a'), col('b')")
        chosen = [StreamField.of(each) for each in fields_or_schema]
        if any(each.attribute == "ROWTIME" for each in chosen):
            data_stream = data_stream._with_event_times_where_read(EVENT_TIME, None)
        found = super().from_data_stream(data_stream)
        return found.select(*columns_of(chosen, [name for name in found.columns if name != EVENT_TIME]))

    def _from_data_stream(
        self, stream: data_stream.DataStream, schema: Schema | None, changes: Changes, name: str = "the stream"
    ) -> Table:
        found = super()._from_data_stream(table_environment.with_metadata(stream, schema), None, changes, name)
        if stream.record_type is not None and stream.record_type.kind is Kind.SCALAR:
            found = found.alias("f0")  # what Flink calls the column of bare values
        return found if schema is None else self._with_schema(found, schema, changes.before)

    def to_data_stream(self, table: Table) -> DataStream:
        return DataStream.of(super().to_data_stream(table))

    def to_changelog_stream(
        self, table: Table, target_schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataStream:
        return _with_rows(DataStream.of(super().to_changelog_stream(table, target_schema, changelog_mode)))

    def to_append_stream(self, table: Table, type_info: object = None) -> DataStream:
        """As `to_data_stream`; rows have the table's own types."""
        return self.to_data_stream(table)

    def to_retract_stream(self, table: Table, type_info: object = None) -> DataStream:
        """Pairs: whether a row is added, or is taken back; and the row."""
        named = self.to_changelog_stream(table).kinds_as_column(_KIND)
        return DataStream.of(named).map(_with_flag)


def _options(settings: Any) -> Any:
    """The options that settings, or a TableConfig, have."""
    if isinstance(settings, TableConfig):
        return settings.to_map()
    return settings.options if isinstance(settings, EnvironmentSettings) else settings


def _environment(settings: Any) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(_options(settings))


def _has_names(element: Any) -> bool:
    return isinstance(element, dict | Expression) or (isinstance(element, Row) and element._is_named)


def _with_rows(stream: DataStream) -> DataStream:
    """The stream of a table, to whose functions a ROW within a row is a Row, too."""
    columns = [] if stream.record_type is None else stream.record_type.schema
    schema = pa.schema([field.with_type(with_rows(field.type)) for field in columns])
    if not any(has_rows(field.type) for field in schema):
        return stream
    return DataStream.of(stream.map_batches(partial(pa.RecordBatch.cast, target_schema=schema), output_type=schema))


def _with_flag(row: Row) -> tuple[bool, Row]:
    """Whether a row is added, and the row without the column that says what it does."""
    columns = row.as_dict()
    kind = columns.pop(_KIND)
    return kind in ("+I", "+U"), Row(**columns)
