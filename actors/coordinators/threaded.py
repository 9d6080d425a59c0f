"""Runs a coordinator that calls the user's code on a thread of its own: code that blocks there holds up nothing else.

The coordinator is Flink's SourceCoordinator with its executor; what is around it here, in the JobMaster's thread, is
Flink's OperatorCoordinatorHolder with its gateways. What the coordinator sends comes back to the JobMaster in order. It
is held back from the coordinator's snapshot on, until the barriers of that checkpoint are sent, and it is dropped where
the attempt that it is for has ended before the coordinator knew.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from actors.coordinators.base import CoordinatorContext, JobMasterContext, OperatorCoordinator
from actors.protocol.ports import Cancellable

log = logging.getLogger(__name__)

# How long the end of a job, or the coordinator that takes another's place, waits until that one is closed.
CLOSE_TIMEOUT_MS = 5_000.0


class CoordinatorLoop:
    """Does one piece of work after the other (a Loop). Any thread may give it some."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._work: deque[Callable[[], None]] = deque()
        self._is_busy = False
        self._is_closing = False
        self._former: CoordinatorLoop | None = None

    def put(self, work: Callable[[], None]) -> None:
        """Has some work done, unless the loop is being closed."""
        with self._condition:
            if not self._is_closing:
                self._work.append(work)
                self._condition.notify()

    def close(self, last: Callable[[], None]) -> None:
        """Drops the work that waits, does this, and ends. Without effect the second time."""
        with self._condition:
            if not self._is_closing:
                self._is_closing = True
                self._work.clear()
                self._work.append(last)
                self._condition.notify()

    def wait_for(self, former: CoordinatorLoop | None) -> None:
        """Begins when another one is done; None: at once."""
        with self._condition:
            self._former = former
            self._condition.notify()

    def step(self) -> bool:
        with self._condition:
            if not self._may_work():
                return False
            self._is_busy = True  # first, as whoever asks whether it is done takes no lock
            work = self._work.popleft()
        try:
            work()
        finally:
            self._is_busy = False
        return True

    def wait(self, timeout_ms: float | None) -> None:
        with self._condition:
            if not self._may_work():
                self._condition.wait(None if timeout_ms is None else timeout_ms / 1000)

    @property
    def is_done(self) -> bool:
        return self._is_closing and not self._work and not self._is_busy

    def _may_work(self) -> bool:
        return bool(self._work) and (self._former is None or self._former.is_done)


Snapshotted = Callable[[bytes | Exception], None]
"""Gets a coordinator's state, or why it has none."""


class _Sent(NamedTuple):
    subtask_index: int
    ended: int
    """How many attempts of the subtask had ended, as far as the coordinator knew."""
    event: Any


class ThreadedCoordinator(OperatorCoordinator):
    """A coordinator as its JobMaster sees it, whose thread makes all calls here. `begin_snapshot` is its `snapshot`.

    Args:
        name: of the operator.
        create: makes the coordinator, which the JobMaster's thread restores, and all else is done to in its own thread.
    """

    def __init__(
        self, name: str, context: JobMasterContext, create: Callable[[CoordinatorContext], OperatorCoordinator]
    ) -> None:
        self._name = name
        self._context = context
        self._loop = CoordinatorLoop()
        self._known: Counter[int] = Counter()
        """Subtask -> how many of its attempts have ended, as the coordinator knows. In its thread."""
        self._ended: Counter[int] = Counter()
        """The same as the JobMaster knows."""
        self._snapshotting: int | None = None
        self._held: list[_Sent] | None = None
        """What was sent after the snapshot of the checkpoint whose barriers are not sent yet; None: there is none."""
        self._is_closed = False
        self._coordinator = create(_LoopContext(self))

    def start(self) -> None:
        self._context.start_loop(f"coordinator of {self._name}", self._loop)
        self._do(self._coordinator.start)

    def start_after(self, former: ThreadedCoordinator) -> None:
        """As `start`, once another one is closed, or takes too long for that."""
        self._loop.wait_for(former._loop)
        self._context.call_later(CLOSE_TIMEOUT_MS, lambda: self._loop.wait_for(None))
        self.start()

    def handle_event(self, subtask_index: int, event: Any) -> None:
        self._do(partial(self._coordinator.handle_event, subtask_index, event))

    def subtask_started(self, subtask_index: int) -> None:
        self._do(partial(self._coordinator.subtask_started, subtask_index))

    def subtask_failed(self, subtask_index: int, checkpoint_id: int | None = None) -> None:
        def fail() -> None:
            self._known[subtask_index] += 1
            self._coordinator.subtask_failed(subtask_index, checkpoint_id)

        self._ended[subtask_index] += 1
        self._do(fail)

    def begin_snapshot(self, checkpoint_id: int, done: Snapshotted) -> None:
        """Has `done` called later with what `snapshot` gives. From then on until `end_snapshot` nothing is sent."""

        def snapshot() -> None:
            state: bytes | Exception
            try:
                state = self._coordinator.snapshot(checkpoint_id)
            except Exception as error:
                state = error
            self._context.run(lambda: self._on_snapshot(checkpoint_id, state, done))

        self._snapshotting = checkpoint_id
        self._do(snapshot)

    def end_snapshot(self) -> None:
        """The barriers are sent, or the checkpoint was given up."""
        self._snapshotting = None
        held, self._held = self._held, None
        for sent in held or ():
            self._deliver(sent)

    def restore(self, state: bytes) -> None:
        self._coordinator.restore(state)

    def begin_without_state(self, checkpoint_id: int) -> None:
        self._coordinator.begin_without_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._do(partial(self._coordinator.notify_checkpoint_complete, checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._do(partial(self._coordinator.notify_checkpoint_aborted, checkpoint_id))

    def close(self) -> None:
        self.close_then(lambda: None)

    def close_then(self, then: Callable[[], None]) -> None:
        """Calls `then` when it is closed, which it never is where it hangs. Without effect the second time."""

        def close() -> None:
            self._guard(self._coordinator.close)
            self._context.run(then)

        self._is_closed = True
        self._loop.close(close)

    # -- in the coordinator's thread -----------------------------------------------------------------------------

    def _do(self, work: Callable[[], None]) -> None:
        """Has some work done in the coordinator's thread."""
        self._loop.put(lambda: self._guard(work))

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            failure = error
            self._context.run(lambda: self._fail(failure))

    # -- what comes from there -----------------------------------------------------------------------------------

    def _on_snapshot(self, checkpoint_id: int, state: bytes | Exception, done: Snapshotted) -> None:
        if checkpoint_id == self._snapshotting:  # else the checkpoint was given up
            self._held = []
            done(state)

    def _send(self, sent: _Sent) -> None:
        if self._held is not None:
            self._held.append(sent)
        else:
            self._deliver(sent)

    def _deliver(self, sent: _Sent) -> None:
        if sent.ended == self._ended[sent.subtask_index] and not self._is_closed:
            self._context.send_event(sent.subtask_index, sent.event)

    def _fail(self, error: BaseException) -> None:
        if self._is_closed:
            log.warning("the coordinator of %s failed after its end", self._name, exc_info=error)
        else:
            self._context.fail_job(error)


class _LoopContext:
    """What the coordinator may use, in its thread (a CoordinatorContext)."""

    def __init__(self, owner: ThreadedCoordinator) -> None:
        self._owner = owner
        self._context = owner._context

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    def now_ms(self) -> int:
        return self._context.now_ms()

    def send_event(self, subtask_index: int, event: Any) -> None:
        sent = _Sent(subtask_index, self._owner._known[subtask_index], event)
        self._context.run(lambda: self._owner._send(sent))

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        return self._context.call_later(delay_ms, lambda: self._owner._do(callback))

    def fail_job(self, error: BaseException) -> None:
        self._context.run(lambda: self._owner._fail(error))
