"""The last failures of a job, for those who ask what happened to it (Flink's exception history)."""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from actors.protocol.failure_records import FailureRecord, TaskFailure

# Flink's web.exception-history-size; as many concurrent failures are kept with each.
HISTORY_SIZE = 16


class FailureHistory:
    """The last failures, each with those that came before it was dealt with. Not thread-safe."""

    def __init__(self) -> None:
        self._records: deque[FailureRecord] = deque(maxlen=HISTORY_SIZE)

    @property
    def records(self) -> tuple[FailureRecord, ...]:
        """The failures, oldest first."""
        return tuple(self._records)

    def add(self, root: TaskFailure, decision: str) -> None:
        """Adds a failure that begins a restart, or ends the job."""
        self._records.append(FailureRecord(root, decision))

    def add_concurrent(self, failure: TaskFailure) -> bool:
        """Adds what failed before the last failure was dealt with; gives whether it is the reason for that one.

        Reports of different slots overtake each other: a consumer's complaint that its producer is gone may come
        before the producer's own error, which then takes its place.
        """
        last = self._records[-1]
        is_reason = last.root.error.is_consequence and not failure.error.is_consequence
        root, other = (failure, last.root) if is_reason else (last.root, failure)
        concurrent = (*last.concurrent, other)[:HISTORY_SIZE]
        self._records[-1] = replace(last, root=root, concurrent=concurrent)
        return is_reason
