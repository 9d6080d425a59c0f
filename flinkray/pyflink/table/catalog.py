"""`pyflink.table.catalog`: what a catalog has, and the descriptions of databases, tables and functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common.configuration import Configuration
from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import refused, unavailable
from flinkray.tables import catalog as catalogs
from flinkray.tables.api.schemas import ResolvedSchema, Schema, TableDescriptor
from flinkray.tables.catalog import ObjectIdentifier, ObjectPath, View
from flinkray.tables.environment.create_texts import create_table_text
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.parsing.parser import parse_statement

__all__ = [
    "Catalog",
    "CatalogBaseTable",
    "CatalogDatabase",
    "CatalogDescriptor",
    "CatalogFunction",
    "ObjectIdentifier",
    "ObjectPath",
    "ResolvedSchema",
]


_NO_PARTITIONS = "tables have no list of partitions: those of files are directories"
_NO_STATISTICS = "there are no statistics of tables"
NO_MODELS = "there are no models: call one in a function of your own"


class CatalogDescriptor:
    """What CREATE CATALOG says."""

    def __init__(self, catalog_name: str, configuration: Configuration, comment: str | None = None) -> None:
        self._name = catalog_name
        self._configuration = configuration
        self._comment = comment

    @staticmethod
    def of(catalog_name: str, configuration: Configuration, comment: str | None = None) -> CatalogDescriptor:
        return CatalogDescriptor(catalog_name, configuration, comment)

    def get_catalog_name(self) -> str:
        return self._name

    def get_configuration(self) -> Configuration:
        return self._configuration

    def get_comment(self) -> str | None:
        return self._comment


class _Described:
    """Base of what has properties and a comment."""

    def __init__(self, properties: Mapping[str, str], comment: str | None) -> None:
        self._properties = dict(properties)
        self._comment = comment

    def get_comment(self) -> str | None:
        return self._comment

    def get_description(self) -> str | None:
        return self._comment

    def get_detailed_description(self) -> str | None:
        return self._comment


class CatalogDatabase(_Described):
    """A database of a catalog."""

    @staticmethod
    def create_instance(properties: Mapping[str, str], comment: str | None = None) -> CatalogDatabase:
        return CatalogDatabase(properties, comment)

    def get_properties(self) -> dict[str, str]:
        return dict(self._properties)

    def copy(self) -> CatalogDatabase:
        return CatalogDatabase(self._properties, self._comment)


class CatalogBaseTable(_Described):
    """A table or view of a catalog."""

    def __init__(
        self,
        schema: Schema,
        properties: Mapping[str, str],
        comment: str | None = None,
        partition_keys: Sequence[str] = (),
        query: str | None = None,
    ) -> None:
        super().__init__(properties, comment)
        self._schema = schema
        self.partition_keys = tuple(partition_keys)
        self.query = query
        """The text of a view; None: it is a table."""

    @staticmethod
    def create_table(
        schema: Schema | ResolvedSchema,
        partition_keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> CatalogBaseTable:
        return CatalogBaseTable(_unresolved(schema), properties or {}, comment, partition_keys)

    @staticmethod
    def create_view(
        original_query: str,
        expanded_query: str,
        schema: Schema | ResolvedSchema,
        properties: Mapping[str, str],
        comment: str | None = None,
    ) -> CatalogBaseTable:
        return CatalogBaseTable(_unresolved(schema), properties, comment, query=expanded_query or original_query)

    def get_options(self) -> dict[str, str]:
        return dict(self._properties)

    def get_unresolved_schema(self) -> Schema:
        return self._schema

    def copy(self) -> CatalogBaseTable:
        return CatalogBaseTable(self._schema, self._properties, self._comment, self.partition_keys, self.query)


def _unresolved(schema: Schema | ResolvedSchema) -> Schema:
    return Schema.of(schema.row_type) if isinstance(schema, ResolvedSchema) else schema


class CatalogFunction:
    """A function of Python by the name that it is imported by."""

    def __init__(self, class_name: str, function_language: str = "Python") -> None:
        self._class_name = class_name
        self._language = function_language

    @staticmethod
    def create_instance(class_name: str, function_language: str = "Python") -> CatalogFunction:
        return CatalogFunction(class_name, function_language)

    def get_class_name(self) -> str:
        return self._class_name

    def get_function_language(self) -> str:
        return self._language

    def get_options(self) -> dict[str, str]:
        return {}

    def get_description(self) -> str:
        return f"a function of {self._language}: {self._class_name}"

    get_detailed_description = get_description

    def copy(self) -> CatalogFunction:
        return CatalogFunction(self._class_name, self._language)


class Catalogs(Protocol):
    """What a catalog needs of the environment that it belongs to."""

    catalog: catalogs.Catalog

    def _change(self, node: syntax.Statement) -> None:
        """Carries out a statement that changes a catalog."""


class Catalog:
    """What a catalog of an environment has. What it does is what the statements of SQL do."""

    def __init__(self, environment: Catalogs, name: str) -> None:
        self._environment = environment
        self._name = name

    @property
    def _catalog(self) -> catalogs.Catalog:
        return self._environment.catalog

    def _path(self, path: ObjectPath) -> Path:
        return Path(tuple(map(Name, (self._name, *path))))

    # -- databases

    def get_default_database(self) -> str:
        return self._catalog.catalog(self._name).default_database

    def list_databases(self) -> list[str]:
        return list(self._catalog.databases(self._name))

    def database_exists(self, database_name: str) -> bool:
        return database_name in self.list_databases()

    def get_database(self, database_name: str) -> CatalogDatabase:
        _, found = self._catalog.database((self._name, database_name))
        return CatalogDatabase(dict(found.options), found.comment)

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        if not (ignore_if_exists and self.database_exists(name)):
            self._catalog.add_database(self._name, _database(name, database))

    def alter_database(self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool) -> None:
        if ignore_if_not_exists and not self.database_exists(name):
            return
        self._catalog.database((self._name, name))
        self._catalog.add_database(self._name, _database(name, new_database), replaces=True)

    def drop_database(self, name: str, ignore_if_exists: bool) -> None:
        if not (ignore_if_exists and not self.database_exists(name)):
            self._catalog.remove_database((self._name, name))

    # -- tables and views

    def list_tables(self, database_name: str) -> list[str]:
        """Tables and views."""
        self._catalog.database((self._name, database_name))
        return [each.path[2] for each in self._catalog.tables() if each.path[:2] == (self._name, database_name)]

    def list_views(self, database_name: str) -> list[str]:
        tables = self._catalog.tables()
        place = (self._name, database_name)
        return [each.path[2] for each in tables if each.path[:2] == place and isinstance(each, View)]

    def table_exists(self, table_path: ObjectPath) -> bool:
        return self._catalog.find((self._name, *table_path)) is not None

    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable:
        found = self._catalog.get((self._name, *table_path))
        if isinstance(found, View):
            return CatalogBaseTable(Schema.of(found.row_type), {}, found.comment, query=found.sql)
        created = parse_statement(create_table_text(found))
        assert isinstance(created, syntax.CreateTable)
        schema = Schema(created.columns, created.watermarks, created.keys)
        return CatalogBaseTable(schema, dict(found.options), found.comment, found.partitioned_by)

    def create_table(self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool) -> None:
        path = self._path(table_path)
        if table.query is not None:
            query = parse_statement(table.query)
            assert isinstance(query, syntax.QueryStatement)
            view = syntax.CreateView(path, query.query, comment=table.get_comment(), if_not_exists=ignore_if_exists)
            self._environment._change(view)
            return
        options = tuple(table.get_options().items())
        described = TableDescriptor(table.get_unresolved_schema(), options, table.partition_keys, table.get_comment())
        self._environment._change(described.statement(path, temporary=False, if_not_exists=ignore_if_exists))

    def alter_table(self, table_path: ObjectPath, new_table: CatalogBaseTable, ignore_if_not_exists: bool) -> None:
        if self.table_exists(table_path):
            self.drop_table(table_path, False)
            self.create_table(table_path, new_table, False)
        elif not ignore_if_not_exists:
            self.get_table(table_path)

    def rename_table(self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool) -> None:
        if ignore_if_not_exists and not self.table_exists(table_path):
            return
        found = self._catalog.get((self._name, *table_path))
        self._catalog.add(replace(found, path=(*found.path[:2], new_table_name)))
        self._catalog.remove(found.path)

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Forgets a table or view."""
        if not self._catalog.remove((self._name, *table_path)) and not ignore_if_not_exists:
            self.get_table(table_path)

    # -- functions

    def list_functions(self, database_name: str) -> list[str]:
        return [each.name for each in self._catalog.functions() if not each.is_system]

    def function_exists(self, function_path: ObjectPath) -> bool:
        return self._catalog.function(function_path) is not None

    def get_function(self, function_path: ObjectPath) -> CatalogFunction:
        found = self._catalog.function(function_path)
        if found is None:
            raise InvalidProgramError(f"there is no function {function_path.get_full_name()!r}")
        implementation = getattr(found.implementation, "function", None)
        return CatalogFunction(f"{getattr(implementation, '__module__', '')}.{found.implementation.name}")

    def create_function(self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool) -> None:
        self._environment._change(
            syntax.CreateFunction(
                self._path(function_path),
                function.get_class_name(),
                function.get_function_language().upper(),
                if_not_exists=ignore_if_exists,
            )
        )

    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool
    ) -> None:
        if self.function_exists(function_path):
            self.drop_function(function_path, False)
            self.create_function(function_path, new_function, False)
        elif not ignore_if_not_exists:
            self.get_function(function_path)

    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        if not self._catalog.remove_function(function_path.object_name) and not ignore_if_not_exists:
            self.get_function(function_path)

    # -- what catalogs in memory have none of

    alter_partition = refused("alter_partition", _NO_PARTITIONS)
    create_partition = refused("create_partition", _NO_PARTITIONS)
    drop_partition = refused("drop_partition", _NO_PARTITIONS)
    get_partition = refused("get_partition", _NO_PARTITIONS)
    list_partitions = refused("list_partitions", _NO_PARTITIONS)
    partition_exists = refused("partition_exists", _NO_PARTITIONS)
    alter_partition_column_statistics = refused("alter_partition_column_statistics", _NO_STATISTICS)
    alter_partition_statistics = refused("alter_partition_statistics", _NO_STATISTICS)
    alter_table_column_statistics = refused("alter_table_column_statistics", _NO_STATISTICS)
    alter_table_statistics = refused("alter_table_statistics", _NO_STATISTICS)
    bulk_get_partition_column_statistics = refused("bulk_get_partition_column_statistics", _NO_STATISTICS)
    bulk_get_partition_statistics = refused("bulk_get_partition_statistics", _NO_STATISTICS)
    get_partition_column_statistics = refused("get_partition_column_statistics", _NO_STATISTICS)
    get_partition_statistics = refused("get_partition_statistics", _NO_STATISTICS)
    get_table_column_statistics = refused("get_table_column_statistics", _NO_STATISTICS)
    get_table_statistics = refused("get_table_statistics", _NO_STATISTICS)
    alter_model = refused("alter_model", NO_MODELS)
    create_model = refused("create_model", NO_MODELS)
    drop_model = refused("drop_model", NO_MODELS)
    get_model = refused("get_model", NO_MODELS)
    rename_model = refused("rename_model", NO_MODELS)
    get_procedure = refused("get_procedure", "there are no procedures: call functions of Python")

    def model_exists(self, model_path: ObjectPath) -> bool:
        return False

    def list_materialized_tables(self, database_name: str) -> list[str]:
        return []

    def list_models(self, database_name: str) -> list[str]:
        return []

    def list_procedures(self, database_name: str) -> list[str]:
        return []


def _database(name: str, described: CatalogDatabase) -> catalogs.Database:
    return catalogs.Database(name, described.get_comment(), tuple(described.get_properties().items()))


__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "CatalogColumnStatistics CatalogModel CatalogPartition CatalogPartitionSpec CatalogTableStatistics Column "
        "ComputedColumn Constraint HiveCatalog JdbcCatalog MetadataColumn PhysicalColumn Procedure UniqueConstraint "
        "WatermarkSpec",
        "catalogs are in memory, with databases, tables, views and functions; Schema describes columns",
    ),
)
