"""Starting sessions, on a host whose names can be given once as Ray's can."""

from __future__ import annotations

import pytest

from actors.client import session
from actors.client.cluster import dispatcher_of, resource_manager_of
from actors.protocol.ports import Address, EndpointGone, EndpointSpec
from flinkray.config.configuration import Configuration
from flinkray.errors import ConfigurationError
from tests.support.control import CLUSTER, World

BOTH = {dispatcher_of(CLUSTER), resource_manager_of(CLUSTER)}


class NamedWorld(World):
    """Refuses a name that is taken, as Ray does."""

    def spawn(self, spec: EndpointSpec) -> None:
        if spec.address in self.addresses():
            raise ValueError(f"The name {spec.address} is already taken")
        super().spawn(spec)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Without sessions; what is started is not listed yet, as when somebody else starts it at this moment."""
    world = NamedWorld(1)
    monkeypatch.setattr(session, "connect_to_session", lambda _name: world)
    monkeypatch.setattr(session, "_cluster_ids", frozenset)
    return world


def test_a_second_start_of_a_session_leaves_the_first_alone(world: World) -> None:
    session.start_session(CLUSTER, Configuration())
    with pytest.raises(ConfigurationError, match="session 'c' is being started by somebody else"):
        session.start_session(CLUSTER, Configuration())
    assert world.addresses() == BOTH
    assert session.session_jobs(CLUSTER) == ()


def test_a_session_whose_dispatcher_has_died_cannot_be_started_over_what_is_left(world: World) -> None:
    session.start_session(CLUSTER, Configuration())
    world.kill(dispatcher_of(CLUSTER))
    with pytest.raises(ConfigurationError, match="what is left of one that has died is about to end"):
        session.start_session(CLUSTER, Configuration())
    assert world.addresses() == {resource_manager_of(CLUSTER)}


def test_nothing_is_left_of_a_session_that_does_not_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_host: object, _name: str, _request: object) -> None:
        raise EndpointGone(Address("c/dispatcher"))

    monkeypatch.setattr(session, "ask_dispatcher", ask)
    with pytest.raises(EndpointGone):
        session.start_session(CLUSTER, Configuration())
    assert world.addresses() == set()
