"""Ports of servers that examples and tests start."""

from __future__ import annotations

import socket

from examples.servers import free_port


def test_a_free_port_is_none_that_a_connection_or_a_worker_of_ray_may_get_meanwhile() -> None:
    for _ in range(100):
        port = free_port()
        assert 20_000 <= port < 32_768
        with socket.create_server(("127.0.0.1", port)):
            pass
