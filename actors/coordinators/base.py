"""What an operator coordinator is (Flink's OperatorCoordinator), and what it may use of the JobMaster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from actors.protocol.ports import Cancellable, Loop


class CoordinatorContext(Protocol):
    """What the JobMaster does for a coordinator. For the thread that the coordinator is called on."""

    @property
    def parallelism(self) -> int:
        """Parallelism of the coordinated operator."""

    def now_ms(self) -> int:
        """The time in epoch milliseconds."""

    def send_event(self, subtask_index: int, event: Any) -> None:
        """Sends to the operator in the current attempt of that subtask; the event is dropped where none runs."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        """Runs `callback` in the same thread after `delay_ms`."""

    def fail_job(self, error: BaseException) -> None:
        """The job cannot go on as it is: its failure handling decides what comes next."""


class JobMasterContext(CoordinatorContext, Protocol):
    """The same for the JobMaster's own thread, and what a coordinator needs that has another one."""

    def run(self, callback: Callable[[], None]) -> None:
        """Runs `callback` in the JobMaster's thread, after what was given to this before. Any thread may call it."""

    def start_loop(self, name: str, loop: Loop) -> None:
        """Gives the loop a thread until it is done."""


class OperatorCoordinator(ABC):
    """One per coordinated operator and job. One thread makes all calls: the JobMaster's, which must not be blocked, or
    that of a `ThreadedCoordinator`.

    Life cycle: `restore` where the job starts from a checkpoint; `start` once before any task is deployed; per attempt
    of a subtask `subtask_started`, its events, and `subtask_failed` if another attempt will follow; `close` once when
    the job has reached its end. A job that is restarted as a whole gets new coordinators, after the `close` of the old
    ones; but one that `survives_restart` goes on, with `subtask_failed` for each of its subtasks.
    """

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def handle_event(self, subtask_index: int, event: Any) -> None:
        """The operator in the current attempt of that subtask sent `event`; those of older attempts must not come."""

    def subtask_started(self, subtask_index: int) -> None:
        """A new attempt runs: events sent from now on reach it."""

    def subtask_failed(self, subtask_index: int, checkpoint_id: int | None = None) -> None:
        """The attempt is over and another will follow: it failed, or its region is restarted.

        Args:
            checkpoint_id: the next attempt starts from that checkpoint; None: without state.
        """

    def survives_restart(self, checkpoint_id: int | None) -> bool:
        """Whether it holds what must not be lost or forgotten when the job is restarted as a whole.

        Args:
            checkpoint_id: as for `subtask_failed`.
        """
        return False

    def snapshot(self, checkpoint_id: int) -> bytes:
        """Its state for that checkpoint. The barriers of its subtasks are sent right after, with nothing in between:
        events sent before this call come before the barrier, and later ones behind it."""
        return b""

    def restore(self, state: bytes) -> None:
        """What `snapshot` gave, perhaps at another parallelism; before `start`."""

    def begin_without_state(self, checkpoint_id: int) -> None:
        """The job starts from a checkpoint that has no state of this coordinator; before `start`."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None: ...

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None: ...

    def close(self) -> None: ...
