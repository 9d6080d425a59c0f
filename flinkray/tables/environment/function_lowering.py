"""Functions of the user's in plans: each is an operator of its own, between those of the built-in functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from flinkray.connectors.lookup import LookupTable
from flinkray.tables.catalog import UserFunction
from flinkray.tables.lowering.contract import NodeUids, TableOptions, Unexecutable
from flinkray.tables.lowering.lowering import PlanLowering
from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Plan,
    children,
    conjunction,
    conjuncts,
    expressions_of,
    rewritten,
    walk,
)
from flinkray.tables.plans.nodes import (
    Filter,
    Join,
    Project,
    Scan,
    SingleInput,
    TableFunctionCall,
    unique_names,
)
from flinkray.tables.plans.rules.rewriting import columns, with_expressions
from flinkray.tables.plans.tables import Table, TableColumn, TablePath
from flinkray.tables.types.arrow import stored_schema, to_arrow
from flinkray.tables.user_functions import Implementation, ScalarCall, ScalarCalls, TableCalls
from flinkray.transformations.operator_factories import MapBatchesFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation, own_parallelism
from flinkray.types.records import Kind, RecordType

_PLACES = (
    "functions of the user's are called in SELECT, WHERE and ON of inner joins; compute the value below what reads it"
)
FindFunction = Callable[[str], UserFunction | None]


class ProgramLowering(PlanLowering):
    """Makes the transformations of plans in which functions of the user's are called.

    Args:
        streams, lookups, uids: as of `Lowering`; what operators of the user's functions give is added to the streams.
        find: gives the function of a name.
    """

    def __init__(
        self,
        streams: dict[TablePath, Transformation],
        find: FindFunction,
        options: TableOptions | None = None,
        lookups: Mapping[TablePath, LookupTable] | None = None,
        uids: NodeUids | None = None,
    ) -> None:
        super().__init__(streams, options, lookups, uids)
        self._find = find
        self._tables = streams

    def lowered(self, plan: Plan, before: bool) -> Transformation:
        if isinstance(plan, TableFunctionCall):
            return self._table_function(plan, before)
        calls = self._innermost(plan)
        if not calls:
            if isinstance(plan, Project) and isinstance(plan.input, Filter) and self._innermost(plan.input):
                # One operator is made of both, which would have the calls in it.
                plan = replace(plan, input=self._as_table(self.of(plan.input, True), plan.input, "Filter"))
            return super().lowered(plan, before)
        if isinstance(plan, Join) and plan.kind == "INNER":
            return self.of(self._behind(plan), before)
        if not isinstance(plan, Project | Filter):
            raise Unexecutable(plan, _PLACES)
        return self.of(self._without(plan, calls, before), before)

    def _behind(self, plan: Join) -> Plan:
        """An inner join whose pairs are asked for the conditions in which functions of the user's are called."""
        conditions = conjuncts(plan.condition)
        asked = [each for each in conditions if any(map(self._is_call, walk(each)))]
        condition = conjunction(asked)
        assert condition is not None
        joined = replace(plan, condition=conjunction(each for each in conditions if each not in asked))
        return Filter(joined, condition)

    def _innermost(self, plan: Plan) -> tuple[Call, ...]:
        """The calls of the user's functions in a node that have no other one among their arguments."""
        found: dict[Call, None] = {}
        for expression in expressions_of(plan):
            for each in walk(expression):
                if self._is_call(each) and not any(
                    self._is_call(below) for part in children(each) for below in walk(part)
                ):
                    assert isinstance(each, Call)
                    found[each] = None
        return tuple(found)

    def _is_call(self, expression: BoundExpression) -> bool:
        return isinstance(expression, Call) and self._function(expression.function) is not None

    def user_aggregate(self, name: str) -> Implementation | None:
        found = self._find(name)
        if found is None or found.name != name or found.kind != "aggregate":
            return None
        implementation: Implementation | None = found.implementation
        return implementation

    def _function(self, name: str) -> UserFunction | None:
        found = self._find(name)
        return found if found is not None and found.name == name and found.kind == "scalar" else None

    # -- scalar functions

    def _without(self, plan: Project | Filter, calls: tuple[Call, ...], before: bool) -> Plan:
        """The node over its input with the results of the calls as further columns."""
        needs = before or isinstance(plan, Filter)
        width = len(plan.input.row_type.fields)
        source, places = self._with_arguments(plan.input, [call.arguments for call in calls], needs)
        results, made = [], []
        names = unique_names([*plan.input.row_type.names, *(call.function for call in calls)])
        for call, arguments, name in zip(calls, places, names[width:], strict=True):
            function = self._function(call.function)
            assert function is not None
            if function.implementation is None:
                raise Unexecutable(plan)
            field = pa.field(name, to_arrow(call.type))
            results.append(TableColumn(name, call.type))
            made.append(ScalarCall(function.implementation, arguments, field))
        inputs = [TableColumn(field.name, field.type) for field in plan.input.row_type.fields]
        title = ", ".join(each.implementation.name for each in made)
        extended = self._step(source, ScalarCalls(made, width, self.options.awaiting), [*inputs, *results], title, plan)
        numbers = {call: Column(call.type, width + place) for place, call in enumerate(calls)}

        def change(expression: BoundExpression) -> BoundExpression:
            return rewritten(expression, lambda each: numbers.get(each, each) if isinstance(each, Call) else each)

        changed = replace(with_expressions(plan, change), input=extended)
        if isinstance(changed, Filter):
            return Project(changed, columns(plan), plan.row_type.names)
        return changed

    def _with_arguments(
        self, source: Plan, calls: list[tuple[BoundExpression, ...]], before: bool
    ) -> tuple[Transformation, list[tuple[int, ...]]]:
        """The rows of a plan with the arguments of calls behind their columns, and where those are."""
        expressions: list[BoundExpression] = list(columns(source))
        places = []
        for arguments in calls:
            own = []
            for each in arguments:
                if each not in expressions:
                    expressions.append(each)
                own.append(expressions.index(each))
            places.append(tuple(own))
        names = source.row_type.names
        if len(expressions) == len(names):
            return self.of(source, before), places
        added = [f"argument {place}" for place in range(len(names), len(expressions))]
        wider = Project(source, tuple(expressions), tuple(unique_names([*names, *added])))
        return self.of(wider, before), places

    def _step(
        self, source: Transformation, function: Any, made: Sequence[TableColumn], title: str, plan: SingleInput
    ) -> Scan:
        """What an operator that calls functions gives, as a table that is scanned."""
        schema = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in made])
        operator = PhysicalTransformation(
            name=f"Python: {title}",
            factory=MapBatchesFactory(function, "pyarrow", RecordType(Kind.ROW, schema)),
            input_transformations=(source,),
            parallelism=own_parallelism(source),
        )
        return self._as_table(operator, plan.input, title, made)

    def _as_table(
        self, rows: Transformation, plan: Plan, title: str, made: Sequence[TableColumn] | None = None
    ) -> Scan:
        """Rows that do what those of a plan do, as a table that is scanned."""
        columns = tuple(made or [TableColumn(field.name, field.type) for field in plan.row_type.fields])
        path = ("", "", f"{title} {len(self._tables)}")
        self._tables[path] = rows
        return Scan(Table(path, columns, changes=self.changes(plan)), tuple(range(len(columns))))

    # -- table functions

    def _table_function(self, plan: TableFunctionCall, before: bool) -> Transformation:
        function = self._find(plan.function)
        changes = self.changes(plan.input)
        if function is None or function.implementation is None or not changes.is_insert_only:
            raise Unexecutable(plan)
        if any(self._is_call(each) for argument in plan.arguments for each in walk(argument)):
            inner = Project(plan.input, (*columns(plan.input), *plan.arguments), self._names(plan))
            width = len(plan.input.row_type.fields)
            arguments = tuple(Column(each.type, width + place) for place, each in enumerate(plan.arguments))
            source, places = self.of(inner, before), [tuple(each.index for each in arguments)]
        else:
            source, places = self._with_arguments(plan.input, [plan.arguments], before)
        width = len(plan.input.row_type.fields)
        rows = stored_schema(plan.row_type)
        added = pa.schema(list(rows)[width:])
        calls = TableCalls(function.implementation, places[0], width, added, plan.is_outer)
        made = [TableColumn(field.name, field.type) for field in plan.row_type.fields]
        return self.of(self._step(source, calls, made, function.implementation.name, plan), before)

    def _names(self, plan: TableFunctionCall) -> tuple[str, ...]:
        names = plan.input.row_type.names
        return tuple(unique_names([*names, *(f"argument {place}" for place in range(len(plan.arguments)))]))
