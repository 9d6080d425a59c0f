"""The plan that PyFlink's `get_execution_plan()` gives: the operators of a program as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flinkray.execution import Pipeline
from flinkray.transformations.operator_factories import SinkFactory, SourceFactory
from flinkray.transformations.transformation import (
    PartitionTransformation,
    PhysicalTransformation,
    Transformation,
)


def json_plan(pipeline: Pipeline, parallelism: int) -> str:
    """`{"nodes": [{"id", "type", "pact", "contents", "parallelism", "predecessors"}]}`, sources first.

    Args:
        parallelism: of operators that set none.
    """
    operators = {operator.id: operator for operator in operators_of(pipeline)}
    ids = {id_: number for number, id_ in enumerate(sorted(operators), start=1)}
    nodes = [_node(operators[id_], ids, parallelism) for id_ in sorted(operators)]
    return json.dumps({"nodes": nodes}, indent=2)


def operators_of(pipeline: Pipeline) -> list[PhysicalTransformation]:
    """The operators of a program, each once."""
    operators: dict[int, PhysicalTransformation] = {}
    for transformation in pipeline.transformations:
        for operator in _operators_up_to(transformation):
            operators.setdefault(operator.id, operator)
    return list(operators.values())


def _operators_up_to(transformation: Transformation) -> Iterator[PhysicalTransformation]:
    waiting = [transformation]
    while waiting:
        each = waiting.pop()
        waiting.extend(each.inputs)
        if isinstance(each, PhysicalTransformation):
            yield each


def _node(operator: PhysicalTransformation, ids: dict[int, int], parallelism: int) -> dict[str, Any]:
    kinds = {SourceFactory: "Data Source", SinkFactory: "Data Sink"}
    own = operator.parallelism or parallelism
    node: dict[str, Any] = {
        "id": ids[operator.id],
        "type": operator.name,
        "pact": kinds.get(type(operator.factory), "Operator"),
        "contents": operator.description or operator.name,
        "parallelism": own,
    }
    edges = [edge for input_ in operator.inputs for edge in _edges(input_, None)]
    if edges:
        node["predecessors"] = [
            {
                "id": ids[source.id],
                "ship_strategy": strategy or ("FORWARD" if (source.parallelism or parallelism) == own else "REBALANCE"),
                "side": "second",
            }
            for source, strategy in edges
        ]
    return node


def _edges(transformation: Transformation, strategy: str | None) -> Iterator[tuple[PhysicalTransformation, str | None]]:
    """The operators that feed an input, each with how its records travel where the program says it."""
    if isinstance(transformation, PhysicalTransformation):
        yield transformation, strategy
        return
    if isinstance(transformation, PartitionTransformation):
        strategy = strategy or str(transformation.partitioner).split("[")[0].split("(")[0].strip().upper()
    for each in transformation.inputs:
        yield from _edges(each, strategy)
