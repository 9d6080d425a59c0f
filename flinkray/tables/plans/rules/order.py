"""The rules in the order in which they apply."""

from __future__ import annotations

from collections.abc import Callable

from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.rules.distinct import distinct_as_aggregates
from flinkray.tables.plans.rules.folding import fold_constants
from flinkray.tables.plans.rules.join_keys import split_join_conditions
from flinkray.tables.plans.rules.predicates import push_predicates_down
from flinkray.tables.plans.rules.projections import merge_projections, prune_columns
from flinkray.tables.plans.rules.ranks import find_ranks
from flinkray.tables.plans.rules.row_fields import take_fields_early
from flinkray.tables.plans.rules.subqueries import subqueries_as_joins

Rule = Callable[[Plan], Plan]

RULES: tuple[Rule, ...] = (
    subqueries_as_joins,  # first: what they become are joins like others
    distinct_as_aggregates,
    fold_constants,
    push_predicates_down,
    split_join_conditions,  # sees the conditions that have come down to the joins
    find_ranks,  # sees conditions on row numbers that have come down to their windows
    merge_projections,
    prune_columns,  # late: what no rule needs any more is not read
    merge_projections,
    take_fields_early,  # sees projections as they stay
)


def optimized(plan: Plan) -> Plan:
    """The plan with all rules applied; its rows, and the names and types of its columns, are the same."""
    for rule in RULES:
        plan = rule(plan)
    return plan
