"""The clock by which splits and inputs turn idle."""

from __future__ import annotations

from actors.operators.contract.operator import OperatorContext


class ActivityClock:
    """Stands still while rows cannot be read, as their lack says nothing about who gives them then: while there is no
    room at the task's outputs, and, within `with`, while the operators behind are at work (FLINK-40234).

    What they do may run the task's mails, and so ask for the time within `with`, or enter it again.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._missed_ms = 0.0
        self._stopped_at_ms = 0.0
        self._depth = 0

    def now_ms(self) -> float:
        """A time that is only compared with others of this clock."""
        return self._stopped_at_ms if self._depth else self._running_ms()

    def __enter__(self) -> None:
        if not self._depth:
            self._stopped_at_ms = self._running_ms()
        self._depth += 1

    def __exit__(self, *exc_info: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._missed_ms += self._running_ms() - self._stopped_at_ms

    def _running_ms(self) -> float:
        return self._context.clock.monotonic_ms() - self._context.backpressured_ms - self._missed_ms
