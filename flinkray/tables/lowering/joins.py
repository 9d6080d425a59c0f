"""Joins, and what is like them, as operators."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.tables.lowering.calc import with_names
from flinkray.tables.lowering.contract import Lowering, Unexecutable, to_one
from flinkray.tables.lowering.times import has_time
from flinkray.tables.plans.changelogs import inputs_need_before
from flinkray.tables.plans.explain import expression_text
from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Plan,
    conjunction,
    conjuncts,
    equal,
    shifted,
)
from flinkray.tables.plans.hints import lookup_retry
from flinkray.tables.plans.interval_bounds import interval_bounds
from flinkray.tables.plans.nodes import (
    Deduplicate,
    Filter,
    Join,
    Project,
    Scan,
    SetOperation,
    TemporalJoin,
    Unnest,
    WatermarkAssigner,
)
from flinkray.tables.plans.upsert_keys import is_unique_in, upsert_keys
from flinkray.tables.plans.window_columns import is_window_join
from flinkray.tables.types.logical import BOOLEAN, TimeAttribute, is_rowtime
from flinkray.transformations.table_join_factories import (
    LookupJoinFactory,
    RegularJoinFactory,
    RetriedLookupJoinFactory,
    SetOperationFactory,
    TableIntervalJoinFactory,
    TemporalJoinFactory,
    UnnestFactory,
)
from flinkray.transformations.transformation import (
    PhysicalTransformation,
    Transformation,
    UnionTransformation,
    own_parallelism,
)


def joined(plan: Join, lowering: Lowering, before: bool) -> Transformation:
    """All pairs of two tables. A join without keys brings all rows to one subtask."""
    if is_window_join(plan):
        raise Unexecutable(plan)
    interval = _interval(plan, lowering, before)
    if interval is not None:
        return interval
    if plan.is_null_aware:
        plan = _without_open_answers(plan)
    inputs = (plan.left.row_type, plan.right.row_type)
    ttls = [lowering.options.state_ttl_ms if each is None else each for each in plan.ttls_ms or (None, None)]
    factory = RegularJoinFactory(
        input_rows=inputs,
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before),
        gives=lowering.changes(plan, before),
        kind=plan.kind,
        keys=plan.keys,
        condition=plan.condition,
        unique=(_unique(plan, 0), _unique(plan, 1)),
        input_ttls_ms=(ttls[0], ttls[1]),
        nulls_equal=plan.nulls_equal,
    )
    keys = [[pair[side] for pair in plan.keys] for side in (0, 1)]
    return lowering.operator("Join", _description(plan), plan, factory, keys, before)


def _interval(plan: Join, lowering: Lowering, before: bool) -> Transformation | None:
    """The join as one of rows near each other in time; None: it is none, or rows are updated."""
    bounds = interval_bounds(plan)
    if bounds is not None and plan.nulls_equal:
        return _interval(with_strict_keys(plan), lowering, before)
    takes = lowering.input_changes(plan, before)
    if bounds is None or not all(each.is_insert_only for each in takes):
        return None
    has_rowtime = bounds.attribute is TimeAttribute.ROWTIME
    if not has_rowtime and plan.kind != "INNER":
        raise Unexecutable(plan)  # who gives a row that had no partner would have to wait for the clock
    factory = TableIntervalJoinFactory(
        input_rows=(plan.left.row_type, plan.right.row_type),
        rows=plan.row_type,
        takes=takes,
        kind=plan.kind,
        keys=plan.keys,
        lower_ms=bounds.lower_ms,
        upper_ms=bounds.upper_ms,
        times=(bounds.left, bounds.right) if has_rowtime else None,
        condition=bounds.condition,
    )
    keys = [[pair[side] for pair in plan.keys] for side in (0, 1)]
    return lowering.operator("IntervalJoin", _description(plan), plan, factory, keys, before)


def with_strict_keys(plan: Join) -> Join:
    """The join with a condition for each key of which a NULL may be equal to another one."""
    width, lefts, rights = len(plan.left.row_type.fields), plan.left.row_type.types, plan.right.row_type.types
    pairs = [plan.keys[place] for place in plan.nulls_equal]
    conditions = [
        Call(
            BOOLEAN.not_null(),
            "IS NOT DISTINCT FROM",
            (Column(lefts[left], left), Column(rights[right], right + width)),
        )
        for left, right in pairs
    ]
    condition = conjunction((*conjuncts(plan.condition), *conditions))
    return replace(plan, keys=plan.strict_keys, condition=condition, nulls_equal=())


def as_of(plan: TemporalJoin, lowering: Lowering, before: bool) -> Transformation:
    """Rows of the left with the version of the right at their event time: the right's rowtime attribute says from when
    on a row is, and the join key tells its rows apart."""
    if not isinstance(plan.time, Column):
        raise Unexecutable(plan)
    if not is_rowtime(plan.time.type):
        return _looked_up(plan, lowering, before)
    times = [place for place, kind in enumerate(plan.right.row_type.types) if is_rowtime(kind)]
    if not times or not is_unique_in(plan, 1):
        raise Unexecutable(plan, "a versioned table has a watermark, and a primary key that the join compares")
    versions = _versions(plan.right, {right for _, right in plan.keys})
    if versions is None:
        raise Unexecutable(plan, "its versions are rows by ROW_NUMBER() OVER (PARTITION BY the columns compared ...)")
    condition = has_time(Column(versions.row_type.types[times[0]], times[0]), lowering)
    if condition is not None:
        versions = Filter(versions, condition)
    time, plan = plan.time.index, replace(plan, right=versions)
    factory = TemporalJoinFactory(
        input_rows=(plan.left.row_type, plan.right.row_type),
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before),
        gives=lowering.changes(plan, before),
        kind=plan.kind,
        keys=plan.keys,
        times=(time, times[0]),
        condition=plan.condition,
    )
    keys = [[pair[side] for pair in plan.keys] for side in (0, 1)]
    description = _description(plan)
    computes = f"{description} as of {plan.left.row_type.names[time]}"
    return lowering.operator("TemporalJoin", description, plan, factory, keys, before, computes=computes)


def _versions(plan: Plan, keys: set[int]) -> Plan | None:
    """A versioned table with all versions of its rows; None: they are not known.

    Where the last row of each key is the table, all rows of the key are its versions. A Deduplicate gives only the last
    one of each batch. The first row of each key is its only version.
    """
    if isinstance(plan, Deduplicate) and plan.keeps_last:
        return plan.input if set(plan.keys) == keys else None
    if isinstance(plan, Project):
        computed = [plan.expressions[key] for key in keys]
        read = {column.index for column in computed if isinstance(column, Column)}
        below = _versions(plan.input, read) if len(read) == len(keys) else None
        if below is not None:
            return replace(plan, input=below)
    return None if _has_last_rows(plan) else plan


def _has_last_rows(plan: Plan) -> bool:
    is_last = isinstance(plan, Deduplicate) and plan.keeps_last
    return is_last or any(map(_has_last_rows, plan.inputs))


def _looked_up(plan: TemporalJoin, lowering: Lowering, before: bool) -> Transformation:
    """Rows of the left with those that the right, a table that can be asked, has for their key when they come; of the
    left's parallelism, so that the changes of a row stay in order."""
    right, conditions = plan.right, [] if plan.condition is None else [plan.condition]
    while isinstance(right, Filter | WatermarkAssigner):
        if isinstance(right, Filter):
            conditions.append(shifted(right.condition, len(plan.left.row_type.fields)))
        right = right.input
    table = lowering.lookup(right) if isinstance(right, Scan) else None
    if table is None or not plan.keys:
        raise Unexecutable(plan, "as of a processing time only a table can be joined that can be asked, by its columns")
    need, _ = inputs_need_before(plan, before)
    left = lowering.of(plan.left, need)
    retry = lookup_retry(plan.hints)
    factory = LookupJoinFactory(
        input_rows=(plan.left.row_type,),
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before)[:1],
        gives=lowering.changes(plan, before),
        table=table,
        table_rows=right.row_type,
        kind=plan.kind,
        keys=plan.keys,
        condition=conjunction(conditions),
    )
    if retry is not None:
        parts = {name: getattr(factory, name) for name in factory.__struct_fields__}
        factory = RetriedLookupJoinFactory(**parts, retry_delay_ms=retry.delay_ms, retries=retry.attempts)
    return PhysicalTransformation(
        name="LookupJoin",
        description=_description(plan),
        factory=factory,
        input_transformations=(left,),
        parallelism=own_parallelism(left),
    )


def unnested(plan: Unnest, lowering: Lowering, before: bool) -> Transformation:
    """A row for each element; of the input's parallelism, so that the changes of a row stay in order."""
    source = lowering.of(plan.input)
    factory = UnnestFactory(
        input_rows=(plan.input.row_type,),
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before),
        gives=lowering.changes(plan, before),
        collection=plan.collection,
        is_outer=plan.is_outer,
        with_ordinality=plan.with_ordinality,
        replaces=plan.replaces,
    )
    return PhysicalTransformation(
        name="Unnest",
        description=expression_text(plan.collection, plan.input.row_type.names),
        factory=factory,
        input_transformations=(source,),
        parallelism=own_parallelism(source),
    )


def united(plan: SetOperation, lowering: Lowering, before: bool) -> Transformation:
    """UNION ALL. Inputs of different parallelisms may be read by more subtasks than an input has: its changes then go
    to one of those, since spread over all of them they would overtake each other."""
    inputs = [lowering.of(with_names(each, plan.columns.names), before) for each in plan.inputs]
    parallelisms = {own_parallelism(each) for each in inputs}
    if len(parallelisms) == 1:
        return UnionTransformation(name="Union", union_inputs=tuple(inputs), parallelism=parallelisms.pop())
    for place, (each, changes) in enumerate(zip(inputs, lowering.input_changes(plan, before), strict=True)):
        if own_parallelism(each) is not None and not changes.is_insert_only:
            inputs[place] = to_one(each)
    return UnionTransformation(name="Union", union_inputs=tuple(inputs))


def combined(plan: SetOperation, lowering: Lowering, before: bool) -> Transformation:
    """INTERSECT or EXCEPT. Inputs have the names of the result."""
    left, right = (with_names(each, plan.columns.names) for each in plan.inputs)
    plan = replace(plan, left=left, right=right)
    factory = SetOperationFactory(
        input_rows=(left.row_type, right.row_type),
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before),
        gives=lowering.changes(plan, before),
        state_ttl_ms=lowering.options.state_ttl_ms,
        kind=plan.kind,
        all=plan.all,
    )
    kind = f"{plan.kind} ALL" if plan.all else plan.kind
    keys = range(len(plan.columns.fields))
    computes = f"{kind} of [{', '.join(plan.columns.names)}]"
    return lowering.operator("SetOperation", kind, plan, factory, [keys, keys], before, computes=computes)


def _description(plan: Join | TemporalJoin) -> str:
    lefts, rights = plan.left.row_type.names, plan.right.row_type.names
    nulls_equal = plan.nulls_equal if isinstance(plan, Join) else ()
    operators = ["IS NOT DISTINCT FROM" if place in nulls_equal else "=" for place in range(len(plan.keys))]
    conditions = [
        f"{lefts[left]} {operator} {rights[right]}"
        for operator, (left, right) in zip(operators, plan.keys, strict=True)
    ]
    if plan.condition is not None:
        conditions.append(expression_text(plan.condition, [*lefts, *rights]))
    return f"{plan.kind} ON {' AND '.join(conditions) or 'TRUE'}"


def _unique(plan: Join, side: int) -> tuple[int, ...] | None:
    """The columns by which changes of an input find the row that they replace: an upsert key with the join key in it,
    or the join key where that has an upsert key in it. Changes of one row come in order then, since what has the same
    join key comes to the same subtask."""
    keys = frozenset(pair[side] for pair in plan.keys)
    found = upsert_keys(plan.inputs[side])
    around = [sorted(key) for key in found if keys <= key]
    if around:
        shortest = min(around, key=lambda key: (len(key), key))
        return tuple(shortest)
    return tuple(sorted(keys)) if any(key <= keys for key in found) else None


def _without_open_answers(plan: Join) -> Join:
    """NOT IN as a join without keys: a row is left out where any comparison with it is true or open.

    What is no comparison of NOT IN is in the condition as `IS TRUE`.
    """
    width = len(plan.left.row_type.fields)
    lefts, rights = plan.left.row_type.types, plan.right.row_type.types
    compared: list[BoundExpression] = [
        equal(Column(lefts[left], left), Column(rights[right], right + width)) for left, right in plan.keys
    ]
    conditions: list[BoundExpression] = []
    for each in () if plan.condition is None else conjuncts(plan.condition):
        is_other = isinstance(each, Call) and each.function == "IS TRUE"
        (conditions if is_other else compared).append(each)
    conditions += [Call(BOOLEAN.not_null(), "IS NOT FALSE", (each,)) for each in compared]
    return replace(plan, keys=(), condition=conjunction(conditions), is_null_aware=False)
