"""What happens to a program between execute() and the compiler: sources and sinks are prepared, on a copy."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from msgspec import structs

from flinkray.connectors.sink import Sink
from flinkray.errors import InvalidProgramError
from flinkray.transformations.operator_factories import (
    GlobalCommitterFactory,
    OperatorFactory,
    SinkFactory,
    SourceFactory,
)
from flinkray.transformations.transformation import (
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
    waiting = list(transformations)
    while waiting:
        transformation = waiting.pop()
        if id(transformation) not in copies:
            copies[id(transformation)] = copy.copy(transformation)
            waiting.extend(transformation.inputs)
    # Connected only now, so that a loop is copied as it is: the compiler refuses it by name.
    for each in copies.values():
        _connect(each, copies)
    for each in copies.values():
        _share_sink(each)
    return tuple(copies[id(each)] for each in transformations)


def _share_sink(transformation: Transformation) -> None:
    """Gives a committer the sink as its writers have it."""
    if not isinstance(transformation, PhysicalTransformation):
        return
    if isinstance(factory := transformation.factory, GlobalCommitterFactory):
        transformation.factory = structs.replace(factory, sink=_sink_behind(transformation, factory.takes_messages))


def _sink_behind(transformation: Transformation, gives_prepared: bool) -> Sink | None:
    """The sink of the nearest writers that a transformation gets committables from."""
    if isinstance(transformation, PhysicalTransformation):
        factory = transformation.factory
        if isinstance(factory, SinkFactory) and factory.gives_prepared is gives_prepared:
            return factory.sink
    found = (_sink_behind(each, gives_prepared) for each in transformation.inputs)
    return next((each for each in found if each is not None), None)


def _connect(transformation: Transformation, copies: dict[int, Transformation]) -> None:
    """Lets a copy read from copies, and prepares what it does."""
    inputs = tuple(copies[id(each)] for each in transformation.inputs)
    if isinstance(transformation, PhysicalTransformation):
        transformation.input_transformations = inputs
        transformation.factory = _prepared_factory(transformation.factory)
    elif isinstance(transformation, UnionTransformation):
        transformation.union_inputs = inputs
    elif isinstance(transformation, PartitionTransformation | SideOutputTransformation):
        transformation.input = inputs[0]


def _prepared_factory(factory: OperatorFactory) -> OperatorFactory:
    if isinstance(factory, SourceFactory):
        return structs.replace(factory, source=factory.source.prepare())
    if isinstance(factory, SinkFactory):
        sink = factory.sink.prepare()
        if sink.commits_globally is not factory.sink.commits_globally:
            raise InvalidProgramError(
                f"{type(factory.sink).__name__}.prepare() gives a sink with another commits_globally; a sink has to "
                "say it before, as it decides about the operators of the program"
            )
        return structs.replace(factory, sink=sink)
    return factory
