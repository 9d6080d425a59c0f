"""CREATE, ALTER, DROP and USE: statements that change catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatchmethod
from typing import NoReturn

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError, SqlUnsupportedError, SqlValidationError
from flinkray.tables.binding.binder import Binder
from flinkray.tables.catalog import DEFAULT_DATABASE, Catalog, CatalogDescription, Database, UserFunction, View
from flinkray.tables.environment.answers import OK, Answer
from flinkray.tables.environment.schema_changes import altered, partition_name, partition_of
from flinkray.tables.plans.tables import Table
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.nodes import Node

FunctionLoader = Callable[[str, str], UserFunction]
"""Gives the function of a name that is implemented in a Python module: `module.function`."""
_IN_MEMORY = "generic_in_memory"


class Changes:
    """Carries out one statement that changes a catalog.

    Raises:
        SqlError: the statement does not fit what there is, or there is no such thing here; shows where.
    """

    def __init__(self, catalog: Catalog, sql: str, load: FunctionLoader) -> None:
        self.catalog = catalog
        self.sql = sql
        self._load = load

    @singledispatchmethod
    def change(self, node: syntax.Statement) -> Answer | None:
        """The answer of a statement; None: it is none that changes a catalog."""
        return None

    def fail(self, node: Node, message: str | InvalidProgramError) -> NoReturn:
        """Raise that a part of the statement is wrong."""
        raise SqlValidationError(str(message), self.sql, node.span.start, node.span.end)

    def refuse(self, node: Node, message: str) -> NoReturn:
        """Raise that there is no such thing here."""
        raise SqlUnsupportedError(message, self.sql, node.span.start, node.span.end)

    def _try(self, node: Node, change: Callable[[], object]) -> Answer:
        try:
            change()
        except SqlValidationError:
            raise
        except InvalidProgramError as error:
            self.fail(node, error)
        return OK

    # -- tables and views

    @change.register
    def _(self, node: syntax.CreateTable) -> Answer:
        self.table(node)
        return OK

    def table(self, node: syntax.CreateTable) -> Table | None:
        """Create the table of a statement; None: there is one already, and the statement allows that."""
        if node.distribution is not None:
            self.refuse(node.distribution, "no connector here distributes rows into buckets: leave DISTRIBUTED out")
        table, _ = Binder(self.catalog, self.sql).table(node)
        if node.if_not_exists and self.catalog.find(table.path) is not None:
            return None
        replaces = bool(node.replaces)
        if node.replaces == "REPLACE" and self.catalog.find(table.path) is None:
            self.fail(node.table, f"there is no table {table.path[2]!r} to replace: CREATE OR REPLACE TABLE")
        self._try(node.table, lambda: self.catalog.add(table, replaces=replaces, temporary=node.temporary))
        self.catalog.restore(table.path, node.temporary, (table, frozenset()))  # one that is replaced had others
        return table

    @change.register
    def _(self, node: syntax.CreateView) -> Answer:
        view = Binder(self.catalog, self.sql).view(node)
        if node.if_not_exists and self.catalog.find(view.path) is not None:
            return OK
        return self._try(node.view, lambda: self.catalog.add(view, temporary=node.temporary))

    @change.register
    def _(self, node: syntax.AlterTable) -> Answer:
        if node.kind != "TABLE":
            self.refuse(node, "there are no materialized tables here")
        found = self.catalog.find(self._path(node.table.texts, node.table))
        if found is None and node.if_exists:
            return OK
        if not isinstance(found, Table):
            path = self._path(node.table.texts, node.table)
            self.fail(node.table, self.catalog.missing(path, ".".join(node.table.texts), "TABLE"))
        if isinstance(node.change, syntax.Rename):
            return self._rename(found, node.change)
        if isinstance(node.change, syntax.ChangePartitions):
            return self._change_partitions(found, node.change)
        temporary = self.catalog.is_temporary(found.path)
        table = altered(found, node, self.catalog, self.sql)
        return self._try(node, lambda: self.catalog.add(table, replaces=True, temporary=temporary))

    def _rename(self, found: Table | View, change: syntax.Rename) -> Answer:
        path = self._path(change.new.texts, change.new)
        temporary = self.catalog.is_temporary(found.path)
        self._try(change.new, lambda: self.catalog.add(replace(found, path=path), temporary=temporary))
        self.catalog.partitions(path).update(self.catalog.partitions(found.path))
        self.catalog.remove(found.path, temporary=temporary)
        return OK

    def _change_partitions(self, table: Table, change: syntax.ChangePartitions) -> Answer:
        if any(change.options):
            self.refuse(change, "partitions have no options here: leave WITH out")
        known, adds = self.catalog.partitions(table.path), change.verb == "ADD"
        for values in change.partitions:
            partition = partition_of(table, values, self.sql)
            if len(partition) < len(table.partitioned_by):
                self.fail(change, f"a partition has a value of each of {', '.join(table.partitioned_by)}")
            if (partition in known) == adds and not change.if_exists:
                self.fail(change, f"there is {'a' if adds else 'no'} partition {partition_name(partition)!r}")
            (known.add if adds else known.discard)(partition)
        return OK

    def _path(self, names: tuple[str, ...], node: Node) -> tuple[str, str, str]:
        try:
            return self.catalog.path(names)
        except InvalidProgramError as error:
            self.fail(node, error)

    # -- ALTER of other things

    @change.register
    def _(self, node: syntax.Alter) -> Answer:
        if node.kind == "VIEW":
            return self._alter_view(node)
        if node.kind == "DATABASE" and isinstance(node.change, syntax.SetOptions):
            return self._try(node.path, lambda: self._set_database(node))
        if node.kind == "CATALOG":
            return self._alter_catalog(node)
        return self.refuse(node, f"ALTER {node.kind} cannot do this here")

    def _alter_catalog(self, node: syntax.Alter) -> Answer:
        name, change = ".".join(node.path.texts), node.change
        if node.if_exists and name not in self.catalog.catalogs():
            return OK
        try:
            found = self.catalog.catalog(name)
        except InvalidProgramError as error:
            self.fail(node.path, error)
        if isinstance(change, syntax.SetComment):
            self.catalog.describe_catalog(replace(found, comment=change.comment))
            return OK
        options = dict(found.options)
        if isinstance(change, syntax.SetOptions):
            options |= change.options
        elif isinstance(change, syntax.ResetOptions):
            options = {key: value for key, value in options.items() if key not in change.keys}
        else:
            self.refuse(node, "ALTER CATALOG takes SET, RESET and COMMENT")
        if options.get("type") != _IN_MEMORY:
            self.fail(change, "the type of a catalog stays as it is")
        self._check_catalog_options(change, options)
        self.catalog.describe_catalog(replace(found, options=tuple(options.items())))
        return OK

    def _check_catalog_options(self, node: Node, options: Mapping[str, str]) -> None:
        unknown = options.keys() - {"type", "default-database"}
        if unknown:
            self.fail(node, f"a catalog in memory has the option 'default-database', not {min(unknown)!r}")

    def _alter_view(self, node: syntax.Alter) -> Answer:
        found = self.catalog.find(self._path(node.path.texts, node.path))
        if found is None and node.if_exists:
            return OK
        if not isinstance(found, View):
            path = self._path(node.path.texts, node.path)
            self.fail(node.path, self.catalog.missing(path, ".".join(node.path.texts), "VIEW"))
        if isinstance(node.change, syntax.Rename):
            return self._rename(found, node.change)
        if not isinstance(node.change, syntax.SetQuery):
            self.refuse(node, "ALTER VIEW takes RENAME TO, or AS with a query")
        created = syntax.CreateView(node.path, node.change.query, comment=found.comment, span=node.span)
        view = Binder(self.catalog, self.sql).view(created)
        temporary = self.catalog.is_temporary(found.path)
        return self._try(node, lambda: self.catalog.add(view, replaces=True, temporary=temporary))

    def _set_database(self, node: syntax.Alter) -> None:
        assert isinstance(node.change, syntax.SetOptions)
        catalog, found = self.catalog.database(node.path.texts)
        options = tuple((dict(found.options) | dict(node.change.options)).items())
        self.catalog.add_database(catalog, replace(found, options=options), replaces=True)

    # -- functions, catalogs, databases

    @change.register
    def _(self, node: syntax.CreateFunction) -> Answer:
        name = node.function.texts[-1]
        exists = self.catalog.function(node.function.texts) is not None
        if node.alters and not exists:
            return OK if node.if_not_exists else self.fail(node.function, f"there is no function {name!r}")
        if exists and not node.alters:
            if node.if_not_exists:
                return OK
            self.fail(node.function, f"there is a function {name!r} already: DROP it, or write IF NOT EXISTS")
        if node.language != "PYTHON":
            self.refuse(node, "functions are in Python here: CREATE FUNCTION name AS 'module.function' LANGUAGE PYTHON")
        if node.resources:
            self.refuse(node.resources[0], "a Python function is imported by its name; leave USING out")
        if node.options:
            self.refuse(node, "functions take no options: leave WITH out")

        def create() -> None:
            self.catalog.add_function(replace(self._load(name, node.implementation), is_system=node.system))

        return self._try(node.function, create)

    @change.register
    def _(self, node: syntax.CreateCatalog) -> Answer:
        options = dict(node.options)
        if options.get("type") != _IN_MEMORY:
            self.refuse(node, f"catalogs are in memory here: WITH ('type' = '{_IN_MEMORY}')")
        self._check_catalog_options(node, options)
        if node.if_not_exists and node.name.text in self.catalog.catalogs():
            return OK
        database = options.get("default-database", "default")
        described = CatalogDescription(node.name.text, node.options, node.comment, database or DEFAULT_DATABASE)
        return self._try(node.name, lambda: self.catalog.add_catalog(described))

    @change.register
    def _(self, node: syntax.CreateDatabase) -> Answer:
        names = node.database.texts
        catalog = names[0] if len(names) == 2 else self.catalog.current_catalog

        def create() -> None:
            if node.if_not_exists and names[-1] in self.catalog.databases(catalog):
                return
            self.catalog.add_database(catalog, Database(names[-1], node.comment, node.options))

        return self._try(node.database, create)

    @change.register
    def _(self, node: syntax.Use) -> Answer:
        path = node.paths[0]
        if node.kind == "MODULES":
            other = next((each for each in node.paths if each.texts != ("core",)), None)
            if other is not None:
                self.fail(other, "there is one module, core, and it is always used")
            return OK if len(node.paths) == 1 else self.fail(node.paths[1], "module core is named twice")
        if node.kind == "CATALOG":
            return self._try(path, lambda: self.catalog.use_catalog(path.texts[0]))
        return self._try(path, lambda: self.catalog.use_database(path.texts))

    # -- DROP

    @change.register
    def _(self, node: syntax.Drop) -> Answer:
        name = ".".join(node.path.texts)
        if node.kind in ("TABLE", "VIEW"):
            path = self._path(node.path.texts, node.path)
            was_there = self._drop_table(node, path)
        elif node.kind == "FUNCTION":
            was_there = self.catalog.remove_function(node.path.texts[-1])
        elif node.kind == "CATALOG":
            was_there = name in self.catalog.catalogs()
            if was_there:
                self._try(node.path, lambda: self.catalog.remove_catalog(name))
        elif node.kind == "DATABASE":
            was_there = self._drop_database(node)
        elif node.if_exists:
            return OK
        else:
            self.refuse(node, f"there are no {node.kind.lower()}s here")
        if not was_there and not node.if_exists:
            if node.kind in ("TABLE", "VIEW"):
                found = self.catalog.find(path)
                if node.temporary and isinstance(found, View if node.kind == "VIEW" else Table):
                    self.fail(node.path, f"{name!r} is not temporary: DROP {node.kind}")
                self.fail(node.path, self.catalog.missing(path, name, node.kind))
            self.fail(node.path, f"there is no {node.kind.lower()} {name!r}")
        return OK

    def _drop_table(self, node: syntax.Drop, path: tuple[str, str, str]) -> bool:
        found = self.catalog.find(path)
        if found is None or isinstance(found, View) != (node.kind == "VIEW"):
            return False
        is_temporary = self.catalog.is_temporary(path)
        if is_temporary != node.temporary and node.temporary:
            return False
        return self.catalog.remove(path, temporary=is_temporary)

    def _drop_database(self, node: syntax.Drop) -> bool:
        names = node.path.texts
        catalog = names[0] if len(names) == 2 else self.catalog.current_catalog
        if catalog not in self.catalog.catalogs() or names[-1] not in self.catalog.databases(catalog):
            return False
        self._try(node.path, lambda: self.catalog.remove_database(names, cascade=node.behavior == "CASCADE"))
        return True
