"""Whom a checkpoint starts at, and who has to confirm it."""

from __future__ import annotations

from dataclasses import replace

from graphs.job_graph import CheckpointSettings
from graphs.passes.plan import Plan


def assign_checkpoint_settings(plan: Plan) -> Plan:
    """Settles `checkpoint_settings`: barriers start at the vertices without inputs, every vertex acknowledges."""
    fed = {edge.target for edge in plan.physical_edges}
    return replace(
        plan,
        checkpoint_settings=CheckpointSettings(
            vertices_to_trigger=tuple(plan.vertex_id(chain) for chain in plan.chains if chain.head not in fed),
            vertices_to_acknowledge=tuple(plan.vertex_id(chain) for chain in plan.chains),
        ),
    )
