"""The input of an iteration: passes the rows of the stream that enters the loop to its head."""

from __future__ import annotations

from actors.operators.contract.operator import Operator
from flinkray.batches.batch import Batch
from flinkray.connectors.feedback.queue import FeedbackKey, FeedbackQueue, open_queue
from flinkray.transformations.operator_factories import IterationInputFactory


class IterationInputOperator(Operator):
    """Passes all rows on, and tells the head of the loop when its input has ended."""

    def __init__(self, factory: IterationInputFactory) -> None:
        self._iteration_id = factory.iteration_id
        self._queue: FeedbackQueue | None = None

    def open(self) -> None:
        context = self.context
        self._queue = open_queue(
            FeedbackKey(context.job_id, self._iteration_id, context.subtask_index, context.attempt_number)
        )

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self.output.emit(batch)

    def finish(self) -> None:
        assert self._queue is not None, "the task opens its operators before anything else"
        self._queue.end_input()

    def close(self) -> None:
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.close()
