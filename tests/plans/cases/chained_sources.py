"""Sources that run inside the task of the operator that reads them; one cannot, for its parallelism."""

from __future__ import annotations

from flinkray.execution import Pipeline
from tests.support.graphs import Program


def program() -> Pipeline:
    built = Program()
    first, second = built.source("Source: a"), built.source("Source: b")
    third = built.source("Source: c", parallelism=2)
    built.sink(built.multiple("merge", first, third, second))
    return built.pipeline
