"""The threads of coordinators and of their JobMaster, each of which acts when a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from actors.coordinators.base import CoordinatorContext, OperatorCoordinator
from actors.protocol.ports import Cancellable, Loop
from tests.support.tasks import ManualTime


class SteppedThreads:
    """A JobMasterContext whose thread acts when the test says so, as the coordinator's does."""

    parallelism = 2

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self.failures: list[str] = []
        self.loops: list[Loop] = []
        self.time = ManualTime()
        self._callbacks: deque[Callable[[], None]] = deque()

    def now_ms(self) -> int:
        return self.time.now

    def send_event(self, subtask_index: int, event: Any) -> None:
        self.sent.append((subtask_index, event))

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        return self.time.call_later(delay_ms, callback)

    def fail_job(self, error: BaseException) -> None:
        self.failures.append(str(error))

    def run(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def start_loop(self, name: str, loop: Loop) -> None:
        self.loops.append(loop)

    def act(self) -> None:
        """Does what has come from coordinators."""
        while self._callbacks:
            self._callbacks.popleft()()

    def settle(self) -> None:
        """All threads do what they have to do."""
        for loop in self.loops:
            while not loop.is_done and loop.step():
                pass
        self.act()


class Echo(OperatorCoordinator):
    """Sends back what it gets, and notes what it is told."""

    def __init__(self, context: CoordinatorContext) -> None:
        self.context = context
        self.told: list[Any] = []

    def start(self) -> None:
        self.told.append("start")

    def handle_event(self, subtask_index: int, event: Any) -> None:
        if event == "raise":
            raise ValueError("a bad event")
        if event == "later":
            self.context.call_later(10, lambda: self.context.send_event(subtask_index, "it is later"))
        else:
            self.context.send_event(subtask_index, event)

    def subtask_failed(self, subtask_index: int, checkpoint_id: int | None = None) -> None:
        self.told.append(("failed", subtask_index, checkpoint_id))

    def snapshot(self, checkpoint_id: int) -> bytes:
        return b"state %d" % checkpoint_id

    def close(self) -> None:
        self.told.append("close")
