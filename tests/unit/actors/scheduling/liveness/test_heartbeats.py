"""Who has been silent for too long."""

from __future__ import annotations

from actors.protocol.control_messages import HeartbeatAnswered, HeartbeatRequested
from actors.protocol.ports import Address, SessionId
from actors.scheduling.liveness.heartbeats import HeartbeatMonitor, Heartbeats
from tests.support.main_thread import SteppedContext

PEER = Address("c/te-1")


def test_a_peer_is_lost_when_it_was_silent_for_the_whole_timeout() -> None:
    monitor = HeartbeatMonitor(50)
    monitor.add(PEER, now=0)
    monitor.hear(PEER, now=40)
    assert monitor.take_silent(now=89) == []
    assert monitor.take_silent(now=90) == [PEER]


def test_a_lost_peer_is_reported_once_and_stays_lost() -> None:
    monitor = HeartbeatMonitor(50)
    monitor.add(PEER, now=0)
    assert monitor.take_silent(now=50) == [PEER]
    monitor.hear(PEER, now=51)
    assert monitor.take_silent(now=500) == []


def test_silence_does_not_count_while_the_one_that_listens_hung_itself() -> None:
    monitor = HeartbeatMonitor(50)
    monitor.add(PEER, now=0)
    assert monitor.take_silent(now=10) == []
    assert monitor.take_silent(now=500) == []
    assert monitor.take_silent(now=549) == []
    assert monitor.take_silent(now=550) == [PEER]


def test_a_monitor_that_is_always_late_finds_silent_peers_all_the_same() -> None:
    monitor = HeartbeatMonitor(50)
    monitor.add(PEER, now=0)
    assert [monitor.take_silent(now) for now in (0, 100, 200)] == [[], [], [PEER]]


def test_a_peer_that_is_being_started_may_take_longer_until_it_is_first_heard_and_no_longer_after_that() -> None:
    monitor = HeartbeatMonitor(50)
    monitor.add(PEER, now=0, within_ms=200)
    assert [monitor.take_silent(now) for now in range(0, 200, 40)] == [[]] * 5
    monitor.hear(PEER, now=190)
    assert [monitor.take_silent(now) for now in (200, 239, 240)] == [[], [], [PEER]]
    monitor.add(PEER, now=300, within_ms=200)
    assert [monitor.take_silent(now) for now in range(340, 520, 40)] == [[], [], [], [], [PEER]]


def test_adding_a_peer_again_does_not_count_as_hearing_from_it() -> None:
    monitor = HeartbeatMonitor(50)
    monitor.add(PEER, now=0)
    monitor.add(PEER, now=40)
    assert monitor.take_silent(now=50) == [PEER]


def test_when_a_peer_was_heard_is_never_later_than_now() -> None:
    monitor = HeartbeatMonitor(50)
    monitor.add(PEER, now=0, within_ms=200)
    assert monitor.heard_at(PEER, now=10) == 10, "it is being started"
    monitor.hear(PEER, now=20)
    assert monitor.heard_at(PEER, now=45) == 20
    assert monitor.heard_at(Address("c/other"), now=45) == 45


def test_peers_are_asked_at_once_and_in_each_round_except_those_that_ask_themselves() -> None:
    context, session = SteppedContext(), SessionId("mine")
    silent: list[Address] = []
    other, asking = Address("c/dispatcher"), Address("c/resource-manager")
    heartbeats = Heartbeats(context, context.main_thread, silent.append, session=session, also_asked=(other,))  # type: ignore[arg-type]
    heartbeats.start(10, 50)
    heartbeats.monitor(PEER)
    heartbeats.monitor(asking, asks_itself=True)
    context.advance(10)
    question = HeartbeatRequested(session, context.address)
    assert context.told == [(PEER, question), (other, question), (PEER, question)]
    context.advance(30)
    heartbeats.on_message(HeartbeatAnswered(session, PEER))
    context.advance(10)
    assert silent == [asking]
    heartbeats.stop()
    context.advance(500)
    assert silent == [asking]


def test_a_question_is_answered_and_counts_as_a_sign_of_life() -> None:
    context = SteppedContext()
    silent: list[Address] = []
    heartbeats = Heartbeats(context, context.main_thread, silent.append)  # type: ignore[arg-type]
    heartbeats.start(10, 50)
    heartbeats.monitor(PEER)
    context.advance(40)
    heartbeats.on_message(HeartbeatRequested(SessionId("its own"), PEER))
    assert context.told == [(PEER, HeartbeatAnswered(SessionId("its own"), context.address))]
    context.advance(40)
    assert silent == []
    context.advance(10)
    assert silent == [PEER]
