"""Projections: one instead of several, and no columns that nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    Call,
    Column,
    Plan,
    SortKey,
    columns_of,
    expressions_of,
    has_subquery,
    is_deterministic,
    outer_columns_of,
    walk,
    with_columns,
)
from flinkray.tables.plans.nodes import (
    Aggregate,
    Deduplicate,
    Filter,
    GroupWindow,
    Join,
    Limit,
    Project,
    Rank,
    Scan,
    Sort,
    TemporalJoin,
    WatermarkAssigner,
    Window,
    WindowTableFunction,
)
from flinkray.tables.plans.rules.rewriting import bottom_up, columns, with_expressions
from flinkray.tables.types.logical import is_rowtime


def merge_projections(plan: Plan) -> Plan:
    """The plan with one projection for several that follow each other, and without those that change nothing."""
    return bottom_up(plan, _merged)


def _merged(plan: Plan) -> Plan:
    if not isinstance(plan, Project):
        return plan
    below = plan.input
    if isinstance(below, Project) and _may_merge(plan, below):
        expressions = tuple(with_columns(each, lambda index: below.expressions[index]) for each in plan.expressions)
        plan = Project(below.input, expressions, plan.names)
    if plan.names == plan.input.row_type.names and plan.expressions == columns(plan.input):
        return plan.input
    return plan


def _may_merge(upper: Project, lower: Project) -> bool:
    """Whether nothing would be computed twice, or otherwise than once for each row."""
    if any(has_subquery(each) for each in (*upper.expressions, *lower.expressions)):
        return False
    read = [each.index for expression in upper.expressions for each in walk(expression) if isinstance(each, Column)]
    for place, expression in enumerate(lower.expressions):
        if read.count(place) > 1 and _is_computed(expression):
            return False
        if not is_deterministic(expression) and read.count(place) != 1:
            return False
    return True


def _is_computed(expression: BoundExpression) -> bool:
    """Whether computing it is more than reading a column, a field of one, or a constant."""
    return any(isinstance(each, Call) for each in walk(expression))


# -- columns that nobody reads


def prune_columns(plan: Plan) -> Plan:
    """The plan whose scans and joins carry only columns that something above reads."""
    needed = range(len(plan.row_type.fields))
    pruned, kept = _narrow(plan, frozenset(needed))
    return pruned if kept == list(needed) else _only(pruned, kept, list(needed), plan.row_type.names)


def _only(plan: Plan, kept: Sequence[int], wanted: Sequence[int], names: tuple[str, ...]) -> Plan:
    """The wanted columns of a plan that has those that were kept."""
    kinds = plan.row_type.types
    places = [list(kept).index(each) for each in wanted]
    return Project(plan, tuple(Column(kinds[each], each) for each in places), names)


Narrowed = tuple[Plan, list[int]]
"""A plan, and the numbers that its columns had."""


def _narrow(plan: Plan, needed: frozenset[int]) -> Narrowed:
    """The plan with at least the needed columns, and as few others as it can."""
    match plan:
        case Scan():
            # Without a column a batch would not say how many rows it has.
            kept = sorted(needed) or [0][: len(plan.columns)]
            return replace(plan, columns=tuple(plan.columns[each] for each in kept)), kept
        case Project():
            return _project(plan, needed)
        case Aggregate():
            return _aggregate(plan, needed)
        case Join() | TemporalJoin():
            return _join(plan, needed)
        case Rank() if plan.has_number and len(plan.input.row_type.fields) not in needed:
            return _narrow(replace(plan, has_number=False), needed)
        case (
            Filter()
            | Sort()
            | Limit()
            | WatermarkAssigner()
            | Window()
            | WindowTableFunction()
            | Rank()
            | Deduplicate()
        ):
            return _with_added_columns(plan, needed)
    return _whole(plan)


def _whole(plan: Plan) -> Narrowed:
    """The node as it is, over inputs with all of their columns, in which something may be left out further down."""
    inputs = tuple(prune_columns(each) for each in plan.inputs)
    if inputs:
        plan = plan.with_inputs(inputs)
    return plan, list(range(len(plan.row_type.fields)))


def _has_subqueries(plan: Plan) -> bool:
    return any(has_subquery(each) for each in expressions_of(plan))


def _move(plan: Plan, kept: Sequence[int]) -> Plan:
    """The node with its expressions over the columns that were kept."""
    places = {old: new for new, old in enumerate(kept)}

    def moved(expression: BoundExpression) -> BoundExpression:
        found = [each for each in walk(expression) if isinstance(each, Column)]
        known = {each.index: Column(each.type, places[each.index]) for each in found}
        return with_columns(expression, lambda index: known[index])

    return with_expressions(plan, moved)


def _project(plan: Project, needed: frozenset[int]) -> Narrowed:
    kept = sorted(needed) or [0][: len(plan.expressions)]
    expressions = tuple(plan.expressions[each] for each in kept)
    narrowed = replace(plan, expressions=expressions, names=tuple(plan.names[each] for each in kept))
    source, columns_kept = _narrow(plan.input, columns_of(*expressions))
    moved = _move(narrowed, columns_kept)
    return moved.with_inputs((source,)), kept


def _with_added_columns(plan: Plan, needed: frozenset[int]) -> Narrowed:
    """A node that keeps its input's columns and has its own behind them, all of which stay."""
    (source,) = plan.inputs
    width = len(source.row_type.fields)
    added = list(range(width, len(plan.row_type.fields)))
    read = {each for each in needed if each < width} | set(_numbers(plan)) | columns_of(*expressions_of(plan))
    narrowed, kept = _narrow(source, frozenset(read))
    places = {old: new for new, old in enumerate(kept)}
    moved = _with_numbers(_move(plan, kept), places)
    return moved.with_inputs((narrowed,)), [*kept, *added]


def _numbers(plan: Plan) -> Iterable[int]:
    """The columns that a node names by their numbers alone."""
    match plan:
        case Sort():
            return [key.index for key in plan.keys]
        case WatermarkAssigner():
            return [plan.column]
        case WindowTableFunction():
            return [plan.time, *plan.partition_by]
        case Rank():
            return [*plan.partition_by, *(key.index for key in plan.order)]
        case Deduplicate():
            return [*plan.keys, plan.time]
    return []


def _with_numbers(plan: Plan, places: dict[int, int]) -> Plan:
    def keys(found: tuple[SortKey, ...]) -> tuple[SortKey, ...]:
        return tuple(replace(key, index=places[key.index]) for key in found)

    def numbers(found: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(places[each] for each in found)

    match plan:
        case Sort():
            return replace(plan, keys=keys(plan.keys))
        case WatermarkAssigner():
            return replace(plan, column=places[plan.column])
        case WindowTableFunction():
            return replace(plan, time=places[plan.time], partition_by=numbers(plan.partition_by))
        case Rank():
            return replace(plan, partition_by=numbers(plan.partition_by), order=keys(plan.order))
        case Deduplicate():
            return replace(plan, keys=numbers(plan.keys), time=places[plan.time])
    return plan


def _aggregate(plan: Aggregate, needed: frozenset[int]) -> Narrowed:
    """An aggregate without results that nobody reads; keys and properties stay, for they make the groups."""
    count = len(plan.keys)
    calls = [place for place in range(len(plan.calls)) if place + count in needed]
    behind = list(range(count + len(plan.calls), len(plan.names)))
    kept = [*range(count), *(place + count for place in calls), *behind]
    chosen: tuple[AggregateCall, ...] = tuple(plan.calls[place] for place in calls)
    narrowed = replace(plan, calls=chosen, names=tuple(plan.names[each] for each in kept))
    read = {*plan.keys, *columns_of(*expressions_of(chosen))}
    if plan.window is not None:
        read.add(plan.window.time)
    source, columns_kept = _narrow(plan.input, frozenset(read))
    places = {old: new for new, old in enumerate(columns_kept)}
    moved = _move(narrowed, columns_kept)
    assert isinstance(moved, Aggregate)
    window = plan.window
    if window is not None:
        window = GroupWindow(window.kind, places[window.time], window.size, window.slide)
    moved = replace(moved, keys=tuple(places[each] for each in plan.keys), window=window, input=source)
    return moved, kept


def _join(plan: Join | TemporalJoin, needed: frozenset[int]) -> Narrowed:
    """A join of inputs without what neither its condition nor anybody above reads."""
    if _has_subqueries(plan) or outer_columns_of(plan.right):
        return _whole(plan)
    width = len(plan.left.row_type.fields)
    read = set(needed) | columns_of(*([] if plan.condition is None else [plan.condition]))
    left = {each for each in read if each < width} | {first for first, _ in plan.keys}
    right = {each - width for each in read if each >= width} | {second for _, second in plan.keys}
    if isinstance(plan, TemporalJoin):
        left |= columns_of(plan.time)
        # Its time attributes say from when on a row of the right is.
        right |= {place for place, kind in enumerate(plan.right.row_type.types) if is_rowtime(kind)}
    new_left, left_kept = _narrow(plan.left, frozenset(left))
    new_right, right_kept = _narrow(plan.right, frozenset(right))
    kept = [*left_kept, *(each + width for each in right_kept)]
    moved = _move(plan, kept)
    assert isinstance(moved, Join | TemporalJoin)
    keys = tuple((left_kept.index(first), right_kept.index(second)) for first, second in plan.keys)
    moved = replace(moved, left=new_left, right=new_right, keys=keys)
    return moved, kept if plan.kind not in ("SEMI", "ANTI") else left_kept
