"""Of stacked partitions the nearest partitioner counts, and the farthest exchange mode."""

from __future__ import annotations

from flinkray.execution import Pipeline
from flinkray.transformations.partitioning import RescalePartitioner, ShufflePartitioner
from tests.support.graphs import Program


def program() -> Pipeline:
    built = Program({"parallelism.default": 2})
    far = built.partition(built.source(), ShufflePartitioner(), "BATCH")
    built.sink(built.partition(far, RescalePartitioner(), "PIPELINED"))
    return built.pipeline
