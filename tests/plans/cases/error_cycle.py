"""A stream that is its own input."""

from __future__ import annotations

from flinkray.execution import Pipeline
from flinkray.transformations.partitioning import ShufflePartitioner
from tests.support.graphs import Program


def program() -> Pipeline:
    built = Program()
    first = built.map(built.source(), "first")
    second = built.map(built.partition(first, ShufflePartitioner()), "second")
    first.input_transformations = (built.union(*first.input_transformations, second),)
    built.sink(second)
    return built.pipeline
