"""What an endpoint hears of others on a real Ray cluster, and when."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from actors.protocol.data_messages import AddCredit, BufferEntry, Buffers, ChannelId
from actors.protocol.elements import CheckpointBarrier
from actors.protocol.ports import Address, DeliveryFailed, EndpointDied
from tests.support.endpoints import recorder
from tests.support.network import numbers
from tests.support.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]


class Undecodable:
    """Pickles, and cannot be read again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise ValueError("nobody can read this")


@pytest.fixture
def host(request: pytest.FixtureRequest) -> Iterator[Any]:
    request.getfixturevalue("ray_cluster")
    from actors.hosts.ray.host import RayHost

    host = RayHost(f"transport-{uuid.uuid4().hex[:6]}")
    yield host
    host.shutdown()


@pytest.fixture
def peer(host: Any) -> Address:
    address = Address(f"{host._cluster_id}/peer")
    host.spawn(recorder(address))
    assert host.ask(address, "seen", 60_000.0) == []
    return address


def test_a_connection_that_breaks_is_no_death_and_the_death_is_still_heard_of(host: Any, peer: Address) -> None:
    from ray.exceptions import ActorUnavailableError

    from actors.hosts.ray.actor import create_actor
    from actors.hosts.ray.transport import RayTransport

    heard: list[Any] = []
    transport = RayTransport(Address("test"), None, heard.append, create_actor)
    transport.watch(Address("test"), peer)
    watches = transport._watches
    watches._on_end(watches._watches[peer], 0, ActorUnavailableError("the connection broke", None))
    transport.send(Address("test"), peer, "are you there", ())
    assert eventually(lambda: host.ask(peer, "seen", 60_000.0)) == ["are you there"]
    assert heard == []
    host.kill(peer)
    died = eventually(lambda: heard)[0]
    assert isinstance(died, EndpointDied)
    assert died.address == peer


def test_a_message_that_its_receiver_cannot_read_comes_back_and_the_next_ones_arrive(host: Any, peer: Address) -> None:
    from actors.hosts.ray.actor import create_actor
    from actors.hosts.ray.transport import RayTransport

    heard: list[Any] = []
    transport = RayTransport(Address("test"), None, heard.append, create_actor)
    for message in ("before", Undecodable(), "after"):
        transport.send(Address("test"), peer, message, ())
    failed = eventually(lambda: heard)[0]
    assert isinstance(failed, DeliveryFailed)
    assert isinstance(failed.message, Undecodable)
    assert "nobody can read this" in failed.cause
    assert eventually(lambda: host.ask(peer, "seen", 60_000.0), lambda seen: len(seen) == 2) == ["before", "after"]


def test_messages_between_slots_arrive_as_they_were_in_order_with_the_others(host: Any, peer: Address) -> None:
    from actors.hosts.ray.actor import create_actor
    from actors.hosts.ray.transport import RayTransport, write_message

    credit = AddCredit(((ChannelId("c"), 3),))
    rows = Buffers((BufferEntry(ChannelId("c"), 0, 0, numbers(1, 2), nbytes=16),))
    barrier = Buffers((BufferEntry(ChannelId("c"), 1, 0, CheckpointBarrier(1, 0)),))
    assert all(isinstance(write_message(message), bytes) for message in (credit, rows, barrier))
    transport = RayTransport(Address("test"), None, lambda _: None, create_actor)
    sent = [credit, "between", rows, barrier]
    for message in sent:
        transport.send(Address("test"), peer, message, ())
    assert eventually(lambda: host.ask(peer, "seen", 60_000.0), lambda seen: len(seen) == 4) == sent


def test_a_message_between_slots_that_does_not_arrive_comes_back_as_it_was(host: Any, peer: Address) -> None:
    from actors.hosts.ray.actor import create_actor
    from actors.hosts.ray.transport import RayTransport

    heard: list[Any] = []
    transport = RayTransport(Address("test"), None, heard.append, create_actor)
    transport.send(Address("test"), peer, "know it", ())
    host.kill(peer)
    credit = AddCredit(((ChannelId("c"), 3),))

    def returned() -> list[Any]:
        transport.send(Address("test"), peer, credit, ())  # the peer may take one or two before the kill gets there
        return [each for each in heard if getattr(each, "message", None) == credit]

    assert isinstance(eventually(returned)[0], DeliveryFailed)
