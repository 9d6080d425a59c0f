"""The first or last rows of keys, and of all rows, as operators."""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.tables.lowering.calc import added, columns_of_rows
from flinkray.tables.lowering.contract import Lowering, Unexecutable, keyed, state_text
from flinkray.tables.plans.explain import keys_text, node_text
from flinkray.tables.plans.expressions import Plan, SortKey
from flinkray.tables.plans.nodes import Deduplicate, Limit, Rank, Scan, Sort
from flinkray.tables.plans.rules.ranks import UNBOUNDED
from flinkray.tables.plans.tables import Table
from flinkray.tables.plans.window_columns import is_window_rank
from flinkray.tables.types.logical import (
    BIGINT,
    CollectionType,
    LogicalType,
    RowField,
    RowType,
    TimeAttribute,
    TimestampType,
    TypeRoot,
)
from flinkray.transformations.operator_factories import CalcFactory
from flinkray.transformations.table_factories import DeduplicateFactory, NormalizeFactory, RankFactory, SortFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation
from flinkray.types.keys import ColumnKey

_WITHOUT_ORDER = frozenset({TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.RAW})


def deduplicated(plan: Deduplicate, lowering: Lowering, before: bool) -> Transformation:
    """The first or the last row of each key."""
    if is_window_rank(plan):
        raise Unexecutable(plan)
    rows = plan.row_type
    keys = ", ".join(rows.names[each] for each in plan.keys)
    description = f"{'last' if plan.keeps_last else 'first'} of [{keys}] by {rows.names[plan.time]}"
    if not lowering.input_changes(plan, before)[0].is_insert_only:
        order = (SortKey(plan.time, plan.keeps_last, not plan.keeps_last),)
        which = (plan.keys, order, 1, 1)
        return _ranked("Deduplicate", description, plan, lowering, before, which, latest_first=plan.keeps_last)
    factory = DeduplicateFactory(
        input_rows=(plan.input.row_type,),
        rows=rows,
        takes=lowering.input_changes(plan, before),
        gives=lowering.changes(plan, before),
        state_ttl_ms=lowering.options.state_ttl_ms,
        time=None if is_proctime(rows.types[plan.time]) else plan.time,
        keeps_last=plan.keeps_last,
    )
    return lowering.operator("Deduplicate", description, plan, factory, [plan.keys], before)


def ranked(plan: Rank, lowering: Lowering, before: bool) -> Transformation:
    """The first rows of each key."""
    if is_window_rank(plan):
        raise Unexecutable(plan)
    keys = ", ".join(plan.row_type.names[each] for each in plan.partition_by)
    last = "the last" if plan.last == UNBOUNDED else plan.last
    description = f"{plan.kind} {plan.first} to {last} of [{keys}] by [{_order_text(plan.order, plan.row_type)}]"
    which = (plan.partition_by, plan.order, plan.first, plan.last)
    return _ranked("Rank", description, plan, lowering, before, which, plan.kind, plan.has_number)


def limited(plan: Limit, lowering: Lowering, before: bool) -> Transformation:
    """The first rows of all, in an order or as they come."""
    last = UNBOUNDED if plan.count is None else plan.offset + plan.count
    description = f"rows {plan.offset + 1} to {'the last' if plan.count is None else last}"
    if not isinstance(plan.input, Sort):
        return _ranked("Limit", description, plan, lowering, before, ((), (), plan.offset + 1, last))
    order = plan.input.keys
    description += f" by [{_order_text(order, plan.row_type)}]"
    number = RowField("", BIGINT)
    ranks = Rank(plan.input.input, "ROW_NUMBER", (), order, plan.offset + 1, last, has_number=False, number=number)
    return _ranked("SortLimit", description, ranks, lowering, before, ((), order, plan.offset + 1, last))


def sorted_rows(plan: Sort, lowering: Lowering, before: bool) -> Transformation:
    """All rows in an order: on a stream by time first, and in batch mode by anything."""
    types, first, is_batch = plan.row_type.types, plan.keys[0], lowering.options.is_batch
    kind = types[first.index]
    is_time = isinstance(kind, TimestampType) and kind.attribute is not None and not first.descending
    if not is_batch and not (is_time and lowering.input_changes(plan, before)[0].is_insert_only):
        raise Unexecutable(plan, _NEVER_SORTED)
    if not lowering.input_changes(plan, before)[0].is_insert_only:
        return limited(Limit(plan, None, 0), lowering, before)
    check_order(plan, plan.keys)
    by_arrival = is_proctime(kind) and not is_batch
    factory = SortFactory(
        input_rows=(plan.row_type,),
        rows=plan.row_type,
        takes=lowering.input_changes(plan, before),
        order=plan.keys[1:] if by_arrival else plan.keys,
        time=None if by_arrival or is_batch else first.index,
    )
    description = f"by [{_order_text(plan.keys, plan.row_type)}]"
    return lowering.operator("Sort", description, plan, factory, [()], before)


_NEVER_SORTED = (
    "a stream has no end, so that its rows cannot be sorted; order those of a stream of inserts by their time "
    "attribute first, ascending, add LIMIT, or run the program in batch mode"
)


def is_to_normalize(table: Table, before: bool) -> bool:
    """Whether the changes of a table lack what is needed of them: rows as they were, or more than the keys of deleted
    ones."""
    changes = table.changes
    return bool(table.primary_key) and changes.updates and not changes.before and (before or changes.deletes)


def normalized(scan: Scan, rows: Transformation, lowering: Lowering, before: bool) -> Transformation:
    """The rows of a table, which come as changes by its primary key, as a whole changelog of the columns that are read,
    and those of the key."""
    stored = scan.table.stored_columns
    key = [number for number, column in enumerate(stored) if column.name in scan.table.primary_key]
    read = Scan(scan.table, tuple(sorted({*scan.columns, *key})))
    columns = tuple(zip(read.row_type.names, read.row_type.types, strict=True))
    projections = tuple(zip(read.row_type.names, columns_of_rows(read.row_type), strict=True))
    selector = ColumnKey(scan.table.primary_key)
    selected = added(rows, CalcFactory(columns, projections, None))
    gives = lowering.changes(scan, before)
    return PhysicalTransformation(
        name="ChangelogNormalize",
        description=f"by [{', '.join(scan.table.primary_key)}]",
        computes=state_text(f"ChangelogNormalize {node_text(read)} by [{', '.join(scan.table.primary_key)}]"),
        factory=lowering.gathering(
            NormalizeFactory(
                input_rows=(read.row_type,),
                rows=read.row_type,
                takes=(scan.table.changes,),
                gives=gives,
                state_ttl_ms=lowering.options.state_ttl_ms,
                keeps_versions=scan.table.watermark is not None,
            )
        ),
        input_transformations=(keyed(selected, selector),),
        keys=(selector,),
    )


def last_of_keys(plan: Plan, key: Sequence[int], lowering: Lowering, rows: Transformation) -> Transformation:
    """Of rows that have the same key at a time the one that came last, and when that goes, the one before it.

    Args:
        rows: those of the plan, perhaps fewer.
    """
    last = Rank(plan, "ROW_NUMBER", tuple(key), (), 1, 1, has_number=False, number=RowField("", BIGINT))
    names = ", ".join(plan.row_type.names[each] for each in key)
    which = (last.partition_by, (), 1, 1)
    description = f"last of [{names}]"
    return _ranked(
        "SinkUpsertMaterializer", description, last, lowering, False, which, latest_first=True, inputs=(rows,)
    )


def check_order(plan: Plan, order: Sequence[SortKey]) -> None:
    """That all columns of an order have one.

    Raises:
        Unexecutable: a column has values that no order is known of.
    """
    rows = plan.inputs[0].row_type
    for key in order:
        if not _has_order(rows.types[key.index]):
            raise Unexecutable(plan, f"values of {rows.types[key.index]} are not ordered; order by a part of them")


def _has_order(kind: LogicalType) -> bool:
    if isinstance(kind, RowType):
        return all(map(_has_order, kind.types))
    if isinstance(kind, CollectionType) and kind.root is TypeRoot.ARRAY:
        return _has_order(kind.element)
    return kind.root not in _WITHOUT_ORDER


def _ranked(
    name: str,
    description: str,
    plan: Plan,
    lowering: Lowering,
    before: bool,
    which: tuple[Sequence[int], tuple[SortKey, ...], int, int],
    kind: str = "ROW_NUMBER",
    has_number: bool = False,
    latest_first: bool = False,
    inputs: Sequence[Transformation] = (),
) -> Transformation:
    """An operator for the rows of a key, in an order, from a first to a last rank."""
    keys, order, first, last = which
    types = plan.inputs[0].row_type.types
    check_order(plan, order)
    # Rows arrive in the order of their processing time; what comes behind it in the order says nothing more.
    by_arrival = next((place for place, key in enumerate(order) if is_proctime(types[key.index])), len(order))
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
        latest_first=order[by_arrival].descending if by_arrival < len(order) else latest_first,
    )
    return lowering.operator(name, description, plan, factory, [keys], before, inputs)


def is_proctime(kind: LogicalType) -> bool:
    """Whether it is the time at which a row is processed."""
    return isinstance(kind, TimestampType) and kind.attribute is TimeAttribute.PROCTIME


def _order_text(order: Sequence[SortKey], rows: RowType) -> str:
    return ", ".join(keys_text(order, rows.names))
