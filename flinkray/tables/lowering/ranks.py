"""The first or last rows of keys as operators."""

from __future__ import annotations

from flinkray.tables.lowering.contract import Lowering
from flinkray.tables.plans.nodes import Deduplicate
from flinkray.tables.types.logical import TimeAttribute, TimestampType
from flinkray.transformations.table_factories import DeduplicateFactory
from flinkray.transformations.transformation import Transformation


def deduplicated(plan: Deduplicate, lowering: Lowering, before: bool) -> Transformation:
    """The first or the last row of each key."""
    rows = plan.row_type
    time = rows.types[plan.time]
    factory = DeduplicateFactory(
        input_rows=(plan.input.row_type,),
        rows=rows,
        takes=lowering.input_changes(plan, before),
        gives=lowering.changes(plan, before),
        state_ttl_ms=lowering.options.state_ttl_ms,
        time=None if isinstance(time, TimestampType) and time.attribute is TimeAttribute.PROCTIME else plan.time,
        keeps_last=plan.keeps_last,
    )
    keys = ", ".join(rows.names[each] for each in plan.keys)
    description = f"{'last' if plan.keeps_last else 'first'} of [{keys}] by {rows.names[plan.time]}"
    return lowering.operator("Deduplicate", description, plan, factory, [plan.keys], before)
