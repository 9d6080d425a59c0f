"""A clock that tests move."""

from __future__ import annotations

from flinkray.time.durations import Duration, to_millis


class ManualClock:
    """Stands still until it is told; processing time, in epoch milliseconds.

    ```python
    clock = ManualClock(now_ms=1_700_000_000_000)
    with KeyedHarness(MyFunction(), key="user", clock=clock) as harness:
        harness.advance_time("10 s")
    assert clock.now_ms() == 1_700_000_010_000
    ```

    Timers of a harness fire in its `advance_time`, which moves its clock; moving the clock itself fires none.
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        """The time that the clock shows, in epoch milliseconds."""
        return self.now

    def monotonic_ms(self) -> float:
        """The same as a clock that never goes back."""
        return float(self.now)

    def advance(self, duration: Duration) -> None:
        """Moves the clock on by milliseconds, a timedelta, or a text such as "10 s"."""
        self.now += to_millis(duration, "duration")
