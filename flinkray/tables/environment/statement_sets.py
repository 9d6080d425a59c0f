"""INSERTs that are kept to run later: a TablePipeline of one, a StatementSet of several that are one job, and a
CompiledPlan, which outlives the process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.schemas import TableDescriptor
from flinkray.tables.api.table import Table
from flinkray.tables.binding.binder import Binder
from flinkray.tables.catalog import UNREGISTERED, Catalog, ObjectIdentifier
from flinkray.tables.compiled.contents import PlanContent, to_text
from flinkray.tables.compiled.references import FilePlanReference, PlanReference
from flinkray.tables.environment.results import TableResult
from flinkray.tables.plans.nodes import Insert
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.syntax.parsing.parser import parse_statement


class PlannedInsert(Struct, frozen=True):
    """The plan of an INSERT, and the statement that it was made of."""

    plan: Insert
    statement: Node
    sql: str


class Plans(Protocol):
    """What compiled plans need of the environment that they belong to."""

    def _run_compiled(self, content: PlanContent) -> TableResult:
        """The job of a compiled plan."""

    def _explain_compiled(self, content: PlanContent, details: Sequence[Any]) -> str:
        """A compiled plan as text."""

    def _check_may_write(self, plan: FilePlanReference) -> None:
        """Raises InvalidProgramError where there is a file that must not be written over."""


class Inserts(Plans, Protocol):
    """What sets of INSERTs need of the environment that they belong to."""

    catalog: Catalog

    def _run_inserts(self, inserts: Sequence[PlannedInsert]) -> TableResult:
        """One job of several INSERTs."""

    def _explain_inserts(self, inserts: Sequence[PlannedInsert], details: Sequence[Any]) -> str:
        """Their plans as text."""

    def _compile(self, inserts: Sequence[PlannedInsert]) -> PlanContent:
        """One job of several INSERTs as a compiled plan."""

    def _attach(self, inserts: Sequence[PlannedInsert]) -> None:
        """Makes them part of the environment's own program."""


class CompiledPlan:
    """INSERTs that are one job as a plan, which makes the same operators with the same state whenever it is executed.

    Made with `compile_plan_sql`, `compile_plan` of statement sets and pipelines, and `load_plan`.
    """

    def __init__(self, environment: Plans, content: PlanContent) -> None:
        self._environment = environment
        self._content = content

    def as_json_string(self) -> str:
        """The plan as JSON, without the secrets among the options of its tables."""
        return to_text(self._content)

    def print_json_string(self) -> None:
        print(self.as_json_string())

    def write_to_file(self, file: str | os.PathLike[str], ignore_if_exists: bool = False) -> None:
        """Writes the plan as JSON.

        Args:
            file: a path or a URI.
            ignore_if_exists: leaves a file that is there as it is.
        Raises:
            InvalidProgramError: there is such a file, unless `table.plan.force-recompile` is set; or it cannot be
                written.
        """
        reference = PlanReference.from_file(file)
        if ignore_if_exists and reference.exists():
            return
        self._environment._check_may_write(reference)
        reference.write(self.as_json_string())

    def get_flink_version(self) -> str:
        """The version of flinkray that compiled the plan."""
        return self._content.compiled_by

    def execute(self) -> TableResult:
        """Starts the job.

        Raises:
            InvalidProgramError: a table has changed, a table, function or option is missing, or this version of
                flinkray makes other operators.
        """
        return self._environment._run_compiled(self._content)

    def explain(self, *extra_details: Any) -> str:
        """The plan as text; with details as those of `Table.explain`."""
        return self._environment._explain_compiled(self._content, extra_details)

    def print_explain(self, *extra_details: Any) -> None:
        print(self.explain(*extra_details))

    def __str__(self) -> str:
        return self.explain()


class TablePipeline:
    """The INSERT of a table's rows into a table."""

    def __init__(self, environment: Inserts, insert: PlannedInsert) -> None:
        self._environment = environment
        self._insert_planned = insert

    def execute(self) -> TableResult:
        """Starts the job."""
        return self._environment._run_inserts([self._insert_planned])

    def explain(self, *extra_details: Any) -> str:
        """The plan as text; with details as those of `Table.explain`."""
        return self._environment._explain_inserts([self._insert_planned], extra_details)

    def print_explain(self, *extra_details: Any) -> None:
        print(self.explain(*extra_details))

    def compile_plan(self) -> CompiledPlan:
        """The INSERT as a plan that can be kept; errors as of `compile_plan_sql`."""
        return CompiledPlan(self._environment, self._environment._compile([self._insert_planned]))

    def get_sink_identifier(self) -> ObjectIdentifier | None:
        """The name of the table that rows go into; None: it is one of a descriptor, and has none."""
        found = ObjectIdentifier(*self._insert_planned.plan.table.path)
        return None if found.object_name.startswith(UNREGISTERED) else found


class StatementSet:
    """INSERTs that are one job, in which each table is read once. Made with `create_statement_set()`."""

    def __init__(self, environment: Inserts) -> None:
        self._environment = environment
        self._inserts: list[PlannedInsert] = []

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Adds an INSERT statement.

        Raises:
            SqlError: it is wrong, or no INSERT; shows where.
        """
        node = parse_statement(stmt)
        if not isinstance(node, syntax.Insert):
            raise InvalidProgramError("a statement set takes INSERT statements")
        self._inserts.append(PlannedInsert(Binder(self._environment.catalog, stmt).insert(node), node, stmt))
        return self

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Adds the INSERT of a table's rows into a table."""
        return self.add(table.insert_into(target_path_or_descriptor, overwrite))

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Adds what `Table.insert_into` gave."""
        self._inserts.append(table_pipeline._insert_planned)
        return self

    def execute(self) -> TableResult:
        """Starts the job; the set is empty afterwards.

        Raises:
            InvalidProgramError: there is no INSERT in it.
        """
        return self._environment._run_inserts(self._taken())

    def compile_plan(self) -> CompiledPlan:
        """The INSERTs as a plan that can be kept; the set is empty afterwards. Errors as of `compile_plan_sql`."""
        return CompiledPlan(self._environment, self._environment._compile(self._taken()))

    def _taken(self) -> list[PlannedInsert]:
        inserts, self._inserts = self._inserts, []
        if not inserts:
            raise InvalidProgramError("the statement set is empty: add_insert_sql or add_insert first")
        return inserts

    def attach_as_datastream(self) -> None:
        """Makes the INSERTs part of the program of the environment, which `env.execute()` runs; empties the set."""
        inserts, self._inserts = self._inserts, []
        self._environment._attach(inserts)

    def explain(self, *extra_details: Any) -> str:
        """The plans as text; with details as those of `Table.explain`."""
        return self._environment._explain_inserts(self._inserts, extra_details)

    def print_explain(self, *extra_details: Any) -> None:
        print(self.explain(*extra_details))
