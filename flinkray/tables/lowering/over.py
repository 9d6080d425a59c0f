"""Calls OVER windows, and matches of patterns of rows, as operators."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec.structs import replace

from flinkray.tables.functions.aggregates import OF_ALL_VALUES
from flinkray.tables.lowering.contract import Lowering, Unexecutable
from flinkray.tables.lowering.ranks import check_order, is_proctime
from flinkray.tables.lowering.times import check_time, has_time
from flinkray.tables.plans.explain import node_text
from flinkray.tables.plans.expressions import BoundExpression, Column, Constant, Plan, SortKey, WindowCall
from flinkray.tables.plans.nodes import Filter, Match, Project, Window
from flinkray.tables.types.logical import DATETIMES, NUMBERS, DecimalType, LogicalType, TimestampType, TypeRoot
from flinkray.tables.user_functions import GENERAL, Implementation
from flinkray.transformations.table_factories import MatchFactory, OverFactory
from flinkray.transformations.transformation import Transformation

logger = logging.getLogger(__name__)

_MOST_DIGITS = 18  # as many fit into 64 bits
_AGGREGATES = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"}) | frozenset(
    {"STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP"}
)
_RUNNING = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK", "LAG"})
_OF_WHOLE_KEYS = frozenset({"LEAD", "NTILE", "PERCENT_RANK", "CUME_DIST"})
_ORDER = (
    "on a stream a window is ordered by a time attribute, ascending; run the program in batch mode, or, "
    "for the first rows of each key, compare ROW_NUMBER with a number: WHERE row_num <= 3"
)


def over(plan: Window, lowering: Lowering, before: bool) -> Transformation:
    """An operator for the calls over each window; what they are of becomes columns below it."""
    widened = _with_columns(plan)
    if widened is not plan:
        return lowering.of(widened, before)
    windows: dict[object, list[int]] = {}
    for place, call in enumerate(plan.calls):
        windows.setdefault((call.partition_by, call.order_by), []).append(place)
    if len(windows) > 1:
        return lowering.of(_one_after_another(plan, list(windows.values())), before)
    return _one_window(plan, lowering, before)


def _one_window(plan: Window, lowering: Lowering, before: bool) -> Transformation:
    first = plan.calls[0]
    keys = [each.index for each in first.partition_by if isinstance(each, Column)]
    order = tuple(SortKey(each.index, *how) for each, *how in first.order_by if isinstance(each, Column))
    check_order(plan, order)
    time = None if lowering.options.is_batch else _time_of(plan, order)
    functions = {call.function: lowering.user_aggregate(call.function) for call in plan.calls}
    for call in plan.calls:
        _check(call, order, plan, lowering.options.is_batch, functions[call.function])
    if not lowering.input_changes(plan, before)[0].is_insert_only:
        raise Unexecutable(plan, "on a stream it takes rows that are only added, and these are updated or deleted")
    rows = plan.row_type
    if not (lowering.options.is_batch or lowering.options.state_ttl_ms):
        _warn_of_growth(plan)
    factory = OverFactory(
        input_rows=(plan.input.row_type,),
        rows=rows,
        takes=lowering.input_changes(plan, before),
        state_ttl_ms=lowering.options.state_ttl_ms,
        order=order,
        time=time,
        calls=tuple(replace(call, partition_by=(), order_by=()) for call in plan.calls),
        functions=tuple((name, each) for name, each in functions.items() if each is not None),
    )
    names = ", ".join(rows.names[each] for each in keys)
    called = [functions[call.function] for call in plan.calls]
    text = ", ".join(
        call.function if each is None else each.name for call, each in zip(plan.calls, called, strict=True)
    )
    description, computes = f"{text} over [{names}]", node_text(plan)
    return lowering.operator("OverAggregate", description, plan, factory, [keys], before, computes=computes)


def _warn_of_growth(plan: Window) -> None:
    for call in plan.calls:
        is_of_values = call.function in OF_ALL_VALUES
        if (call.distinct or is_of_values) and call.frame is not None and call.frame.start.offset is None:
            logger.warning(
                "%s over all rows of a key so far keeps all %s for as long as the job runs; "
                "give state a time to live, table.exec.state.ttl, or the frame a beginning",
                call.function if is_of_values else f"{call.function}(DISTINCT)",
                "these rows" if is_of_values else "values it has seen",
            )


def _time_of(plan: Window, order: tuple[SortKey, ...]) -> int | None:
    """The column of event times that a stream's window is ordered by; None: it is by processing time."""
    kind = plan.input.row_type.types[order[0].index] if len(order) == 1 else None
    if not isinstance(kind, TimestampType) or kind.attribute is None or order[0].descending:
        raise Unexecutable(plan, _ORDER)
    return None if is_proctime(kind) else order[0].index


def _check(
    call: WindowCall, order: tuple[SortKey, ...], plan: Window, is_batch: bool, users: Implementation | None
) -> None:
    """
    Raises:
        Unexecutable: nothing computes the call over its frame.
    """
    if users is None:
        _check_call(call, plan)
    elif users.kind == GENERAL or call.distinct or call.filter is not None or not call.arguments:
        raise Unexecutable(
            plan,
            "over windows an aggregate of the user's gets whole columns (func_type='pandas'), without DISTINCT and "
            f"FILTER: make {users.name} one",
        )
    _check_frame(call, order, plan, is_batch)


def _check_call(call: WindowCall, plan: Window) -> None:
    name = call.function
    if name in OF_ALL_VALUES:
        return
    if name not in _AGGREGATES | _RUNNING | _OF_WHOLE_KEYS:
        raise Unexecutable(plan, f"{name} has no operator yet that computes it over a window")
    if call.filter is not None and name not in _AGGREGATES:
        raise Unexecutable(plan, f"{name} takes no FILTER")
    if call.ignore_nulls is (name not in ("FIRST_VALUE", "LAST_VALUE")):
        raise Unexecutable(plan, "FIRST_VALUE and LAST_VALUE ignore NULLs, as in Flink, and other functions do not")
    if not all(isinstance(each, Constant) for each in call.arguments[name not in ("NTILE",) :]):
        raise Unexecutable(plan, f"{name} takes what follows its first argument as constants")
    numbers = [each.value for each in call.arguments[name in ("LAG", "LEAD") :][:1] if isinstance(each, Constant)]
    if name in ("LAG", "LEAD", "NTILE") and any(each is None or each < (name == "NTILE") for each in numbers):
        raise Unexecutable(plan, f"{name} takes a number of {'parts, from 1' if name == 'NTILE' else 'rows, from 0'}")


def _check_frame(call: WindowCall, order: tuple[SortKey, ...], plan: Window, is_batch: bool) -> None:
    name, frame = call.function, call.frame
    if frame is None:
        if name in _OF_WHOLE_KEYS and not is_batch:
            raise Unexecutable(plan, f"{name} needs rows that come later, and so batch mode")
        return
    bounds = (frame.start, frame.end)
    if not all(each.offset is None or isinstance(each.offset, Constant) for each in bounds):
        raise Unexecutable(plan, "the bounds of a frame are constants")
    offsets = [each.offset.type for each in bounds if each.offset is not None]
    kinds = [plan.input.row_type.types[key.index] for key in order]
    if frame.unit == "RANGE" and offsets and not (len(kinds) == 1 and _is_counted(kinds[0], offsets)):
        raise Unexecutable(
            plan,
            "a RANGE of so much is over one column of numbers, decimals of at most 18 digits among them, or, with an "
            "interval of days to seconds, of times; take ROWS",
        )
    if is_batch:
        return
    if frame.start.direction != "PRECEDING" or frame.end.direction != "CURRENT ROW":
        raise Unexecutable(plan, "on a stream a frame begins with rows PRECEDING, and ends with the CURRENT ROW")


def _is_counted(kind: LogicalType, offsets: Iterable[LogicalType]) -> bool:
    """Whether so much more or less than a value of a type is another one."""
    if kind.root in DATETIMES:
        return all(each.root is TypeRoot.INTERVAL_DAY_TIME for each in offsets)
    is_short = not isinstance(kind, DecimalType) or kind.precision <= _MOST_DIGITS
    return kind.root in NUMBERS and is_short and all(each.root in NUMBERS for each in offsets)


def _with_columns(plan: Window) -> Plan:
    """The plan with all that its calls are of as columns of its input."""
    found: dict[BoundExpression, Column] = {}
    width = len(plan.input.row_type.fields)

    def column(expression: BoundExpression) -> BoundExpression:
        if isinstance(expression, Column | Constant):
            return expression
        return found.setdefault(expression, Column(expression.type, width + len(found)))

    def columns(expressions: Iterable[BoundExpression]) -> tuple[BoundExpression, ...]:
        return tuple(map(column, expressions))

    calls = tuple(
        replace(
            _exact(call),
            arguments=columns(call.arguments),
            filter=None if call.filter is None else column(call.filter),
            partition_by=tuple(each for each in columns(call.partition_by) if isinstance(each, Column)),
            order_by=tuple((column(each), *how) for each, *how in call.order_by if not isinstance(each, Constant)),
        )
        for call in plan.calls
    )
    if calls == plan.calls:
        return plan
    rows = plan.input.row_type
    own = [Column(kind, place) for place, kind in enumerate(rows.types)]
    names = [*rows.names, *(f"$over{number}" for number in range(len(found)))]
    below = Project(plan.input, (*own, *found), tuple(names)) if found else plan.input
    window = Window(below, calls, plan.names)
    results = [Column(call.type, width + len(found) + place) for place, call in enumerate(calls)]
    return Project(window, (*own, *results), tuple(plan.row_type.names))


def _exact(call: WindowCall) -> WindowCall:
    is_approximate = call.function == "APPROX_COUNT_DISTINCT"
    return replace(call, function="COUNT", distinct=True) if is_approximate else call


def _one_after_another(plan: Window, groups: list[list[int]]) -> Plan:
    """The calls over each window, by their places, behind those over others."""
    below: Plan = plan.input
    width = len(below.row_type.fields)
    for group in groups:
        below = Window(below, tuple(plan.calls[each] for each in group), tuple(plan.names[each] for each in group))
    places = {place: number for number, place in enumerate(place for group in groups for place in group)}
    own = [Column(kind, place) for place, kind in enumerate(plan.input.row_type.types)]
    results = [Column(call.type, width + places[place]) for place, call in enumerate(plan.calls)]
    return Project(below, (*own, *results), tuple(plan.row_type.names))


# -- MATCH_RECOGNIZE ----------------------------------------------------------------------------------------------

_MATCHES_CHANGES = "MATCH_RECOGNIZE takes rows that are only added, as in Flink, and these are updated or deleted"


def matched(plan: Match, lowering: Lowering, before: bool) -> Transformation:
    """A row for each match."""
    if not lowering.input_changes(plan, before)[0].is_insert_only:
        raise Unexecutable(plan, _MATCHES_CHANGES)
    check_order(plan, plan.order)
    time = plan.order[0].index
    check_time(plan, "ORDER BY begins with", time, lowering)
    condition = has_time(Column(plan.input.row_type.types[time], time), lowering)
    if condition is not None:
        plan = replace(plan, input=Filter(plan.input, condition))
    by_arrival = is_proctime(plan.input.row_type.types[time])
    factory = MatchFactory(
        input_rows=(plan.input.row_type,),
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before),
        keys=plan.partition_by,
        order=plan.order[1:] if by_arrival else plan.order,
        time=None if by_arrival else time,
        variables=plan.variables,
        skip=plan.skip,
        window_ms=plan.window_ms,
        reads=plan.reads,
        measures=plan.measures,
        text=node_text(plan),
    )
    description = " ".join(map(str, plan.variables))
    keys = [plan.partition_by]
    return lowering.operator("Match", description, plan, factory, keys, before, computes=factory.text)
