"""The Dispatcher's queue of what it writes: in order, again after a failure, and not for ever where others wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.high_availability.store_queue import StoreQueue
from actors.protocol.main_thread import MainThread, RunAsync
from actors.storage.fenced_log import LeadershipLostError
from flinkray.errors import CheckpointError


class QueueContext:
    """Runs work at once, and hands its messages on when it is told to."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.errors: list[BaseException] = []

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], Any]) -> None:
        try:
            self.messages.append(done(work(), None))
        except Exception as error:
            self.messages.append(done(None, error))

    def tell_self_later(self, delay_ms: float, message: Any) -> None:
        self.messages.append(message)

    def fatal(self, error: BaseException) -> None:
        self.errors.append(error)

    def hand_on(self) -> None:
        message: RunAsync = self.messages.pop(0)
        message.callback()


class Work:
    """Fails so many times, then gives how often it was tried."""

    def __init__(self, failures: int, error: type[Exception] = CheckpointError) -> None:
        self.failures = failures
        self.error = error
        self.tries = 0

    def __call__(self) -> int:
        self.tries += 1
        if self.tries <= self.failures:
            raise self.error(f"failure {self.tries}")
        return self.tries


def run(*pieces: tuple[Work, int | None], messages: int = 100) -> tuple[StoreQueue, QueueContext, list[str]]:
    """The queue, its context, and what came out, after so many messages at most."""
    context = QueueContext()
    queue = StoreQueue(context, MainThread(context))  # type: ignore[arg-type]
    results: list[str] = []
    for work, attempts in pieces:
        queue.put("work", work, lambda result: results.append(str(result)), attempts)
    for _ in range(messages):
        if context.messages:
            context.hand_on()
    return queue, context, results


def test_work_that_fails_is_done_again_before_what_comes_after_it() -> None:
    queue, _, results = run((Work(3), None), (Work(0), None), (Work(1), 5))
    assert results == ["4", "1", "2"]
    assert queue.failure is None


def test_work_without_a_last_attempt_is_tried_as_long_as_it_takes_and_says_why() -> None:
    queue, _, results = run((Work(1_000), None), messages=60)
    assert results == []
    assert str(queue.failure) == "failure 30"


def test_the_last_attempt_hands_its_error_on_and_the_next_piece_has_all_of_its_own() -> None:
    queue, context, results = run((Work(1_000), 3), (Work(2), 3), (Work(1_000), 1), (Work(0), None))
    assert results == ["failure 3", "3", "failure 1", "1"]
    assert queue.failure is None
    assert context.errors == []


@pytest.mark.parametrize("attempts", [None, 5])
def test_whoever_has_lost_its_place_ends_at_once(attempts: int | None) -> None:
    _, context, results = run((Work(1, LeadershipLostError), attempts), (Work(0), None))
    assert results == []
    assert [str(error) for error in context.errors] == ["failure 1"]
