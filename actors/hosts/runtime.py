"""An endpoint on threads, as on Ray and in one process: its own thread, its timers and its loops.

Such hosts differ only in how an endpoint reaches others, which each provides as a `Transport`.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, Protocol

from msgspec import Struct, field

from actors.hosts.process import answer
from actors.hosts.turns import Turns
from actors.logs.context import enter, mark_records
from actors.logs.setting_up import own_process
from actors.protocol.client_requests import ProcessRequest, loop_thread
from actors.protocol.ports import (
    Address,
    BatchesRef,
    Cancellable,
    Clock,
    Endpoint,
    EndpointGone,
    EndpointSpec,
    Loop,
    MetricSink,
    ObjectStore,
    Payloads,
    Timers,
)

log = logging.getLogger(__name__)

# A loop that waits for work checks at least this often whether its endpoint has been ended.
LOOP_WAIT_MS = 200.0

# How long an endpoint that ends waits for its loops, for example for a task to close its operators.
LOOP_GRACE_S = 2.0

# An endpoint that restarts begins at most twice in this time. One that cannot even be constructed would otherwise take
# all of a machine; one that dies now and then is back at once.
RESTART_INTERVAL_S = 2.0


def pause_before_restart(since_last_start_s: float) -> float:
    """How many seconds an endpoint waits before its next life begins, while messages and requests wait for it."""
    return min(max(0.0, RESTART_INTERVAL_S - since_last_start_s), RESTART_INTERVAL_S)


class SystemClock:
    """The time of the machine (a Clock)."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6


class Transport(Protocol):
    """How an endpoint reaches others. Any of its threads may call it."""

    @property
    def objects(self) -> ObjectStore: ...

    @property
    def metrics(self) -> MetricSink: ...

    def send(self, sender: Address, address: Address, message: Any, payloads: Sequence[BatchesRef]) -> None: ...

    def spawn(self, spawner: Address, spec: EndpointSpec) -> None: ...

    def watch(self, watcher: Address, address: Address) -> None: ...

    def kill(self, killer: Address, address: Address) -> None: ...

    def restart(self, address: Address) -> None: ...

    def fatal(self, address: Address, error: BaseException) -> None: ...


NO_PAYLOADS: Payloads = ()


class ThreadTimers:
    """Timers on one thread, which starts with the first timer and runs the callbacks that are due."""

    def __init__(self, name: str) -> None:
        self._condition = threading.Condition()
        self._heap: list[tuple[float, int, _ThreadTimer]] = []
        self._order = itertools.count()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"{name} timers", daemon=True)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        timer = _ThreadTimer(callback)
        due = time.monotonic() + max(0.0, delay_ms) / 1000
        with self._condition:
            if self._closed:
                return timer  # it never fires
            if self._thread.ident is None:
                self._thread.start()
            heapq.heappush(self._heap, (due, next(self._order), timer))
            if self._heap[0][2] is timer:
                self._condition.notify()
        return timer

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._heap.clear()
            self._condition.notify()
        if self._thread.ident is not None and threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while (timer := self._next_due()) is not None:
            try:
                timer.fire()
            except Exception:
                log.exception("a timer callback failed")

    def _next_due(self) -> _ThreadTimer | None:
        with self._condition:
            while not self._closed:
                if not self._heap:
                    self._condition.wait()
                    continue
                wait_s = self._heap[0][0] - time.monotonic()
                if wait_s <= 0:
                    return heapq.heappop(self._heap)[2]
                self._condition.wait(min(wait_s, threading.TIMEOUT_MAX))
            return None


class _ThreadTimer:
    """One timer (a Cancellable)."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None  # frees what the callback holds, as the heap keeps the timer until it is due

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class _Message(Struct):
    """A message in the inbox."""

    message: Any
    payloads: Payloads = NO_PAYLOADS


class _Request(Struct):
    """A client's request in the inbox."""

    request: Any
    answer: Future[Any] = field(default_factory=Future)


class EndpointRuntime:
    """One life of an endpoint, with its thread. Implements `actors.protocol.ports.EndpointContext` for it.

    Args:
        pause_s: how long it waits before it begins, as `pause_before_restart` says.
        turns: limits how many loops act at a time, in a process that all endpoints share; None: each acts at any time.
    """

    def __init__(
        self, spec: EndpointSpec, transport: Transport, pause_s: float = 0.0, turns: Turns | None = None
    ) -> None:
        self._spec = spec
        self._transport = transport
        self._turns = turns
        self._pause_s = pause_s
        self._inbox: queue.SimpleQueue[_Message | _Request | None] = queue.SimpleQueue()
        self._started: Endpoint | None = None
        """The endpoint, once it has started and the messages that came before have been handed to it."""
        self._start_lock = threading.Lock()
        self._timers = ThreadTimers(spec.address)
        self._clock = SystemClock()
        self._ended = threading.Event()
        self._loops_must_end = threading.Event()
        self._lock = threading.Lock()
        self._loops: list[threading.Thread] = []
        self._blocking: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, name=str(spec.address), daemon=True)

    def start(self) -> None:
        self._thread.start()

    # -- for the host --------------------------------------------------------------------------------------------

    @property
    def spec(self) -> EndpointSpec:
        return self._spec

    def deliver(self, message: Any, payloads: Payloads = NO_PAYLOADS) -> None:
        """Hands a message to the endpoint, or queues it for the endpoint's thread. Any thread."""
        self.bring(message, payloads)

    def bring(self, message: Any, payloads: Payloads) -> bool:
        """Does what `deliver` does; whether the endpoint took the message, so that `after_arrival` must be called."""
        if self._queued_before_start(entry := _Message(message, payloads)):
            return False
        assert self._started is not None
        if self._ended.is_set() or not self._started.on_arrival(message, payloads):
            self._inbox.put(entry)
            return False
        return True

    def after_arrival(self) -> None:
        """Lets the endpoint go on with messages that it took, on the calling thread, which must hold no lock."""
        if self._started is not None and self.shares_process:
            self._started.after_arrival()

    def _queue(self, entry: _Message | _Request | None) -> None:
        if not self._queued_before_start(entry):
            self._inbox.put(entry)

    def _queued_before_start(self, entry: _Message | _Request | None) -> bool:
        """Queues an entry if the endpoint has not started yet; whether that is so."""
        if self._started is None:
            with self._start_lock:
                if self._started is None:
                    self._inbox.put(entry)
                    return True
        return False

    def _start(self, endpoint: Endpoint) -> None:
        """Lets messages arrive at the endpoint: first those that came before, so that the order is kept."""
        with self._start_lock:
            for entry in [self._inbox.get() for _ in range(self._inbox.qsize())]:
                if not (isinstance(entry, _Message) and endpoint.on_arrival(entry.message, entry.payloads)):
                    self._inbox.put(entry)
            self._started = endpoint
        self.after_arrival()

    def request(self, request: Any, timeout_ms: float) -> Any:
        """Waits for the endpoint's answer to a client's request. What is asked of the process is answered at once.

        Raises:
            EndpointGone: the endpoint has ended, or ends before it gets to the request.
            TimeoutError: no answer in time.
        """
        if isinstance(request, ProcessRequest) and not self._ended.is_set():
            return answer(request)
        entry = _Request(request)
        self._queue(entry)
        if self._ended.is_set():  # perhaps nobody reads the inbox any more
            raise EndpointGone(self._spec.address)
        return entry.answer.result(timeout_ms / 1000)

    def end(self) -> None:
        """Asks the endpoint and its loops to end; `join` waits until they have."""
        self._ended.set()
        self._queue(None)

    def join(self, timeout_s: float) -> bool:
        """Whether all threads of the endpoint have ended in time."""
        deadline = time.monotonic() + timeout_s
        if not _join(self._thread, deadline):
            return False
        with self._lock:  # only now, as the endpoint's last message may have started some of them
            others = (*self._loops, *self._blocking)
        return all(_join(thread, deadline) for thread in others)

    # -- EndpointContext -----------------------------------------------------------------------------------------

    @property
    def address(self) -> Address:
        return self._spec.address

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def timers(self) -> Timers:
        return self._timers

    @property
    def objects(self) -> ObjectStore:
        return self._transport.objects

    @property
    def metrics(self) -> MetricSink:
        return self._transport.metrics

    @property
    def shares_process(self) -> bool:
        return self._turns is not None

    def random(self, name: str) -> random.Random:
        return random.Random()

    def tell(self, address: Address, message: Any, payloads: Sequence[BatchesRef] = ()) -> None:
        self._transport.send(self.address, address, message, payloads)

    def tell_self(self, message: Any) -> None:
        self.deliver(message)

    def tell_self_later(self, delay_ms: float, message: Any) -> Cancellable:
        return self._timers.call_later(delay_ms, lambda: self.deliver(message))

    def spawn(self, spec: EndpointSpec) -> None:
        self._transport.spawn(self.address, spec)

    def watch(self, address: Address) -> None:
        self._transport.watch(self.address, address)

    def kill(self, address: Address) -> None:
        self._transport.kill(self.address, address)

    def restart(self, address: Address) -> None:
        self._transport.restart(address)

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], Any]) -> None:
        def run() -> None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            self.deliver(done(result, error))

        self._start_thread(self._blocking, "io", run)

    def start_loop(self, name: str, loop: Loop, takes_turns: bool = False) -> None:
        turns = self._turns
        step = loop.step if turns is None or not takes_turns else lambda: self._steps_in_turn(loop, turns)
        self._start_thread(self._loops, name, lambda: self._run_loop(loop, step))

    def fatal(self, error: BaseException) -> None:
        with contextlib.suppress(Exception):  # of a program's own logging
            log.critical("%s cannot go on", self.address, exc_info=error)
        self._transport.fatal(self.address, error)

    # -- threads -------------------------------------------------------------------------------------------------

    def _start_thread(self, kind: list[threading.Thread], name: str, run: Callable[[], None]) -> None:
        # In a copy of the caller's context, so that it logs for the same subtask.
        thread = threading.Thread(
            target=copy_context().run, args=(run,), name=loop_thread(self.address, name), daemon=True
        )
        with self._lock:
            kind[:] = [known for known in kind if known.is_alive()] + [thread]
            thread.start()

    def _run_loop(self, loop: Loop, step: Callable[[], bool]) -> None:
        try:
            while not loop.is_done and not self._loops_must_end.is_set():
                if not step() and not loop.is_done:
                    loop.wait(LOOP_WAIT_MS)
        except BaseException as error:  # a loop must raise nothing: this is a bug, which must not go unnoticed
            self.fatal(error)

    def _steps_in_turn(self, loop: Loop, turns: Turns) -> bool:
        """Steps the loop as long as it has its turn; False when it has nothing to do."""
        with turns:
            while loop.step():
                if loop.is_done or self._loops_must_end.is_set() or not turns.may_go_on():
                    return True
        return False

    def _run(self) -> None:
        endpoint: Endpoint | None = None
        try:
            if not (self._pause_s and self._ended.wait(self._pause_s)):
                endpoint = self._spec.load()(self, *self._spec.arguments)
                self._set_up_logs(endpoint)
                endpoint.on_start()
                self._start(endpoint)
                while self._handle_next(endpoint):
                    pass
        except BaseException as error:
            if not self._ended.is_set():
                self.fatal(error)
        finally:
            self._close(endpoint)

    def _set_up_logs(self, endpoint: Endpoint) -> None:
        if not self.shares_process:
            own_process(endpoint.log_settings, endpoint.log_context)
            return
        mark_records()
        enter(endpoint.log_context)

    def _handle_next(self, endpoint: Endpoint) -> bool:
        """Waits for a message and handles it; False when the endpoint must end.

        This is a method of its own, so that no variable holds the batches of the last message while it waits for the
        next.
        """
        entry = self._inbox.get()
        if entry is None:
            return False
        if self._ended.is_set():
            self._refuse(entry)
            return False
        if isinstance(entry, _Message):
            endpoint.on_message(entry.message, entry.payloads)
        else:
            self._answer(endpoint, entry)
        return True

    def _answer(self, endpoint: Endpoint, entry: _Request) -> None:
        try:
            entry.answer.set_result(endpoint.on_request(entry.request))
        except Exception as error:
            entry.answer.set_exception(error)

    def _close(self, endpoint: Endpoint | None) -> None:
        self._ended.set()
        if endpoint is not None:
            try:
                endpoint.on_stop()
            except Exception:
                log.exception("%s failed in on_stop", self.address)
        self._end_loops()
        self._timers.close()
        while not self._inbox.empty():
            self._refuse(self._inbox.get())

    def _refuse(self, entry: _Message | _Request | None) -> None:
        """Answers a request with EndpointGone, as the endpoint has ended."""
        if isinstance(entry, _Request):
            entry.answer.set_exception(EndpointGone(self.address))

    def _end_loops(self) -> None:
        """Waits a moment for the loops, which on_stop has asked to end, and stops the others at their next step."""
        deadline = time.monotonic() + LOOP_GRACE_S
        with self._lock:
            loops = tuple(self._loops)
        for thread in loops:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._loops_must_end.set()


def _join(thread: threading.Thread, deadline: float) -> bool:
    """Waits for a thread until the deadline; whether it has ended. A thread does not wait for itself."""
    if thread is threading.current_thread():
        return False
    thread.join(max(0.0, deadline - time.monotonic()))
    return not thread.is_alive()
