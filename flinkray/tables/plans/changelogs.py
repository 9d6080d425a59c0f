"""Which changes the rows of each node of a plan make, and whether updates need to take back the row as it was.

After the two passes of Flink's FlinkChangelogModeInferenceProgram: what a node makes follows from its inputs; whether
-U is needed follows from what reads the node.
"""

from __future__ import annotations

from flinkray.tables.plans import nodes
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.interval_bounds import interval_bounds
from flinkray.tables.plans.upsert_keys import holds_join_key
from flinkray.tables.plans.window_columns import is_window_aggregate, is_window_join, is_window_rank
from flinkray.types.changelogs import INSERTS, Changes

_ALL = Changes(updates=True, deletes=True)


def changes_of(plan: Plan, before: bool = True) -> Changes:
    """The changes that the rows of a node make.

    Args:
        before: whether what reads the node needs -U.
    """
    made = _made(plan)
    return Changes(made.updates, made.deletes, before) if made.updates else made


def final_changes(plan: Plan) -> Changes:
    """As `changes_of`, in batch mode: what has state gives its final rows when all have come, so that only rows of
    tables that are changelogs themselves, and what keeps their kinds, make changes."""
    match plan:
        case nodes.Scan(table=table):  # changes by key come as a whole changelog
            made = table.changes
            return Changes(made.updates, made.deletes) if table.primary_key else made
        case nodes.KindsOfColumn():
            return _ALL
        case (
            nodes.Filter() | nodes.Project() | nodes.WatermarkAssigner() | nodes.WindowTableFunction() | nodes.Expand()
        ):
            return final_changes(plan.input)
        case (
            nodes.SetOperation(kind="UNION", all=True) | nodes.Unnest() | nodes.TableFunctionCall() | nodes.Correlate()
        ):
            return _union(*map(final_changes, plan.inputs))
    return INSERTS


def _made(plan: Plan) -> Changes:
    match plan:
        case nodes.Scan():
            return plan.table.changes
        case nodes.Values() | nodes.Window():
            return INSERTS
        case nodes.KindsAsColumn():
            return INSERTS
        case nodes.KindsOfColumn():
            return _ALL
        case nodes.Aggregate():
            return _of_aggregate(plan)
        case nodes.Rank() | nodes.Deduplicate() if is_window_rank(plan) and _made(plan.input).is_insert_only:
            return INSERTS
        case nodes.Deduplicate(keeps_last=keeps_last):
            below = _made(plan.input)
            return Changes(updates=keeps_last) if below.is_insert_only else _ALL
        case nodes.Limit() if not isinstance(plan.input, nodes.Sort) and _made(plan.input).is_insert_only:
            return INSERTS  # the first rows to come
        case nodes.Rank() | nodes.Limit():
            return _ALL
        case nodes.Join():
            return _of_join(plan)
        case nodes.TemporalJoin():
            return _made(plan.left)
        case nodes.SetOperation(kind="UNION", all=True):
            return _union(*map(_made, plan.inputs))
        case nodes.SetOperation():
            # Rows come and go, and are never others; where rows only come, only EXCEPT takes some away.
            is_growing = plan.kind == "INTERSECT" and all(_made(each).is_insert_only for each in plan.inputs)
            return INSERTS if is_growing else Changes(deletes=True)
        case nodes.Unnest(replaces=True):
            return INSERTS if _made(plan.input).is_insert_only else Changes(deletes=True)
        case nodes.Correlate():
            return _union(*map(_made, plan.inputs))
    return _union(*map(_made, plan.inputs))


def _union(*changes: Changes) -> Changes:
    return Changes(any(each.updates for each in changes), any(each.deletes for each in changes))


def _of_aggregate(plan: nodes.Aggregate) -> Changes:
    below = _made(plan.input)
    if plan.window is not None or is_window_aggregate(plan):
        return INSERTS  # once the window has ended
    if not plan.calls and below.is_insert_only:  # each group once, as DISTINCT has it
        return INSERTS
    # A group whose rows are all gone is deleted; the one group of an aggregate without keys stays.
    return Changes(updates=bool(plan.calls), deletes=not below.is_insert_only and bool(plan.keys))


def _of_join(plan: nodes.Join) -> Changes:
    left, right = map(_made, plan.inputs)
    has_end = is_window_join(plan) or interval_bounds(plan) is not None
    if left.is_insert_only and right.is_insert_only and has_end:
        return INSERTS
    if plan.kind == "INNER":
        return _union(left, right)
    if plan.kind == "SEMI":
        # A row of the left goes when its last partner does.
        return Changes(left.updates, left.deletes or not right.is_insert_only)
    return _ALL


def inputs_need_before(plan: Plan, before: bool) -> tuple[bool, ...]:
    """Whether a node needs -U from each of its inputs, where what reads the node does or not."""
    match plan:
        case nodes.Project() | nodes.WatermarkAssigner() | nodes.WindowTableFunction():
            return (before,)
        case nodes.SetOperation(kind="UNION", all=True):
            return (before, before)
        case nodes.Join():
            return tuple(before or not holds_join_key(plan, side) for side in (0, 1))
        case nodes.TemporalJoin():
            return (before, False)
    # A filter, too: the row as it was may have passed where the new one does not; and UNNEST: it may have had elements
    # that the new one has not.
    return (True,) * len(plan.inputs)
