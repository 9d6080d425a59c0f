"""Where a component stands with a ResourceManager that may be replaced."""

from __future__ import annotations

from actors.protocol.ports import SessionId
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


def test_a_registration_is_repeated_until_it_is_answered_and_once_for_each_number() -> None:
    context = SteppedContext()
    numbers: list[int] = []

    def register(number: int) -> bool:
        numbers.append(number)
        return True

    registration = RetryingRegistration(context.clock, context.main_thread, register)  # type: ignore[arg-type]
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


def test_a_registration_that_is_not_wanted_any_more_is_not_repeated() -> None:
    context = SteppedContext()
    numbers: list[int] = []
    registration = RetryingRegistration(context.clock, context.main_thread, numbers.append)  # type: ignore[arg-type]
    registration.begin()
    context.advance(10 * REGISTRATION_RETRY_MS)
    assert numbers == [1]
