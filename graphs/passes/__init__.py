"""From StreamGraph to everything a JobGraph needs: one decision per module, taken in the order of `PASSES`.

Open `plan.py` first: what has been decided, and what each pass adds to. Imports the graphs and `flinkray`.
"""

from __future__ import annotations

from collections.abc import Callable

from graphs.passes.chaining import chain_operators
from graphs.passes.changelogs import infer_changelogs
from graphs.passes.checkpointing import assign_checkpoint_settings
from graphs.passes.local_aggregation import aggregate_locally
from graphs.passes.managed_memory import assign_managed_memory
from graphs.passes.operator_ids import assign_operator_ids
from graphs.passes.plan import Plan
from graphs.passes.result_types import assign_result_types
from graphs.passes.slot_sharing import assign_slot_sharing_groups
from graphs.passes.validation import validate
from graphs.stream_graph import StreamGraph

__all__ = ["PASSES", "Plan", "run_passes"]

PASSES: tuple[Callable[[Plan], Plan], ...] = (
    validate,
    infer_changelogs,
    assign_operator_ids,
    aggregate_locally,
    chain_operators,
    assign_result_types,
    assign_slot_sharing_groups,
    assign_managed_memory,
    assign_checkpoint_settings,
)


def run_passes(graph: StreamGraph) -> Plan:
    """All decisions about a StreamGraph.

    Raises:
        InvalidProgramError: one of them cannot be taken; the message names the operators.
    """
    plan = Plan(graph)
    for rewrite in PASSES:
        plan = rewrite(plan)
    return plan
