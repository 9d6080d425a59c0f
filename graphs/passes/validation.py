"""Refuses settings that cannot be, before anything is built from them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from flinkray.config.autoscaler_options import (
    AUTOSCALER_ENABLED,
    MAX_UTILIZATION,
    MIN_UTILIZATION,
    TARGET_UTILIZATION,
    VERTEX_MAX_PARALLELISM,
    VERTEX_MIN_PARALLELISM,
)
from flinkray.config.configuration import Configuration
from flinkray.config.option import ConfigOption
from flinkray.config.options import (
    CHECKPOINT_INTERVAL,
    CHECKPOINT_MODE,
    FORCE_UNALIGNED_CHECKPOINTS,
    UNALIGNED_CHECKPOINTS,
)
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.feedback.sink import FeedbackSink
from flinkray.connectors.feedback.source import FeedbackSource
from flinkray.connectors.source import Boundedness
from flinkray.errors import InvalidProgramError, operator_label
from flinkray.transformations.operator_factories import SourceFactory
from flinkray.transformations.partitioning import CustomPartitioner
from graphs.passes.plan import Plan
from graphs.stream_graph import StreamGraph, StreamNode

OPERATOR_SCOPE_USE_CASES = ("operator",)
SLOT_SCOPE_USE_CASES = ("state backend", "python")


def validate(plan: Plan) -> Plan:
    """Gives the same plan, if its program can be run.

    Raises:
        InvalidProgramError: names the operator, the value and what it may be.
    """
    for node in plan.graph.nodes.values():
        _check_uid(node)
        _check_managed_memory(node)
    _check_co_location(plan.graph.nodes.values())
    _check_iterations(plan.graph)
    _check_unaligned(plan.graph)
    _check_autoscaler(plan.graph)
    _check_guarantees(plan.graph)
    return plan


def _check_uid(node: StreamNode) -> None:
    if node.uid == "":
        raise InvalidProgramError(f"{operator_label(node.name)}: the uid must not be empty")
    if node.uid_hash is not None and not re.fullmatch("[0-9a-fA-F]{32}", node.uid_hash):
        raise InvalidProgramError(
            f"{operator_label(node.name)}: a uid hash has 32 hex digits, {node.uid_hash!r} has not"
        )


def _check_managed_memory(node: StreamNode) -> None:
    for use_case, weight in node.managed_memory_weights.items():
        if use_case not in OPERATOR_SCOPE_USE_CASES:
            known = ", ".join(OPERATOR_SCOPE_USE_CASES)
            raise InvalidProgramError(
                f"{operator_label(node.name)}: {use_case!r} takes no weight; of weights there are: {known}"
            )
        if weight <= 0:
            raise InvalidProgramError(
                f"{operator_label(node.name)}: the managed memory weight of {use_case!r} must be positive, is {weight}"
            )
    for use_case in sorted(node.managed_memory_slot_use_cases.difference(SLOT_SCOPE_USE_CASES)):
        known = ", ".join(SLOT_SCOPE_USE_CASES)
        raise InvalidProgramError(
            f"{operator_label(node.name)}: no slot-scope use case {use_case!r}; there are: {known}"
        )


def _check_co_location(nodes: Iterable[StreamNode]) -> None:
    first_of_key: dict[str, StreamNode] = {}
    for node in nodes:
        if node.co_location_key is None:
            continue
        first = first_of_key.setdefault(node.co_location_key, node)
        if first.slot_sharing_group != node.slot_sharing_group:
            raise InvalidProgramError(
                f"operators {first.name!r} and {node.name!r} are to be co-located ({node.co_location_key!r}), so they "
                f"must be in one slot sharing group; they are in {first.slot_sharing_group!r} and "
                f"{node.slot_sharing_group!r}"
            )
        if first.parallelism != node.parallelism:
            raise InvalidProgramError(
                f"operators {first.name!r} and {node.name!r} are to be co-located ({node.co_location_key!r}), subtask "
                f"by subtask; their parallelism differs: {first.parallelism} and {node.parallelism}"
            )


def _check_iterations(graph: StreamGraph) -> None:
    closed = {node.sink.iteration_id for node in graph.nodes.values() if isinstance(node.sink, FeedbackSink)}
    for node in graph.nodes.values():
        if not isinstance(node.factory, SourceFactory) or not isinstance(node.factory.source, FeedbackSource):
            continue
        if node.factory.source.iteration_id not in closed:
            raise InvalidProgramError(
                f"{operator_label(node.name)}: nothing goes back into the iteration; call close_with(feedback) on the "
                "stream that iterate() gave"
            )
        if graph.configuration.get(CHECKPOINT_INTERVAL) > 0:
            raise InvalidProgramError(
                f"{operator_label(node.name)}: a program with an iteration takes no checkpoints, as rows on their way "
                f"through the loop would be in none of them; leave {CHECKPOINT_INTERVAL.key!r} out"
            )


def _check_unaligned(graph: StreamGraph) -> None:
    configuration = graph.configuration
    takes_unaligned = (
        configuration.get(CHECKPOINT_INTERVAL) > 0
        and configuration.get(CHECKPOINT_MODE) == "exactly-once"
        and configuration.get(UNALIGNED_CHECKPOINTS)
    )
    if not takes_unaligned or configuration.get(FORCE_UNALIGNED_CHECKPOINTS):
        return
    for edge in graph.edges:
        if isinstance(edge.partitioner, CustomPartitioner):
            raise InvalidProgramError(
                f"{operator_label(graph.nodes[edge.target].name)} gets its rows by partition_custom, and checkpoints "
                "are unaligned: nobody knows whether the partitioner sends rows that were in flight to the right "
                "subtask when the job is rescaled; leave checkpoints aligned, or, if it depends on nothing but the key "
                f"and the number of channels, set {FORCE_UNALIGNED_CHECKPOINTS.key!r} to true"
            )


def _check_autoscaler(graph: StreamGraph) -> None:
    configuration = graph.configuration
    if configuration.get(AUTOSCALER_ENABLED) and not graph.is_batch and configuration.get(CHECKPOINT_INTERVAL) == 0:
        raise InvalidProgramError(
            f"{AUTOSCALER_ENABLED.key!r} rescales the job, which goes on from a checkpoint then, and this program "
            "takes none; call env.enable_checkpointing(10_000), in milliseconds"
        )
    if configuration.get(AUTOSCALER_ENABLED):
        _check_autoscaler_options(configuration)


def _check_autoscaler_options(configuration: Configuration) -> None:
    pairs: tuple[tuple[ConfigOption[Any], ConfigOption[Any]], ...] = (
        (MIN_UTILIZATION, TARGET_UTILIZATION),
        (TARGET_UTILIZATION, MAX_UTILIZATION),
        (VERTEX_MIN_PARALLELISM, VERTEX_MAX_PARALLELISM),
    )
    for lower, higher in pairs:
        low, high = configuration.get(lower), configuration.get(higher)
        if low > high:
            raise InvalidProgramError(f"{lower.key!r} is {low}, and above {higher.key!r}, {high}")


def _check_guarantees(graph: StreamGraph) -> None:
    """Without checkpoints a sink commits at the end of its input, which a job without end never reaches."""
    sources = [node.factory.source for node in graph.nodes.values() if isinstance(node.factory, SourceFactory)]
    if graph.configuration.get(CHECKPOINT_INTERVAL) > 0 or all(
        source.boundedness is Boundedness.BOUNDED for source in sources
    ):
        return
    for node in graph.nodes.values():
        if node.sink is not None and node.sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise InvalidProgramError(
                f"{operator_label(node.name)}: {type(node.sink).__name__} writes exactly once, so rows become visible "
                "when a checkpoint is complete or the input ends, and this program has neither checkpoints nor an end; "
                "call env.enable_checkpointing(10_000), in milliseconds"
            )
