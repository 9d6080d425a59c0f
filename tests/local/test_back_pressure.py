"""A slow sink slows its source down, and what is in flight stays within the credits."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from actors.hosts.local import LocalHost
from actors.network.connections.environment import NetworkStatistics
from actors.protocol.ports import Address, EndpointGone
from actors.task_slot import GetNetworkStatistics
from flinkray import Sink, SinkWriter
from flinkray.batches.batch import Batch
from flinkray.config.options import EXCLUSIVE_BUFFERS, FLOATING_BUFFERS
from tests.support.jobs import environment
from tests.support.waiting import eventually

ROWS = 10_000_000
CREDITS_PER_CHANNEL = EXCLUSIVE_BUFFERS.default + FLOATING_BUFFERS.default

# Shared with the sink's writers, which run in this process but are unpickled copies: they find it by name.
gate = threading.Event()
taken_lock = threading.Lock()
taken = [0, 0]


class GatedSink(Sink):
    """Takes 5 ms per batch, and nothing while the gate is shut."""

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return GatedWriter()


class GatedWriter(SinkWriter):
    def write(self, batch: Batch) -> None:
        assert gate.wait(60)
        threading.Event().wait(0.005)
        with taken_lock:
            taken[0] += batch.num_rows
            taken[1] += 1

    def close(self) -> None:
        pass


def network_of(host: LocalHost) -> list[NetworkStatistics]:
    """What every slot says of its exchange."""
    answers = []
    for address in host.addresses():
        if "/slot-" in address:
            try:
                answers.append(host.ask(Address(address), GetNetworkStatistics(), 10_000))
            except EndpointGone:
                continue  # the job has ended meanwhile
    return answers


def check_bounds(snapshots: list[NetworkStatistics]) -> int:
    """Holds every channel to its credits; gives the number of buffers that are in flight now."""
    in_flight = 0
    for snapshot in snapshots:
        assert snapshot.bytes_reserved <= snapshot.bytes_limit
        for channel in snapshot.channels:
            if channel.credit is not None:
                held = channel.credit.buffered + channel.credit.outstanding
                assert held <= CREDITS_PER_CHANNEL, channel
                in_flight += channel.credit.buffered
        for partition in snapshot.partitions:
            # The batch in hand is written to its end: one more buffer per channel than the limit at most.
            assert partition.queued_buffers <= partition.max_buffers + 4, partition
            in_flight += partition.queued_buffers
    return in_flight


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> LocalHost:
    """The host that the job will run on."""
    host = LocalHost()
    monkeypatch.setattr("actors.hosts.local.LocalHost", lambda: host)
    gate.clear()
    taken[:] = [0, 0]
    return host


def test_a_sink_that_stands_still_stops_its_source_and_both_go_on_afterwards(host: LocalHost) -> None:
    env = environment({"flinkray.batch.target-rows": 32_768, "metrics.fetcher.update-interval": 20})
    env.from_sequence(0, ROWS - 1).rebalance().sink_to(GatedSink())
    client = env.execute_async("slow sink")
    try:
        # The source runs ahead until nothing is free any more, and then stands still.
        made = eventually(lambda: stable_rows(client, host), lambda rows: rows > 0, deadline_s=30)
        assert made < ROWS / 2, "the source was not stopped"
        gate.set()
        while not client.status().is_terminal:
            check_bounds(network_of(host))
            threading.Event().wait(0.02)
        client.result(timeout=60)
        assert taken[0] == ROWS
    finally:
        gate.set()
        client.close()


def stable_rows(client: Any, host: LocalHost) -> int:
    """The rows that the source has made, or 0 while that number still grows."""
    before = client.progress().records_in
    threading.Event().wait(0.3)
    check_bounds(network_of(host))
    after: int = client.progress().records_in
    return after if after == before else 0
