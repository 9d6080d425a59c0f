"""Aggregates of windows as the window operators of streams, which compute them in slices and in two phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.lowering.aggregates import call_text, checked_functions
from flinkray.tables.lowering.calc import added, columns_of_rows
from flinkray.tables.lowering.contract import Lowering, Unexecutable, keyed, state_text, to_one
from flinkray.tables.lowering.times import (
    check_time,
    has_time,
    in_instants,
    in_local_time,
    is_proctime,
    with_event_times,
)
from flinkray.tables.lowering.window_calls import ONE, NotBuiltIn, WindowCalls, call_of_interval
from flinkray.tables.plans.changelogs import inputs_need_before
from flinkray.tables.plans.explain import expression_text
from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Plan,
    columns_of,
    conjunction,
    expressions_of,
    is_deterministic,
    with_columns,
)
from flinkray.tables.plans.nodes import (
    Aggregate,
    Filter,
    GroupWindow,
    Project,
    WatermarkAssigner,
    WindowTableFunction,
    unique_names,
)
from flinkray.tables.plans.rules.time_zones import UTC
from flinkray.tables.plans.window_columns import WindowColumns, window_columns
from flinkray.tables.types.logical import TIMESTAMP, TIMESTAMP_LTZ, LogicalType, RowField, TimestampType, TypeRoot
from flinkray.time.zones import millis_ahead
from flinkray.transformations.operator_factories import CalcFactory, TableFactory, WindowFactory
from flinkray.transformations.table_window_factories import WindowAggregateFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation
from flinkray.types.keys import ColumnKey
from flinkray.windows.assigners import (
    CumulativeEventTimeWindows,
    CumulativeProcessingTimeWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)

SET_UTC = "SET 'table.local-time-zone' = 'UTC'"
_TIME = "t"
_START, _END = "window_start", "window_end"
"""What window operators call the bounds of windows, in milliseconds."""


class _Below(Struct, frozen=True):
    """The plan below projections and filters, and what these make of its rows."""

    plan: Plan
    columns: tuple[BoundExpression, ...]
    predicate: BoundExpression | None = None

    def under(self, above: _Below) -> _Below:
        """The same plan, with what `above` makes of these columns."""
        before = () if self.predicate is None else (self.predicate,)
        more = () if above.predicate is None else (above.predicate,)
        return _Below(self.plan, self.over(above.columns), conjunction([*before, *self.over(more)]))

    def over(self, expressions: Iterable[BoundExpression]) -> tuple[BoundExpression, ...]:
        """Expressions over these columns as such over the plan's."""
        return tuple(with_columns(each, self.columns.__getitem__) for each in expressions)


class _Windowed(Struct, frozen=True):
    """What windows an aggregate is over, and where its rows come from."""

    rows: _Below
    time: BoundExpression | None
    """Over the columns of `rows.plan`; None: the clock."""
    assigner: WindowAssigner
    is_instant: bool
    """Whether the time is an instant."""
    bounds: Mapping[int, str]
    """Places in the aggregate's keys that are START, END or TIME of the window, as its operator gives them."""
    shift_ms: int = 0
    """How much later than the time the event time is."""


def window_aggregate(plan: Aggregate, lowering: Lowering) -> Transformation:
    """A row for each key and window, once the window has ended."""
    if plan.window is not None:
        check_time(plan, f"{plan.window.kind} is over", plan.window.time, lowering)
        if plan.grouping_sets:
            if is_proctime(plan.input.row_type.types[plan.window.time]):
                raise Unexecutable(plan, "windows of processing time have no grouping sets")
            if plan.window.kind == "SESSION" and any(len(each) < len(plan.keys) for each in plan.grouping_sets):
                raise Unexecutable(plan, "sessions are those of the rows of all keys, which a grouping set has not")
            return lowering.of(_of_columns(plan, plan.window))
    zone = lowering.options.time_zone
    found = _of_group_window(plan, zone) or _of_table_function(plan, lowering) or _of_windowed_rows(plan)
    if found is None:
        raise Unexecutable(plan)
    zone = zone if found.is_instant else UTC
    if not lowering.input_changes(plan, before=True)[0].is_insert_only:
        return _of_kept_rows(plan, lowering)
    try:
        calls = WindowCalls(plan, found.rows.columns)
    except NotBuiltIn:
        return _of_kept_rows(plan, lowering)
    others = [place for place in range(len(plan.keys)) if place not in found.bounds]
    keys = {place: (f"k{place}", found.rows.columns[plan.keys[place]]) for place in others}
    columns = [*keys.values(), *calls.arguments]
    by_time = [] if found.time is None else [(_TIME, found.time)]
    names_below = found.rows.plan.row_type.names
    read = ", ".join(f"{name} = {expression_text(each, names_below)}" for name, each in (*columns, *by_time))
    time = None if _has_event_times(found) else found.time
    if time is not None:
        columns.append((_TIME, _local(time, zone)))
    elif not columns:  # rows without columns could not be counted
        columns.append((_TIME, ONE))
    conditions = (found.rows.predicate, None if found.time is None else has_time(found.time, lowering))
    predicate = conjunction(each for each in conditions if each is not None)
    below = found.rows.plan if predicate is None else Filter(found.rows.plan, predicate)
    names = tuple(name for name, _ in columns)
    rows = lowering.of(Project(below, tuple(each for _, each in columns), names))
    moves = zone != UTC and found.time is not None  # windows of the clock are of instants, and only shown otherwise
    if moves:
        rows = in_local_time(rows, zone)
    if time is not None:
        rows = with_event_times(rows, _TIME, found.shift_ms, drops=True)
    windows = _window(rows, found.assigner, [name for name, _ in keys.values()], calls, read)
    if moves:
        windows = in_instants(windows, zone)
    return added(windows, _results(plan, found, keys, calls, zone))


def _local(time: BoundExpression, zone: str) -> BoundExpression:
    """A time as clocks in the zone show it."""
    if zone == UTC or time.type.root is not TypeRoot.TIMESTAMP_LTZ:
        return time
    return Call(replace(TIMESTAMP(3), nullable=time.type.nullable), "CAST", (time,), time_zone=zone)


def of_windows(
    found: WindowColumns,
    name: str,
    description: str,
    plan: Plan,
    factory: TableFactory,
    keys: Sequence[Sequence[int]],
    lowering: Lowering,
    before: bool,
) -> Transformation:
    """An operator that waits for the ends of its rows' windows: where these are local times, by local event time."""
    zone = lowering.options.time_zone
    if zone == UTC or not found.windows.is_instant:
        return lowering.operator(name, description, plan, factory, keys, before)
    needs = inputs_need_before(plan, before)
    inputs = [in_local_time(lowering.of(each, need), zone) for each, need in zip(plan.inputs, needs, strict=True)]
    return in_instants(lowering.operator(name, description, plan, factory, keys, before, inputs), zone)


def _of_kept_rows(plan: Aggregate, lowering: Lowering) -> Transformation:
    """An operator that keeps all rows of windows, for what no window operator of streams computes."""
    found, takes = window_columns(plan.input), lowering.input_changes(plan, before=True)
    if plan.window is not None:
        return lowering.of(_of_columns(plan, plan.window))
    if found is None or found.windows.is_proctime:
        raise Unexecutable(plan, "in windows of processing time there is no such aggregate")
    rows, functions = plan.input.row_type, checked_functions(plan, lowering, takes[0].is_insert_only)
    factory = WindowAggregateFactory(
        input_rows=(rows,),
        rows=plan.row_type,
        takes=takes,
        ends=(found.end,),
        keys=plan.keys,
        calls=plan.calls,
        functions=functions,
    )
    text = ", ".join(call_text(call, rows.names, functions) for call in plan.calls)
    description = f"{text} by [{', '.join(rows.names[each] for each in plan.keys)}]"
    others = tuple(each for each in plan.keys if each not in (found.start, found.end))
    return of_windows(found, "WindowRowsAggregate", description, plan, factory, [others], lowering, before=True)


def _of_columns(plan: Aggregate, window: GroupWindow) -> Plan:
    """An aggregate over a group window as one over windows that are columns."""
    rows = plan.input.row_type
    time = rows.types[window.time]
    assert isinstance(time, TimestampType)
    bound = TIMESTAMP(3).not_null()
    names = unique_names([*rows.names, _START, _END, "window_time"])[len(rows.names) :]
    types = (bound, bound, replace(time, nullable=False, precision=3))
    fields = tuple(RowField(name, kind) for name, kind in zip(names, types, strict=True))
    keys = plan.keys if window.kind == "SESSION" else ()
    function = WindowTableFunction(plan.input, window.kind, window.time, window.size, window.slide, 0, keys, fields)
    width, count = len(rows.names), len(plan.keys)
    calls = tuple(f"$agg{number}" for number in range(len(plan.calls)))
    keys = (*plan.keys, width, width + 1, width + 2)
    aggregate = Aggregate(
        function,
        keys,
        plan.calls,
        (*(f"$key{each}" for each in range(count)), *names, *calls),
        tuple((*each, count, count + 1, count + 2) for each in plan.grouping_sets),
    )
    places = {"START": count, "END": count + 1, "ROWTIME": count + 2, "PROCTIME": count + 2}
    chosen = [*range(count), *(count + 3 + each for each in range(len(calls)))]
    chosen += [places[each.kind] for each in plan.properties]
    results = tuple(Column(aggregate.row_type.types[each], each) for each in chosen)
    return Project(aggregate, results, plan.names)


def _has_event_times(found: _Windowed) -> bool:
    """Whether rows come with the times of their windows as event times."""
    rows = found.rows.plan
    return isinstance(rows, WatermarkAssigner) and found.time == columns_of_rows(rows.row_type)[rows.column]


def _window(
    rows: Transformation, assigner: WindowAssigner, keys: list[str], calls: WindowCalls, read: str
) -> Transformation:
    key = ColumnKey(tuple(keys)) if keys else None
    text = ", ".join(f"{aggregate!r} AS {name}" for name, aggregate in calls.aggregates)
    return PhysicalTransformation(
        name="WindowAggregate",
        description=f"{text} by [{', '.join(keys)}] in {assigner}",
        computes=state_text(f"WindowAggregate {text} by [{', '.join(keys)}] where {read}"),
        factory=WindowFactory(assigner, tuple(calls.aggregates)),
        input_transformations=(to_one(rows) if key is None else keyed(rows, key),),
        keys=() if key is None else (key,),
        parallelism=1 if key is None else None,
        max_parallelism=1 if key is None else None,
    )


def _results(
    plan: Aggregate, found: _Windowed, keys: Mapping[int, tuple[str, BoundExpression]], calls: WindowCalls, zone: str
) -> CalcFactory:
    """The columns of an aggregate from those of its window operator."""
    columns: list[tuple[str, LogicalType]] = []

    def column(name: str, kind: LogicalType) -> Column:
        if (name, kind) not in columns:
            columns.append((name, kind))
        return Column(kind, columns.index((name, kind)))

    def bound(name: str, kind: LogicalType) -> BoundExpression:
        if is_proctime(kind):
            return Call(kind, "PROCTIME", (), is_deterministic=False)
        if name in ("START", "END"):
            name, shown = _START if name == "START" else _END, TIMESTAMP(3).not_null()
            if zone == UTC or found.time is not None:
                return column(name, shown)
            return Call(shown, "CAST", (column(name, TIMESTAMP_LTZ(3).not_null()),), time_zone=zone)
        is_instant = kind.root is TypeRoot.TIMESTAMP_LTZ
        if is_instant and zone != UTC:
            last = call_of_interval(column(_END, TIMESTAMP(3).not_null()), -1)
            return Call(TIMESTAMP_LTZ(3).not_null(), "CAST", (last,), time_zone=zone)
        end = column(_END, (TIMESTAMP_LTZ(3) if is_instant else TIMESTAMP(3)).not_null())
        return call_of_interval(end, -1)

    rows = plan.row_type
    results: list[BoundExpression] = []
    for place in range(len(plan.keys)):
        kind = rows.types[place]
        results.append(bound(found.bounds[place], kind) if place in found.bounds else column(keys[place][0], kind))
    results += [calls.result(number, column) for number in range(len(plan.calls))]
    results += [bound(each.kind, each.type) for each in plan.properties]
    return CalcFactory(tuple(columns), tuple(zip(rows.names, results, strict=True)))


# -- which windows


def _of_group_window(plan: Aggregate, zone: str) -> _Windowed | None:
    """`GROUP BY TUMBLE(time, size)` and the like."""
    window = plan.window
    if window is None:
        return None
    rows = _below(plan.input)
    time = rows.columns[window.time]
    by_clock = is_proctime(plan.input.row_type.types[window.time])
    offset = -_clock_ahead(plan, window, zone) if by_clock else 0
    assigner = _assigner(window.kind, window.size, window.slide, offset, by_clock)
    return _Windowed(rows, None if by_clock else time, assigner, time.type.root is TypeRoot.TIMESTAMP_LTZ, {})


def _of_table_function(plan: Aggregate, lowering: Lowering) -> _Windowed | None:
    """Rows of a table function, of which nothing but the keys reads the columns of windows: its operator adds none.
    None: it is something else."""
    rows = _below(plan.input)
    function = rows.plan
    if not isinstance(function, WindowTableFunction):
        return None
    width = len(function.input.row_type.fields)
    names = {width: "START", width + 1: "END", width + 2: "TIME"}
    bounds, keys = {}, []
    for place, key in enumerate(plan.keys):
        expression = rows.columns[key]
        if isinstance(expression, Column) and expression.index in names:
            bounds[place] = names[expression.index]
        else:
            keys.append(expression)
    arguments = [rows.columns[each] for each in columns_of(*expressions_of(plan.calls))]
    read = columns_of(*keys, *arguments, *(() if rows.predicate is None else (rows.predicate,)))
    if any(each >= width for each in read):
        return None
    function_columns = columns_of_rows(function.row_type)
    of_keys = {*keys} == {function_columns[each] for each in function.partition_by}
    if function.kind == "SESSION" and (rows.predicate is not None or not of_keys):
        return None  # its sessions are of other rows than the aggregate's groups
    check_time(function, f"{function.kind} is over", function.time, lowering)
    below = _below(function.input)
    by_clock = is_proctime(function.input.row_type.types[function.time])
    offset = function.offset - (_clock_ahead(plan, function, lowering.options.time_zone) if by_clock else 0)
    assigner = _assigner(function.kind, function.size, function.slide, offset, by_clock)
    # The columns of windows stay: they are keys, which the window operator gives.
    inputs = _Below(below.plan, below.columns + function_columns[width:], below.predicate)
    time = below.columns[function.time]
    is_instant = time.type.root is TypeRoot.TIMESTAMP_LTZ
    return _Windowed(inputs.under(rows), None if by_clock else time, assigner, is_instant, bounds)


def _of_windowed_rows(plan: Aggregate) -> _Windowed | None:
    """Rows that have the columns of their windows. The last milliseconds of two windows of one kind are never in the
    same stretch of `step`, so that stretches are windows for them, which end when they do."""
    found = window_columns(plan.input)
    if found is None or found.windows.is_proctime:
        return None
    windows = found.windows
    step = {"TUMBLE": windows.size, "SESSION": 1}.get(windows.kind, windows.slide)
    of_end = (windows.offset + windows.size) % step if windows.kind == "HOP" else windows.offset % step
    names = {found.end: "END"}
    if windows.kind == "TUMBLE":
        names[found.start] = "START"
    if found.time is not None:
        names[found.time] = "TIME"
    bounds = {place: names[key] for place, key in enumerate(plan.keys) if key in names}
    rows = _below(plan.input)
    assigner = TumblingEventTimeWindows(step, of_end)
    return _Windowed(rows, rows.columns[found.end], assigner, windows.is_instant, bounds, shift_ms=-1)


def _clock_ahead(plan: Plan, window: GroupWindow | WindowTableFunction, zone: str) -> int:
    """How many milliseconds earlier than in UTC windows of the clock begin where clocks are those of a time zone."""
    if window.kind == "SESSION":  # they begin with a row
        return 0
    step = window.slide if window.kind == "HOP" else window.size
    ahead = millis_ahead(zone, step)
    if ahead is None:
        message = f"windows of processing time that begin every {step} ms would move where clocks of {zone} change"
        raise Unexecutable(plan, f"{message}: {SET_UTC}, or take times of rows")
    return ahead


def _assigner(kind: str, size: int, slide: int, offset: int, by_clock: bool) -> WindowAssigner:
    if kind == "SESSION":
        return (ProcessingTimeSessionWindows if by_clock else EventTimeSessionWindows)(size)
    if kind == "CUMULATE" and slide < size:
        return (CumulativeProcessingTimeWindows if by_clock else CumulativeEventTimeWindows)(size, slide, offset % size)
    if kind in ("TUMBLE", "CUMULATE"):
        return (TumblingProcessingTimeWindows if by_clock else TumblingEventTimeWindows)(size, offset % size)
    return (SlidingProcessingTimeWindows if by_clock else SlidingEventTimeWindows)(size, slide, offset % slide)


def _below(plan: Plan) -> _Below:
    """What is below the projections and filters of a plan. Whatever has another value each time is not computed
    twice: it stays below."""
    if isinstance(plan, Project) and all(map(is_deterministic, plan.expressions)):
        return _below(plan.input).under(_Below(plan, plan.expressions))
    if isinstance(plan, Filter) and is_deterministic(plan.condition):
        return _below(plan.input).under(_Below(plan, columns_of_rows(plan.row_type), plan.condition))
    return _Below(plan, columns_of_rows(plan.row_type))
