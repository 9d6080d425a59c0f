"""The first or last rows of keys, and of all rows, as operators."""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.tables.lowering.contract import Lowering, Unexecutable
from flinkray.tables.plans.explain import keys_text
from flinkray.tables.plans.expressions import Plan, SortKey
from flinkray.tables.plans.nodes import Deduplicate, Limit, Rank, Sort
from flinkray.tables.plans.window_columns import is_window_rank
from flinkray.tables.types.logical import BIGINT, LogicalType, RowField, RowType, TimeAttribute, TimestampType, TypeRoot
from flinkray.transformations.table_factories import DeduplicateFactory, RankFactory
from flinkray.transformations.transformation import Transformation

_UNBOUNDED = 2**62
"""The last row where no number says which."""
_WITHOUT_ORDER = frozenset({TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.RAW})


def deduplicated(plan: Deduplicate, lowering: Lowering, before: bool) -> Transformation:
    """The first or the last row of each key."""
    if is_window_rank(plan):
        raise Unexecutable(plan)
    rows = plan.row_type
    keys = ", ".join(rows.names[each] for each in plan.keys)
    description = f"{'last' if plan.keeps_last else 'first'} of [{keys}] by {rows.names[plan.time]}"
    if not lowering.input_changes(plan, before)[0].is_insert_only:
        order = (SortKey(plan.time, plan.keeps_last, not plan.keeps_last),)
        return _ranked("Deduplicate", description, plan, lowering, before, (plan.keys, order, 1, 1))
    factory = DeduplicateFactory(
        input_rows=(plan.input.row_type,),
        rows=rows,
        takes=lowering.input_changes(plan, before),
        gives=lowering.changes(plan, before),
        state_ttl_ms=lowering.options.state_ttl_ms,
        time=None if _is_proctime(rows.types[plan.time]) else plan.time,
        keeps_last=plan.keeps_last,
    )
    return lowering.operator("Deduplicate", description, plan, factory, [plan.keys], before)


def ranked(plan: Rank, lowering: Lowering, before: bool) -> Transformation:
    """The first rows of each key."""
    if is_window_rank(plan):
        raise Unexecutable(plan)
    keys = ", ".join(plan.row_type.names[each] for each in plan.partition_by)
    description = f"{plan.kind} {plan.first} to {plan.last} of [{keys}] by [{_order_text(plan.order, plan.row_type)}]"
    which = (plan.partition_by, plan.order, plan.first, plan.last)
    return _ranked("Rank", description, plan, lowering, before, which, plan.kind, plan.has_number)


def limited(plan: Limit, lowering: Lowering, before: bool) -> Transformation:
    """The first rows of all, in an order or as they come."""
    last = _UNBOUNDED if plan.count is None else plan.offset + plan.count
    description = f"rows {plan.offset + 1} to {'the last' if plan.count is None else last}"
    if not isinstance(plan.input, Sort):
        return _ranked("Limit", description, plan, lowering, before, ((), (), plan.offset + 1, last))
    order = plan.input.keys
    description += f" by [{_order_text(order, plan.row_type)}]"
    number = RowField("", BIGINT)
    ranks = Rank(plan.input.input, "ROW_NUMBER", (), order, plan.offset + 1, last, has_number=False, number=number)
    return _ranked("SortLimit", description, ranks, lowering, before, ((), order, plan.offset + 1, last))


def _ranked(
    name: str,
    description: str,
    plan: Plan,
    lowering: Lowering,
    before: bool,
    which: tuple[Sequence[int], tuple[SortKey, ...], int, int],
    kind: str = "ROW_NUMBER",
    has_number: bool = False,
) -> Transformation:
    """An operator for the rows of a key, in an order, from a first to a last rank."""
    keys, order, first, last = which
    types = plan.inputs[0].row_type.types
    if any(types[key.index].root in _WITHOUT_ORDER for key in order):
        raise Unexecutable(plan)
    # Rows arrive in the order of their processing time; what comes behind it in the order says nothing more.
    by_arrival = next((place for place, key in enumerate(order) if _is_proctime(types[key.index])), len(order))
    factory = RankFactory(
        input_rows=(plan.inputs[0].row_type,),
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before),
        gives=lowering.changes(plan, before),
        state_ttl_ms=lowering.options.state_ttl_ms,
        kind=kind,
        order=order[:by_arrival],
        first=first,
        last=last,
        has_number=has_number,
        latest_first=_is_latest_first(order, by_arrival, plan),
    )
    return lowering.operator(name, description, plan, factory, [keys], before)


def _is_latest_first(order: Sequence[SortKey], by_arrival: int, plan: Plan) -> bool:
    """Whether of equal rows the one that came last is the first."""
    if by_arrival < len(order):
        return order[by_arrival].descending
    return isinstance(plan, Deduplicate) and plan.keeps_last


def _is_proctime(kind: LogicalType) -> bool:
    return isinstance(kind, TimestampType) and kind.attribute is TimeAttribute.PROCTIME


def _order_text(order: Sequence[SortKey], rows: RowType) -> str:
    return ", ".join(keys_text(order, rows.names))
