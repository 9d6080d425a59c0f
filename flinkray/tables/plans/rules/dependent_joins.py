"""Joins whose right input reads the columns of each row of the left, as joins that do not."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    TRUE,
    BoundExpression,
    Call,
    Column,
    Plan,
    columns_of,
    conjunction,
    conjuncts,
    is_deterministic,
    with_columns,
)
from flinkray.tables.plans.nodes import Aggregate, Filter, Join, Limit, Project, Sort, Values, unique_names
from flinkray.tables.plans.rules.correlation import (
    Pulled,
    is_correlated,
    of_left,
    pulled,
    reads_left,
    released,
)
from flinkray.tables.plans.rules.domains import Domain
from flinkray.tables.plans.rules.predicates import push_predicates_down
from flinkray.tables.plans.rules.rewriting import columns
from flinkray.tables.types.logical import BOOLEAN


def dependent_join(
    kind: str, left: Plan, right: Plan, condition: BoundExpression | None = None, is_null_aware: bool = False
) -> Plan:
    """The pairs of the rows of the left with those that the right gives for each, which reads them as `OuterColumn`s.

    Args:
        kind: INNER, LEFT, or, with the columns of the left alone, SEMI or ANTI.
        condition: of SEMI and ANTI, over the columns of the left and then of the right.
        is_null_aware: as of a `Join`.
    Raises:
        Dependent: nobody knows how to join them.
    """
    right = released(right)
    if pulled(right) is None:  # else a condition would go below what it cannot be taken out of
        right = push_predicates_down(right)
    return _joined(Join(kind, left, right, condition, is_null_aware=is_null_aware))


def _joined(plan: Join) -> Plan:
    """The join without what its right input reads of the left."""
    if plan.kind in ("INNER", "LEFT"):
        single = _of_one_row(plan.kind, plan.left, plan.right)
        if single is not None:
            return _with_one_row(plan.kind, plan.left, single, plan.right.row_type.names)
    if not is_correlated(plan.right):
        return plan
    out = pulled(plan.right)
    return _with_domain(plan) if out is None else _with_conditions(plan, out)


def has_one_row(plan: Plan) -> bool:
    """Whether a plan has one row whatever is around it, or none where that does not pass a filter."""
    match plan:
        case Project() | Filter() | Sort():
            return has_one_row(plan.input)
        case Limit(offset=0):
            return plan.count != 0 and has_one_row(plan.input)
        case Aggregate(keys=(), grouping_sets=(), window=None):
            return True
        case Values():
            return len(plan.rows) == 1
    return False


# -- one row for each


class _OneRow(Struct, frozen=True):
    """Rows of the left with more columns behind theirs; for which conditions hold those have one row of the right,
    whose values are `outputs`. All are over the columns of `plan`."""

    plan: Plan
    conditions: tuple[BoundExpression, ...]
    outputs: tuple[BoundExpression, ...]


def _of_one_row(kind: str, left: Plan, right: Plan) -> _OneRow | None:
    """The right as columns of the left, where it has one row; None: it may have others.

    As in Flink, an INNER join leaves out rows of the left for which an aggregate has no rows: on a stream there is no
    result of no rows.
    """
    match right:
        case Values(rows=(row,)):
            return _OneRow(left, (), tuple(map(of_left, row)))
        case Aggregate() if has_one_row(right):
            found = _with_totals(kind, left, right)
            return _OneRow(found, (), columns(found)[len(left.row_type.fields) :])
        case Sort():
            return _of_one_row(kind, left, right.input)
        case Limit(offset=0) if right.count != 0:
            return _of_one_row(kind, left, right.input)
        case Filter() | Project():
            below = _of_one_row(kind, left, right.input)
            if below is None:
                return None
            if isinstance(right, Filter):
                more = (_over(each, below.outputs) for each in conjuncts(right.condition))
                return replace(below, conditions=(*below.conditions, *more))
            if not all(is_deterministic(each) for each in right.expressions):
                return None
            return replace(below, outputs=tuple(_over(each, below.outputs) for each in right.expressions))
        case Join(kind="INNER" | "LEFT", condition=None, keys=()):
            below = _of_one_row("LEFT", left, right.left)
            if below is None or below.conditions:
                return None
            found = _joined(Join(right.kind, below.plan, right.right))
            return _OneRow(found, (), (*below.outputs, *columns(found)[len(below.plan.row_type.fields) :]))
    return None


def _over(expression: BoundExpression, outputs: Sequence[BoundExpression]) -> BoundExpression:
    """An expression over the right, over rows that begin with those of the left and have its values somewhere."""
    return of_left(with_columns(expression, outputs.__getitem__))


def _with_totals(kind: str, left: Plan, aggregate: Aggregate) -> Plan:
    if not is_correlated(aggregate):
        return Join(kind, left, aggregate)
    domain = Domain(left, aggregate)
    return domain.with_totals(kind, left, domain.of_left, aggregate)


def _with_one_row(kind: str, left: Plan, right: _OneRow, names: Sequence[str]) -> Plan:
    condition = conjunction(right.conditions)
    plan, outputs = right.plan, list(right.outputs)
    if condition is not None and kind == "INNER":
        plan = Filter(plan, condition)
    elif condition is not None:
        outputs = [_where(condition, each) for each in outputs]
    return _beside(plan, left, outputs, names)


def _where(condition: BoundExpression, value: BoundExpression) -> BoundExpression:
    """The value, or NULL where a condition does not hold."""
    return Call(value.type.as_nullable(), "CASE", (condition, value))


def _beside(plan: Plan, left: Plan, values: Sequence[BoundExpression], names: Sequence[str]) -> Plan:
    """Values over rows that begin with those of the left, behind the left's columns."""
    own = columns(plan)[: len(left.row_type.fields)]
    return Project(plan, (*own, *values), tuple(unique_names([*left.row_type.names, *names])))


# -- conditions and values of pairs


def _with_conditions(plan: Join, right: Pulled) -> Plan:
    """A join on the conditions that were taken out of its right input."""
    width, kinds = len(plan.left.row_type.fields), right.plan.row_type.types
    is_pair = plan.kind in ("INNER", "LEFT")
    read = range(len(right.outputs)) if is_pair else {each - width for each in columns_of(*conjuncts(plan.condition))}
    outputs = {place: each for place, each in enumerate(right.outputs) if place in read}
    kept: dict[BoundExpression, int] = {}
    for each in (*outputs.values(), *right.conditions):
        for value in _columns(each, right.plan) if reads_left(each) else [each]:
            kept.setdefault(value, len(kept))
    is_marked = plan.kind == "LEFT" and any(map(reads_left, outputs.values()))
    if is_marked or not kept:
        kept.setdefault(TRUE, len(kept))
    names = tuple(f"value${place}" for place in range(len(kept)))
    source = Project(right.plan, tuple(kept), names)

    def moved(each: BoundExpression) -> BoundExpression:
        if not reads_left(each):
            return Column(each.type, width + kept[each])
        return of_left(with_columns(each, lambda index: moved(Column(kinds[index], index))))

    taken = [moved(each) for each in right.conditions]
    if plan.is_null_aware:
        # Only what IN compares leaves open whether there is an equal row; the query's own WHERE leaves out its row.
        taken = [Call(BOOLEAN.not_null(), "IS TRUE", (each,)) for each in taken]
    own = columns(plan.left)
    values = [*own, *(moved(outputs[place]) if place in outputs else TRUE for place in range(len(right.outputs)))]
    conditions = [with_columns(each, values.__getitem__) for each in conjuncts(plan.condition)]
    joined = replace(plan, right=source, condition=conjunction([*taken, *conditions]))
    if not is_pair:
        return joined
    mark = Column(BOOLEAN, width + kept.get(TRUE, 0))
    results = [_result(each, joined, mark, reads_left(outputs[place])) for place, each in enumerate(values[width:])]
    return _beside(joined, plan.left, results, plan.right.row_type.names)


def _columns(expression: BoundExpression, plan: Plan) -> list[Column]:
    return [columns(plan)[each] for each in sorted(columns_of(expression))]


def _result(value: BoundExpression, plan: Join, mark: Column, reads: bool) -> BoundExpression:
    """A value of the right over a join, which is NULL where a row of the left has no partner."""
    if not reads:
        assert isinstance(value, Column)
        return columns(plan)[value.index]
    return _where(Call(BOOLEAN.not_null(), "IS TRUE", (mark,)), value) if plan.kind == "LEFT" else value


# -- all others


def _with_domain(plan: Join) -> Plan:
    """A join with the right's rows for each value that it reads of the left."""
    domain = Domain(plan.left, plan.right)
    right = domain.widened(plan.right)
    width, count = len(plan.left.row_type.fields), len(plan.right.row_type.fields)
    others = [Column(each.type, each.index + width) for each in domain.columns(right)]
    conditions = domain.equalities(plan.left, domain.of_left, others)
    if plan.is_null_aware:
        conditions = [Call(BOOLEAN.not_null(), "IS TRUE", (each,)) for each in conditions]
    joined = replace(plan, right=right, condition=conjunction([*conditions, *conjuncts(plan.condition)]))
    if plan.kind in ("SEMI", "ANTI"):
        return joined
    results = columns(joined)[width : width + count]
    return _beside(joined, plan.left, results, plan.right.row_type.names)
