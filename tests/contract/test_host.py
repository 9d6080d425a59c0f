"""The contract of `actors.protocol.ports.Host` and `EndpointContext`, run against every host."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from actors.hosts.local import LocalHost
from actors.hosts.simulation.host import SimulationHost
from actors.protocol.ports import Address, EndpointGone, Host
from tests.support.endpoints import recorder
from tests.support.restarts import deaths
from tests.support.waiting import eventually

TIMEOUT_MS = 20_000.0


class SteppedHost(SimulationHost):
    """Goes on when it is asked, as nothing happens by itself in a simulation."""

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        for _ in range(40):
            self.step()
        return super().ask(address, request, timeout_ms)


@pytest.fixture(params=["local", "simulation", pytest.param("ray", marks=pytest.mark.ray)])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    if request.param == "local":
        chosen: Any = LocalHost()
    elif request.param == "simulation":
        chosen = SteppedHost(7, is_strict=False)
    else:
        request.getfixturevalue("ray_cluster")
        from actors.hosts.ray.host import RayHost

        chosen = RayHost(PREFIX)
    yield chosen
    chosen.shutdown()
    assert chosen.addresses() == frozenset()


PREFIX = f"contract-{uuid.uuid4().hex[:6]}"


def name(short: str) -> Address:
    return Address(f"{PREFIX}/{short}")


def seen(host: Host, short: str) -> list[Any]:
    answer: list[Any] = host.ask(name(short), "seen", TIMEOUT_MS)
    return answer


def wait_for(host: Host, short: str, *expected: Any) -> list[Any]:
    def look() -> list[Any]:
        try:
            return seen(host, short)
        except EndpointGone:
            return []  # its spawner has not got that far

    return eventually(look, lambda got: all(item in got for item in expected))


def test_messages_of_one_sender_arrive_in_order_with_and_without_payloads(host: Host) -> None:
    host.spawn(recorder(name("a")))
    host.spawn(recorder(name("b")))
    host.tell(name("a"), ("send numbers", name("b"), 60))
    got = eventually(lambda: seen(host, "b"), lambda got: len(got) == 60)
    assert got == [("number", number) for number in range(60)]


def test_a_payload_is_there_when_its_message_is(host: Host) -> None:
    host.spawn(recorder(name("a")))
    host.spawn(recorder(name("b")))
    host.tell(name("a"), ("send rows", name("b"), 500_000))
    wait_for(host, "b", ("rows", 500_000, 499_999))


def test_an_endpoint_acts_in_one_thread(host: Host) -> None:
    host.spawn(recorder(name("a")))
    host.tell(name("a"), ("later", 1, "x"))
    host.tell(name("a"), ("blocking", 21))
    host.tell(name("a"), ("loop", 3))
    wait_for(host, "a", "x", ("done", 42, "None"), ("step", 2), ("step", 1), ("step", 0))
    assert host.ask(name("a"), "threads", TIMEOUT_MS) == 1


def test_a_spawner_hears_of_a_death(host: Host) -> None:
    host.spawn(recorder(name("a")))
    host.tell(name("a"), ("spawn", recorder(name("child"))))
    host.tell(name("a"), ("forward", name("child"), ("fail",)))
    wait_for(host, "a", ("died", name("child")))
    with pytest.raises(EndpointGone):
        host.ask(name("child"), "seen", TIMEOUT_MS)


def test_a_watcher_hears_of_a_kill_and_the_killer_does_not(host: Host) -> None:
    for short in ("a", "watcher"):
        host.spawn(recorder(name(short)))
    host.tell(name("a"), ("spawn", recorder(name("child"))))
    host.tell(name("a"), ("forward", name("child"), "hello"))
    wait_for(host, "child", "hello")
    host.tell(name("watcher"), ("watch", name("child")))
    host.tell(name("watcher"), "watching")
    wait_for(host, "watcher", "watching")
    host.tell(name("a"), ("kill", name("child")))
    wait_for(host, "watcher", ("died", name("child")))
    assert ("died", name("child")) not in seen(host, "a")


def test_watching_what_does_not_exist_reports_its_death(host: Host) -> None:
    host.spawn(recorder(name("a")))
    host.tell(name("a"), ("watch", name("nobody")))
    wait_for(host, "a", ("died", name("nobody")))


def test_a_child_that_dies_with_its_spawner_does(host: Host) -> None:
    for short in ("a", "watcher"):
        host.spawn(recorder(name(short)))
    host.tell(name("a"), ("spawn", recorder(name("child"), dies_with_spawner=True, node_of=name("a"))))
    host.tell(name("a"), ("forward", name("child"), "hello"))
    wait_for(host, "child", "hello")
    host.tell(name("watcher"), ("watch", name("child")))
    host.tell(name("watcher"), "watching")
    wait_for(host, "watcher", "watching")
    host.kill(name("a"))
    wait_for(host, "watcher", ("died", name("child")))


def test_a_message_to_nobody_comes_back(host: Host) -> None:
    host.spawn(recorder(name("a")))
    host.tell(name("a"), ("forward", name("nobody"), "lost"))
    wait_for(host, "a", ("undelivered", name("nobody"), "lost"))


def test_an_answer_that_fails_raises_at_the_client(host: Host) -> None:
    host.spawn(recorder(name("a")))
    with pytest.raises(ValueError, match="a bad question"):
        host.ask(name("a"), "error", TIMEOUT_MS)
    with pytest.raises(TypeError, match="does not answer"):
        host.ask(name("a"), "what?", TIMEOUT_MS)


def spawn_restarting(host: Host, *watchers: str) -> None:
    """`child`, which restarts: `a` has spawned it and knows that it runs, and the others watch it."""
    host.spawn(recorder(name("a")))
    host.tell(name("a"), ("spawn", recorder(name("child"), restarts=True)))
    host.tell(name("a"), ("forward", name("child"), "hello"))
    wait_for(host, "child", "hello")
    for short in watchers:
        host.spawn(recorder(name(short)))
        host.tell(name(short), ("watch", name("child")))
        host.tell(name(short), "watching")
        wait_for(host, short, "watching")


def test_an_endpoint_that_restarts_begins_again_with_nothing_of_its_memory(host: Host) -> None:
    spawn_restarting(host)
    host.tell(name("a"), ("forward", name("child"), ("fail",)))
    wait_for(host, "a", ("died", name("child")))
    assert seen(host, "child") == []
    host.tell(name("a"), ("forward", name("child"), "again"))
    wait_for(host, "child", "again")


def test_every_watcher_hears_once_of_each_death_without_asking_again(host: Host) -> None:
    spawn_restarting(host, "watcher")

    def heard() -> list[int]:
        return [deaths(seen(host, short), name("child")) for short in ("a", "watcher")]

    for expected in ([1, 1], [2, 2], [3, 3]):
        host.tell(name("a"), ("forward", name("child"), ("fail",)))
        assert eventually(heard, lambda got, expected=expected: min(got) >= expected[0]) == expected  # type: ignore[misc]
        assert seen(host, "child") == []  # it is there again, so nothing more is to be heard
        assert heard() == expected


def test_what_is_sent_after_a_death_arrives_in_order_or_comes_back(host: Host) -> None:
    spawn_restarting(host)
    host.tell(name("a"), ("forward", name("child"), ("fail",)))
    wait_for(host, "a", ("died", name("child")))
    host.tell(name("a"), ("send numbers", name("child"), 60))

    def look() -> tuple[list[Any], list[Any]]:
        # What made it die may come back too: its receiver died before Ray had its answer.
        back = [what for kind, *_, what in seen(host, "a") if kind == "undelivered" and what != ("fail",)]
        return seen(host, "child"), back

    came, back = eventually(look, lambda both: len(both[0]) + len(both[1]) >= 60)
    assert sorted(came + back) == [("number", number) for number in range(60)]
    assert came == sorted(came)


def test_a_question_to_an_endpoint_that_is_started_again_is_answered(host: Host) -> None:
    spawn_restarting(host)
    for _ in range(3):
        host.tell(name("child"), ("fail",))
        assert seen(host, "child") in ([], ["hello"])


def test_what_is_taken_to_hang_ends_and_begins_again_and_all_who_watch_it_hear_that(host: Host) -> None:
    spawn_restarting(host, "watcher")
    host.tell(name("watcher"), ("restart", name("child")))
    wait_for(host, "a", ("died", name("child")))
    wait_for(host, "watcher", ("died", name("child")))
    assert seen(host, "child") == []


def test_what_is_taken_to_hang_and_does_not_restart_is_dead(host: Host) -> None:
    host.spawn(recorder(name("a")))
    host.tell(name("a"), ("spawn", recorder(name("child"))))
    host.tell(name("a"), ("forward", name("child"), "hello"))
    wait_for(host, "child", "hello")
    host.tell(name("a"), ("restart", name("child")))
    wait_for(host, "a", ("died", name("child")))
    with pytest.raises(EndpointGone):
        host.ask(name("child"), "seen", TIMEOUT_MS)


def test_what_is_killed_is_not_started_again(host: Host) -> None:
    spawn_restarting(host, "watcher")
    host.tell(name("a"), ("kill", name("child")))
    wait_for(host, "watcher", ("died", name("child")))
    with pytest.raises(EndpointGone):
        host.ask(name("child"), "seen", TIMEOUT_MS)
    assert name("child") not in host.addresses()  # type: ignore[attr-defined]
    assert deaths(seen(host, "a"), name("child")) == 0


def test_what_the_client_kills_is_not_started_again(host: Host) -> None:
    spawn_restarting(host)
    host.kill(name("child"))
    wait_for(host, "a", ("died", name("child")))
    with pytest.raises(EndpointGone):
        host.ask(name("child"), "seen", TIMEOUT_MS)


def test_a_restart_ends_what_dies_with_its_spawner_and_nothing_else(host: Host) -> None:
    host.spawn(recorder(name("watcher")))
    host.spawn(recorder(name("a"), restarts=True))
    children = {
        "slot": recorder(name("slot"), dies_with_spawner=True, node_of=name("a")),
        "free": recorder(name("free")),
    }
    for short, spec in children.items():
        host.tell(name("a"), ("spawn", spec))
        host.tell(name("a"), ("forward", name(short), "hello"))
        wait_for(host, short, "hello")
    for short in ("slot", "free", "a"):
        host.tell(name("watcher"), ("watch", name(short)))
    host.tell(name("watcher"), "watching")
    wait_for(host, "watcher", "watching")
    host.tell(name("a"), ("fail",))
    wait_for(host, "watcher", ("died", name("slot")), ("died", name("a")))
    assert seen(host, "a") == []
    assert seen(host, "free") == ["hello"]
    assert deaths(seen(host, "watcher"), name("free")) == 0


def test_a_watcher_that_is_started_again_watches_nothing(host: Host) -> None:
    host.spawn(recorder(name("a"), restarts=True))
    host.spawn(recorder(name("other")))
    host.spawn(recorder(name("witness")))
    for short in ("a", "witness"):
        host.tell(name(short), ("watch", name("other")))
    host.tell(name("witness"), ("watch", name("a")))
    for short in ("a", "witness"):
        host.tell(name(short), "watching")
        wait_for(host, short, "watching")
    host.tell(name("a"), ("fail",))
    wait_for(host, "witness", ("died", name("a")))
    host.kill(name("other"))
    wait_for(host, "witness", ("died", name("other")))
    assert seen(host, "a") == []
