"""Calls of the user's function that wait: coroutines on an event loop, or functions that block on threads.

The task's thread makes calls and cancels them; what they give is delivered on the thread that ran them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from actors.operators.asynchronous.blocking import BlockingWatch
from actors.operators.asynchronous.event_loop import CANCEL_GRACE_S, CLOSE_GRACE_S, EventLoop
from actors.operators.asynchronous.queue import InFlight
from actors.operators.contract.operator import OperatorContext, label_of, subtask_label
from flinkray.batches.row_codec import short_repr
from flinkray.errors import TypeMismatchError
from flinkray.functions.asynchronous import AsyncFunction
from flinkray.types.rows import Row

log = logging.getLogger(__name__)

MOST_THREADS = 32
"""Threads of one subtask for calls that block: more would wait for the interpreter's lock instead of the network."""


class AsyncCall(Struct, eq=False):
    """One attempt to call the function for one row."""

    entry: InFlight
    attempt: int
    value: Any
    is_cancelled: bool = False
    task: asyncio.Task[None] | None = None


Deliver = Callable[[AsyncCall, list[Any] | None, BaseException | None], None]
"""Gets the results of a call or what it raised, on the thread that ran it. A cancelled call may deliver nothing."""


class AsyncCalls(ABC):
    """Makes the calls of one operator."""

    @abstractmethod
    def begin(self, calls: Sequence[AsyncCall]) -> None:
        """Makes the calls in this order; some may wait for a thread."""

    @abstractmethod
    def cancel(self, call: AsyncCall) -> None:
        """Ends a call, if it can be ended: its outcome is not wanted any more."""

    @abstractmethod
    def settle(self, call: Callable[[], Any]) -> None:
        """Calls a method of the function's life cycle, and waits for it if it is a coroutine."""

    @abstractmethod
    def cancel_all(self) -> None:
        """Begins no call any more; waits, but not for long, for those that run."""

    @abstractmethod
    def close(self) -> None:
        """Ends threads and loops, unless the user's code cannot be ended."""


def create_calls(
    function: AsyncFunction | Callable[[Any], Any], context: OperatorContext, capacity: int, deliver: Deliver
) -> AsyncCalls:
    """Chooses how the calls of that function are made: on an event loop or on threads."""
    where = label_of(context)
    if isinstance(function, AsyncFunction):
        return CoroutineCalls(function.async_invoke, partial(as_result_list, where), context, deliver)
    called = function if inspect.isroutine(function) or isinstance(function, partial) else type(function).__call__
    if inspect.iscoroutinefunction(called):
        return CoroutineCalls(function, partial(as_results, where), context, deliver)
    return BlockingCalls(function, partial(as_results, where), context, min(capacity, MOST_THREADS), deliver)


def as_result_list(where: str, results: Any) -> list[Any]:
    """The results that an AsyncFunction returned, as a list."""
    if isinstance(results, str | bytes | dict | Row) or not isinstance(results, Iterable):
        fault = "cannot be none" if results is None else "should be of list type"
        raise TypeMismatchError(
            f"{where}: The result of AsyncFunction {fault}: async_invoke and timeout must return a list of results (an "
            f"empty one for none), not {short_repr(results)} ({type(results).__name__})"
        )
    return list(results)


def as_results(where: str, result: Any) -> list[Any]:
    """The results of a function that returns a list of them, or a single one."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeMismatchError(f"{where}: the function returned a coroutine; declare it with 'async def'")
    return result if isinstance(result, list) else [result]


class CoroutineCalls(AsyncCalls):
    """Makes calls as coroutines on one event loop, which has a thread of its own."""

    def __init__(
        self,
        function: Callable[[Any], Awaitable[Any]],
        as_results: Callable[[Any], list[Any]],
        context: OperatorContext,
        deliver: Deliver,
    ) -> None:
        self._function = function
        self._as_results = as_results
        self._deliver = deliver
        name = f"{subtask_label(context)} event loop"
        self._loop = EventLoop(name, context.clock, context.call_later)
        self._watch = BlockingWatch(label_of(context), context.clock.monotonic_ms)
        self._is_ending = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop.has_thread = context.start_loop(name, self._loop)

    def begin(self, calls: Sequence[AsyncCall]) -> None:
        self._loop.submit(partial(self._begin, calls))

    def cancel(self, call: AsyncCall) -> None:
        call.is_cancelled = True
        self._loop.submit(partial(self._cancel, call))

    def settle(self, call: Callable[[], Any]) -> None:
        result = call()
        if inspect.iscoroutine(result):
            self._loop.run(result, CLOSE_GRACE_S if self._is_ending else None)

    def cancel_all(self) -> None:
        self._is_ending = True
        try:
            self._loop.run(self._cancel_tasks(), CLOSE_GRACE_S)
        except TimeoutError:
            log.debug("the calls of %s do not end", self._loop, exc_info=True)

    def close(self) -> None:
        self._loop.close()

    # -- on the loop ---------------------------------------------------------------------------------------------

    def _begin(self, calls: Sequence[AsyncCall]) -> None:
        for call in calls:
            if not call.is_cancelled and not self._is_ending:
                call.task = self._loop.create_task(self._run(call))
                self._tasks.add(call.task)
                call.task.add_done_callback(self._tasks.discard)

    def _cancel(self, call: AsyncCall) -> None:
        if call.task is not None:
            call.task.cancel()

    async def _cancel_tasks(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_GRACE_S)

    async def _run(self, call: AsyncCall) -> None:
        try:
            made = self._function(call.value)
            results = self._as_results(await (self._watch.watched(made) if inspect.iscoroutine(made) else made))
        except BaseException as error:  # nothing else would ever hear of it
            if isinstance(error, asyncio.CancelledError) and (call.is_cancelled or self._is_ending):
                raise
            self._deliver(call, None, error)
        else:
            self._deliver(call, results, None)
        finally:
            call.task = None


class BlockingCalls(AsyncCalls):
    """Makes calls on threads, which begin when there is something to call and end when there is not."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        as_results: Callable[[Any], list[Any]],
        context: OperatorContext,
        threads: int,
        deliver: Deliver,
    ) -> None:
        self._function = function
        self._as_results = as_results
        self._context = context
        self._threads = threads
        self._deliver = deliver
        self._changed = threading.Condition()
        self._queue: deque[AsyncCall] = deque()
        self._running: dict[AsyncCall, None] = {}
        self._workers = 0

    def begin(self, calls: Sequence[AsyncCall]) -> None:
        with self._changed:
            self._queue.extend(calls)
            new = min(len(self._queue), self._threads - self._workers)
            self._workers += new
        for _ in range(new):
            self._context.run_blocking(self._work, _ignore)

    def cancel(self, call: AsyncCall) -> None:
        call.is_cancelled = True
        with self._changed:
            is_running = call in self._running
        if is_running:
            log.warning(
                "%s: the call for %s took too long; a function that blocks cannot be "
                "interrupted, so it keeps its thread, and its result will be ignored",
                label_of(self._context),
                short_repr(call.value),
            )

    def settle(self, call: Callable[[], Any]) -> None:
        call()

    def cancel_all(self) -> None:
        with self._changed:
            self._queue.clear()
            ended = self._changed.wait_for(lambda: not self._running, CLOSE_GRACE_S)
        if not ended:
            log.warning(
                "%s: %d calls do not end, and their threads are left behind",
                label_of(self._context),
                len(self._running),
            )

    def close(self) -> None:
        """The threads end by themselves."""

    # -- on a worker's thread ------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (call := self._next()) is not None:
            try:
                self._call(call)
            finally:
                with self._changed:
                    del self._running[call]
                    self._changed.notify_all()

    def _call(self, call: AsyncCall) -> None:
        try:
            results = self._as_results(self._function(call.value))
        except BaseException as error:  # nothing else would ever hear of it
            self._deliver(call, None, error)
        else:
            self._deliver(call, results, None)

    def _next(self) -> AsyncCall | None:
        with self._changed:
            while self._queue:
                call = self._queue.popleft()
                if not call.is_cancelled:
                    self._running[call] = None
                    return call
            self._workers -= 1
            return None


def _ignore(_result: Any, _error: BaseException | None) -> None:
    """Does nothing: the outcomes of the calls have been delivered before."""
