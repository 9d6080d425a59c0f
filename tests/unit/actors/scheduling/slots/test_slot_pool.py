"""The slots that a job holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId, ResourceProfile, SlotOffer, SlotRequest
from actors.scheduling.slots.slot_pool import SlotPool

TE = Address("c/te-1")


def offer(number: int, label: str = "a", cpus: float = 1.0) -> SlotOffer:
    slot = Address(f"c/te-1/slot-{number}")
    return SlotOffer(AllocationId(f"allocation-{number}"), number, slot, ResourceProfile(cpus), label)


def request(label: str, cpus: float = 1.0) -> SlotRequest:
    return SlotRequest(ResourceProfile(cpus), label)


@pytest.fixture
def pool() -> Iterator[SlotPool]:
    pool = SlotPool()
    yield pool
    pool.check()


def test_an_offer_is_taken_exactly_when_a_request_is_open_that_it_can_serve(pool: SlotPool) -> None:
    pool.open(request("a"))
    assert pool.offer(TE, [offer(1), offer(2)]) == {"allocation-1"}
    assert pool.slot_of("a") is not None
    assert pool.unserved() == []


def test_a_slot_that_is_too_small_is_not_taken(pool: SlotPool) -> None:
    pool.open(request("a", cpus=2))
    assert pool.offer(TE, [offer(1, cpus=1)]) == frozenset()


def test_a_slot_serves_the_request_whose_label_its_process_carries(pool: SlotPool) -> None:
    pool.open(request("a"))
    pool.open(request("b"))
    pool.offer(TE, [offer(1, "b")])
    assert pool.slot_of("a") is None
    assert pool.slot_of("b") is not None


def test_an_offer_that_comes_twice_is_taken_again_and_counts_once(pool: SlotPool) -> None:
    pool.open(request("a"))
    pool.open(request("b"))
    pool.offer(TE, [offer(1)])
    assert pool.offer(TE, [offer(1)]) == {"allocation-1"}
    assert len(pool.slots()) == 1
    assert [open_request.label for open_request in pool.unserved()] == ["b"]


def test_an_allocation_that_another_worker_claims_is_not_taken(pool: SlotPool) -> None:
    pool.open(request("a"))
    pool.offer(TE, [offer(1)])
    assert pool.offer(Address("c/te-2"), [offer(1)]) == frozenset()


def test_a_slot_whose_request_is_closed_serves_the_next_one(pool: SlotPool) -> None:
    pool.open(request("a"))
    pool.offer(TE, [offer(1)])
    pool.close("a", now=10)
    pool.open(request("b"))
    slot = pool.slot_of("b")
    assert slot is not None
    assert slot.allocation_id == "allocation-1"


def test_a_slot_is_given_up_after_it_was_idle_for_its_timeout(pool: SlotPool) -> None:
    pool.open(request("a"))
    pool.offer(TE, [offer(1)])
    pool.close("a", now=10)
    assert pool.take_idle(now=59, timeout_ms=50) == []
    assert [slot.allocation_id for slot in pool.take_idle(now=60, timeout_ms=50)] == ["allocation-1"]
    assert pool.slots() == []


def test_losing_a_slot_opens_its_request_again(pool: SlotPool) -> None:
    pool.open(request("a"))
    pool.offer(TE, [offer(1)])
    pool.remove(AllocationId("allocation-1"))
    assert [open_request.label for open_request in pool.unserved()] == ["a"]
    assert pool.requests() == (request("a"),)


def test_an_idle_slot_takes_the_place_of_one_that_is_lost(pool: SlotPool) -> None:
    pool.open(request("a"))
    pool.open(request("b"))
    pool.offer(TE, [offer(1, "a"), offer(2, "b")])
    pool.close("b", 0)
    pool.remove(AllocationId("allocation-1"))
    served = pool.slot_of("a")
    assert served is not None
    assert served.allocation_id == "allocation-2"


def test_a_slot_whose_request_is_closed_serves_what_waits_for_one(pool: SlotPool) -> None:
    pool.open(request("a"))
    pool.open(request("b"))
    pool.offer(TE, [offer(1, "a")])
    pool.close("a", 0)
    assert pool.slot_of("b") is not None
