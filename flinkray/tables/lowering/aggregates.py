"""Aggregates of groups as operators."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from flinkray.tables.functions.aggregates import OF_ALL_VALUES
from flinkray.tables.lowering.contract import Lowering, Unexecutable
from flinkray.tables.plans.explain import aggregate_text
from flinkray.tables.plans.expressions import AggregateCall, BoundExpression, Call, Column, Constant, equal
from flinkray.tables.plans.nodes import Aggregate, Expand, Project
from flinkray.tables.types.logical import INT, RowType
from flinkray.tables.user_functions import GENERAL, AggregateFunction, Implementation, takes_back
from flinkray.transformations.table_factories import ExpandFactory, GroupAggregateFactory, LocalAggregateFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation, own_parallelism
from flinkray.types.changelogs import Changes

logger = logging.getLogger(__name__)

_KEEP_ALL_TO_TAKE_BACK = frozenset(["FIRST_VALUE", "LAST_VALUE", "MAX", "MIN"])
_SPREADS = frozenset(["STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP"])
_MERGED = frozenset(["AVG", "COUNT", "SUM"]) | _SPREADS
"""Aggregates of which what is kept of parts of a group can be merged; also MIN and MAX, where nothing is taken back."""
_EXECUTABLE = (
    frozenset(["APPROX_COUNT_DISTINCT", "AVG", "COUNT", "GROUPING", "SINGLE_VALUE", "SUM"])
    | _SPREADS
    | OF_ALL_VALUES
    | _KEEP_ALL_TO_TAKE_BACK
)


def aggregated(plan: Aggregate, lowering: Lowering, before: bool) -> Transformation:
    """The results of each group."""
    rows, takes = plan.input.row_type, lowering.input_changes(plan, before)
    functions = checked_functions(plan, lowering, takes[0].is_insert_only)
    if plan.grouping_sets:
        return lowering.of(_expanded(plan), before)
    ttl_ms = lowering.options.state_ttl_ms if plan.ttl_ms is None else plan.ttl_ms
    calls = [call_text(call, rows.names, functions) for call in plan.calls]
    factory = GroupAggregateFactory(
        input_rows=(rows,),
        rows=plan.row_type,
        takes=takes,
        gives=lowering.changes(plan, before),
        state_ttl_ms=ttl_ms,
        keys=plan.keys,
        calls=plan.calls,
        text=", ".join(f"{text} {call.type}" for text, call in zip(calls, plan.calls, strict=True)),
        functions=functions,
    )
    keys = ", ".join(rows.names[each] for each in plan.keys)
    description = f"[{keys}]: {', '.join(calls)}"
    if not ttl_ms and not lowering.options.is_batch:
        _warn_of_growth(plan, description, takes[0].is_insert_only)
    if not _has_local_phase(plan, takes[0].is_insert_only, lowering.options.phases):
        return lowering.operator("GroupAggregate", description, plan, factory, [plan.keys], before)
    local = _local_phase(plan, lowering.of(plan.input), takes, description)
    factory = replace(factory, merges=True)
    return lowering.operator("GroupAggregate", description, plan, factory, [plan.keys], before, [local])


def _local_phase(
    plan: Aggregate, source: Transformation, takes: tuple[Changes, ...], description: str
) -> PhysicalTransformation:
    rows = plan.input.row_type
    factory = LocalAggregateFactory(
        input_rows=(rows,),
        rows=RowType(tuple(rows.fields[each] for each in plan.keys)),
        takes=takes,
        keys=plan.keys,
        calls=plan.calls,
    )
    return PhysicalTransformation(
        name="LocalGroupAggregate",
        description=description,
        factory=factory,
        input_transformations=(source,),
        parallelism=own_parallelism(source),
    )


def _has_local_phase(plan: Aggregate, is_insert_only: bool, phases: str) -> bool:
    """Whether what comes of each batch is aggregated before the exchange."""
    merged = _MERGED | {"MAX", "MIN"} if is_insert_only else _MERGED
    can_be_merged = all(call.function in merged and not call.distinct for call in plan.calls)
    return can_be_merged and phases != "ONE_PHASE"


Functions = tuple[tuple[str, Implementation], ...]


def checked_functions(plan: Aggregate, lowering: Lowering, is_insert_only: bool) -> Functions:
    """The user's aggregates among the calls, by their names there.

    Raises:
        Unexecutable: an aggregate of groups cannot compute one of the calls.
    """
    found = {}
    for call in plan.calls:
        implementation = lowering.user_aggregate(call.function)
        reason = None if implementation is None else _why_not(call, implementation, is_insert_only)
        if (implementation is None and call.function not in _EXECUTABLE) or call.order or reason:
            raise Unexecutable(replace(plan, keys=(), calls=(call,)), reason or "")
        if implementation is not None:
            found[call.function] = implementation
    return tuple(found.items())


def _why_not(call: AggregateCall, implementation: Implementation, is_insert_only: bool) -> str | None:
    """Why an aggregate of the user's cannot be computed; None: it can."""
    function, name = implementation.function, implementation.name
    is_general = implementation.kind == GENERAL
    if call.distinct:
        return f"{name} takes all rows: an aggregate of the user's has no DISTINCT; group a query with DISTINCT"
    if is_general and not isinstance(function, AggregateFunction):
        return f"{name} is a function: make it an AggregateFunction, or one of whole columns with func_type='pandas'"
    if is_general and not is_insert_only and not takes_back(function):
        return f"{name} has no retract(accumulator, ...), by which it takes rows back that are updated or deleted"
    if not is_general and not call.arguments:
        return f"{name} has no arguments, so that it gets no columns"
    return None


def call_text(call: AggregateCall, names: Sequence[str], functions: Functions) -> str:
    """A call as text, with the user's names of functions, which are the same in every process."""
    of_users = dict(functions).get(call.function)
    return aggregate_text(call if of_users is None else replace(call, function=of_users.name), names)


def _warn_of_growth(plan: Aggregate, description: str, is_insert_only: bool) -> None:
    names = plan.input.row_type.names
    keep_all = OF_ALL_VALUES if is_insert_only else OF_ALL_VALUES | _KEEP_ALL_TO_TAKE_BACK
    found = [aggregate_text(call, names) for call in plan.calls if call.distinct or call.function in keep_all]
    if found:
        logger.warning(
            "GroupAggregate %s: all values of each group are kept, for %s, as long as they are not taken back; give "
            "state a time to live (table.exec.state.ttl) if groups come to an end",
            description,
            ", ".join(found),
        )


# -- grouping sets


def _expanded(plan: Aggregate) -> Project:
    """Grouping sets as one aggregate, whose last key says which set a group is of."""
    expand = Expand(plan.input, plan.keys, plan.grouping_sets)
    width, count = len(plan.input.row_type.fields), len(plan.keys)
    calls = tuple(call for call in plan.calls if call.function != "GROUPING")
    keys = tuple(range(width, width + count + 1))
    names = (*plan.names[:count], "$set", *(f"$agg{number}" for number in range(len(calls))))
    aggregate = Aggregate(expand, keys, calls, names, ttl_ms=plan.ttl_ms)
    types = aggregate.row_type.types
    results: list[BoundExpression] = [Column(types[place], place) for place in range(count)]
    for call in plan.calls:
        if call.function == "GROUPING":
            results.append(_missing_keys(call, plan, count))
        else:
            place = count + 1 + calls.index(call)
            results.append(Column(types[place], place))
    return Project(aggregate, tuple(results), plan.names)


def _missing_keys(call: AggregateCall, plan: Aggregate, set_column: int) -> BoundExpression:
    """A bit for each argument, the first one the highest: 1 where the group's set is without it."""
    of_set = Column(INT.not_null(), set_column)
    cases: list[BoundExpression] = []
    for number, places in enumerate(plan.grouping_sets):
        kept = {plan.keys[place] for place in places}
        bits = "".join("0" if isinstance(each, Column) and each.index in kept else "1" for each in call.arguments)
        cases += [equal(of_set, Constant(INT.not_null(), number)), Constant(call.type, int(bits, 2))]
    return Call(call.type, "CASE", (*cases[:-2], cases[-1]))


def expanded(plan: Expand, lowering: Lowering, before: bool) -> Transformation:
    """Each row once for each grouping set, by its input's parallelism, so that the changes of one row stay in order."""
    source, changes = lowering.of(plan.input, before), lowering.changes(plan.input, before)
    factory = ExpandFactory(
        input_rows=(plan.input.row_type,),
        rows=plan.row_type,
        takes=(changes,),
        gives=changes,
        keys=plan.keys,
        sets=plan.sets,
    )
    names = plan.input.row_type.names
    sets = ", ".join(f"[{', '.join(names[plan.keys[each]] for each in places)}]" for places in plan.sets)
    return PhysicalTransformation(
        name="Expand",
        description=sets,
        factory=factory,
        input_transformations=(source,),
        parallelism=own_parallelism(source),
    )
