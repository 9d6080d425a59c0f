"""Who has been silent for too long."""

from __future__ import annotations

from actors.protocol.ports import Address
from actors.scheduling.liveness.heartbeats import HeartbeatMonitor

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


def test_adding_a_peer_again_does_not_count_as_hearing_from_it() -> None:
    monitor = HeartbeatMonitor(50)
    monitor.add(PEER, now=0)
    monitor.add(PEER, now=40)
    assert monitor.take_silent(now=50) == [PEER]
