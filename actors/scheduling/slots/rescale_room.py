"""The slots that a job will need beyond those that it has once it is rescaled: asked for while it goes on as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from actors.protocol.resources import ClusterOverview, SlotRequest
from actors.scheduling.slots.slot_pool import SlotPool
from flinkray.errors import ErrorInfo, RescaleError


class RescaleRoom:
    """Keeps requests of its own open in the job's pool until they are served, so that nothing stops for a rescale that
    could not go on afterwards. Not thread-safe. Times are epoch milliseconds."""

    def __init__(self, pool: SlotPool, timeout_ms: int) -> None:
        """
        Args:
            timeout_ms: after this the slots will not come any more.
        """
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._requests: tuple[SlotRequest, ...] = ()
        self._since = 0
        self.is_asked = False
        """What was asked for last is still wanted."""
        self.error: ErrorInfo | None = None
        """Why the slots that were asked for last do not come."""

    def ask(self, needed: Sequence[SlotRequest], now: int) -> None:
        """Asks for those of the slots for which there is none of the job's that it could have instead.

        Args:
            needed: all that the job will have.
        """
        self.close(now)
        there = Counter(request.profile for request in self._pool.requests())
        there.subtract(request.profile for request in needed if self._pool.is_open(request.label))
        missing = []
        for request in (each for each in needed if not self._pool.is_open(each.label)):
            if there[request.profile] > 0:
                there[request.profile] -= 1
            else:
                missing.append(request)
        self._requests = tuple(missing)
        self._since = now
        self.is_asked = True
        for request in missing:
            self._pool.open(request)

    @property
    def missing(self) -> int:
        """How many of the slots are not there yet."""
        return sum(not self._pool.is_served(request.label) for request in self._requests)

    def wait_anew(self, now: int) -> None:
        """A slot that was there is lost: the time for it begins."""
        self._since = now

    def is_late(self, now: int) -> bool:
        return self.missing > 0 and now - self._since >= self._timeout_ms

    def refuse(self, overview: ClusterOverview | None, reason: str, now: int) -> None:
        """The slots will not come.

        Args:
            overview: what the cluster has; None where nobody could be asked.
        """
        profiles = Counter(each.profile for each in self._requests if not self._pool.is_served(each.label))
        missing = " and ".join(f"{count} more slot(s) of {profile}" for profile, count in profiles.items())
        has = "unknown, as its ResourceManager does not answer" if overview is None else str(overview)
        self.close(now)
        self.error = ErrorInfo.of(RescaleError(f"it would need {missing}: {reason}. The cluster has: {has}"))

    def close(self, now: int) -> None:
        """The slots are not needed as these any more: they serve what else the job asks for, or become idle."""
        for request in self._requests:
            self._pool.close(request.label, now)
        self._requests = ()
        self.is_asked = False
        self.error = None
