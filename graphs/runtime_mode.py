"""Whether a program runs as streams or in stages, and what that settles for the whole graph.

After Flink's StreamGraphGenerator (`shouldExecuteInBatchMode`, `configureStreamGraphBatch`).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from msgspec.structs import replace

from flinkray.config.configuration import Configuration
from flinkray.config.options import BATCH_SHUFFLE_MODE, CHECKPOINT_INTERVAL, RUNTIME_MODE, SAVEPOINT_PATH, SORTED_INPUTS
from flinkray.connectors.source import Boundedness
from flinkray.errors import InvalidProgramError
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import (
    ChainingStrategy,
    OperatorFactory,
    SourceFactory,
    TimestampsAndWatermarksFactory,
)
from flinkray.transformations.transformation import PhysicalTransformation, Transformation
from graphs.stream_graph import GlobalExchangeMode

log = logging.getLogger(__name__)


def is_batch(configuration: Configuration, transformations: Sequence[Transformation]) -> bool:
    """Whether the program runs in stages.

    Args:
        transformations: all that the program reaches.

    Raises:
        InvalidProgramError: it is to run in batch mode, and a source of it never ends; names the source.
    """
    mode = configuration.get(RUNTIME_MODE)
    if mode == "streaming":
        return False
    unbounded = [each for each in transformations if _is_unbounded(each)]
    if mode == "batch" and unbounded:
        names = ", ".join(repr(each.name) for each in unbounded)
        raise InvalidProgramError(
            f"batch mode needs sources that end, and {names} does not; bound it, or set {RUNTIME_MODE.key} to "
            "streaming, or to automatic, which is streaming for such a program"
        )
    return not unbounded


def batch_configuration(configuration: Configuration) -> Configuration:
    """The program's settings as they are for stages.

    Raises:
        InvalidProgramError: it is to start from a savepoint, which a program in batch mode cannot.
    """
    settings = configuration.copy()
    settings.set(RUNTIME_MODE, "batch")
    if settings.get(SAVEPOINT_PATH):
        raise InvalidProgramError(
            f"a program in batch mode has no checkpoints, and cannot start from one ({SAVEPOINT_PATH.key}); remove "
            f"that, or set {RUNTIME_MODE.key} to streaming"
        )
    if settings.get(CHECKPOINT_INTERVAL):
        log.warning("checkpoints are off: they are neither supported nor needed where a program runs in batch mode")
        settings.set(CHECKPOINT_INTERVAL, 0)
    return settings


def streaming_configuration(configuration: Configuration) -> Configuration:
    """The program's settings as they are for streams, whatever made it run as streams."""
    if configuration.get(RUNTIME_MODE) == "streaming":
        return configuration
    settings = configuration.copy()
    settings.set(RUNTIME_MODE, "streaming")
    return settings


def batch_exchange_mode(configuration: Configuration) -> GlobalExchangeMode:
    """How tasks hand rows over where the program does not say."""
    is_blocking = configuration.get(BATCH_SHUFFLE_MODE) == "all-exchanges-blocking"
    return GlobalExchangeMode.ALL_EDGES_BLOCKING if is_blocking else GlobalExchangeMode.ALL_EDGES_PIPELINED


def batch_factory(factory: OperatorFactory) -> OperatorFactory:
    """The operator as it is in batch mode: rows get their event time, and no watermark but the last."""
    if isinstance(factory, SourceFactory):
        return replace(factory, watermark_strategy=_without_watermarks(factory.watermark_strategy), watermark=None)
    if isinstance(factory, TimestampsAndWatermarksFactory):
        return replace(factory, strategy=_without_watermarks(factory.strategy))
    return factory


def batch_chaining(
    strategy: ChainingStrategy, transformation: PhysicalTransformation, configuration: Configuration
) -> ChainingStrategy:
    """The chaining strategy in batch mode: inputs are sorted where they enter a task, so an operator that needs that
    heads     its chain."""
    is_sorted = configuration.get(SORTED_INPUTS) and any(key is not None for key in transformation.keys or ())
    return ChainingStrategy.HEAD if is_sorted and strategy is not ChainingStrategy.NEVER else strategy


def _is_unbounded(transformation: Transformation) -> bool:
    factory = transformation.factory if isinstance(transformation, PhysicalTransformation) else None
    return isinstance(factory, SourceFactory) and factory.source.boundedness is Boundedness.UNBOUNDED


def _without_watermarks(strategy: WatermarkStrategy) -> WatermarkStrategy:
    return dataclasses.replace(WatermarkStrategy.no_watermarks(), assigner=strategy.assigner)
