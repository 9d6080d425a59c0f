"""Statements of SQL over the tables of catalogs: what each gives, and the jobs that they start."""

from __future__ import annotations

import importlib
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Protocol

from msgspec.structs import replace

from flinkray.collected_rows import CollectedRows
from flinkray.config.configuration import Configuration
from flinkray.config.options import RUNTIME_MODE
from flinkray.config.table_options import (
    DISPLAY_WIDTH,
    DML_SYNC,
    LOCAL_TIME_ZONE,
    PLAN_COMPILE,
    PLAN_FORCE_RECOMPILE,
    PLAN_RESTORE,
)
from flinkray.connectors.collect.sink import CollectSink
from flinkray.errors import InvalidProgramError, SqlError, SqlUnsupportedError, SqlValidationError
from flinkray.execution import JobClient
from flinkray.tables.api.user_functions import UserDefinedFunctionWrapper, udf
from flinkray.tables.api.words import word
from flinkray.tables.binding.binder import Binder
from flinkray.tables.catalog import Catalog, UserFunction
from flinkray.tables.compiled.contents import PlanContent, from_text
from flinkray.tables.compiled.references import FilePlanReference, PlanReference
from flinkray.tables.environment.answers import OK, Answer, PrintStyle, ResultKind, tabled, text
from flinkray.tables.environment.changes import Changes
from flinkray.tables.environment.compiled_plans import (
    as_tables_are_now,
    check_uids,
    content_of,
    lowered,
    target_names,
)
from flinkray.tables.environment.programs import Program
from flinkray.tables.environment.results import TableResult
from flinkray.tables.environment.shows import Shows
from flinkray.tables.environment.statement_sets import CompiledPlan, PlannedInsert
from flinkray.tables.lowering.queries import options_of
from flinkray.tables.plans.explain import explain
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import Insert, row_type
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.plans.tables import TablePath
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.syntax.parsing.parser import parse_script, parse_statement
from flinkray.tables.types.logical import BIGINT
from flinkray.transformations.operator_factories import SinkFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation, own_parallelism


class Runner(Protocol):
    """What a TableEnvironment needs of the environment that its jobs run in."""

    @property
    def configuration(self) -> Configuration:
        """A copy of the settings."""

    def configure(self, config: dict[str, object]) -> object:
        """Sets options."""

    def _unset(self, key: str) -> None:
        """Gives an option its default."""

    def _submit_alone(self, transformations: Sequence[Transformation], job_name: str) -> JobClient:
        """Submits these transformations, and nothing that was recorded beside them."""

    def _register(self, transformation: Transformation) -> None:
        """Makes an operator part of the environment's own program."""

    def _plan_alone(self, transformations: Sequence[Transformation]) -> str:
        """The job graph of these transformations as text."""


_GRAPH, _CHANGES, _ADVICE = "JSON_EXECUTION_PLAN", "CHANGELOG_MODE", "PLAN_ADVICE"
_DETAILS = frozenset([_GRAPH, _CHANGES, _ADVICE])
"""What EXPLAIN can show beside the plan."""


class StatementEnvironment:
    """Catalogs, and statements over them."""

    _result_type: ClassVar[type[TableResult]] = TableResult

    def __init__(self, runner: Runner) -> None:
        self.catalog = Catalog()
        self._runner = runner
        self._initial = runner.configuration
        self._streams: dict[TablePath, Transformation] = {}
        """The tables that are streams of this process."""

    # -- statements

    def execute_sql(self, stmt: str) -> TableResult:
        """Carries out one statement. A query's rows come while it runs; INSERT returns when its job has begun, unless
        `table.dml-sync` is set.

        Raises:
            SqlError: the statement is wrong, or cannot be executed yet; shows where.
            InvalidProgramError: a table cannot be read or written as its options say.
            ConfigurationError: SET of an option that there is not, or of a value that it does not take.
        """
        return self._execute(parse_statement(stmt), stmt)

    def execute_script(self, script: str) -> list[TableResult]:
        """Carries out statements with `;` between them, one after the other, and gives the result of each. Jobs of
        INSERT are waited for; those of queries go on until their rows are taken.

        Raises:
            SqlError: of the first statement that cannot be carried out; those before it have been.
        """
        results = []
        for node in parse_script(script):
            result = self._execute(node, script)
            if isinstance(node, syntax.Insert | syntax.StatementSet | syntax.CompilePlan | syntax.ExecutePlan):
                result.wait()
            results.append(result)
        return results

    def _execute(self, node: syntax.Statement, sql: str) -> TableResult:
        match node:
            case syntax.QueryStatement():
                return self._query(Binder(self.catalog, sql).query(node), node, sql)
            case syntax.Insert():
                return self._insert([node], sql)
            case syntax.StatementSet(inserts=inserts):
                return self._insert(inserts, sql)
            case syntax.CompilePlan():
                return self._compile_into_file(node, sql)
            case syntax.ExecutePlan(file=file):
                return self.execute_plan(PlanReference.from_file(file))
            case syntax.CreateTable(query=query) if query is not None:
                return self._create_as(node, sql)
        return self._result(self._answer(node, sql))

    def _answer(self, node: syntax.Statement, sql: str) -> Answer:
        match node:
            case syntax.Show():
                return self._shows(sql).show(node)
            case syntax.Describe():
                return self._shows(sql).describe(node)
            case syntax.Explain():
                return text(self._explained(node, sql), PrintStyle.RAW)
            case syntax.Set() | syntax.Reset():
                return self._setting(node)
        changed = Changes(self.catalog, sql, self._load_function).change(node)
        if changed is None:
            raise _refused(node, sql)
        return changed

    def _shows(self, sql: str) -> Shows:
        return Shows(self.catalog, sql, self._runner.configuration.get(RUNTIME_MODE) == "batch")

    def _result(self, answer: Answer) -> TableResult:
        return self._result_type(answer.row_type, answer)

    def _load_function(self, name: str, implementation: str) -> UserFunction:
        """The function that `module.name` is, or with `udf` made of."""
        module, _, attribute = implementation.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidProgramError(
                f"function {name!r}: {implementation!r} cannot be imported ({error}); give it as 'module.function'"
            ) from error
        wrapper: UserDefinedFunctionWrapper = found if isinstance(found, UserDefinedFunctionWrapper) else udf(found)
        return wrapper.described(name)

    # -- settings

    def _setting(self, node: syntax.Set | syntax.Reset) -> Answer:
        if isinstance(node, syntax.Set):
            if node.key is None:
                return tabled(("key", "value"), sorted(self._runner.configuration.shown().items()))
            self._runner.configure({node.key: node.value})
            return OK
        initial = dict(self._initial)
        keys = [key for key, _ in self._runner.configuration] if node.key is None else [node.key]
        for key in keys:
            if key in initial:
                self._runner.configure({key: initial[key]})
            else:
                self._runner._unset(key)
        return OK

    # -- queries

    def _query(self, plan: Plan, node: Node, sql: str) -> TableResult:
        program = self._program([plan], [(node, sql)], is_alone=True)
        rows = program.rows(plan, node, sql)
        collect_id = uuid.uuid4().hex
        client = self._runner._submit_alone([_collected(rows, collect_id)], "collect")
        configuration = self._runner.configuration
        return self._result_type(
            plan.row_type,
            CollectedRows(client, client.collected(collect_id)),
            client,
            has_kinds=not (program.is_batch and program.gives_inserts(plan)),
            width=configuration.get(DISPLAY_WIDTH),
            time_zone=configuration.get(LOCAL_TIME_ZONE),
        )

    def _program(
        self, plans: Sequence[Plan], statements: Sequence[tuple[Node, str]], is_alone: bool = False
    ) -> Program:
        """What makes transformations of these plans of statements; `is_alone`: they are a job of their own."""
        configuration = self._runner.configuration
        is_automatic = is_alone and configuration.get(RUNTIME_MODE) == "automatic"
        return Program(
            lambda name: self.catalog.function((name,)),
            self._streams,
            options_of(configuration),
            plans,
            statements,
            is_automatic,
        )

    # -- INSERT

    def _insert(self, nodes: Sequence[syntax.Insert], sql: str) -> TableResult:
        return self._run_inserts(self._bound_inserts(nodes, sql))

    def _bound_inserts(self, nodes: Sequence[syntax.Insert], sql: str) -> list[PlannedInsert]:
        return [PlannedInsert(Binder(self.catalog, sql).insert(node), node, sql) for node in nodes]

    def _sinks(self, inserts: Sequence[PlannedInsert], is_alone: bool = False) -> list[PhysicalTransformation]:
        """The sinks of several plans, below which each table is read once."""
        program = self._program(
            [each.plan.input for each in inserts], [(each.statement, each.sql) for each in inserts], is_alone
        )
        return [program.insert(each.plan, each.statement, each.sql) for each in inserts]

    def _run_inserts(self, inserts: Sequence[PlannedInsert]) -> TableResult:
        """One job of several plans."""
        sinks = self._sinks(inserts, is_alone=True)
        written = [_written(each, number) for number, each in enumerate(inserts)]
        return self._start(sinks, [".".join(each.plan.table.path) for each in inserts], len(set(written)))

    def _start(self, sinks: Sequence[Transformation], names: list[str], count: int) -> TableResult:
        """The job of sinks of tables with these names; so many columns has its answer."""
        client = self._runner._submit_alone(sinks, f"insert-into_{','.join(names)}")
        names = _sink_names(names)[:count]
        columns = row_type(names, [BIGINT] * len(names))
        answer = Answer(columns, ((-1,) * len(names),), ResultKind.SUCCESS_WITH_CONTENT, PrintStyle.RAW)
        result = self._result_type(columns, answer, client)
        if self._runner.configuration.get(DML_SYNC):
            result.wait()
        return result

    def _create_as(self, node: syntax.CreateTable, sql: str) -> TableResult:
        """CREATE TABLE AS: the table stays only where the job could be started."""
        path = self.catalog.path(node.table.texts)
        before = self.catalog.entry(path, node.temporary)
        insert = self._created_for(node, sql)
        try:
            return self._insert([insert], sql)
        except Exception:
            self.catalog.restore(path, node.temporary, before)
            raise

    def _created_for(self, node: syntax.CreateTable, sql: str) -> syntax.Insert:
        """Creates the table of CREATE TABLE AS, and gives what fills it; with IF NOT EXISTS the one that is there, as
        Flink has it."""
        table, queried = Binder(self.catalog, sql).table(node)
        if not node.temporary and self.catalog.is_temporary(table.path):
            message = f"the temporary table {table.path[2]!r} would be filled: DROP it, or create another one"
            raise SqlValidationError(message, sql, node.table.span.start, node.table.span.end)
        assert node.query is not None
        assert queried is not None
        if Changes(self.catalog, sql, self._load_function).table(node) is None:
            return syntax.Insert(node.table, node.query, span=node.span)
        columns = tuple(Path((Name(name),), span=node.query.span) for name in queried.row_type.names)
        return syntax.Insert(node.table, node.query, columns=columns, span=node.span)

    # -- compiled plans

    def compile_plan_sql(self, stmt: str) -> CompiledPlan:
        """The plan of an INSERT, or of a statement set, which can be kept in a file.

        Raises:
            SqlError: the statement is wrong, or cannot be executed yet; shows where.
            InvalidProgramError: it reads rows of this process, or calls a function without a name.
        """
        node = parse_statement(stmt)
        if not isinstance(node, syntax.Insert | syntax.StatementSet):
            raise InvalidProgramError("compile_plan_sql takes an INSERT, or a statement set")
        return self._compiled(node, stmt)

    def load_plan(self, plan_reference: PlanReference) -> CompiledPlan:
        """A plan that was compiled before, perhaps by another version.

        Raises:
            InvalidProgramError: it cannot be read, or is of a version that is not known here.
        """
        if not isinstance(plan_reference, PlanReference):
            raise InvalidProgramError("load_plan takes PlanReference.from_file(path), or .from_json_string(text)")
        return CompiledPlan(self, from_text(plan_reference.read(), str(plan_reference)))

    def execute_plan(self, plan_reference: PlanReference) -> TableResult:
        """Starts the job of a plan that was compiled before; errors as of `load_plan` and `CompiledPlan.execute`."""
        return self.load_plan(plan_reference).execute()

    def _compiled(self, node: syntax.Insert | syntax.StatementSet, sql: str) -> CompiledPlan:
        nodes = node.inserts if isinstance(node, syntax.StatementSet) else (node,)
        return CompiledPlan(self, self._compile(self._bound_inserts(nodes, sql)))

    def _compile_into_file(self, node: syntax.CompilePlan, sql: str) -> TableResult:
        reference = PlanReference.from_file(node.file)
        if node.if_not_exists and reference.exists():
            plan = self.load_plan(reference)
        else:
            self._check_may_write(reference)
            plan = self._compiled(node.statement, sql)
            reference.write(plan.as_json_string())
        return plan.execute() if node.executes else self._result(OK)

    def _check_may_write(self, plan: FilePlanReference) -> None:
        if plan.exists() and not self._runner.configuration.get(PLAN_FORCE_RECOMPILE):
            raise InvalidProgramError(
                f"there is a file {plan.path!r} already, and jobs may have state that only its plan finds again: write "
                f"IF NOT EXISTS, remove the file, or, to try things out, SET {PLAN_FORCE_RECOMPILE.key!r} = 'true'"
            )

    def _compile(self, inserts: Sequence[PlannedInsert]) -> PlanContent:
        statements = [(each.statement, each.sql) for each in inserts]
        plans = [each.plan for each in inserts]
        program = self._program([plan.input for plan in plans], statements, is_alone=True)
        strategy = self._runner.configuration.get(PLAN_COMPILE)
        content = content_of(plans, program, self.catalog, self._streams, strategy)
        _, made = self._lowered(content, statements)
        return replace(content, uids=made.uids)

    def _lowered(
        self, content: PlanContent, statements: Sequence[tuple[Node, str]] = ()
    ) -> tuple[list[PhysicalTransformation], Program]:
        """The sinks of a compiled plan, and the program that they are in."""
        return lowered(content, self.catalog, self._runner.configuration, statements)

    def _present(self, content: PlanContent) -> PlanContent:
        return as_tables_are_now(content, self.catalog, self._runner.configuration.get(PLAN_RESTORE))

    def _run_compiled(self, content: PlanContent) -> TableResult:
        sinks, program = self._lowered(self._present(content))
        check_uids(content, program.uids)
        names = target_names(content)
        return self._start(sinks, names, len(set(names)))

    def _explain_compiled(self, content: PlanContent, details: Sequence[object]) -> str:
        names, content = detail_names(details), self._present(content)
        sinks, program = self._lowered(content)
        texts = [
            explain(insert, program.needs_before(insert) if _CHANGES in names else None) for insert in content.inserts
        ]
        return "\n".join(["== Optimized Plan ==", *texts, *self._more(sinks, names)])

    # -- EXPLAIN

    def _explained(self, node: syntax.Explain, sql: str) -> str:
        details = set(node.details) - _DETAILS
        if details:
            message = f"EXPLAIN {min(details)} is not there; it takes {', '.join(sorted(_DETAILS))}"
            raise SqlUnsupportedError(message, sql, node.span.start, node.span.end)
        binder, planned = Binder(self.catalog, sql), node.statement
        if isinstance(planned, syntax.QueryStatement):
            return self._explain([binder.query(planned)], [planned], sql, node.details)
        if isinstance(planned, syntax.CreateTable):
            return self._explained_table(planned, sql, node.details)
        inserts = planned.inserts if isinstance(planned, syntax.StatementSet) else (planned,)
        return self._explain([binder.insert(each) for each in inserts], inserts, sql, node.details)

    def _explained_table(self, node: syntax.CreateTable, sql: str, details: Sequence[str]) -> str:
        """What CREATE TABLE AS would run, also where there is such a table."""
        path = self.catalog.path(node.table.texts)
        before = self.catalog.entry(path, node.temporary)
        try:
            insert = self._created_for(replace(node, if_not_exists=False, replaces=node.replaces or "OR REPLACE"), sql)
            return self._explain([Binder(self.catalog, sql).insert(insert)], [insert], sql, details)
        finally:
            self.catalog.restore(path, node.temporary, before)

    def _explain(self, plans: Sequence[Plan], nodes: Sequence[Node], sql: str, details: Sequence[str] = ()) -> str:
        parts = ["== Logical Plan ==", *map(explain, plans)]
        statements = [(node, sql) for node in nodes]
        program = self._program([], statements)
        parts.append("== Optimized Plan ==")
        for plan in plans:
            has_modes = _CHANGES in details and not program.is_batch  # in batch mode rows are final, as in Flink
            before = not isinstance(plan, Insert) or program.needs_before(plan) if has_modes else None
            parts.append(explain(optimized(program.read(plan)), before))
        transformations: list[Transformation] = []
        if _GRAPH in details:
            queries = [plan.input if isinstance(plan, Insert) else plan for plan in plans]
            program = self._program(queries, statements, is_alone=True)
            for plan, node in zip(plans, nodes, strict=True):
                if isinstance(plan, Insert):
                    transformations.append(program.insert(plan, node, sql))
                else:
                    transformations.append(_collected(program.rows(plan, node, sql), ""))
        return "\n".join([*parts, *self._more(transformations, details)])

    def _more(self, transformations: Sequence[Transformation], details: Sequence[str]) -> list[str]:
        """What EXPLAIN shows behind plans."""
        found = ["No available advice..."] if _ADVICE in details else []
        return [*found, "== Job Graph ==", self._runner._plan_alone(transformations)] if _GRAPH in details else found


def _written(insert: PlannedInsert, number: int) -> tuple[object, ...]:
    """What is the same of inserts that Flink writes with one sink, for which its answer has one column."""
    plan = insert.plan
    columns = tuple(each.texts for each in getattr(insert.statement, "columns", ()))
    return plan.table.path, plan.overwrite, plan.partition, columns, number if plan.hints else None


def _sink_names(names: Sequence[str]) -> list[str]:
    """Names of tables, numbered where there are several inserts into one."""
    seen: Counter[str] = Counter()
    counts = Counter(names)
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if counts[name] == 1 else f"{name}_{seen[name]}")
    return found


def _collected(rows: Transformation, collect_id: str) -> PhysicalTransformation:
    """The sink by which the rows of a query come to whoever asks it."""
    return PhysicalTransformation(
        name="Sink: Collect",
        factory=SinkFactory(CollectSink(collect_id)),
        input_transformations=(rows,),
        parallelism=own_parallelism(rows),
    )


def detail_names(details: Sequence[object]) -> list[str]:
    """What EXPLAIN tells beside plans, by names or PyFlink's ExplainDetail.

    Raises:
        InvalidProgramError: there is no such detail here.
    """
    names = list(map(word, details))
    for name in names:
        if name not in _DETAILS:
            raise InvalidProgramError(f"explain({name}) is not there; it takes {', '.join(sorted(_DETAILS))}")
    return names


def _refused(node: syntax.Statement, sql: str) -> SqlError:
    """The error of a statement that can be read and that nothing here carries out."""
    reasons: dict[type[syntax.Statement], str] = {
        syntax.Truncate: "tables are not emptied here: DROP the table, or remove its rows where they are kept",
        syntax.Update: "rows are not updated in place here: INSERT INTO a table with a primary key writes over them",
        syntax.Delete: "rows are not deleted in place here",
        syntax.CreateMaterializedTable: "there are no materialized tables here: CREATE TABLE ... AS, or a VIEW",
        syntax.CreateModel: "there are no models here: call one in a function of your own",
        syntax.LoadModule: "there is one module, core, and it is always loaded",
        syntax.UnloadModule: "there is one module, core, and it is always loaded",
        syntax.ChangeJars: "there are no jars here; functions are in Python",
        syntax.Analyze: "there are no statistics of tables here",
        syntax.CallProcedure: "there are no procedures here",
        syntax.StopJob: "jobs are stopped by their client: result.get_job_client().stop_with_savepoint()",
    }
    message = reasons.get(type(node))
    if message is None:
        return SqlValidationError(f"{type(node).__name__} cannot be carried out here", sql, 0, len(sql))
    return SqlUnsupportedError(message, sql, node.span.start, node.span.end)
