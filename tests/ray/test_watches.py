"""Who is told of a death, and how often: the watches of an endpoint against a model of Ray, in seeded orders."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from actors.protocol.ports import Address
from tests.support.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.timeout(60)]

MASTER = Address("cluster/master")


@dataclass
class Call:
    """A call to an actor: where it was sent to, and its answer."""

    method: str
    life: int
    answer: Future[Any] = field(default_factory=Future)

    def future(self) -> Future[Any]:
        return self.answer


@dataclass
class Method:
    call: Callable[[], Call]

    def remote(self) -> Call:
        return self.call()


class FakeActor:
    """What Ray does with one that restarts: calls of a life that has died fail at some later time."""

    def __init__(self) -> None:
        self.present = 0
        self.is_dead = False
        self.calls: list[Call] = []
        self.watch = Method(lambda: self._call("watch"))
        self.life = Method(lambda: self._call("life"))

    def _call(self, method: str) -> Call:
        call = Call(method, self.present)
        self.calls.append(call)
        return call

    def settle(self, call: Call) -> None:
        """Lets the call answer, or fail as it must."""
        from ray.exceptions import ActorDiedError, ActorUnavailableError

        if call.answer.done():
            return
        if self.is_dead:
            call.answer.set_exception(ActorDiedError())
        elif call.life < self.present:
            call.answer.set_exception(ActorUnavailableError("it is down", None))
        elif call.method == "life":
            call.answer.set_result(self.present)

    def break_connection(self, call: Call) -> None:
        from ray.exceptions import ActorUnavailableError

        if not call.answer.done():
            call.answer.set_exception(ActorUnavailableError("the connection broke", None))


@pytest.mark.parametrize("seed", range(60))
def test_every_death_is_reported_once_whatever_the_order_in_which_it_is_heard_of(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from actors.hosts.ray import watches as module
    from actors.hosts.ray.lives import ActorEntry

    monkeypatch.setattr(module, "LOOK_INTERVAL_S", 0.0)
    chance = random.Random(seed)
    actor = FakeActor()
    heard: list[bool] = []

    def look(handle: Any) -> ActorEntry:
        assert handle is actor
        return ActorEntry(actor.present, "DEAD" if actor.is_dead else "ALIVE", 0.0)

    watches = module.Watches(lambda _, __, is_final: heard.append(is_final), look)
    watches.add(MASTER, actor, chance.choice([0, None]))
    for _ in range(40):
        what = chance.choice(["die", "settle", "settle", "break", "hear", "watch again"])
        if what == "die":
            actor.present += 1
        elif what == "settle":
            actor.settle(chance.choice(actor.calls))
        elif what == "break":
            actor.break_connection(chance.choice(actor.calls))
        elif what == "hear":
            life = chance.randint(0, actor.present)
            known = len(heard)
            is_heard = watches.hear(MASTER, life)
            assert not (is_heard and life < known), "nothing of a life comes after the notice of its death"
            assert is_heard or life < actor.present, "the present life is heard"
        else:
            watches.add(MASTER, actor)
        assert len(heard) <= actor.present
    deaths = actor.present

    def settled() -> list[bool]:
        for call in list(actor.calls):
            actor.settle(call)
        return heard

    eventually(settled, lambda heard: len(heard) == deaths)
    actor.is_dead = True
    eventually(settled, lambda heard: heard[-1:] == [True])
    assert heard == [False] * deaths + [True]
    watches.add(MASTER, actor)
    eventually(settled, lambda heard: len(heard) == deaths + 2, 5.0)


def test_a_process_whose_node_was_lost_is_dead_as_soon_as_nothing_listens_there() -> None:
    from actors.hosts.ray.lives import ActorEntry
    from actors.hosts.ray.watches import Watches

    actor = FakeActor()
    del actor.life  # it does not restart
    listens = True
    heard: list[Any] = []

    def look(_handle: Any) -> ActorEntry:
        return ActorEntry(0, "ALIVE", 0.0, ("10.0.0.7", 4711))

    watches = Watches(lambda *notice: heard.append(notice), look, lambda _process: not listens)
    watches.add(MASTER, actor)
    actor.break_connection(actor.calls[0])
    eventually(lambda: len(actor.calls), lambda calls: calls == 2)
    assert heard == []
    listens = False
    actor.break_connection(actor.calls[1])
    eventually(lambda: heard, lambda heard: len(heard) == 1)
    assert heard == [(MASTER, "nothing listens where its process was", True)]


def test_nothing_is_heard_of_what_is_not_watched_any_more() -> None:
    from actors.hosts.ray.lives import ActorEntry
    from actors.hosts.ray.watches import Watches

    actor = FakeActor()
    heard: list[Any] = []
    watches = Watches(lambda address, _, __: heard.append(address), lambda _: ActorEntry(actor.present, "ALIVE", 0.0))
    watches.add(MASTER, actor)
    watches.remove(MASTER)
    actor.present = 1
    for call in list(actor.calls):
        actor.settle(call)
    assert watches.hear(MASTER, 1)
    assert heard == []
