"""Where a component stands with a ResourceManager that may be replaced. Times are milliseconds, never going back."""

from __future__ import annotations

from actors.protocol.data_messages import SessionId


class Registration:
    """Registers, is answered, loses the ResourceManager, and registers again. Not thread-safe."""

    def __init__(self, now: float) -> None:
        self.number = 1
        """Of the attempt to be answered; grows whenever the ResourceManager is lost."""
        self.session: SessionId | None = None
        """The ResourceManager's; None until it has answered."""
        self._since = now

    def lose(self, now: float) -> None:
        """The ResourceManager is gone or does not listen; answers to what was sent so far mean nothing any more."""
        if self.session is not None:
            self._since = now
        self.session = None
        self.number += 1

    def answer(self, session: SessionId, number: int) -> bool:
        """Whether the answer is one to the newest attempt, so that it counts."""
        if number == self.number:
            self.session = session
        return number == self.number

    def waited_ms(self, now: float) -> float:
        """How long there has been no ResourceManager."""
        return 0.0 if self.session is not None else now - self._since
