"""Table: a query that is put together in Python. Each method gives a new table, and the old one can be used again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.tables.api import row_functions
from flinkray.tables.api.columns import columns_of, with_names
from flinkray.tables.api.expression import Expression, Flattened
from flinkray.tables.api.grouped_tables import FlatAggregateTable, GroupedTable, OverWindowedTable, WindowedTable
from flinkray.tables.api.queries import (
    OTHER,
    SELF,
    STAR,
    Planned,
    function_of,
    item,
    named_items,
    order_item,
    planned,
    read_expression,
    reference,
    select,
    table,
)
from flinkray.tables.api.schemas import ResolvedSchema, TableDescriptor
from flinkray.tables.api.windows import GroupWindow, OverWindow
from flinkray.tables.catalog import Catalog
from flinkray.tables.plans.explain import explain
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax import queries
from flinkray.tables.syntax.names import Path
from flinkray.tables.syntax.unparsing.expressions import path_text
from flinkray.tables.types.logical import RowType

if TYPE_CHECKING:
    import pandas as pd


class Result(Protocol):
    """What executing a table gives."""

    def print(self) -> None: ...
    def to_arrow(self) -> pa.Table: ...
    def to_pandas(self) -> pd.DataFrame: ...
    def _repr_html_(self) -> str: ...


class Tables(Protocol):
    """What tables need of the environment that they belong to."""

    catalog: Catalog

    def _run(self, query: Planned) -> Any:
        """Runs a query."""

    def _insert_planned(self, target: str | TableDescriptor, query: Planned, overwrite: bool) -> Any:
        """The insert of a query into a table."""

    def _explain_planned(self, query: Planned, details: Sequence[Any]) -> str:
        """The plan of a query as text."""

    def _register_function(self, function: Any) -> str:
        """Makes a function known, and gives the name to call it by."""

    def _path_of(self, query: Planned) -> Path:
        """A name by which statements of SQL can read the table."""


class Table:
    """The rows of a query. Columns are expressions, `col("a") + 1`, or text that SQL reads as one, `"a + 1 AS b"`.

    Raises:
        SqlError: of every method, a column is unknown, or types do not fit; shows the query that was made.
    """

    def __init__(self, environment: Tables, query: Planned) -> None:
        self._environment = environment
        self._query = query

    @property
    def _plan(self) -> Plan:
        return self._query.plan

    @property
    def row_type(self) -> RowType:
        """Names and types of the columns."""
        return self._plan.row_type

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.row_type.names)

    # -- columns

    def select(self, *fields: Any) -> Table:
        """These columns: expressions with their names from `alias`; without GROUP BY also aggregates of all rows."""
        return self._made(select(tuple(map(item, self._named(fields)))))

    def add_columns(self, *fields: Any) -> Table:
        """All columns, and these behind them.

        Raises:
            InvalidProgramError: there is a column of that name.
        """
        found = self._all_known(fields)
        for each in found:
            if each._names and each._names[0] in self.columns:
                raise InvalidProgramError(
                    f"add_columns: there is a column {each._names[0]!r}; add_or_replace_columns replaces it"
                )
        return self._made(select((*STAR, *map(item, found))))

    def add_or_replace_columns(self, *fields: Any) -> Table:
        """All columns, with these in the place of those of the same name, or behind them."""
        new = {each._names[0] if each._names else "": each for each in self._all_known(fields)}
        if "" in new:
            raise InvalidProgramError("add_or_replace_columns takes columns with a name: (col('a') + 1).alias('a')")
        kept = [item(new.pop(name)) if name in new else queries.SelectItem(reference(name)) for name in self.columns]
        return self._made(select((*kept, *map(item, new.values()))))

    def drop_columns(self, *fields: Any) -> Table:
        """All columns but these."""
        dropped = {self._own_name(each, "drop_columns") for each in self._all_known(fields)}
        return self._made(select(named_items([(name, name) for name in self.columns if name not in dropped])))

    def rename_columns(self, *fields: Any) -> Table:
        """All columns, some under new names: `col("a").alias("b")`."""
        new = {}
        for each in map(read_expression, fields):
            if not each._names:
                raise InvalidProgramError("rename_columns takes columns with a new name: col('a').alias('b')")
            new[self._own_name(each, "rename_columns")] = each._names[0]
        return self._made(select(named_items([(name, new.get(name, name)) for name in self.columns])))

    def alias(self, field: Any, *fields: Any) -> Table:
        """The columns under new names, in their order; those at the end may be left out."""
        names = [each if isinstance(each, str) else self._own_name(each, "alias") for each in (field, *fields)]
        if len(names) > len(self.columns):
            raise InvalidProgramError(f"alias: {len(names)} names for {len(self.columns)} columns")
        return self._made(
            select(named_items(list(zip(self.columns, [*names, *self.columns[len(names) :]], strict=True))))
        )

    as_ = alias

    def _own_name(self, given: Any, where: str) -> str:
        node = self._read(given)._node
        name = node.path.texts[-1] if isinstance(node, syntax.Reference) else ""
        if where != "alias" and name not in self.columns:
            hint = did_you_mean(name, self.columns)
            raise InvalidProgramError(f"{where}: no column {name!r}{hint}; columns: {', '.join(self.columns)}")
        return name

    # -- rows

    def where(self, predicate: Any) -> Table:
        """The rows for which a condition is true."""
        return self._made(select(STAR, where=self._known(predicate)._node))

    filter = where

    def distinct(self) -> Table:
        """Each row once."""
        return self._made(select(STAR, distinct=True))

    def order_by(self, *fields: Any) -> Table:
        """The rows in an order: `col("a").desc`."""
        return self._made(
            syntax.Query(select(STAR).body, order_by=tuple(order_item(self._known(each)) for each in fields))
        )

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """At most so many rows, behind the first so many."""
        return self._limited(fetch, offset)

    def fetch(self, fetch: int) -> Table:
        """At most so many rows."""
        return self._limited(fetch, 0)

    def offset(self, offset: int) -> Table:
        """All rows but the first so many."""
        return self._limited(None, offset)

    def _limited(self, fetch: int | None, offset: int) -> Table:
        limit = None if fetch is None else syntax.Number(str(fetch))
        return self._made(
            syntax.Query(select(STAR).body, offset=syntax.Number(str(offset)) if offset else None, limit=limit)
        )

    # -- groups

    def group_by(self, *fields: Any) -> GroupedTable[Table]:
        """The rows in groups, for `select` or `aggregate` of each, which know a key by its alias."""
        return GroupedTable(*self._keyed(fields))

    def _keyed(self, fields: Sequence[Any]) -> tuple[Table, tuple[Expression, ...]]:
        """The table that has keys with an alias as columns, and the keys of its groups."""
        keys = self._all_known(fields)
        for name, times in Counter(name for key in keys for name in key._names[:1]).items():
            if times > 1:
                raise InvalidProgramError(f"group_by: two keys are called {name!r}")
        named = {key._names[0]: key for key in keys if key._names and key._names[0] not in self.columns}
        found = self.add_columns(*named.values()) if named else self
        known = [Expression(reference(key._names[0])) if set(key._names) & set(named) else key for key in keys]
        return found, tuple(known)

    def aggregate(self, func: Any) -> GroupedTable[Table]:
        """An aggregate of all rows, for `select`."""
        return self.group_by().aggregate(func)

    def flat_aggregate(self, func: Any) -> FlatAggregateTable[Table]:
        """The rows that a table aggregate gives of all rows, for `select`."""
        return self.group_by().flat_aggregate(func)

    def window(self, window: GroupWindow) -> WindowedTable[Table]:
        """The rows in windows, which `group_by` takes by their name."""
        return WindowedTable(self, window)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable[Table]:
        """Windows that `select` has by their names."""
        return OverWindowedTable(self, over_windows)

    # -- functions of the user's

    def map(self, func: Any) -> Table:
        """The columns of a ROW that a function gives for each row: a call, or the function, which then gets the row."""
        mapped: Table = row_functions.mapped(self, func)
        return mapped

    def flat_map(self, func: Any) -> Table:
        """The rows that a table function gives for each row."""
        rows: Table = row_functions.flat_mapped(self, func)
        return rows

    def join_lateral(self, table_function_call: Any, join_predicate: Any = None) -> Table:
        """Each row beside the rows that a table function gives for it."""
        return self._lateral("INNER", table_function_call, join_predicate)

    def left_outer_join_lateral(self, table_function_call: Any, join_predicate: Any = None) -> Table:
        """The same, with NULLs for a row for which it gives none."""
        return self._lateral("LEFT", table_function_call, join_predicate)

    def _called(self, function: Any) -> Expression:
        """A call of a function, which gets the whole row where it is given alone."""
        return row_functions.called(self, function)

    def _lateral(self, kind: str, function: Any, predicate: Any) -> Table:
        call = self._known(self._called(function))
        named = queries.TableFunction(function_of(call, "join_lateral"), row_functions.alias_of(call), lateral=True)
        condition = syntax.Truth(True) if predicate is None else self._known(predicate)._node
        return self._made(select(STAR, queries.Join(kind, table(SELF), named, condition=condition)))

    # -- with another table

    def join(self, right: Table, join_predicate: Any = None) -> Table:
        """Pairs of rows for which a condition is true; without one, all. The tables have no name of a column in
        common."""
        return self._joined("CROSS" if join_predicate is None else "INNER", right, join_predicate)

    def left_outer_join(self, right: Table, join_predicate: Any = None) -> Table:
        """Pairs of rows, and rows of this table that have no partner, with NULLs."""
        return self._joined("LEFT", right, join_predicate)

    def right_outer_join(self, right: Table, join_predicate: Any) -> Table:
        """Pairs of rows, and rows of the other table that have no partner, with NULLs."""
        return self._joined("RIGHT", right, join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Any) -> Table:
        """Pairs of rows, and rows of both tables that have no partner, with NULLs."""
        return self._joined("FULL", right, join_predicate)

    def _joined(self, kind: str, right: Table, predicate: Any) -> Table:
        both = sorted(set(self.columns) & set(right.columns))
        if both:
            raise InvalidProgramError(
                f"join: both tables have a column {both[0]!r}; "
                f"rename_columns(col({both[0]!r}).alias(...)) of one of them"
            )
        condition: syntax.Expression | None = None if kind == "CROSS" else syntax.Truth(True)
        if predicate is not None:
            condition = self._known(predicate)._node
        return self._made(select(STAR, queries.Join(kind, table(SELF), table(OTHER), condition=condition)), right)

    def union(self, right: Table) -> Table:
        """The rows of both tables, each once."""
        return self._united("UNION", right, False)

    def union_all(self, right: Table) -> Table:
        """The rows of both tables."""
        return self._united("UNION", right, True)

    def intersect(self, right: Table) -> Table:
        """The rows that are in both tables, each once."""
        return self._united("INTERSECT", right, False)

    def intersect_all(self, right: Table) -> Table:
        """The rows that are in both tables, as often as in the one that has fewer of them."""
        return self._united("INTERSECT", right, True)

    def minus(self, right: Table) -> Table:
        """The rows that are in this table only, each once."""
        return self._united("EXCEPT", right, False)

    def minus_all(self, right: Table) -> Table:
        """The rows of this table, less as many as the other one has of each."""
        return self._united("EXCEPT", right, True)

    def _united(self, kind: str, right: Table, all_rows: bool) -> Table:
        left, other = select(STAR).body, select(STAR, table(OTHER)).body
        return self._made(syntax.Query(queries.SetOperation(kind, left, other, all_rows)), right)

    # -- running

    def execute(self) -> Any:
        """Runs the query; gives a TableResult, whose rows come while it runs."""
        return self._environment._run(self._query)

    def execute_insert(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> Any:
        """Runs the query, whose rows go into a table; gives the TableResult of the INSERT."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def insert_into(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> Any:
        """The INSERT of the query into a table, to execute, explain, or add to a statement set."""
        return self._environment._insert_planned(table_path_or_descriptor, self._query, overwrite)

    def explain(self, *extra_details: Any) -> str:
        """The plan as text.

        Args:
            extra_details: "CHANGELOG_MODE" for what the rows of each node do, "JSON_EXECUTION_PLAN" for the job's
                graph.
        """
        return self._environment._explain_planned(self._query, extra_details)

    def optimized_plan(self) -> str:
        """The plan that is executed as text, a line for each of its steps."""
        return explain(optimized(self._plan))

    def print_explain(self, *extra_details: Any) -> None:
        print(self.explain(*extra_details))

    def to_arrow(self) -> pa.Table:
        """Runs the query and gives its rows; of a changelog, those that are left at its end."""
        rows: pa.Table = self.execute().to_arrow()
        return rows

    def to_pandas(self) -> pd.DataFrame:
        """Runs the query and gives its rows as a DataFrame; of a changelog, those that are left at its end."""
        rows: pd.DataFrame = self.execute().to_pandas()
        return rows

    # -- looking

    def get_schema(self) -> ResolvedSchema:
        """Names and types of the columns, by PyFlink's methods."""
        return ResolvedSchema(self.row_type)

    get_resolved_schema = get_schema

    def print_schema(self) -> None:
        """Prints names and types of the columns, as Flink does."""
        print(self.get_schema())

    def __getattr__(self, name: str) -> Expression:
        """A column of the table as an expression."""
        if name.startswith("_") or name not in self.columns:
            hint = "" if name.startswith("_") else did_you_mean(name, self.columns)
            raise AttributeError(f"a table has no method or column {name!r}{hint}")
        return Expression(reference(name))

    def __str__(self) -> str:
        """A name by which statements of SQL read the table: `f"SELECT * FROM {table}"`."""
        return path_text(self._environment._path_of(self._query))

    def __repr__(self) -> str:
        return f"<Table ({', '.join(map(str, self.row_type.fields))})>"

    def _repr_html_(self) -> str:
        """Runs the query, and gives its first rows for notebooks."""
        shown: str = self.execute()._repr_html_()
        return shown

    # -- inside

    def _read(self, given: Any) -> Expression:
        """The expression of what a method was given. A column's name is the column, also where SQL reserves it."""
        if isinstance(given, str) and given in self.columns:
            return Expression(reference(given))
        return read_expression(given)

    def _known(self, given: Any) -> Expression:
        """The expression of what a method was given, whose functions have names from now on."""
        (found,) = self._all_known([given])
        return found

    def _all_known(self, given: Sequence[Any]) -> list[Expression]:
        """The same of several, of which one may stand for several columns."""
        found = []
        for each in given:
            known = row_functions.registered(self._environment, self._read(each))
            if isinstance(known._node, Flattened):
                found += self._fields(known._node.operand)
                continue
            nodes = columns_of(known._node, self.columns)
            found += [Expression(node, known._names if len(nodes) == 1 else ()) for node in nodes]
        return found

    def _named(self, given: Sequence[Any]) -> list[Expression]:
        """Columns of `select` with their names."""
        return with_names(self._all_known(given), self._environment.catalog)

    def _fields(self, row: syntax.Expression) -> list[Expression]:
        """The fields of a ROW as columns."""
        (field,) = self.select(Expression(row)).row_type.fields
        if not isinstance(field.type, RowType):
            return [Expression(row)]
        return [Expression(row).get(each).alias(f"{field.name}${each}") for each in field.type.names]

    def _as_subquery(self) -> syntax.Query:
        """The table as a query that stands in an expression."""
        return select(STAR, queries.TableReference(self._environment._path_of(self._query)))

    def _made(self, query: syntax.Query, right: Table | None = None) -> Table:
        tables = {SELF: self._plan}
        if right is not None:
            if right._environment is not self._environment:
                raise InvalidProgramError("the other table belongs to another environment")
            tables[OTHER] = right._plan
        return Table(self._environment, planned(query, self._environment.catalog, tables))
