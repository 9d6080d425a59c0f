"""Work that an endpoint puts into its own thread: at once, later, or when something that blocks is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from actors.protocol.ports import Cancellable, EndpointContext

Done = Callable[[Any, BaseException | None], None]
"""Gets the result of some work and None, or None and the error that it raised."""


class RunAsync(Struct, frozen=True):
    """An endpoint -> itself: call this in your own thread, which is all that is to be done about it (Flink's RunAsync).

    Never leaves the process.
    """

    callback: Callable[[], None]


class MainThread:
    """An endpoint's own thread, for the parts that the endpoint is made of (Flink's MainThreadExecutor).

    What is put here comes back to the endpoint as `RunAsync`, a message among the others, so that callbacks never run
    in the middle of something else. Any thread may call it.
    """

    def __init__(self, context: EndpointContext) -> None:
        self._context = context

    def run(self, callback: Callable[[], None]) -> None:
        """Calls `callback` after the messages that have come by now."""
        self._context.tell_self(RunAsync(callback))

    def run_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        """Calls `callback` once, when `delay_ms` have passed."""
        return self._context.tell_self_later(delay_ms, RunAsync(callback))

    def run_every(self, interval_ms: float, callback: Callable[[], None]) -> Cancellable:
        """Calls `callback` again and again, each time `interval_ms` after the last call has returned."""
        return _Repetition(self, interval_ms, callback)

    def run_blocking(self, work: Callable[[], Any], done: Done) -> None:
        """Runs `work` on another thread, where it may wait, and then `done` in the endpoint's own."""
        self._context.run_blocking(work, lambda result, error: RunAsync(lambda: done(result, error)))


class _Repetition:
    """Implements `actors.protocol.ports.Cancellable`. For the endpoint's thread."""

    def __init__(self, thread: MainThread, interval_ms: float, callback: Callable[[], None]) -> None:
        self._thread = thread
        self._interval_ms = interval_ms
        self._callback = callback
        self._next: Cancellable | None = thread.run_later(interval_ms, self._run)

    def cancel(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _run(self) -> None:
        if self._next is not None:
            self._callback()
        if self._next is not None:  # the callback may have cancelled it
            self._next = self._thread.run_later(self._interval_ms, self._run)
