"""How each result between chains may be read: while it is produced, or when it is complete."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError, operator_label
from flinkray.transformations.partitioning import ForwardPartitioner
from graphs.job_graph import ResultPartitionType
from graphs.passes.plan import Plan
from graphs.stream_graph import ExchangeMode, GlobalExchangeMode, StreamEdge, StreamGraph


def assign_result_types(plan: Plan) -> Plan:
    """Decides `result_types` of the plan.

    Raises:
        InvalidProgramError: a buffer timeout is set for an operator whose result is read only when it is complete.
    """
    types = {edge.id: result_type(edge, plan.graph) for edge in plan.physical_edges}
    for edge in plan.physical_edges:
        source = plan.graph.nodes[edge.source]
        if source.has_own_buffer_timeout and not types[edge.id].is_pipelined:
            raise InvalidProgramError(
                f"{operator_label(source.name)}: a buffer timeout ({source.buffer_timeout_ms} ms) has no meaning on "
                f"its exchange with {plan.graph.nodes[edge.target].name!r}, which is read when it is complete; "
                "remove it"
            )
    return replace(plan, result_types=types)


def result_type(edge: StreamEdge, graph: StreamGraph) -> ResultPartitionType:
    """How the result of an edge may be read: as its exchange mode says, or, where that is undefined, that of the
    graph."""
    if edge.exchange_mode is ExchangeMode.PIPELINED:
        is_pipelined = True
    elif edge.exchange_mode is ExchangeMode.BATCH:
        is_pipelined = False
    else:
        is_pipelined = {
            GlobalExchangeMode.ALL_EDGES_PIPELINED: True,
            GlobalExchangeMode.POINTWISE_EDGES_PIPELINED: edge.partitioner.is_pointwise,
            GlobalExchangeMode.FORWARD_EDGES_PIPELINED: isinstance(edge.partitioner, ForwardPartitioner),
            GlobalExchangeMode.ALL_EDGES_BLOCKING: False,
        }[graph.global_exchange_mode]
    return ResultPartitionType.PIPELINED_BOUNDED if is_pipelined else ResultPartitionType.BLOCKING
