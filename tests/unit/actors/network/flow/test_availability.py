"""The flag that says whether something can go on."""

from __future__ import annotations

from actors.network.flow.availability import Availability


def test_a_listener_is_called_at_once_where_it_is_available() -> None:
    calls: list[int] = []
    Availability(is_available=True).on_available(lambda: calls.append(1))
    assert calls == [1]


def test_a_waiting_listener_is_called_once_when_it_becomes_available() -> None:
    calls: list[int] = []
    availability = Availability(is_available=False)
    availability.on_available(lambda: calls.append(1))
    assert calls == []
    availability.set_available()
    availability.set_unavailable()
    availability.set_available()
    assert calls == [1]


def test_the_same_listener_waits_only_once() -> None:
    calls: list[int] = []
    availability = Availability(is_available=False)
    listener = lambda: calls.append(1)  # noqa: E731
    availability.on_available(listener)
    availability.on_available(listener)
    availability.set_available()
    assert calls == [1]


def test_it_stays_available_until_it_is_set_otherwise() -> None:
    availability = Availability(is_available=False)
    availability.set_available()
    assert availability.is_available
    assert availability.is_available
    availability.set_unavailable()
    assert not availability.is_available
