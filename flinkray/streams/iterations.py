"""Loops in a program: part of a stream's results goes back to where it came from (Flink's IterativeStream)."""

from __future__ import annotations

import uuid

from flinkray.batches.batch import Batch
from flinkray.connectors.feedback.sink import FeedbackSink
from flinkray.connectors.feedback.source import FeedbackSource
from flinkray.errors import InvalidProgramError
from flinkray.streams.checks.known_types import check_same_types
from flinkray.streams.data_stream import DataStream
from flinkray.streams.settings.data_stream_sink import DataStreamSink
from flinkray.time.watermarks import WatermarkGenerator, WatermarkStrategy
from flinkray.transformations.operator_factories import (
    ChainingStrategy,
    IterationInputFactory,
    SinkFactory,
    SourceFactory,
)
from flinkray.transformations.transformation import (
    DEFAULT_SLOT_SHARING_GROUP,
    PhysicalTransformation,
    Transformation,
    UnionTransformation,
    upstream_of,
)
from flinkray.types.records import MAX_TIMESTAMP, Millis, Timestamp


class IterativeStream(DataStream):
    """Made by `iterate`: the records of its input, and those that `close_with` sends back.

    `loop = numbers.iterate(); less = loop.map(lambda x: x - 1); loop.close_with(less.filter(lambda x: x > 0))`
    """

    def __init__(self, stream: DataStream, max_wait_ms: Millis) -> None:
        iteration_id = uuid.uuid4().hex
        key = f"iteration-{iteration_id}"
        entry = PhysicalTransformation(
            name="Iteration Input",
            factory=IterationInputFactory(iteration_id),
            input_transformations=(stream._transformation,),
            parallelism=stream._transformation.parallelism,
            co_location_key=key,
        )
        stream._environment._register(entry)
        self._head = PhysicalTransformation(
            name="Iteration Head",
            factory=SourceFactory(
                FeedbackSource(iteration_id, max_wait_ms), WatermarkStrategy.for_generator(_NoWatermarksOfItsOwn)
            ),
            parallelism=entry.parallelism,
            co_location_key=key,
            slot_sharing_group=_slot_sharing_group(entry),
            chaining_strategy=ChainingStrategy.NEVER,
        )
        self._iteration_id = iteration_id
        self._is_closed = False
        union = UnionTransformation(name="Iteration", union_inputs=(entry, self._head))
        super().__init__(stream._environment, union, stream._known)

    def close_with(self, feedback: DataStream) -> DataStreamSink:
        """Sends the records of `feedback`, which must come from this stream, back into it.

        They have the type of the input's records, and keep their event times. The watermark inside the loop is that of
        the input alone, so that records that come back may be late.

        Raises:
            InvalidProgramError: it does not come from this stream, is of another type, or the loop is closed already.
        """
        if self._is_closed:
            raise InvalidProgramError("close_with: the iteration is closed; unite the streams that go back first")
        if not isinstance(feedback, DataStream):
            raise InvalidProgramError(f"close_with takes a stream that comes from this iteration, not {feedback!r}")
        if self._head not in upstream_of(feedback._transformation):
            raise InvalidProgramError(f"close_with: {feedback!r} does not come from this iteration")
        check_same_types([self._known, feedback._known])
        self._is_closed = True
        tail = PhysicalTransformation(
            name="Iteration Tail",
            factory=SinkFactory(FeedbackSink(self._iteration_id)),
            input_transformations=(feedback._transformation,),
            parallelism=self._head.parallelism,
            co_location_key=self._head.co_location_key,
            slot_sharing_group=self._head.slot_sharing_group,
            chaining_strategy=ChainingStrategy.NEVER,
        )
        self._environment._register(tail)
        return DataStreamSink(tail)


class _NoWatermarksOfItsOwn(WatermarkGenerator):
    """The head does not hold event time back: a loop cannot wait for its own watermark (as in Flink)."""

    def on_batch(self, batch: Batch, timestamps: object) -> None: ...

    def on_periodic_emit(self) -> Timestamp:
        return MAX_TIMESTAMP


def _slot_sharing_group(transformation: Transformation) -> str:
    """What the compiler gives it: its own, else that of all its inputs, else the default."""
    if transformation.slot_sharing_group is not None:
        return transformation.slot_sharing_group
    groups = {_slot_sharing_group(each) for each in transformation.inputs}
    return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP
