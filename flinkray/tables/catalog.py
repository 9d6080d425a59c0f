"""Tables, views and functions by name, in memory."""

from __future__ import annotations

from msgspec import Struct

from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.tables.plans.tables import Table, TablePath
from flinkray.tables.types.logical import LogicalType, RowType

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"


class View(Struct, frozen=True):
    """A query with a name; it is bound where it is read."""

    path: TablePath
    sql: str
    """The text of the query."""
    row_type: RowType
    comment: str | None = None


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


class Catalog:
    """What statements find by name. Not for several threads at once."""

    def __init__(self) -> None:
        self.current_catalog = DEFAULT_CATALOG
        self.current_database = DEFAULT_DATABASE
        self._tables: dict[TablePath, Table | View] = {}
        self._functions: dict[str, UserFunction] = {}

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

    # -- tables and views

    def add(self, table: Table | View, *, replaces: bool = False) -> None:
        """Know a table or view from now on.

        Raises:
            InvalidProgramError: there is one of that name, and it is not to be replaced.
        """
        if table.path in self._tables and not replaces:
            raise InvalidProgramError(f"there is a table {table.path[2]!r} already: DROP it, or write IF NOT EXISTS")
        self._tables[table.path] = table

    def find(self, path: TablePath) -> Table | View | None:
        """The table or view of that path."""
        return self._tables.get(path)

    def get(self, names: tuple[str, ...]) -> Table | View:
        """The table or view of a name.

        Raises:
            InvalidProgramError: there is none; offers the nearest name.
        """
        path = self.path(names)
        found = self._tables.get(path)
        if found is None:
            known = [each[2] for each in self._tables if each[:2] == path[:2]]
            raise InvalidProgramError(f"no table {'.'.join(names)!r}{did_you_mean(path[2], known)}")
        return found

    def remove(self, path: TablePath) -> bool:
        """Forget a table or view; says whether there was one."""
        return self._tables.pop(path, None) is not None

    def tables(self) -> tuple[Table | View, ...]:
        """All tables and views, by path."""
        return tuple(self._tables[path] for path in sorted(self._tables))

    # -- functions

    def add_function(self, function: UserFunction) -> None:
        """Know a function from now on, instead of one of that name; case does not matter."""
        self._functions[function.name.lower()] = function

    def function(self, names: tuple[str, ...]) -> UserFunction | None:
        """The user's function of that name, whatever its case."""
        return self._functions.get(names[-1].lower())
