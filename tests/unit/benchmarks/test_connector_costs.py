"""What is measured of connectors, as far as it needs no server."""

from __future__ import annotations

import pytest

from benchmarks.connectors.command import Cost
from benchmarks.connectors.kafka import messages
from benchmarks.connectors.way import orders
from benchmarks.connectors.ways import WAYS


def test_what_is_added_is_a_share_of_the_clients_cost() -> None:
    assert Cost("way", 10, 1, 2.0, 2.5, 1.0, 1.0).added == pytest.approx(0.25)


SERVERS = ("kafka", "postgres", "redis", "nats")


def test_all_ways_carry_the_same_rows() -> None:
    assert set(WAYS) == {way.name for way in WAYS.values()}
    assert all(way.work and way.client_is and way.server in SERVERS for way in WAYS.values())
    assert messages(2)[1] == b'{"id": 1, "customer": 8962, "price": 0.25, "word": "green"}'
    assert orders(2).to_pylist()[1] == {"id": 1, "customer": 8962, "price": 0.25, "word": "green"}
