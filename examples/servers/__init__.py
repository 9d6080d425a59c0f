"""Servers of one process for examples and tests: each on free ports, with its data in a directory of its own."""

from __future__ import annotations

import contextlib
import socket


class ServerUnavailable(Exception):
    """The machine cannot have the server; says what it lacks."""


def free_port() -> int:
    """A port that nobody listens at."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
