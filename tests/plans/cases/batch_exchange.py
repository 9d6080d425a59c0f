"""An exchange in batch mode breaks a forward chain, and parts the regions."""

from __future__ import annotations

from flinkray.execution import Pipeline
from tests.support.graphs import Program


def program() -> Pipeline:
    built = Program({"parallelism.default": 2})
    numbers = built.source()
    ready = built.map(built.forward(numbers, "BATCH"), "ready")
    built.sink(built.map(built.forward(ready, "PIPELINED"), "with it"))
    return built.pipeline
