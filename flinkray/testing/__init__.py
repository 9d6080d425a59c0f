"""Help for testing programs."""

from flinkray.testing.clock import ManualClock
from flinkray.testing.running import run_locally

__all__ = ["ManualClock", "run_locally"]
