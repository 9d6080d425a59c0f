"""Real servers for tests: each on free ports, in a directory of its own, started once and ended with the tests.

A machine that cannot have one leaves the tests that need it out, and says why; in CI that is a failure.
"""

from __future__ import annotations

import contextlib
import os
import socket


class ServerUnavailable(Exception):
    """The machine cannot have the server; says what it lacks."""


def free_port() -> int:
    """A port that nobody listens at."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_ci() -> bool:
    """Whether a server that cannot be had is a failure."""
    return bool(os.environ.get("CI"))
