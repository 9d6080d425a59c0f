"""The tail of an iteration: the sink that takes what goes back into the loop."""

from __future__ import annotations

from typing import Any

from flinkray.batches.batch import Batch
from flinkray.connectors.feedback.queue import FeedbackKey, FeedbackQueue, open_queue
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext


class FeedbackSink(Sink):
    """Takes what goes back into the loop, to the source of the same iteration id in the same process."""

    def __init__(self, iteration_id: str) -> None:
        self.iteration_id = iteration_id

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        key = FeedbackKey(context.job_id, self.iteration_id, context.subtask_index, context.attempt_number)
        return _FeedbackWriter(open_queue(key))


class _FeedbackWriter(SinkWriter):
    """Puts batches into the queue that leads to the head."""

    def __init__(self, queue: FeedbackQueue) -> None:
        self._queue = queue

    def write(self, batch: Batch) -> None:
        self._queue.put(batch)

    def close(self) -> None:
        self._queue.close()
