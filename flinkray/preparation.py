"""What happens to a program between execute() and the compiler: sources and sinks are prepared, on a copy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from flinkray.operator_factories import OperatorFactory, SinkFactory, SourceFactory
from flinkray.transformations import (
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)


def prepared(transformations: Sequence[Transformation]) -> tuple[Transformation, ...]:
    """Copies of the transformations, and of all they read from, with each source and sink prepared once.

    The originals stay as they are, so that a stream can be part of a later job, which prepares it anew.
    """
    copies: dict[int, Transformation] = {}
    # A stack instead of recursion: a long program must not meet Python's recursion limit.
    stack = list(reversed(transformations))
    while stack:
        transformation = stack[-1]
        missing = [each for each in transformation.inputs if id(each) not in copies]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if id(transformation) not in copies:
            copies[id(transformation)] = _copy(transformation, [copies[id(each)] for each in transformation.inputs])
    return tuple(copies[id(each)] for each in transformations)


def _copy(transformation: Transformation, inputs: list[Transformation]) -> Transformation:
    if isinstance(transformation, PhysicalTransformation):
        factory = _prepared_factory(transformation.factory)
        return dataclasses.replace(transformation, factory=factory, input_transformations=tuple(inputs))
    if isinstance(transformation, UnionTransformation):
        return dataclasses.replace(transformation, union_inputs=tuple(inputs))
    if isinstance(transformation, PartitionTransformation | SideOutputTransformation):
        return dataclasses.replace(transformation, input=inputs[0])
    return transformation


def _prepared_factory(factory: OperatorFactory) -> OperatorFactory:
    if isinstance(factory, SourceFactory):
        return dataclasses.replace(factory, source=factory.source.prepare())
    if isinstance(factory, SinkFactory):
        return dataclasses.replace(factory, sink=factory.sink.prepare())
    return factory
