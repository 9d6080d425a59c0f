"""How JobMasters and TaskExecutors register at a ResourceManager, which may be replaced (Flink's RetryingRegistration).

Times are milliseconds of a clock that never goes back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from actors.protocol.main_thread import MainThread
from actors.protocol.ports import Address, EndpointContext, SessionId

log = logging.getLogger(__name__)

# How often a component that the ResourceManager has not answered yet says again that it is there.
REGISTRATION_RETRY_MS = 1_000.0


class Registration:
    """Where a component stands: it registers, is answered, loses the ResourceManager, and registers again.

    Not thread-safe.
    """

    def __init__(self, now: float) -> None:
        self.number = 1
        """Number of the registration that is to be answered; grows whenever the ResourceManager is lost."""
        self.session: SessionId | None = None
        """The ResourceManager's session; None until it has answered."""
        self._since = now

    def lose(self, now: float) -> None:
        """The ResourceManager is gone or does not listen; answers to what was sent so far mean nothing any more."""
        if self.session is not None:
            self._since = now
        self.session = None
        self.number += 1

    def answer(self, session: SessionId, number: int) -> bool:
        """Whether this is an answer to the newest registration, so that it counts."""
        if number == self.number:
            self.session = session
        return number == self.number

    def waited_ms(self, now: float) -> float:
        """How long there has been no ResourceManager."""
        return 0.0 if self.session is not None else now - self._since


class RetryingRegistration:
    """A registration that is repeated until it is answered. For the endpoint's thread.

    A ResourceManager that neither answers nor dies hangs, and is started again: the Dispatcher, which sees to that too,
    may hang as well.
    """

    def __init__(
        self,
        context: EndpointContext,
        main_thread: MainThread,
        resource_manager: Address,
        timeout_ms: float,
        register: Callable[[int], bool],
    ) -> None:
        """
        Args:
            timeout_ms: after so much silence the ResourceManager hangs.
            register: registers, with the number of the registration; gives False where that is not wanted any more.
        """
        self._context = context
        self._clock = context.clock
        self._main_thread = main_thread
        self._resource_manager = resource_manager
        self._timeout_ms = timeout_ms
        self._register = register
        self._registration = Registration(self._clock.monotonic_ms())
        self._unanswered_since = self._clock.monotonic_ms()

    @property
    def session(self) -> SessionId | None:
        """The session of the ResourceManager that it is registered at; None while it is not."""
        return self._registration.session

    @property
    def number(self) -> int:
        """Number of the registration that is to be answered, or was."""
        return self._registration.number

    @property
    def waited_ms(self) -> float:
        """How long there has been no ResourceManager."""
        return self._registration.waited_ms(self._clock.monotonic_ms())

    def begin(self) -> None:
        """Registers now, and again until `answer` has come."""
        self._attempt(self.number)

    def begin_anew(self) -> None:
        """The ResourceManager is gone or does not listen: registers under a new number."""
        self._registration.lose(self._clock.monotonic_ms())
        self._unanswered_since = self._clock.monotonic_ms()
        self.begin()

    def answer(self, session: SessionId, number: int | None = None) -> bool:
        """Whether the ResourceManager's answer counts.

        Args:
            number: of the registration that is answered; None: the newest.
        """
        return self._registration.answer(session, self.number if number is None else number)

    def _attempt(self, number: int) -> None:
        is_open = self._registration.session is None and number == self.number
        if is_open and self._register(number):
            self._see_to_resource_manager()
            self._main_thread.run_later(REGISTRATION_RETRY_MS, partial(self._attempt, number))

    def _see_to_resource_manager(self) -> None:
        now = self._clock.monotonic_ms()
        if now - self._unanswered_since >= self._timeout_ms:
            self._unanswered_since = now
            log.warning("%s does not answer %s, and is started again", self._resource_manager, self._context.address)
            self._context.restart(self._resource_manager)
