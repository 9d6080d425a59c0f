"""Windows as columns, and joins and ranks within windows, as operators."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.tables.lowering.aggregates import aggregated
from flinkray.tables.lowering.contract import Lowering, Unexecutable
from flinkray.tables.lowering.joins import with_strict_keys
from flinkray.tables.lowering.ranks import check_order
from flinkray.tables.lowering.times import beside, check_time, has_time, in_instants, in_local_time, is_proctime
from flinkray.tables.lowering.window_aggregates import of_windows, window_aggregate
from flinkray.tables.plans.changelogs import inputs_need_before
from flinkray.tables.plans.expressions import Column, Plan, SortKey
from flinkray.tables.plans.nodes import Aggregate, Deduplicate, Filter, Join, Rank, WindowTableFunction
from flinkray.tables.plans.rules.time_zones import UTC
from flinkray.tables.plans.window_columns import (
    WindowColumns,
    is_window_aggregate,
    is_window_join,
    is_window_rank,
    window_columns,
)
from flinkray.tables.types.logical import TypeRoot
from flinkray.transformations.table_window_factories import (
    SessionFactory,
    WindowJoinFactory,
    WindowRankFactory,
    Windows,
    WindowTableFunctionFactory,
)
from flinkray.transformations.transformation import Transformation
from flinkray.types.records import Millis


def by_window(plan: Plan, lowering: Lowering, before: bool) -> Transformation | None:
    """What is computed of each window by itself, once it has ended; None: nothing is, or rows are taken back of what
    is no aggregate."""
    if isinstance(plan, Aggregate) and (plan.window is not None or is_window_aggregate(plan)):
        has_columns = plan.grouping_sets and plan.window is None
        return aggregated(plan, lowering, before) if has_columns else window_aggregate(plan, lowering)
    if not all(each.is_insert_only for each in lowering.input_changes(plan, before)):
        return None
    match plan:
        case Rank() | Deduplicate() if is_window_rank(plan):
            return window_rank(plan, lowering, before)
        case Join() if is_window_join(plan):
            return window_join(plan, lowering, before)
    return None


def windowed(plan: WindowTableFunction, lowering: Lowering, before: bool) -> Transformation:
    """Rows with the columns of their windows."""
    check_time(plan, f"{plan.kind} is over", plan.time, lowering)
    condition = has_time(Column(plan.input.row_type.types[plan.time], plan.time), lowering)
    if condition is not None:
        plan = replace(plan, input=Filter(plan.input, condition))
    if plan.kind == "SESSION":
        return _sessions(plan, lowering, before)
    rows = plan.input.row_type
    start, end, time = plan.window_columns
    factory = WindowTableFunctionFactory(
        None if is_proctime(rows.types[plan.time]) else rows.names[plan.time],
        Windows(plan.kind, plan.size, plan.slide or plan.size, plan.offset),
        (start.name, end.name, time.name),
        time.type.root is TypeRoot.TIMESTAMP_LTZ,
        lowering.options.time_zone,
    )
    step = f", every {plan.slide} ms" if plan.slide else ""
    description = f"{plan.kind} of {plan.size} ms{step} by {rows.names[plan.time]}"
    return beside(lowering.of(plan.input, before), "WindowTableFunction", description, factory)


def _sessions(plan: WindowTableFunction, lowering: Lowering, before: bool) -> Transformation:
    """Rows with the columns of their sessions, which are known when these have ended."""
    rows, takes = plan.input.row_type, lowering.input_changes(plan, before)
    kind = rows.types[plan.time]
    if is_proctime(kind):
        raise Unexecutable(plan, "sessions of processing time are for aggregates of their rows alone")
    zone = lowering.options.time_zone if kind.root is TypeRoot.TIMESTAMP_LTZ else UTC
    factory = SessionFactory(
        input_rows=(rows,),
        rows=plan.row_type,
        takes=takes,
        time=plan.time,
        gap_ms=Millis(plan.size),
        time_zone=zone,
    )
    keys = ", ".join(rows.names[each] for each in plan.partition_by)
    description = f"SESSION of {plan.size} ms by {rows.names[plan.time]} of [{keys}]"
    if zone == UTC:
        return lowering.operator("WindowTableFunction", description, plan, factory, [plan.partition_by], before)
    need = inputs_need_before(plan, before)[0]
    inputs = [in_local_time(lowering.of(plan.input, need), zone)]
    description += f" as clocks in {zone} show it"
    sessions = lowering.operator("WindowTableFunction", description, plan, factory, [plan.partition_by], before, inputs)
    return in_instants(sessions, zone)


def window_rank(plan: Rank | Deduplicate, lowering: Lowering, before: bool) -> Transformation:
    """The first rows of each key in each window, or its last one by a time."""
    found = _windows(plan, 0)
    rows = plan.input.row_type
    keys = plan.partition_by if isinstance(plan, Rank) else plan.keys
    if isinstance(plan, Rank):
        kind, order, bounds = plan.kind, plan.order, (plan.first, plan.last)
    else:
        by_arrival = is_proctime(rows.types[plan.time])
        kind, bounds = "ROW_NUMBER", (1, 1)
        order = () if by_arrival else (SortKey(plan.time, plan.keeps_last, not plan.keeps_last),)
    check_order(plan, order)
    factory = WindowRankFactory(
        input_rows=(rows,),
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before),
        ends=(found.end,),
        kind=kind,
        keys=keys,
        order=order,
        first=bounds[0],
        last=bounds[1],
        has_number=isinstance(plan, Rank) and plan.has_number,
        is_latest_first=isinstance(plan, Deduplicate) and plan.keeps_last,
    )
    name = "WindowRank" if isinstance(plan, Rank) else "WindowDeduplicate"
    text = ", ".join(f"{rows.names[each.index]}{' DESC' if each.descending else ''}" for each in order)
    description = f"{kind} {bounds[0]} to {bounds[1]} of [{', '.join(rows.names[each] for each in keys)}] by [{text}]"
    others = tuple(each for each in keys if each not in (found.start, found.end))
    return of_windows(found, name, description, plan, factory, [others], lowering, before)


def window_join(plan: Join, lowering: Lowering, before: bool) -> Transformation:
    """Pairs of rows of the same window."""
    if plan.is_null_aware:
        raise Unexecutable(plan, "in windows, write NOT EXISTS instead of NOT IN")
    plan = with_strict_keys(plan)
    left, right = _windows(plan, 0), _windows(plan, 1)
    factory = WindowJoinFactory(
        input_rows=(plan.left.row_type, plan.right.row_type),
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before),
        ends=(left.end, right.end),
        kind=plan.kind,
        keys=(tuple(pair[0] for pair in plan.keys), tuple(pair[1] for pair in plan.keys)),
        condition=plan.condition,
    )
    names = plan.left.row_type.names, plan.right.row_type.names
    text = ", ".join(f"{names[0][pair[0]]} = {names[1][pair[1]]}" for pair in plan.keys)
    others = [pair for pair in plan.keys if pair not in ((left.start, right.start), (left.end, right.end))]
    keys = [tuple(pair[side] for pair in others) for side in (0, 1)]
    return of_windows(left, "WindowJoin", f"{plan.kind} on {text}", plan, factory, keys, lowering, before)


def _windows(plan: Rank | Deduplicate | Join, side: int) -> WindowColumns:
    """The window's columns of an input; that of the clock would have ended before its rows are here."""
    found = window_columns(plan.inputs[side])
    if found is None or found.windows.is_proctime:
        raise Unexecutable(plan, "windows of processing time are for aggregates of their rows alone")
    return found
