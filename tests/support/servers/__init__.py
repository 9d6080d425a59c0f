"""Real servers for tests: those of the examples, Redis and NATS, each started once and ended with the tests.

A machine that cannot have one leaves the tests that need it out, and says why; in CI that is a failure.
"""

from __future__ import annotations

import os


def is_ci() -> bool:
    """Whether a server that cannot be had is a failure."""
    return bool(os.environ.get("CI"))
