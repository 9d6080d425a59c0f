"""Plans over the tables of a catalog as transformations: sources below, sinks above."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from flinkray.config.table_options import DYNAMIC_OPTIONS
from flinkray.connectors.lookup import LookupTable
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Boundedness
from flinkray.errors import InvalidProgramError, SqlError, SqlUnsupportedError, SqlValidationError
from flinkray.redaction import HIDDEN, is_secret
from flinkray.tables.connectors.connectors import changes_of, lookup_of, scan, sink_of
from flinkray.tables.environment.function_lowering import FindFunction, ProgramLowering
from flinkray.tables.lowering.contract import NodeUids, TableOptions, Unexecutable, state_text
from flinkray.tables.lowering.refusals import refusal
from flinkray.tables.lowering.sinks import by_key, for_changes, for_upserts
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import Insert, Scan, TemporalJoin
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.plans.rules.rewriting import bottom_up
from flinkray.tables.plans.rules.row_fields import fields_read
from flinkray.tables.plans.rules.time_zones import in_time_zone
from flinkray.tables.plans.tables import Table, TablePath
from flinkray.tables.plans.upsert_keys import upsert_keys
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.names import Path
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.syntax.queries import Hint, TableReference
from flinkray.transformations.operator_factories import SinkFactory, SourceFactory
from flinkray.transformations.transformation import (
    PhysicalTransformation,
    Transformation,
    own_parallelism,
    upstream_of,
)
from flinkray.types.changelogs import ChangelogMode

_OPTIONS = "OPTIONS"


class Program:
    """The transformations of one job, in which each table is read once.

    Args:
        find: gives the function of the user's of a name; plans have their tables themselves.
        streams: of the tables that have no connector, since they are streams of this process.
        plans: all that the job executes; what none of them reads of a table, its source may leave out.
        statements: what the plans were made of, each with its text, for errors.
        is_automatic: whether the job is all of these plans and runs in batch mode where all its sources end.
        numbers: of the nodes of a compiled plan, which are executed as they are; operators have uids of them.
    Raises:
        InvalidProgramError: a table cannot be read.
    """

    def __init__(
        self,
        find: FindFunction,
        streams: Mapping[TablePath, Transformation],
        options: TableOptions,
        plans: Sequence[Plan],
        statements: Sequence[tuple[Node, str]],
        is_automatic: bool = False,
        numbers: Mapping[Plan, int] | None = None,
    ) -> None:
        self._statements = statements
        self._is_compiled = numbers is not None
        self._time_zone = options.time_zone
        self.options = options
        self._streams = streams
        self._tables: dict[TablePath, Transformation] = {}
        self._scanned: dict[Table, Table] = {}
        """What each table of a plan is in this job."""
        self._as_named: dict[Table, Table] = {}
        """Tables as statements name them, by what hints made of them."""
        self._lookups: dict[TablePath, LookupTable] = {}
        self._plans = {plan: self._rewritten(plan) for plan in plans}
        self._scan()
        if is_automatic and all(map(_is_bounded, self._tables.values())):
            options = replace(options, is_batch=True)
        self.is_batch, self.options = options.is_batch, options
        self._uids = NodeUids(numbers)
        self._lowering = ProgramLowering(self._tables, find, options, self._lookups, self._uids)

    @property
    def uids(self) -> Mapping[int, tuple[str, ...]]:
        """Of a compiled plan the uids of the operators that have been made, by the number of their node."""
        return self._uids.given

    def planned(self, plan: Plan) -> Plan:
        """One of the plans as it is executed."""
        return self._plans[plan]

    @property
    def scanned(self) -> Iterator[tuple[Table, Table]]:
        """The tables that the plans read, as these have them, and as statements name them."""
        for hinted, known in self._scanned.items():
            yield known, self._as_named[hinted]

    def _rewritten(self, plan: Plan) -> Plan:
        read = self.read(plan)
        return read if self._is_compiled else in_time_zone(optimized(read), self._time_zone)

    def rows(
        self,
        plan: Plan,
        statement: Node,
        sql: str,
        lower: Callable[[Plan], Transformation] | None = None,
        before: bool = True,
    ) -> Transformation:
        """The rows of one of the plans.

        Args:
            lower: makes them of the plan that is executed; by custom as they are.
            before: whether updates take back the row as it was.
        Raises:
            SqlUnsupportedError: the plan cannot be executed yet; shows what of the statement.
        """
        plan = self._plans[plan]
        try:
            return self._lowering.of(plan, before) if lower is None else lower(plan)
        except Unexecutable as error:
            raise refusal(error, statement, sql) from None

    def gives_inserts(self, plan: Plan) -> bool:
        """Whether the rows of one of the plans are only added."""
        return self._lowering.changes(self._plans[plan]).is_insert_only

    def read(self, plan: Plan) -> Plan:
        """The plan with its tables as they are read: with the OPTIONS of hints, and with what their rows do."""

        def change(node: Plan) -> Plan:
            if not isinstance(node, Scan):
                return node
            try:
                self.check_hints(node.hints)
                table = hinted(node.table, node.hints)
                self._as_named[table] = node.table
                table = self._known(table)
            except InvalidProgramError as error:
                raise self._placed(error, node.table) from error
            return replace(node, table=table, hints=tuple(hint for hint in node.hints if hint.name != _OPTIONS))

        return bottom_up(plan, change)

    def _known(self, table: Table) -> Table:
        """The table as it is read in this job, by a path of its own: since a plan was made, another one may have got
        the name of its table."""
        if table.path in self._streams:
            self._tables[table.path] = self._streams[table.path]
            return table
        if table not in self._scanned:
            others = sum(each.path == table.path for each in self._scanned)
            path = (*table.path[:2], f"{table.path[2]} {others + 1}") if others else table.path
            changes = changes_of(table)
            if self._is_compiled and changes != table.changes:
                raise InvalidProgramError(
                    f"table {'.'.join(path)!r} has changed since the plan was compiled: its rows were {table.changes}, "
                    f"and are {changes} now. Compile the plan again"
                )
            self._scanned[table] = replace(table, path=path, changes=changes)
        return self._scanned[table]

    def _scan(self) -> None:
        """Reads of each table what all plans together read."""
        read = [fields_read(plan) for plan in self._plans.values()]
        versions = {path for plan in self._plans.values() for path in _read_as_of(plan)}
        for table, known in self._scanned.items():
            # By their keys, rows of a table with changes are put together.
            fields = frozenset(table.primary_key).union(*(each.get(known.path, ()) for each in read))
            try:
                self._tables[known.path] = rows = scan(table, fields)
                lookup = lookup_of(table) if known.path in versions else None
            except InvalidProgramError as error:
                raise self._placed(error, self._as_named[table]) from error
            for source in upstream_of(rows):
                if isinstance(source, PhysicalTransformation) and isinstance(source.factory, SourceFactory):
                    source.computes = _identity(self._as_named[table])
            if lookup is not None:
                self._lookups[known.path] = lookup

    def _placed(self, error: InvalidProgramError, table: Table) -> InvalidProgramError:
        """The error of a table at the table's name in a statement; as it is where the name stands in a view."""
        if isinstance(error, SqlError):
            return error
        for statement, sql in self._statements:
            for path in _table_names(statement):
                if path.texts == table.path[-len(path.texts) :]:
                    return SqlValidationError(str(error), sql, path.span.start, path.span.end)
        return error

    def insert(self, plan: Insert, statement: Node, sql: str) -> PhysicalTransformation:
        """The sink that the rows of an INSERT go into.

        Raises:
            SqlUnsupportedError: the plan cannot be executed yet, or there is no such INSERT here.
            InvalidProgramError: a table cannot be written.
        """
        span = statement.span
        if plan.overwrite and not self.is_batch:
            message = "INSERT OVERWRITE needs batch mode: SET 'execution.runtime-mode' = 'batch'"
            raise SqlUnsupportedError(message, sql, span.start, span.end)
        if plan.table.path in self._streams:
            message = f"{plan.table.path[2]!r} is a stream; rows go into tables that have a connector"
            raise SqlValidationError(message, sql, span.start, span.end)
        try:
            self.check_hints(plan.hints)
            table = hinted(plan.table, plan.hints)
            sink, parallelism = sink_of(table, dict(plan.partition) if plan.overwrite else None)
        except InvalidProgramError as error:
            raise self._placed(error, plan.table) from error
        rows = self._rows_for(plan, sink, statement, sql)
        shuffle = self.options.sinks.shuffle
        written = PhysicalTransformation(
            name=f"Sink: {table.path[2]}",
            computes=_identity(plan.table),
            factory=SinkFactory(sink),
            input_transformations=(by_key(rows, table, parallelism, shuffle),),
            parallelism=own_parallelism(rows) if parallelism is None else parallelism,
        )
        self._uids.give(plan, written)
        return written

    def check_hints(self, hints: Sequence[Hint]) -> None:
        """
        Raises:
            InvalidProgramError: a hint of a table is another one than OPTIONS, or the program takes none of these.
        """
        for hint in hints:
            if hint.name != _OPTIONS:
                raise InvalidProgramError(f"no hint {hint.name!r} of a table; there is {_OPTIONS}")
            if not self.options.takes_table_options:
                raise InvalidProgramError(f"the hint {_OPTIONS} is there, and {DYNAMIC_OPTIONS.key} is false")

    def needs_before(self, plan: Insert) -> bool:
        """Whether the table of an INSERT needs to be told what an updated row was.

        Raises:
            InvalidProgramError: it cannot be written.
        """
        sink, _ = sink_of(hinted(plan.table, plan.hints))
        materialize = self.options.sinks.materialize
        if sink.accepts is not ChangelogMode.UPSERT or materialize != "AUTO":
            return sink.accepts is not ChangelogMode.UPSERT or materialize == "FORCE"
        return _key_of(plan) not in upsert_keys(self._rewritten(plan.input))

    def _rows_for(self, plan: Insert, sink: Sink, statement: Node, sql: str) -> Transformation:
        """The rows of an INSERT; those for a sink that replaces rows have one for each key at a time."""
        table = plan.table

        def lower(rows: Plan) -> Transformation:
            if sink.accepts is ChangelogMode.INSERT_ONLY:
                self._check_inserts(rows, table)
            if sink.accepts is not ChangelogMode.UPSERT:
                return for_changes(rows, table, self._lowering)
            return for_upserts(rows, sorted(_key_of(plan)), table, self._lowering)

        return self.rows(plan.input, statement, sql, lower)

    def _check_inserts(self, rows: Plan, table: Table) -> None:
        """That rows are only added.

        Raises:
            Unexecutable: they are not; says which node changes them.
        """
        changes = self._lowering.changes(rows)
        if changes.is_insert_only:
            return
        while any(not self._lowering.changes(each).is_insert_only for each in rows.inputs):
            rows = next(each for each in rows.inputs if not self._lowering.changes(each).is_insert_only)
        done = " and ".join([*(["updates"] * changes.updates), *(["deletes"] * changes.deletes)])
        raise Unexecutable(
            rows,
            f"it {done} rows, and table {table.path[2]!r} takes rows that are only added. Write into a table that "
            "takes changes, such as one of 'upsert-kafka', 'jdbc' or 'redis' with a PRIMARY KEY; or make results "
            "final, with windows or in batch mode",
        )


def _identity(table: Table) -> str:
    """What a source or sink is of, by which its state is told from that of others."""
    return state_text(f"table {'.'.join(table.path)}")


def _key_of(plan: Insert) -> frozenset[int]:
    """The columns of the primary key of the table that is written."""
    names = plan.table.written_row_type.names
    return frozenset(names.index(name) for name in plan.table.primary_key)


def _read_as_of(plan: Plan, is_below: bool = False) -> Iterator[TablePath]:
    """The tables that a plan reads as they are at a time."""
    if isinstance(plan, Scan):
        yield from [plan.table.path] * is_below
    elif isinstance(plan, TemporalJoin):
        yield from _read_as_of(plan.left, is_below)
        yield from _read_as_of(plan.right, True)
    else:
        for each in plan.inputs:
            yield from _read_as_of(each, is_below)


def _is_bounded(rows: Transformation) -> bool:
    """Whether all sources of a stream end."""
    factory = rows.factory if isinstance(rows, PhysicalTransformation) else None
    if isinstance(factory, SourceFactory):
        return factory.source.boundedness is Boundedness.BOUNDED
    return all(map(_is_bounded, rows.inputs))


def _table_names(node: Any) -> Iterator[Path]:
    """The names of tables in a statement."""
    if isinstance(node, tuple):
        for each in node:
            yield from _table_names(each)
    elif isinstance(node, Node):
        if isinstance(node, syntax.Insert):
            yield node.table
        elif isinstance(node, TableReference):
            yield node.path
        for name in node.__struct_fields__:
            yield from _table_names(getattr(node, name))


def hinted(table: Table, hints: tuple[Hint, ...]) -> Table:
    """The table with the OPTIONS of hints."""
    given = [(key, value) for hint in hints if hint.name == _OPTIONS for key, value in hint.options]
    if not given:
        return table
    for key, value in given:
        if key is None:
            raise InvalidProgramError(f"the hint OPTIONS takes 'key' = 'value', not {value!r}")
    options = tuple((dict(table.options) | {str(key): value for key, value in given}).items())
    shown = (f"{key}={HIDDEN if is_secret(str(key), value) else value}" for key, value in given)
    name = f"{table.path[2]} with {', '.join(shown)}"
    return replace(table, options=options, path=(*table.path[:2], name))
