"""What an endpoint hears of others on a real Ray cluster, and when."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from actors.ports import Address, DeliveryFailed, EndpointDied
from tests.support.endpoints import recorder
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

    from actors.hosts.ray.transport import RayTransport

    heard: list[Any] = []
    transport = RayTransport(Address("test"), None, heard.append)
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
    from actors.hosts.ray.transport import RayTransport

    heard: list[Any] = []
    transport = RayTransport(Address("test"), None, heard.append)
    for message in ("before", Undecodable(), "after"):
        transport.send(Address("test"), peer, message, ())
    failed = eventually(lambda: heard)[0]
    assert isinstance(failed, DeliveryFailed)
    assert isinstance(failed.message, Undecodable)
    assert "nobody can read this" in failed.cause
    assert eventually(lambda: host.ask(peer, "seen", 60_000.0), lambda seen: len(seen) == 2) == ["before", "after"]
