"""Which columns tell the rows of a plan apart: two changes of one row are equal in them, and no two rows are.

After Flink's FlinkRelMdUpsertKeys.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from flinkray.tables.plans.expressions import Column, Plan
from flinkray.tables.plans.nodes import (
    Aggregate,
    Deduplicate,
    Distinct,
    Filter,
    Join,
    Joining,
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

UpsertKeys = frozenset[frozenset[int]]
"""Sets of columns, each of which is enough; an empty set says that there is one row at most."""
_NONE: UpsertKeys = frozenset()
_MOST = 8
"""A plan of many joins has ever more keys; so many are enough."""


def upsert_keys(plan: Plan) -> UpsertKeys:
    """The upsert keys of a plan's rows, by the numbers of columns; empty: nothing tells them apart."""
    match plan:
        case Scan():
            return _of_table(plan)
        case Filter() | WatermarkAssigner() | Sort() | Window():
            return upsert_keys(plan.input)
        case Limit():
            return frozenset([frozenset()]) if plan.count == 1 else upsert_keys(plan.input)
        case Distinct():
            return _limited([frozenset(range(len(plan.row_type.fields)))])
        case Project():
            return _projected(plan)
        case Aggregate():
            is_one_set = not plan.grouping_sets and plan.window is None
            return frozenset([frozenset(range(len(plan.keys)))]) if is_one_set else _NONE
        case Rank():
            return _ranked(plan)
        case Deduplicate():
            return frozenset([frozenset(plan.keys)])
        case WindowTableFunction():
            # In windows that overlap, or in sessions, a row that changes its time leaves others than it comes to.
            return upsert_keys(plan.input) if plan.kind == "TUMBLE" else _NONE
        case TemporalJoin():
            return upsert_keys(plan.left)
        case Join():
            return _joined(plan)
    return _NONE


def _limited(keys: Iterable[frozenset[int]]) -> UpsertKeys:
    """The shortest keys, without those that have another one in them."""
    found: list[frozenset[int]] = []
    for key in sorted(keys, key=lambda each: (len(each), sorted(each))):
        if not any(other <= key for other in found):
            found.append(key)
    return frozenset(found[:_MOST])


def _of_table(plan: Scan) -> UpsertKeys:
    stored = plan.table.stored_columns
    places = {stored[number].name: place for place, number in enumerate(plan.columns)}
    key = plan.table.primary_key
    return frozenset([frozenset(places[name] for name in key)]) if key and set(key) <= set(places) else _NONE


def _projected(plan: Project) -> UpsertKeys:
    places: dict[int, list[int]] = {}
    for place, expression in enumerate(plan.expressions):
        if isinstance(expression, Column):
            places.setdefault(expression.index, []).append(place)
    keys: list[frozenset[int]] = []
    for key in upsert_keys(plan.input):
        if key <= places.keys():
            keys += [frozenset(chosen) for chosen in itertools.product(*(places[each] for each in sorted(key)))]
    return _limited(keys[: _MOST * _MOST])


def _ranked(plan: Rank) -> UpsertKeys:
    """An update has another row in the place of the one that had a rank, where a rank is one row's; so no key of the
    input tells them apart. Else rows come and go, and one that moves to another key of the ranks may be late."""
    partition = frozenset(plan.partition_by)
    if plan.kind == "ROW_NUMBER" and plan.first == plan.last:
        return frozenset([partition])
    if plan.kind == "ROW_NUMBER" and plan.has_number:
        return frozenset([partition | {len(plan.input.row_type.fields)}])
    return _limited(key for key in upsert_keys(plan.input) if partition <= key)


def _joined(plan: Join) -> UpsertKeys:
    left, right = upsert_keys(plan.left), upsert_keys(plan.right)
    if plan.kind in ("SEMI", "ANTI"):
        return left
    width = len(plan.left.row_type.fields)
    moved = frozenset(frozenset(each + width for each in key) for key in right)
    keys = [one | other for one in left for other in moved]
    if plan.kind == "FULL":
        # A row without a partner whose key is NULL equals one of the other side that has neither.
        types = [field.type for side in plan.inputs for field in side.row_type.fields]
        keys = [key for key in keys if any(not types[each].nullable for each in key)]
    if plan.kind in ("INNER", "LEFT") and is_unique_in(plan, 1):
        keys += left
    if plan.kind in ("INNER", "RIGHT") and is_unique_in(plan, 0):
        keys += moved
    return _limited(keys)


def is_unique_in(plan: Joining, side: int) -> bool:
    """Whether a row of the other side of a join has one partner at most on this one: 0 is the left, 1 the right."""
    keys = frozenset(pair[side] for pair in getattr(plan, "keys", ()))
    return any(key <= keys for key in upsert_keys(plan.inputs[side]))


def holds_join_key(plan: Joining, side: int) -> bool:
    """Whether an upsert key of this side has the whole join key in it, so that no update of a row changes that."""
    keys = frozenset(pair[side] for pair in getattr(plan, "keys", ()))
    return any(keys <= key for key in upsert_keys(plan.inputs[side]))
