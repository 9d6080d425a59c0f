"""Catalogs with their databases, tables, views and functions by name, in memory."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from msgspec import Struct

from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.tables import Table, TablePath
from flinkray.tables.types.logical import LogicalType, RowType

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"
UNREGISTERED = "*unregistered*"
"""What the names of tables begin with that only Python has."""


Partition = tuple[tuple[str, str], ...]
"""The values of a table's partition columns, in the order of these."""


Entry = tuple["Table | View | None", frozenset[Partition]]
"""A table or view with its partitions; None: there is none."""


class ObjectPath(NamedTuple):
    """Database and name of a table or function."""

    database_name: str
    object_name: str

    @staticmethod
    def from_string(full_name: str) -> ObjectPath:
        database, dot, name = full_name.partition(".")
        if not (database and dot and name) or "." in name:
            raise InvalidProgramError(f"{full_name!r} is no path: it has the form database.name")
        return ObjectPath(database, name)

    def get_database_name(self) -> str:
        return self.database_name

    def get_object_name(self) -> str:
        return self.object_name

    def get_full_name(self) -> str:
        return f"{self.database_name}.{self.object_name}"

    def __str__(self) -> str:
        return self.get_full_name()


class ObjectIdentifier(NamedTuple):
    """Catalog, database and name of a table or function."""

    catalog_name: str
    database_name: str
    object_name: str

    @staticmethod
    def of(catalog_name: str, database_name: str, object_name: str) -> ObjectIdentifier:
        return ObjectIdentifier(catalog_name, database_name, object_name)

    def get_catalog_name(self) -> str:
        return self.catalog_name

    def get_database_name(self) -> str:
        return self.database_name

    def get_object_name(self) -> str:
        return self.object_name

    def to_object_path(self) -> ObjectPath:
        return ObjectPath(self.database_name, self.object_name)

    def to_list(self) -> list[str]:
        return list(self)

    def as_summary_string(self) -> str:
        return ".".join(self)

    def as_serializable_string(self) -> str:
        return ".".join(f"`{each.replace('`', '``')}`" for each in self)


class View(Struct, frozen=True):
    """A query with a name; it is bound where it is read."""

    path: TablePath
    sql: str
    """The text of the query."""
    row_type: RowType
    comment: str | None = None
    current: tuple[str, str] | None = None
    """The catalog and database that names in the query without them are of."""
    plan: Plan | None = None
    """The plan of a query that was put together in Python, and has no text."""


class UserFunction(Struct, frozen=True):
    """A function of the user's, known by its types.

    Args:
        parameters: the types that arguments are cast to; None: any number of any.
        result: of a scalar or aggregate function; of a table function the type of its rows.
        kind: scalar, aggregate or table.
    """

    name: str
    result: LogicalType
    parameters: tuple[LogicalType, ...] | None = None
    kind: str = "scalar"
    is_deterministic: bool = True
    implementation: Any = None
    """What computes it, in the words of whoever calls it; None: it can be planned with, not called."""
    is_system: bool = False
    """Whether it is found from any database, and listed as one of the system."""


class Database(Struct, frozen=True):
    """A database of a catalog."""

    name: str
    comment: str | None = None
    options: tuple[tuple[str, str], ...] = ()


class CatalogDescription(Struct, frozen=True):
    """What CREATE CATALOG says of a catalog in memory."""

    name: str
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    default_database: str = DEFAULT_DATABASE


class Catalog:
    """What statements find by name. Not for several threads at once."""

    def __init__(self, name: str = DEFAULT_CATALOG, database: str = DEFAULT_DATABASE) -> None:
        self.current_catalog = name
        self.current_database = database
        self._catalogs: dict[str, CatalogDescription] = {}
        self._databases: dict[tuple[str, str], Database] = {}
        self._tables: dict[TablePath, Table | View] = {}
        self._temporary: dict[TablePath, Table | View] = {}
        self._functions: dict[str, UserFunction] = {}
        self._partitions: dict[tuple[TablePath, bool], set[Partition]] = {}
        self.add_catalog(CatalogDescription(name, (("type", "generic_in_memory"),), default_database=database))

    def path(self, names: tuple[str, ...]) -> TablePath:
        """The full path of a name in the current database, or of `database.name`, or of `catalog.database.name`.

        Raises:
            InvalidProgramError: there are more than three names.
        """
        match names:
            case (name,):
                return (self.current_catalog, self.current_database, name)
            case (database, name):
                return (self.current_catalog, database, name)
            case (catalog, database, name):
                return (catalog, database, name)
        raise InvalidProgramError(f"{'.'.join(names)} has more names than catalog, database and table")

    def seen_from(self, catalog: str, database: str) -> Catalog:
        """The same catalogs, with another current one."""
        seen = copy.copy(self)
        seen.current_catalog, seen.current_database = catalog, database
        return seen

    # -- catalogs and databases

    def add_catalog(self, description: CatalogDescription) -> None:
        """Know a catalog from now on, with its default database.

        Raises:
            InvalidProgramError: there is one of that name.
        """
        if description.name in self._catalogs:
            raise InvalidProgramError(f"there is a catalog {description.name!r} already: DROP it, or use it")
        self._catalogs[description.name] = description
        self.add_database(description.name, Database(description.default_database))

    def catalog(self, name: str) -> CatalogDescription:
        """The catalog of that name.

        Raises:
            InvalidProgramError: there is none; offers the nearest name.
        """
        if name not in self._catalogs:
            known = ", ".join(self.catalogs())
            raise InvalidProgramError(f"no catalog {name!r}{did_you_mean(name, self._catalogs)}; there are: {known}")
        return self._catalogs[name]

    def describe_catalog(self, description: CatalogDescription) -> None:
        """Says otherwise what a catalog that is there is for; its databases stay."""
        self._catalogs[description.name] = description

    def catalogs(self) -> tuple[str, ...]:
        """The names of all catalogs, sorted."""
        return tuple(sorted(self._catalogs))

    def remove_catalog(self, name: str) -> None:
        """Forget a catalog with all that is in it.

        Raises:
            InvalidProgramError: there is none of that name, or it is the current one.
        """
        if self.catalog(name).name == self.current_catalog:
            raise InvalidProgramError(f"{name!r} is the current catalog: USE CATALOG another one before you drop it")
        del self._catalogs[name]
        self._databases = {path: each for path, each in self._databases.items() if path[0] != name}
        self._tables = {path: each for path, each in self._tables.items() if path[0] != name}

    def use_catalog(self, name: str) -> None:
        """Names without a catalog are of this one from now on, and its default database is the current one."""
        self.current_catalog, self.current_database = name, self.catalog(name).default_database

    def add_database(self, catalog: str, database: Database, *, replaces: bool = False) -> None:
        """Know a database from now on.

        Raises:
            InvalidProgramError: there is one of that name, and it is not to be replaced; or no such catalog.
        """
        path = (self.catalog(catalog).name, database.name)
        if path in self._databases and not replaces:
            raise InvalidProgramError(f"there is a database {database.name!r} already: DROP it, or write IF NOT EXISTS")
        self._databases[path] = database

    def database(self, names: tuple[str, ...]) -> tuple[str, Database]:
        """The catalog and the database of `database`, or of `catalog.database`.

        Raises:
            InvalidProgramError: there is none; offers the nearest name.
        """
        if len(names) > 2:
            raise InvalidProgramError(f"{'.'.join(names)} has more names than catalog and database")
        catalog, name = (self.current_catalog, names[0]) if len(names) == 1 else names
        found = self._databases.get((self.catalog(catalog).name, name))
        if found is None:
            known = self.databases(catalog)
            hint = did_you_mean(name, known)
            raise InvalidProgramError(f"no database {name!r} in {catalog}{hint}; there are: {', '.join(known)}")
        return catalog, found

    def databases(self, catalog: str) -> tuple[str, ...]:
        """The names of the databases of a catalog, sorted."""
        return tuple(sorted(name for of, name in self._databases if of == self.catalog(catalog).name))

    def remove_database(self, names: tuple[str, ...], cascade: bool = False) -> None:
        """Forget a database; with `cascade` also the tables in it.

        Raises:
            InvalidProgramError: there is none, or it is the current one, or it has tables.
        """
        catalog, database = self.database(names)
        path = (catalog, database.name)
        if path == (self.current_catalog, self.current_database):
            raise InvalidProgramError(f"{database.name!r} is the current database: USE another one before you drop it")
        inside = [table for table in self._tables if table[:2] == path]
        if inside and not cascade:
            raise InvalidProgramError(
                f"database {database.name!r} has tables, such as {inside[0][2]!r}: DROP ... CASCADE"
            )
        for table in inside:
            del self._tables[table]
        del self._databases[path]

    def use_database(self, names: tuple[str, ...]) -> None:
        """Names without a database are of this one from now on."""
        catalog, database = self.database(names)
        self.current_catalog, self.current_database = catalog, database.name

    # -- tables and views

    def add(self, table: Table | View, *, replaces: bool = False, temporary: bool = False) -> None:
        """Know a table or view from now on; while there is a temporary one, it is meant by its name.

        Raises:
            InvalidProgramError: there is one of that name, and it is not to be replaced; or no such database.
        """
        self.database(table.path[:2])
        tables = self._temporary if temporary else self._tables
        if table.path in tables and not replaces:
            what = "view" if isinstance(tables[table.path], View) else "table"
            raise InvalidProgramError(f"there is a {what} {table.path[2]!r} already: DROP it, or write IF NOT EXISTS")
        tables[table.path] = table

    def find(self, path: TablePath) -> Table | View | None:
        """The table or view of that path."""
        return self._temporary.get(path) or self._tables.get(path)

    def is_temporary(self, path: TablePath) -> bool:
        """Whether a temporary table or view is meant by that path."""
        return path in self._temporary

    def get(self, names: tuple[str, ...]) -> Table | View:
        """The table or view of a name.

        Raises:
            InvalidProgramError: there is none; offers the nearest name.
        """
        path = self.path(names)
        found = self.find(path)
        if found is None:
            self.database(path[:2])
            raise InvalidProgramError(f"no table {'.'.join(names)!r}{self._nearest(path)}")
        return found

    def partitions(self, path: TablePath) -> set[Partition]:
        """The partitions that statements have added to a table, to be changed; what its connector finds counts where
        it is read."""
        return self._partitions.setdefault((path, self.is_temporary(path)), set())

    def entry(self, path: TablePath, temporary: bool) -> Entry:
        """What is known under a path among temporary tables, or among the others; `restore` brings it back."""
        tables = self._temporary if temporary else self._tables
        return tables.get(path), frozenset(self._partitions.get((path, temporary), ()))

    def restore(self, path: TablePath, temporary: bool, entry: Entry) -> None:
        """Know what was known when `entry` was asked."""
        table, partitions = entry
        self.remove(path, temporary=temporary)
        if table is not None:
            self.add(table, temporary=temporary)
            self._partitions[path, temporary] = set(partitions)

    def missing(self, path: TablePath, name: str, kind: str) -> str:
        """What is to be said where there is no table, or no view, of a path."""
        found = self.find(path)
        if found is None:
            return f"there is no {kind.lower()} {name!r}{self._nearest(path)}"
        other = "VIEW" if isinstance(found, View) else "TABLE"
        return f"{name!r} is a {other.lower()}, no {kind.lower()}: write {other}"

    def _nearest(self, path: TablePath) -> str:
        known = [each.path[2] for each in self.tables() if each.path[:2] == path[:2]]
        return did_you_mean(path[2], known) or f"; there are: {', '.join(sorted(known)) or 'none'}"

    def remove(self, path: TablePath, *, temporary: bool = False) -> bool:
        """Forget a table or view; says whether there was one."""
        self._partitions.pop((path, temporary), None)
        return (self._temporary if temporary else self._tables).pop(path, None) is not None

    def tables(self) -> tuple[Table | View, ...]:
        """All tables and views, by path; of those with one path the temporary one."""
        found = self._tables | self._temporary
        return tuple(found[path] for path in sorted(found))

    # -- functions

    def add_function(self, function: UserFunction) -> None:
        """Know a function from now on, instead of one of that name; case does not matter."""
        self._functions[function.name.lower()] = function

    def function(self, names: tuple[str, ...]) -> UserFunction | None:
        """The user's function of that name, whatever its case."""
        return self._functions.get(names[-1].lower())

    def remove_function(self, name: str) -> bool:
        """Forget a function of the user's; says whether there was one."""
        return self._functions.pop(name.lower(), None) is not None

    def functions(self) -> tuple[UserFunction, ...]:
        """The user's functions, by name."""
        return tuple(self._functions[name] for name in sorted(self._functions))
