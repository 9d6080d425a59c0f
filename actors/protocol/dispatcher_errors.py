"""Errors that a Dispatcher answers with when it cannot do what it is asked."""

from __future__ import annotations

from flinkray.errors import FlinkrayError
from flinkray.types.records import JobId


class UnknownJobError(FlinkrayError):
    """The Dispatcher has no job with this id."""

    origin = "user"

    def __init__(self, job_id: JobId, cluster_id: str) -> None:
        self.job_id = job_id
        self.cluster_id = cluster_id
        super().__init__(job_id, cluster_id)

    def _text(self) -> str:
        return (
            f"cluster {self.cluster_id!r} has no job {self.job_id!r}; `flinkray list` shows those that it has, without "
            "those that ended longer ago than jobstore.expiration-time"
        )


class DispatcherNotReadyError(FlinkrayError):
    """The Dispatcher cannot answer yet, as it reads or writes its store: ask again in a moment."""

    origin = "external"

    def __init__(self, cluster_id: str, what: str, failure: str = "") -> None:
        """
        Args:
            failure: why it has not come further, where the store fails.
        """
        self.cluster_id = cluster_id
        self.what = what
        self.failure = failure
        super().__init__(cluster_id, what, failure)

    def _text(self) -> str:
        reason = f": {self.failure}; see high-availability.storageDir" if self.failure else ""
        return f"the Dispatcher of cluster {self.cluster_id!r} {self.what}{reason}"


class EndpointSilentError(FlinkrayError, TimeoutError):
    """An endpoint that is there does not answer: its process hangs, or is starting on a busy machine."""

    origin = "external"
