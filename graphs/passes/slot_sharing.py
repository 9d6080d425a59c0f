"""Which tasks may share a slot, and which must."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from graphs.passes.plan import Chain, Plan, SlotSharing


def assign_slot_sharing_groups(plan: Plan) -> Plan:
    """Decides `slot_sharing` of the plan.

    All operators of a chain are in one slot sharing group, or they would not be chained.
    """
    sharing = {
        chain.head: SlotSharing(plan.head_of(chain).slot_sharing_group, _co_location_group(plan, chain))
        for chain in plan.chains
    }
    return replace(plan, slot_sharing=sharing)


def _co_location_group(plan: Plan, chain: Chain) -> str | None:
    named = [node for node_id in chain.node_ids if (node := plan.graph.nodes[node_id]).co_location_key is not None]
    groups = {node.co_location_key for node in named}
    if len(groups) > 1:
        operators = ", ".join(f"{node.name!r} ({node.co_location_key!r})" for node in named)
        raise InvalidProgramError(
            f"one task runs operators of different co-location groups: {operators}; start a new chain between them"
        )
    return groups.pop() if groups else None
