"""What a writer may use of its task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from actors.mailbox.task_mailbox import MailboxClosed
from actors.operators.asynchronous.event_loop import CLOSE_GRACE_S, EventLoop
from actors.operators.contract.connector_context import ConnectorContext
from actors.operators.contract.operator import OperatorContext, subtask_label

log = logging.getLogger(__name__)

Done = Callable[[Any, BaseException | None], None]


class WriterContext(ConnectorContext):
    """A SinkWriterContext.

    Args:
        fail: raises an error of the writer as one of its operator.
    """

    def __init__(
        self, context: OperatorContext, restored_checkpoint_id: int | None, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__(context)
        self.restored_checkpoint_id = restored_checkpoint_id
        self._fail = fail
        self._loop: EventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.gauge_function = context.metrics.gauge_function

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> None:
        # Also while the writer flushes at the end of data.
        self._context.call_later(delay_ms, self._guarded(callback), "a writer's timer", even_after_data=True)

    def yield_to_mailbox(self) -> None:
        self._context.yield_to_mailbox()

    def run_async(self, begin: Callable[[], Coroutine[Any, Any, Any]], done: Done) -> None:
        loop = self._loop
        if loop is None:
            name = f"{subtask_label(self._context)} event loop"
            loop = self._loop = EventLoop(name, self._context.clock, self._context.call_later)
            loop.has_thread = self._context.start_loop(name, loop)
        loop.submit(lambda: self._begin(loop, begin, done))

    def end_async(self, last: Coroutine[Any, Any, None]) -> None:
        loop, self._loop = self._loop, None
        if loop is None:
            last.close()
            return
        try:
            loop.run(last, CLOSE_GRACE_S)
        except TimeoutError:
            log.debug("the last coroutine of %s does not end", loop, exc_info=True)
        finally:
            loop.close()

    def _begin(self, loop: EventLoop, begin: Callable[[], Coroutine[Any, Any, Any]], done: Done) -> None:
        task = loop.create_task(self._run(begin, done))
        self._tasks.add(task)  # asyncio itself holds tasks weakly
        task.add_done_callback(self._tasks.discard)

    async def _run(self, begin: Callable[[], Coroutine[Any, Any, Any]], done: Done) -> None:
        result: Any = None
        raised: BaseException | None = None
        try:
            result = await begin()
        except BaseException as error:  # nothing else would ever hear of it
            # A client may raise the errors by which coroutines are ended, too: then the writer waits for its answer.
            if self._loop is None and isinstance(error, asyncio.CancelledError | GeneratorExit):
                raise
            raised = error
        with contextlib.suppress(MailboxClosed):  # the task has ended
            self._context.execute(self._guarded(lambda: done(result, raised)), "a writer's request was answered")

    def _guarded(self, callback: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            try:
                callback()
            except BaseException as error:
                self._fail(error)

        return call
