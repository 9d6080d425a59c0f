"""TableEnvironment: tables and statements over them, in Python and in SQL."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from flinkray.connectors.collection.source import ArrowSource, CollectionSource, PandasSource
from flinkray.connectors.source import Source
from flinkray.errors import InvalidProgramError
from flinkray.tables.api.data_types import DataTypes, logical_type
from flinkray.tables.api.expression import Expression, function_call, lit
from flinkray.tables.api.queries import SELF, Planned, planned, read_expression, reference, select, table
from flinkray.tables.api.schemas import Schema, TableDescriptor
from flinkray.tables.api.table import Table
from flinkray.tables.api.user_functions import UserDefinedFunctionWrapper, udaf, udf, udtaf
from flinkray.tables.binding.binder import Binder
from flinkray.tables.binding.relations import table_plan
from flinkray.tables.catalog import UNREGISTERED, View
from flinkray.tables.environment.changes import Changes
from flinkray.tables.environment.results import TableResult
from flinkray.tables.environment.statement_sets import PlannedInsert, StatementSet, TablePipeline
from flinkray.tables.environment.statements import Runner, StatementEnvironment, detail_names
from flinkray.tables.lowering.times import own_rowtime, rowtime_of
from flinkray.tables.plans import tables as plans
from flinkray.tables.plans.changelogs import changes_of
from flinkray.tables.plans.nodes import row_type
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.plans.tables import TableColumn, TablePath
from flinkray.tables.syntax import expressions as expressions
from flinkray.tables.syntax import queries
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.syntax.unparsing.expressions import path_text
from flinkray.tables.syntax.unparsing.statements import statement_text
from flinkray.tables.types.arrow import from_arrow_schema, stored_schema
from flinkray.tables.types.logical import RowType, is_proctime, without_attribute
from flinkray.tables.user_functions import AggregateFunction, TableAggregateFunction
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import SourceFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation
from flinkray.types.changelogs import Changes as RowChanges
from flinkray.types.records import Kind

_NAMES = re.compile(r"`(?:[^`]|``)+`|[^.`]+")


class TableEnvironment(StatementEnvironment):
    """Catalogs with their tables, queries over them in SQL or put together in Python, and the jobs that these are.

    One for each environment: `env.tables`. Not for several threads at once.
    """

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self._numbers = itertools.count(1)
        self._functions: dict[str, UserDefinedFunctionWrapper] = {}
        """Functions whose names are made of their identity, which no other one must get."""

    # -- queries

    def sql_query(self, query: str) -> Table:
        """The table of a query.

        Raises:
            SqlError: the query is wrong; shows where.
        """
        statement = parse_statement(query)
        if not isinstance(statement, syntax.QueryStatement):
            raise InvalidProgramError("sql_query takes a query: SELECT, VALUES or TABLE; execute_sql takes others")
        return Table(self, Planned(Binder(self.catalog, query).query(statement), statement, query))

    def explain_sql(self, stmt: str, *extra_details: str) -> str:
        """The plan of a query or INSERT as text.

        Args:
            extra_details: "JSON_EXECUTION_PLAN" for the job's graph.
        """
        node = parse_statement(stmt)
        if not isinstance(node, syntax.QueryStatement | syntax.Insert | syntax.StatementSet):
            raise InvalidProgramError("explain_sql takes a query, an INSERT, or a statement set")
        return self._explained(syntax.Explain(node, extra_details, span=node.span), stmt)

    def from_path(self, path: str) -> Table:
        """A table or view of a catalog by its name.

        Raises:
            SqlError: there is none.
        """
        return self.sql_query(f"SELECT * FROM {path_text(_path(path))}")

    scan = from_path

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """A table that no catalog has."""
        created = self._bound(descriptor.statement(_path("descriptor"), temporary=True))
        return self._scanned(replace(created, path=self._unnamed()))

    # -- rows of this process

    def from_elements(self, elements: Iterable[Any], schema: Any = None, verify_schema: bool = True) -> Table:
        """A table of Python values.

        Args:
            elements: tuples, `Row`s (of a changelog with their kinds), dicts or values.
            schema: the names of the columns, or a ROW of `DataTypes`, or the types of the columns.
            verify_schema: taken for PyFlink's programs; values are always checked.
        """
        elements = list(elements)
        if elements and all(isinstance(each, Expression) for each in elements):
            return self._renamed(self._of_expressions(elements), schema)
        rows = [each if isinstance(each, tuple | dict) else (each,) for each in elements]
        kind = _rows_of(schema)
        if kind is not None:
            return self._from_source(CollectionSource(rows, stored_schema(kind), argument="schema"), "Elements", kind)
        source = CollectionSource(rows, argument="schema")
        assert source.output_type is not None
        if source.output_type.kind is Kind.OBJECT:
            raise InvalidProgramError(
                "from_elements: no type of SQL holds all values that are there; give a schema with types, a ROW of "
                "DataTypes, that says what they are"
            )
        if schema is None:
            return self._from_source(source, "Elements")
        names = list(source.output_type.schema.names)
        if len(schema) != len(names):
            raise InvalidProgramError(f"from_elements: {len(schema)} names for rows of {len(names)} columns")
        return self._from_source(source, "Elements").alias(*schema)

    def from_values(self, *elements: Any) -> Table:
        """A table of rows of constants; the type of each column is the one that its values have in common."""
        rows = [each if isinstance(each, tuple | list) else (each,) for each in elements]
        nodes = [expressions.Row(tuple(read_expression(_quoted(each))._node for each in row)) for row in rows]
        return self._of_expressions(list(map(Expression, nodes)))

    def _of_expressions(self, elements: Sequence[Expression]) -> Table:
        """A row for each expression, of the items of one that is a ROW."""
        nodes = (each._node for each in elements)
        rows = tuple(each if isinstance(each, expressions.Row) else expressions.Row((each,)) for each in nodes)
        names = tuple(Name(f"f{place}") for place in range(len(rows[0].items)))
        values = queries.DerivedTable(expressions.Query(queries.Values(rows)), queries.Alias(Name("rows"), names))
        return Table(self, planned(select((queries.SelectItem(expressions.Star()),), values), self.catalog, {}))

    def from_pandas(self, pdf: Any, schema: Any = None, splits_num: int = 1) -> Table:
        """A table of a DataFrame's rows, without its index.

        Args:
            schema: other names of its columns, or a ROW of `DataTypes` that they are cast to.
            splits_num: taken for PyFlink's programs; the rows are split as readers ask for them.
        """
        if any(not isinstance(name, str) for name in pdf.columns):
            pdf = pdf.rename(columns=str)
        return self._renamed(self._from_source(PandasSource(pdf), "Pandas"), schema)

    def from_arrow(self, table: Any, schema: Any = None) -> Table:
        """A table of what has the Arrow stream interface, such as a pa.Table or a Polars DataFrame."""
        return self._renamed(self._from_source(ArrowSource(table), "Arrow"), schema)

    def _renamed(self, found: Table, schema: Any) -> Table:
        if schema is None:
            return found
        rows = _rows_of(schema)
        if rows is None:
            return found.alias(*schema)
        named = isinstance(schema, list | tuple)
        names = found.columns if named else rows.names
        columns = zip(found.columns, names, rows.types, strict=True)
        return found.select(*(getattr(found, old).cast(kind).alias(new) for old, new, kind in columns))

    def _from_source(self, source: Source, name: str, rows: RowType | None = None) -> Table:
        assert source.output_type is not None
        read = PhysicalTransformation(
            name=f"Source: {name}",
            factory=SourceFactory(source, WatermarkStrategy.no_watermarks()),
            parallelism=None if source.is_parallel else 1,
        )
        kind = rows or from_arrow_schema(source.output_type.schema)
        return self._from_stream(read, kind, source.is_changelog)

    def _from_stream(self, stream: Transformation, rows: RowType, is_changelog: bool = False) -> Table:
        """A table of a stream whose columns have these names and types."""
        path = self._unnamed()
        changes = RowChanges(updates=is_changelog, deletes=is_changelog)
        columns = tuple(TableColumn(field.name, field.type) for field in rows.fields)
        self._streams[path] = stream
        return self._scanned(plans.Table(path, columns, rowtime_of(stream, columns), changes=changes))

    def _with_schema(self, found: Table, schema: Schema, before: bool = True) -> Table:
        """The columns of a schema over those of a table: casts to its types, and what it computes; with its watermark
        and key. Without a watermark the rowtime attribute is that of the table.

        Args:
            before: whether updates of a changelog take back the row as it was.
        Raises:
            SqlError: a column is not there, or its type does not fit.
        """
        casts = {
            column.name.text: Expression(expressions.Cast(reference(column.name.text), column.type))
            for column in schema.columns
            if isinstance(column, syntax.PhysicalColumn | syntax.MetadataColumn)
        }
        for name in casts.keys() - set(found.columns):
            found.select(Expression(reference(name)))  # which fails, and offers the nearest column
        if casts:
            found = found.add_or_replace_columns(*(cast.alias(name) for name, cast in casts.items()))
        takes_all = not any(isinstance(column, syntax.PhysicalColumn) for column in schema.columns)
        items = [Expression(reference(name)) for name in found.columns] if takes_all else []
        for column in schema.columns:
            if isinstance(column, syntax.ComputedColumn):
                items.append(Expression(column.expression).alias(column.name.text))
            elif not takes_all:
                items.append(Expression(reference(column.name.text)))
        found = found.select(*items)
        if not (schema.watermarks or schema.keys):
            return found
        columns = Schema.of(_written(found.row_type)).columns
        described = Schema(columns, schema.watermarks, schema.keys)
        table = self._bound(TableDescriptor(described).statement(_path("stream"), temporary=True))
        if table.watermark is None:
            table = replace(table, watermark=own_rowtime(found.row_type))
        path = self._unnamed()
        program = self._program([found._plan], [(found._query.statement, found._query.sql)])
        self._streams[path] = program.rows(found._plan, found._query.statement, found._query.sql, before=before)
        scanned = self._scanned(replace(table, path=path, changes=changes_of(optimized(found._plan), before)))
        fields = found.row_type.fields
        clocks = [function_call("PROCTIME").alias(each.name) for each in fields if is_proctime(each.type)]
        return scanned.add_or_replace_columns(*clocks) if clocks else scanned

    def _unnamed(self) -> TablePath:
        return (self.catalog.current_catalog, self.catalog.current_database, f"{UNREGISTERED}{next(self._numbers)}")

    def _scanned(self, found: plans.Table) -> Table:
        """A table that is read without being in a catalog."""
        star = (queries.SelectItem(expressions.Star()),)
        made = planned(select(star, table(SELF)), self.catalog, {SELF: table_plan(found)})
        return Table(self, made)

    # -- names

    def create_temporary_view(self, view_path: str, table_or_data_stream: Table) -> None:
        """Makes a table known by a name.

        Raises:
            InvalidProgramError: there is a temporary table of that name.
        """
        self._add_view(view_path, table_or_data_stream, temporary=True)

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool = False) -> bool:
        """Makes a table known by a name; says whether it is new."""
        is_there = self.catalog.find(self.catalog.path(_path(view_path).texts)) is not None
        if not (is_there and ignore_if_exists):
            self._add_view(view_path, table, temporary=False)
        return not is_there

    def _add_view(self, path: str, found: Table, temporary: bool) -> None:
        names = self.catalog.path(_path(path).texts)
        self.catalog.add(View(names, found._query.sql, found.row_type, plan=found._plan), temporary=temporary)

    def create_temporary_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> None:
        """CREATE TEMPORARY TABLE."""
        self._create(descriptor.statement(_path(path), temporary=True, if_not_exists=ignore_if_exists))

    def create_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> bool:
        """CREATE TABLE; says whether it is new."""
        is_there = self.catalog.find(self.catalog.path(_path(path).texts)) is not None
        self._create(descriptor.statement(_path(path), temporary=False, if_not_exists=ignore_if_exists))
        return not is_there

    def _create(self, node: syntax.CreateTable) -> None:
        sql = statement_text(node)
        created = parse_statement(sql)
        assert isinstance(created, syntax.CreateTable)
        Changes(self.catalog, sql, self._load_function).table(created)

    def _bound(self, node: syntax.CreateTable) -> plans.Table:
        sql = statement_text(node)
        created = parse_statement(sql)
        assert isinstance(created, syntax.CreateTable)
        found, _ = Binder(self.catalog, sql).table(created)
        return found

    def create_temporary_function(self, path: str, function: Any) -> None:
        """As `create_temporary_system_function`, by a path, of which the last name counts."""
        self.create_temporary_system_function(_path(path).texts[-1], function)

    create_python_function = create_temporary_function

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Makes a function known by a name; case does not matter.

        Raises:
            InvalidProgramError: a function of the user's has that name.
        """
        if self.catalog.function((name,)) is not None:
            raise InvalidProgramError(f"there is a function {name!r} already: drop it, or use register_function")
        self.register_function(name, function)

    def register_function(self, name: str, function: Any) -> None:
        """Makes a function known by a name, also in the place of another one; case does not matter."""
        if isinstance(function, AggregateFunction):
            function = udaf(function)
        elif isinstance(function, TableAggregateFunction):
            function = udtaf(function)
        wrapper = function if isinstance(function, UserDefinedFunctionWrapper) else udf(function)
        self.catalog.add_function(wrapper.described(name))

    def drop_function(self, path: str) -> bool:
        """Forgets a function; says whether there was one."""
        return self.catalog.remove_function(_path(path).texts[-1])

    drop_temporary_function = drop_function
    drop_temporary_system_function = drop_function

    def drop_temporary_table(self, table_path: str) -> bool:
        """Forgets a temporary table or view; says whether there was one."""
        return self.catalog.remove(self.catalog.path(_path(table_path).texts), temporary=True)

    drop_temporary_view = drop_temporary_table

    def drop_table(self, table_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Forgets a table; says whether there was one."""
        was_there = self.catalog.remove(self.catalog.path(_path(table_path).texts))
        if not was_there and not ignore_if_not_exists:
            raise InvalidProgramError(f"there is no table {table_path!r}")
        return was_there

    drop_view = drop_table

    def use_catalog(self, catalog_name: str) -> None:
        self.catalog.use_catalog(catalog_name)

    def use_database(self, database_name: str) -> None:
        self.catalog.use_database((database_name,))

    def get_current_catalog(self) -> str:
        return self.catalog.current_catalog

    def get_current_database(self) -> str:
        return self.catalog.current_database

    def list_catalogs(self) -> list[str]:
        return self._listed("CATALOGS")

    def list_databases(self) -> list[str]:
        return self._listed("DATABASES")

    def list_tables(self) -> list[str]:
        """Tables and views of the current database."""
        return self._listed("TABLES")

    def list_views(self) -> list[str]:
        return self._listed("VIEWS")

    def list_temporary_tables(self) -> list[str]:
        return self._temporary(plans.Table | View)

    def list_temporary_views(self) -> list[str]:
        return self._temporary(View)

    def list_user_defined_functions(self) -> list[str]:
        return self._listed("USER FUNCTIONS")

    def list_functions(self) -> list[str]:
        return self._listed("FUNCTIONS")

    def _temporary(self, kinds: Any) -> list[str]:
        tables = self.catalog.tables()
        return [each.path[2] for each in tables if self.catalog.is_temporary(each.path) and isinstance(each, kinds)]

    def _listed(self, subject: str) -> list[str]:
        return [row[0] for row in self.execute_sql(f"SHOW {subject}").collect()]

    # -- INSERT

    def create_statement_set(self) -> StatementSet:
        """A set of INSERTs that are one job."""
        return StatementSet(self)

    def _insert_planned(self, target: str | TableDescriptor, query: Planned, overwrite: bool) -> TablePipeline:
        name = target
        if isinstance(target, TableDescriptor):
            name = self._unnamed()[2]
            with_columns = target
            if target.table_schema is None:
                schema = Schema.of(_written(query.plan.row_type))
                with_columns = TableDescriptor(schema, target.options, target.partitioned_by, target.comment)
            self._create(with_columns.statement(Path((Name(name),)), temporary=True))
        assert isinstance(name, str)
        path = Path((Name(name),)) if isinstance(target, TableDescriptor) else _path(name)
        star = select((queries.SelectItem(expressions.Star()),))
        sql = statement_text(syntax.Insert(path, star, overwrite))
        node = parse_statement(sql)
        assert isinstance(node, syntax.Insert)
        plan = Binder(self.catalog, sql, {SELF: query.plan}).insert(node)
        return TablePipeline(self, PlannedInsert(plan, query.statement, query.sql))

    def _attach(self, inserts: Sequence[PlannedInsert]) -> None:
        for sink in self._sinks(inserts):
            self._runner._register(sink)

    # -- what tables ask for

    def _run(self, query: Planned) -> TableResult:
        return self._query(query.plan, query.statement, query.sql)

    def _explain_planned(self, query: Planned, details: Sequence[Any]) -> str:
        return self._explain([query.plan], [query.statement], query.sql, detail_names(details))

    def _explain_inserts(self, inserts: Sequence[PlannedInsert], details: Sequence[Any]) -> str:
        plans, statements = [each.plan for each in inserts], [each.statement for each in inserts]
        return self._explain(plans, statements, "", detail_names(details))

    def _register_function(self, function: UserDefinedFunctionWrapper) -> str:
        name = f"*{function.name}*{id(function)}"
        self._functions[name] = function
        self.catalog.add_function(function.described(name))
        return name

    def _path_of(self, query: Planned) -> Path:
        path = self._unnamed()
        self.catalog.add(View(path, query.sql, query.plan.row_type, plan=query.plan), temporary=True)
        return Path((Name(path[2]),))


def _written(rows: RowType) -> RowType:
    """The columns of a table that takes these rows: time attributes are plain times there."""
    return row_type(rows.names, [without_attribute(kind) for kind in rows.types])


def _rows_of(schema: Any) -> RowType | None:
    """The ROW that a schema is, or the types of columns make; None: it is names, or nothing."""
    if schema is None or (isinstance(schema, list | tuple) and all(isinstance(each, str) for each in schema)):
        return None
    if isinstance(schema, list | tuple):
        return DataTypes.ROW(list(schema))
    kind = logical_type(schema)
    return kind if isinstance(kind, RowType) else DataTypes.ROW([kind])


def _path(text: str) -> Path:
    """The path of a text such as `database.table`, in which names may stand in backticks."""
    names = [each.strip("`").replace("``", "`") for each in _NAMES.findall(text)]
    if not names or ".".join(_NAMES.findall(text)) != text:
        raise InvalidProgramError(f"{text!r} is no name of a table")
    return Path(tuple(map(Name, names)))


def _quoted(value: Any) -> Any:
    """A constant as `read_expression` takes it: text would be read as an expression."""
    return lit(value) if isinstance(value, str) else value
