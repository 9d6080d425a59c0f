"""Servers of one process for examples and tests: each on free ports, with its data in a directory of its own."""

from __future__ import annotations

import contextlib
import secrets
import socket


class ServerUnavailable(Exception):
    """The machine cannot have the server; says what it lacks."""


def free_port() -> int:
    """A port that nobody listens at, and that nobody else gets before the server has it, or while that is started
    again: systems give connections those from 32768 on, Ray its workers those up to 20000."""
    while True:
        port = 24_000 + secrets.randbelow(8_000)
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
