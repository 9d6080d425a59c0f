"""Logical plans as transformations of streams: which node becomes what."""

from __future__ import annotations

from flinkray.tables.lowering.aggregates import aggregated, expanded
from flinkray.tables.lowering.calc import calc, values
from flinkray.tables.lowering.contract import Lowering, Unexecutable
from flinkray.tables.lowering.joins import as_of, combined, joined, united, unnested
from flinkray.tables.lowering.over import matched, over
from flinkray.tables.lowering.ranks import deduplicated, is_to_normalize, limited, normalized, ranked, sorted_rows
from flinkray.tables.lowering.times import beside, watermarks
from flinkray.tables.lowering.windows import by_window, windowed
from flinkray.tables.plans.expressions import OuterColumn, Plan, Subquery, expressions_of, walk
from flinkray.tables.plans.nodes import (
    Aggregate,
    Correlate,
    Deduplicate,
    Expand,
    Filter,
    Join,
    KindsAsColumn,
    KindsOfColumn,
    Limit,
    Match,
    Project,
    Rank,
    Scan,
    SetOperation,
    Sort,
    TemporalJoin,
    Unnest,
    Values,
    WatermarkAssigner,
    Window,
    WindowTableFunction,
)
from flinkray.transformations.operator_factories import AsChangelogFactory, KindsAsColumnFactory
from flinkray.transformations.transformation import Transformation


class PlanLowering(Lowering):
    """Makes the transformations of plans."""

    def scanned(self, scan: Scan, before: bool) -> Transformation:
        rows = super().scanned(scan, before)
        # In batch mode all that reads a changelog takes rows as they were.
        if not (self._may_repeat(scan) or is_to_normalize(scan.table, before or self.options.is_batch)):
            return rows
        return normalized(scan, rows, self, before)

    def _may_repeat(self, scan: Scan) -> bool:
        """Whether changes of the table may come several times.

        Raises:
            Unexecutable: nothing tells its rows apart.
        """
        table = scan.table
        if not self.options.has_duplicates or not table.options or table.changes.is_insert_only:
            return False
        if not table.primary_key:
            raise Unexecutable(scan, _WITHOUT_KEY)
        return True

    def lowered(self, plan: Plan, before: bool) -> Transformation:
        _refuse_subqueries(plan)
        if isinstance(plan, Project) and isinstance(plan.input, Filter):
            _refuse_subqueries(plan.input)  # which becomes the same operator
        found = by_window(plan, self, before)
        if found is not None:
            return found
        match plan:
            case Scan() | Filter() | Project():
                return calc(plan, self, before)
            case Values():
                return values(plan)
            case SetOperation(kind="UNION", all=True):
                return united(plan, self, before)
            case Aggregate():
                return aggregated(plan, self, before)
            case Expand():
                return expanded(plan, self, before)
            case WatermarkAssigner():
                return watermarks(plan, self, before)
            case WindowTableFunction():
                return windowed(plan, self, before)
            case KindsAsColumn():
                return beside(self.of(plan.input), "KindsAsColumn", plan.name, KindsAsColumnFactory(plan.name))
            case KindsOfColumn():
                return _changes(plan, self)
            case Deduplicate():
                return deduplicated(plan, self, before)
            case Rank():
                return ranked(plan, self, before)
            case Limit():
                return limited(plan, self, before)
            case Window():
                return over(plan, self, before)
            case Match():
                return matched(plan, self, before)
            case Sort():
                return sorted_rows(plan, self, before)
            case Join():
                return joined(plan, self, before)
            case TemporalJoin():
                return as_of(plan, self, before)
            case Unnest():
                return unnested(plan, self, before)
            case SetOperation(kind="INTERSECT" | "EXCEPT"):
                return combined(plan, self, before)
        raise Unexecutable(plan)


_WITHOUT_KEY = "table.exec.source.cdc-events-duplicate is set, and it has no PRIMARY KEY, which tells its rows apart"


def _changes(plan: KindsOfColumn, lowering: Lowering) -> Transformation:
    """Rows as the changes that a column says."""
    if not lowering.changes(plan.input).is_insert_only:
        raise Unexecutable(plan, "it takes rows that are only added, and these are updated or deleted")
    column = plan.input.row_type.names[-1]
    return beside(lowering.of(plan.input), "AsChangelog", column, AsChangelogFactory(column))


def _refuse_subqueries(plan: Plan) -> None:
    """Raise where a node, or an expression of it, asks a query, or for columns of the query around."""
    if isinstance(plan, Correlate):
        raise Unexecutable(plan, plan.why_not)
    for each in (each for found in expressions_of(plan) for each in walk(found)):
        if isinstance(each, OuterColumn | Subquery):
            raise Unexecutable(plan, each.why_not if isinstance(each, Subquery) else "")
