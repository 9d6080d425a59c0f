"""asyncio's event loop as a loop of the runtime: on a thread of its own, or stepped under a virtual clock."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVarTuple

from actors.mailbox.waiting import others_act
from actors.protocol.ports import Clock

log = logging.getLogger(__name__)

_Arguments = TypeVarTuple("_Arguments")

CANCEL_GRACE_S = 1.0
"""How long coroutines that are cancelled may take to end."""
CLOSE_GRACE_S = 2.0
"""How long is waited for the thread of a loop that ends. One that is stuck in a call that blocks is left behind."""
_STEPS_TO_END = 1_000
"""How many steps a cancelled coroutine may still take, where there is only one thread and so no time to wait for."""


class EventLoop:
    """Runs coroutines; a `Loop` for `OperatorContext.start_loop`.

    A host with threads calls `wait`, in which asyncio has the thread; a host without them only steps, and time is what
    its clock says, so `asyncio.sleep` works there too.

    Args:
        call_later: runs something in this process after so many milliseconds, upon which the host steps the loop.
    """

    def __init__(self, name: str, clock: Clock, call_later: Callable[[float, Callable[[], None], str], Any]) -> None:
        self._name = name
        self._loop = _ClockedLoop(clock)
        self._call_later = call_later
        self._wake_at = float("-inf")
        self._is_closing = False
        self._is_stuck = False
        self.has_thread = True
        """False: there is no thread for it, and the host that steps everything else calls `step`."""
        self._ended = threading.Event()

    def __str__(self) -> str:
        return self._name

    # -- the task's thread ---------------------------------------------------------------------------------------

    def submit(self, begin: Callable[[], None]) -> None:
        """Runs `begin` on the loop; from any thread. Nothing happens once it is closed."""
        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError:
            log.debug("%s is closed", self._name)
        if not self.has_thread:
            self._call_later(0.0, _nothing, f"{self._name} has something to do")

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a coroutine; to be called on the loop, by what was submitted."""
        return self._loop.create_task(coroutine)

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> Any:
        """What the coroutine gives; waits for it.

        Raises:
            TimeoutError: not in time, where there is a thread to wait for.
        """
        if self._is_stuck or self._ended.is_set():
            coroutine.close()
            raise TimeoutError(f"{self._name} runs no more coroutines")
        if self.has_thread:
            return self._run_on_thread(coroutine, timeout_s)
        task = self._loop.create_task(coroutine)
        act = others_act.get()
        while not task.done():
            if self.step():
                continue
            if act is None:
                task.cancel()
                raise TimeoutError(f"{self._name}: what a coroutine waits for does not come while its task does")
            act()
        return task.result()

    def _run_on_thread(self, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None) -> Any:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            self._is_stuck = not future.done()
            raise
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancels all coroutines, and ends the loop and its thread; gives up after a time."""
        if self._ended.is_set():
            return
        if not self.has_thread:
            self._end_stepwise()
            return
        self._is_closing = True
        self.submit(self._loop.stop)
        if self._is_stuck or not self._ended.wait(CLOSE_GRACE_S):
            log.warning("%s does not end: a coroutine blocks its thread, which is left behind", self._name)

    def abandon(self) -> None:
        """Gives back sockets and selector, as the operating system does when a process dies; nothing runs any more.

        A host that kills its processes only by name calls it. Left to the garbage collector, asyncio's loop may come
        after its sockets, and cannot close.
        """
        self._ended.set()
        if self._loop.is_running():
            return  # the process is killed by a coroutine of this loop
        for task in asyncio.all_tasks(self._loop):
            coroutine = task.get_coro()
            if inspect.iscoroutine(coroutine):
                coroutine.close()  # or it warns, when it is collected, that nobody has awaited it
        self._loop.close()

    # -- Loop ----------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        if self._ended.is_set():
            return False
        if self._is_closing:
            self._end()
            return True
        if self._loop.turn():
            return True
        self._wake_when_due()
        return False

    def wait(self, timeout_ms: float | None) -> None:
        handle = None if timeout_ms is None else self._loop.call_later(timeout_ms / 1000, self._loop.stop)
        self._loop.run_forever()
        if handle is not None:
            handle.cancel()

    @property
    def is_done(self) -> bool:
        return self._ended.is_set()

    # -- inside --------------------------------------------------------------------------------------------------

    def _wake_when_due(self) -> None:
        due, now = self._loop.next_due, self._loop.time()
        if due is not None and (self._wake_at <= now or due < self._wake_at):
            self._wake_at = due
            self._call_later(max(0.0, (due - now) * 1000), _nothing, f"{self._name} goes on")

    def _end(self) -> None:
        """Ends the loop, on its own thread."""
        loop = self._loop
        try:
            tasks = self._cancel_all()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_GRACE_S))
            self._name_those_left(tasks)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        except BaseException:  # a loop of the runtime raises nothing
            log.warning("%s did not end well", self._name, exc_info=True)
        finally:
            loop.close()
            self._ended.set()

    def _end_stepwise(self) -> None:
        tasks = self._cancel_all()
        for _ in range(_STEPS_TO_END):
            if all(task.done() for task in tasks) or not self._loop.turn():
                break
        self._name_those_left(tasks)
        self._loop.close()
        self._ended.set()

    def _cancel_all(self) -> list[asyncio.Task[Any]]:
        tasks = [task for task in asyncio.all_tasks(self._loop) if not task.done()]
        for task in tasks:
            task.cancel()
        return tasks

    def _name_those_left(self, tasks: list[asyncio.Task[Any]]) -> None:
        if left := sum(not task.done() for task in tasks):
            log.warning("%s: %d coroutines did not end when they were cancelled", self._name, left)


def _nothing() -> None:
    """Does nothing: the host steps the loops of a process after whatever happens in it."""


class _ClockedLoop(asyncio.SelectorEventLoop):
    """A loop that tells the time by a clock, and whether there is anything to do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._has_work = False
        self._due: list[float] = []
        super().__init__()

    def time(self) -> float:
        return self._clock.monotonic_ms() / 1000

    @property
    def next_due(self) -> float | None:
        """When the next timer is due, at the earliest."""
        return self._due[0] if self._due else None

    def turn(self) -> bool:
        """Runs what is ready, without waiting; False if nothing was."""
        now = self.time()
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
            self._has_work = True
        if not self._has_work:
            return False
        self._has_work = False
        super().call_soon(self.stop)
        self.run_forever()
        return True

    def call_soon(
        self, callback: Callable[[*_Arguments], object], *args: *_Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        self._has_work = True
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[*_Arguments], object], *args: *_Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        self._has_work = True
        return super().call_soon_threadsafe(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        heapq.heappush(self._due, when)
        return super().call_at(when, callback, *args, context=context)
