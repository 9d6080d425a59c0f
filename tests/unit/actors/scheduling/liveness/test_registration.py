"""Where a component stands with a ResourceManager that may be replaced."""

from __future__ import annotations

from actors.protocol.ports import SessionId
from actors.scheduling.liveness.registration import Registration

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
