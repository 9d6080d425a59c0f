"""What sinks consist of: what they add before their writers, between these and their committers, and behind their
commits."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from flinkray.connectors.sink import SupportsPostCommitTopology, SupportsPreCommitTopology, SupportsPreWriteTopology
from flinkray.errors import InvalidProgramError
from flinkray.transformations.operator_factories import GlobalCommitterFactory, SinkFactory
from flinkray.transformations.partitioning import GlobalPartitioner
from flinkray.transformations.transformation import PartitionTransformation, PhysicalTransformation, Transformation

Apply = Callable[[Callable[[Any], Any], Transformation], tuple[Transformation | None, Sequence[Transformation]]]
"""Calls a function with the stream of a transformation; gives the transformation of the stream that it returns, and the
operators that it adds."""

_DEEPEST = 16
"""Sinks within the operators of sinks: one that adds one of its own kind has no end."""
_INHERITED = ("parallelism", "max_parallelism", "slot_sharing_group")


def expanded(
    transformations: Sequence[Transformation], apply_to_rows: Apply, apply_to_committables: Apply
) -> tuple[Transformation, ...]:
    """The operators of a program, with those that its sinks consist of. The given ones stay as they are."""
    found: list[Transformation] = []
    waiting = deque((each, 0) for each in transformations)
    while waiting:
        each, depth = waiting.popleft()
        if not isinstance(each, PhysicalTransformation) or not isinstance(each.factory, SinkFactory):
            found.append(each)
            continue
        sink, writers = each.factory.sink, copy.copy(each)
        if depth > _DEEPEST:
            raise InvalidProgramError(f"{type(sink).__name__} adds a sink that adds a sink, and so on without an end")
        if isinstance(sink, SupportsPreWriteTopology):
            rows, added = apply_to_rows(sink.add_pre_write_topology, each.input_transformations[0])
            if rows is None:
                raise InvalidProgramError(
                    f"{type(sink).__name__}.add_pre_write_topology returns no DataStream; return the one that the "
                    "writers are to get"
                )
            writers.input_transformations = (rows,)
            waiting.extend((more, depth + 1) for more in _of_sink(each, added))
        last = writers
        if isinstance(sink, SupportsPreCommitTopology):
            writers.factory = structs.replace(each.factory, gives_prepared=True)
            committables, added = apply_to_committables(sink.add_pre_commit_topology, writers)
            if committables is None or not _comes_from(committables, writers):
                raise InvalidProgramError(
                    f"{type(sink).__name__}.add_pre_commit_topology returns no DataStream that comes from the one that "
                    "it got; return what is to be committed"
                )
            waiting.extend((more, depth + 1) for more in _of_sink(each, added))
            last = _committer(writers, sink, committables, takes_messages=True)
        elif sink.commits_globally:
            last = _committer(writers, sink, writers, takes_messages=False)
        if isinstance(sink, SupportsPostCommitTopology):
            last.factory = structs.replace(last.factory, gives_committables=True)
            _, added = apply_to_committables(sink.add_post_commit_topology, last)
            waiting.extend((more, depth + 1) for more in _of_sink(each, added))
        found.append(last)
    return tuple(found)


def _comes_from(transformation: Transformation, writers: Transformation) -> bool:
    return transformation is writers or any(_comes_from(each, writers) for each in transformation.inputs)


def _committer(
    writers: PhysicalTransformation, sink: Any, committables: Transformation, takes_messages: bool
) -> PhysicalTransformation:
    """The committer of all writers, or with operators of the sink between of some, which leads to them."""
    what = "Global Committer" if sink.commits_globally else "Committer"
    if sink.commits_globally:
        committables = PartitionTransformation(
            name="Partition GLOBAL", input=committables, partitioner=GlobalPartitioner()
        )
    return PhysicalTransformation(
        name=f"{writers.name}: {what}",
        factory=GlobalCommitterFactory(sink, takes_messages=takes_messages),
        input_transformations=(committables,),
        parallelism=1 if sink.commits_globally else writers.parallelism,
        max_parallelism=1 if sink.commits_globally else writers.max_parallelism,
        uid=None if writers.uid is None else f"{writers.uid}: {what}",
        slot_sharing_group=writers.slot_sharing_group,
    )


def _of_sink(sink: PhysicalTransformation, added: Sequence[Transformation]) -> Sequence[Transformation]:
    """Operators that a sink has added, with what is set for the sink where they say nothing else (as in Flink)."""
    for each in added:
        if each.uid is not None:
            if sink.uid is None:
                raise InvalidProgramError(
                    f"sink {sink.name!r} adds the operator {each.name!r} with uid {each.uid!r}, which two such sinks "
                    "would both have; give the sink a uid"
                )
            each.uid = f"{sink.uid}: {each.uid}"
        each.name = f"{sink.name}: {each.name}"
        for setting in _INHERITED:
            if getattr(each, setting) is None:
                setattr(each, setting, getattr(sink, setting))
    return added
