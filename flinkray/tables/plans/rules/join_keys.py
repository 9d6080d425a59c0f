"""The condition of a join: pairs of columns that have to be equal, by which rows find each other, and the rest."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Plan,
    columns_of,
    conjunction,
    conjuncts,
    has_subquery,
    is_deterministic,
    shifted,
    with_columns,
)
from flinkray.tables.plans.nodes import Join, Project, TemporalJoin, unique_names
from flinkray.tables.plans.rules.rewriting import bottom_up, columns

_EQUALITIES = ("=", "IS NOT DISTINCT FROM")


def split_join_conditions(plan: Plan) -> Plan:
    """The plan with the keys of its joins; what is equal but no column is computed below the join."""
    return bottom_up(plan, _split)


def _split(plan: Plan) -> Plan:
    if not isinstance(plan, Join | TemporalJoin) or plan.condition is None or plan.keys:
        return plan
    width = len(plan.left.row_type.fields)
    pairs: list[Pair] = []
    rest: list[BoundExpression] = []
    for each in conjuncts(plan.condition):
        pair = _sides(each, width)
        if pair is None or (pair.nulls_equal and (isinstance(plan, TemporalJoin) or plan.is_null_aware)):
            rest.append(each)
        else:
            pairs.append(pair)
    if not pairs:
        return plan
    return _with_keys(plan, pairs, rest, width)


class Pair(Struct, frozen=True):
    """What of the left and of the right has to be equal."""

    left: BoundExpression
    right: BoundExpression
    nulls_equal: bool
    """Whether a NULL is equal to another one."""


def _sides(condition: BoundExpression, width: int) -> Pair | None:
    """What of the left and what of the right has to be equal; None: it is another condition."""
    if not isinstance(condition, Call) or condition.function not in _EQUALITIES or has_subquery(condition):
        return None
    first, second = condition.arguments
    for left, right in ((first, second), (second, first)):
        of_left, of_right = columns_of(left), columns_of(right)
        is_split = bool(of_left) and bool(of_right) and max(of_left) < width <= min(of_right)
        if is_split and is_deterministic(condition):
            return Pair(left, shifted(right, -width), condition.function != "=")
    return None


def _with_keys(
    plan: Join | TemporalJoin,
    pairs: list[Pair],
    rest: list[BoundExpression],
    width: int,
) -> Plan:
    left, left_keys = _computed(plan.left, [each.left for each in pairs])
    right, right_keys = _computed(plan.right, [each.right for each in pairs])
    more = len(left.row_type.fields) - width
    condition = conjunction(
        with_columns(each, lambda index: _moved(plan, index, index + (more if index >= width else 0))) for each in rest
    )
    known: dict[tuple[int, int], bool] = {}
    for key, pair in zip(zip(left_keys, right_keys, strict=True), pairs, strict=True):
        known[key] = known.get(key, True) and pair.nulls_equal
    joined = replace(plan, left=left, right=right, condition=condition, keys=tuple(known))
    if isinstance(joined, Join):
        joined = replace(joined, nulls_equal=tuple(place for place, each in enumerate(known.values()) if each))
    if left is plan.left and right is plan.right:
        return joined
    names = plan.row_type.names
    places = [place + (more if place >= width else 0) for place in range(len(names))]
    kinds = plan.row_type.types
    kept = tuple(Column(kind, place) for kind, place in zip(kinds, places, strict=True))
    return Project(joined, kept, names)


def _moved(plan: Join | TemporalJoin, old: int, new: int) -> Column:
    width = len(plan.left.row_type.fields)
    kinds = plan.left.row_type.types if old < width else plan.right.row_type.types
    return Column(kinds[old if old < width else old - width], new)


def _computed(plan: Plan, keys: list[BoundExpression]) -> tuple[Plan, list[int]]:
    """The plan with the keys that are no columns behind its columns, and the numbers of all keys."""
    known: list[BoundExpression] = list(columns(plan))
    width = len(known)
    for key in keys:
        if not isinstance(key, Column) and key not in known:
            known.append(key)
    places = [key.index if isinstance(key, Column) else known.index(key) for key in keys]
    if len(known) == width:
        return plan, places
    names = unique_names([*plan.row_type.names, *(f"key${place}" for place in range(width, len(known)))])
    return Project(plan, tuple(known), tuple(names)), places
