"""The release of all TaskExecutors at the end of a cluster, which its ResourceManager may not live to see."""

from __future__ import annotations

from collections.abc import Callable

from actors.protocol.control_messages import ReleaseAllTaskExecutors
from actors.protocol.main_thread import MainThread
from actors.protocol.ports import Address, EndpointContext

# A ResourceManager that was started again a moment ago does not know yet of all that it has to release.
RELEASE_RETRY_MS = 3_000.0
MAX_RELEASES = 5


class TaskExecutorsRelease:
    """Tells the ResourceManager to release all TaskExecutors, until it has. For the Dispatcher's thread."""

    def __init__(
        self,
        context: EndpointContext,
        main_thread: MainThread,
        resource_manager: Address,
        on_done: Callable[[], None],
    ) -> None:
        """
        Args:
            on_done: called when no TaskExecutor is left, or nobody is who could release them; perhaps several times.
        """
        self._context = context
        self._main_thread = main_thread
        self._resource_manager = resource_manager
        self._on_done = on_done
        self._has_begun = False
        self._repetitions = 0
        """How often the ResourceManager was told again, as it died or could not be reached."""
        self._died_at: float | None = None
        """When the ResourceManager died last."""

    def begin(self) -> None:
        """The cluster is at its end."""
        self._has_begun = True
        self._tell()

    def on_released(self) -> None:
        """The ResourceManager says that no TaskExecutor is left."""
        if not self._has_begun:
            return  # a life of this Dispatcher before has asked for it, and its client will ask this one
        if self._died_at is not None and self._context.clock.monotonic_ms() - self._died_at < RELEASE_RETRY_MS:
            self.tell_again()
        else:
            self._on_done()

    def on_resource_manager_died(self) -> None:
        """It is started again, and knows nothing of this."""
        self._died_at = self._context.clock.monotonic_ms()
        if self._has_begun:
            self.tell_again()

    def tell_again(self) -> None:
        """The ResourceManager may not have heard, or may not have known of all: it is told again in a moment."""
        self._repetitions += 1
        if self._repetitions > MAX_RELEASES:
            self._on_done()  # with the ResourceManager gone for good, nothing is left to release
        else:
            self._main_thread.run_later(RELEASE_RETRY_MS, self._tell)

    def _tell(self) -> None:
        self._context.tell(self._resource_manager, ReleaseAllTaskExecutors(self._context.address))
