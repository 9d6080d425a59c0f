"""Makes the coordinator that a JobVertex asks for."""

from __future__ import annotations

from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.base import JobMasterContext, OperatorCoordinator
from actors.coordinators.collect_coordinator import CollectCoordinator
from actors.coordinators.source_coordinator import SourceCoordinator
from actors.coordinators.threaded import ThreadedCoordinator
from flinkray.connectors.collect.sink import CollectSink
from flinkray.errors import FlinkrayError, operator_label
from flinkray.functions.python_path import WAYS_TO_BRING_MODULES
from flinkray.persistence import loads
from flinkray.transformations.operator_factories import SinkFactory, SourceFactory
from graphs.job_graph import CoordinatorConfig


def create_coordinator(
    config: CoordinatorConfig,
    context: JobMasterContext,
    alignment: WatermarkAlignment,
    has_checkpoints: bool = False,
    retained: int = 1,
) -> OperatorCoordinator:
    """The coordinator, not started yet.

    Args:
        alignment: shared by all coordinators of a job.
        has_checkpoints: the job takes checkpoints periodically.
        retained: of how many complete ones it may start again from each.

    Raises:
        FlinkrayError: the operator's code cannot be loaded in this process; names the operator.
    """
    try:
        factory = loads(config.factory_bytes)
    except (Exception, SystemExit) as error:  # a script that is imported may end itself as if it were called
        raise FlinkrayError(
            f"{operator_label(config.operator_name)}: its code cannot be loaded at the JobMaster "
            f"({type(error).__name__}: {error}); {WAYS_TO_BRING_MODULES}"
        ) from error
    if isinstance(factory, SourceFactory):
        name, source, strategy = config.operator_name, factory.source, factory.watermark_strategy
        return ThreadedCoordinator(name, context, lambda own: SourceCoordinator(name, source, strategy, own, alignment))
    if isinstance(factory, SinkFactory) and isinstance(factory.sink, CollectSink):
        return CollectCoordinator(config.operator_name, factory.sink.collect_id, context, has_checkpoints, retained)
    raise FlinkrayError(f"{operator_label(config.operator_name)} of {type(factory).__name__} has no coordinator")
