"""How the operators of a slot divide its managed memory, use case by use case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import ROUND_DOWN, Decimal

from msgspec.structs import replace

from graphs.passes.plan import Plan
from graphs.stream_graph import StreamNode

_SCALE = Decimal("1e-16")


def assign_managed_memory(plan: Plan) -> Plan:
    """Decides `managed_memory` of the plan.

    Operators with a weight divide the use case of operator scope in proportion; a use case of slot scope is shared,
    so whoever has it gets it whole. Every operator names all use cases of its slot sharing group, with 0 where it has
    no part in one, so that each task can tell which use cases its slot serves.
    """
    groups: dict[str, list[StreamNode]] = defaultdict(list)
    for chain in plan.chains:
        for node_id in chain.node_ids:
            groups[plan.slot_sharing[chain.head].group].append(plan.graph.nodes[node_id])
    fractions: dict[int, Mapping[str, float]] = {}
    for nodes in groups.values():
        weights: dict[str, int] = defaultdict(int)
        for node in nodes:
            for use_case, weight in node.managed_memory_weights.items():
                weights[use_case] += weight
        shared = sorted({use_case for node in nodes for use_case in node.managed_memory_slot_use_cases})
        for node in nodes:
            own = {
                use_case: _fraction(node.managed_memory_weights.get(use_case, 0), total)
                for use_case, total in weights.items()
            }
            own |= {use_case: float(use_case in node.managed_memory_slot_use_cases) for use_case in shared}
            fractions[node.id] = own
    return replace(plan, managed_memory=fractions)


def _fraction(part: int, total: int) -> float:
    """The part of the whole, rounded down so that all parts never add up to more than that."""
    return float((Decimal(part) / Decimal(total)).quantize(_SCALE, rounding=ROUND_DOWN))
