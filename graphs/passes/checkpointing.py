"""How the job's checkpoints are taken, whom they start at, and who has to confirm them."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.config import options
from flinkray.config.configuration import Configuration
from flinkray.types.records import Millis
from graphs.job_graph import CheckpointRetention, CheckpointSettings
from graphs.passes.plan import Plan

_IN_NO_SNAPSHOT = "the program has an iteration, and rows on their way through the loop would be in no snapshot"


def assign_checkpoint_settings(plan: Plan) -> Plan:
    """Decides `checkpoint_settings` of the plan.

    Barriers start at vertices without inputs, or with chained sources beside them; all vertices acknowledge.
    """
    has_iteration = any(node.is_iteration_head for node in plan.graph.nodes.values())
    fed = {edge.target for edge in plan.physical_edges}
    settings = replace(
        _settings(plan.graph.configuration),
        impossible_because=_IN_NO_SNAPSHOT if has_iteration else "",
        vertices_to_trigger=tuple(
            plan.vertex_id(chain) for chain in plan.chains if chain.sources or chain.head not in fed
        ),
        vertices_to_acknowledge=tuple(plan.vertex_id(chain) for chain in plan.chains),
    )
    return replace(plan, checkpoint_settings=settings)


def _settings(configuration: Configuration) -> CheckpointSettings:
    interval = configuration.get(options.CHECKPOINT_INTERVAL)
    exactly_once = configuration.get(options.CHECKPOINT_MODE) == "exactly-once"
    return CheckpointSettings(
        interval_ms=Millis(interval) if interval > 0 else None,
        exactly_once=exactly_once,
        timeout_ms=configuration.get(options.CHECKPOINT_TIMEOUT),
        min_pause_ms=configuration.get(options.CHECKPOINT_MIN_PAUSE),
        max_concurrent=configuration.get(options.MAX_CONCURRENT_CHECKPOINTS),
        tolerable_failures=configuration.get(options.TOLERABLE_FAILED_CHECKPOINTS),
        retention=CheckpointRetention(configuration.get(options.CHECKPOINT_RETENTION)),
        # With at least once no channel waits for barriers, and there is nothing to overtake.
        is_unaligned=exactly_once and configuration.get(options.UNALIGNED_CHECKPOINTS),
        aligned_timeout_ms=configuration.get(options.ALIGNED_CHECKPOINT_TIMEOUT),
        retained=configuration.get(options.RETAINED_CHECKPOINTS),
        directory=configuration.get(options.CHECKPOINT_DIRECTORY),
        savepoint_directory=configuration.get(options.SAVEPOINT_DIRECTORY),
        has_final=configuration.get(options.FINAL_CHECKPOINT),
        restore_path=configuration.get(options.SAVEPOINT_PATH),
        allow_non_restored_state=configuration.get(options.ALLOW_NON_RESTORED_STATE),
    )
