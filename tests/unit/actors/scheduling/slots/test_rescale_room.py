"""The slots that a job asks for before it is rescaled."""

from __future__ import annotations

from actors.scheduling.slots.rescale_room import RescaleRoom
from actors.scheduling.slots.slot_pool import SlotPool
from tests.unit.actors.scheduling.slots.test_slot_pool import TE, offer, request

TIMEOUT_MS = 1_000


def room_beside(*labels: str) -> tuple[SlotPool, RescaleRoom]:
    """A pool that has a slot for each label."""
    pool = SlotPool()
    for number, label in enumerate(labels):
        pool.open(request(label))
        pool.offer(TE, [offer(number, label)])
    return pool, RescaleRoom(pool, TIMEOUT_MS)


def test_only_slots_beyond_those_that_the_job_has_are_asked_for() -> None:
    pool, room = room_beside("a (1/2)", "a (2/2)", "other")
    room.ask([request("a (1/3)"), request("a (2/3)"), request("a (3/3)"), request("other")], now=0)
    assert [each.label for each in pool.unserved()] == ["a (3/3)"]
    assert room.missing == 1
    pool.offer(TE, [offer(7, "a (3/3)")])
    assert room.missing == 0


def test_a_job_that_shrinks_needs_no_room() -> None:
    pool, room = room_beside("a (1/2)", "a (2/2)")
    room.ask([request("a (1/1)")], now=0)
    assert (room.missing, pool.unserved()) == (0, [])


def test_slots_of_another_size_do_not_count_as_there() -> None:
    pool, room = room_beside("a")
    room.ask([request("b", cpus=2)], now=0)
    assert [each.label for each in pool.unserved()] == ["b"]


def test_room_that_is_given_up_serves_what_else_is_asked_for() -> None:
    pool, room = room_beside("a")
    room.ask([request("b"), request("c")], now=0)
    pool.offer(TE, [offer(7, "b")])
    pool.open(request("d"))
    room.close(now=5)
    assert pool.is_served("d")
    assert room.missing == 0


def test_slots_that_do_not_come_are_late_after_the_timeout_and_then_refused() -> None:
    pool, room = room_beside("a")
    room.ask([request("b"), request("c")], now=10)
    assert not room.is_late(10 + TIMEOUT_MS - 1)
    assert room.is_late(10 + TIMEOUT_MS)
    room.refuse(None, "they did not come", 10 + TIMEOUT_MS)
    assert room.error is not None
    assert "it would need 1 more slot(s) of 1 CPU: they did not come" in room.error.message
    assert "its ResourceManager does not answer" in room.error.message
    assert [each.label for each in pool.requests()] == ["a"]


def test_asking_anew_forgets_why_slots_did_not_come() -> None:
    _, room = room_beside("a")
    room.ask([request("b"), request("c")], now=0)
    room.refuse(None, "no", 0)
    room.ask([request("b")], now=0)
    assert room.error is None
