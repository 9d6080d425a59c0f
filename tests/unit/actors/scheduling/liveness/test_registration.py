"""Where a component stands with a ResourceManager that may be replaced."""

from __future__ import annotations

from collections.abc import Callable

from actors.protocol.ports import Address, SessionId
from actors.scheduling.liveness.registration import REGISTRATION_RETRY_MS, Registration, RetryingRegistration
from tests.support.main_thread import SteppedContext

FIRST, SECOND = SessionId("first"), SessionId("second")


def test_only_an_answer_to_the_newest_attempt_counts() -> None:
    registration = Registration(0)
    assert registration.answer(FIRST, 1)
    registration.lose(10)
    assert not registration.answer(FIRST, 1)
    assert registration.session is None
    assert registration.answer(SECOND, 2)
    assert registration.session == SECOND


def test_it_has_waited_since_the_resource_manager_was_lost_first() -> None:
    registration = Registration(0)
    assert registration.waited_ms(5) == 5
    registration.answer(FIRST, 1)
    assert registration.waited_ms(100) == 0
    registration.lose(100)
    registration.lose(150)
    assert registration.waited_ms(180) == 80


RESOURCE_MANAGER = Address("c/resource-manager")
TIMEOUT_MS = 5_000.0


def retrying(context: SteppedContext, register: Callable[[int], bool]) -> RetryingRegistration:
    return RetryingRegistration(context, context.main_thread, RESOURCE_MANAGER, TIMEOUT_MS, register)  # type: ignore[arg-type]


def test_a_resource_manager_that_neither_answers_nor_dies_is_started_again_once_in_each_timeout() -> None:
    context = SteppedContext()
    registration = retrying(context, lambda _number: True)
    registration.begin()
    context.advance(TIMEOUT_MS - 1)
    registration.begin_anew()
    context.advance(TIMEOUT_MS - 1)
    assert context.restarted == []
    context.advance(TIMEOUT_MS)
    assert context.restarted == [RESOURCE_MANAGER]
    registration.answer(FIRST)
    context.advance(10 * TIMEOUT_MS)
    assert context.restarted == [RESOURCE_MANAGER]


def test_a_registration_is_repeated_until_it_is_answered_and_once_for_each_number() -> None:
    context = SteppedContext()
    numbers: list[int] = []

    def register(number: int) -> bool:
        numbers.append(number)
        return True

    registration = retrying(context, register)
    registration.begin()
    context.advance(REGISTRATION_RETRY_MS)
    assert numbers == [1, 1]
    registration.begin_anew()
    assert numbers == [1, 1, 2]
    context.advance(REGISTRATION_RETRY_MS)
    assert numbers == [1, 1, 2, 2]
    assert not registration.answer(FIRST, 1)
    assert registration.answer(FIRST, 2)
    context.advance(10 * REGISTRATION_RETRY_MS)
    assert numbers == [1, 1, 2, 2]
    assert context.restarted == []


def test_a_registration_that_is_not_wanted_any_more_is_not_repeated() -> None:
    context = SteppedContext()
    numbers: list[int] = []
    registration = retrying(context, numbers.append)  # type: ignore[arg-type]
    registration.begin()
    context.advance(10 * REGISTRATION_RETRY_MS)
    assert numbers == [1]
