"""Commits what was prepared, off the task's thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from actors.mailbox.task_mailbox import MailboxClosed
from actors.operators.contract.operator import OperatorContext, label_of
from actors.operators.sinks.commit_queue import CommitQueue, pause_ms
from actors.operators.sinks.committed import CommittedRows
from flinkray.batches.batch import Batch
from flinkray.connectors.committer import CommitOutcome, CommitRequest, Committer
from flinkray.errors import ConnectorError

log = logging.getLogger(__name__)

COMMITTABLES = "committables"
"""Name of the part with (checkpoint id, committables) of everything that is prepared and not yet committed."""
LARGEST_LAG = 3
"""How many complete checkpoints may wait for their commits before the task takes no more rows."""

_METRICS = {
    CommitOutcome.COMMITTED: "commits_succeeded",
    CommitOutcome.ALREADY_COMMITTED: "commits_already_done",
    CommitOutcome.RETRY_LATER: "commits_retried",
    CommitOutcome.CARRIED_OVER: "commits_carried_over",
    CommitOutcome.GIVEN_UP: "commits_given_up",
}


class Commits:
    """The committer of a sink's operator and what it has to do. All methods belong to the task's thread.

    Args:
        committer: called on other threads, one call at a time; also its `close`, once the last call has ended.
        fail: called with an error that a commit raised; raises it as one of the operator.
        on_committed: called with a checkpoint id when all that was prepared for it, and before, is committed.
        give: takes what has been committed, as rows for the operators behind; None: there are none.
    """

    def __init__(
        self,
        context: OperatorContext,
        committer: Committer,
        fail: Callable[[BaseException], None],
        on_committed: Callable[[int], None],
        give: Callable[[Batch], None] | None = None,
    ) -> None:
        self._context = context
        self._committer = committer
        self._fail = fail
        self._on_committed = on_committed
        self._give = give
        self._committed = CommittedRows(context.subtask_index, context.parallelism)
        self._queue = CommitQueue()
        self._is_busy = False
        """Whether an attempt runs, or the pause before the next one."""
        self._lock = threading.Lock()
        self._is_committing = False
        self._is_closed = False
        context.metrics.gauge_function("pending_committables", lambda: float(self._queue.pending))

    def add(self, checkpoint_id: int, committables: Sequence[Any]) -> None:
        self._queue.add(checkpoint_id, committables)

    def committables(self, checkpoint_id: int) -> Iterable[tuple[int, list[Any]]]:
        """All that is not known to be committed, or has not gone on, for the snapshot of a checkpoint: by checkpoint.

        Where it goes on, the checkpoint itself is always there, so that whoever starts from it gives its rows.
        """
        if self._give is None:
            return self._queue.committables()
        found: dict[int, list[Any]] = {checkpoint_id: []}
        for prepared_for, committable in self._committed.committables():
            found.setdefault(prepared_for, []).append(committable)
        for prepared_for, committables in self._queue.committables():
            found.setdefault(prepared_for, []).extend(committables)
        return sorted(found.items())

    def complete(self, checkpoint_id: int) -> None:
        """Begins to commit what was prepared for that checkpoint and all before it."""
        self._queue.complete(checkpoint_id)
        if self._give is not None:
            self._committed.complete(checkpoint_id)
        self._go_on()

    def restore(self, prepared: Sequence[tuple[int, Sequence[Any]]], checkpoint_id: int) -> None:
        """Commits what that checkpoint has under `COMMITTABLES`, and waits for it."""
        for prepared_for, committables in prepared:
            self._queue.add(prepared_for, committables)
        self.complete_and_wait(max([checkpoint_id, *(prepared_for for prepared_for, _ in prepared)]))

    def complete_and_wait(self, checkpoint_id: int) -> None:
        """Commits, and waits for it by running other mails of the task."""
        self.complete(checkpoint_id)
        while not self.is_settled:
            self._context.yield_to_mailbox()

    @property
    def is_settled(self) -> bool:
        """Whether nothing that is due is left."""
        return not self._is_busy

    @property
    def keeps_up(self) -> bool:
        return self._queue.due_checkpoints < LARGEST_LAG

    def close(self) -> None:
        """Closes the committer, as soon as the attempt that runs has ended."""
        with self._lock:
            self._is_closed = True
            if self._is_committing:
                return
        self._committer.close()

    def abort(self, committables: Sequence[Any]) -> None:
        """Drops what no checkpoint has, unless it is being committed just now."""
        with self._lock:
            if self._is_committing:
                return
        self._committer.abort(committables)

    # -- inside --------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._is_busy:
            return
        if self._give is not None:
            for rows in self._committed.take(self._queue.first_checkpoint):
                self._give(rows)
        requests = self._queue.next()
        if requests:
            self._is_busy = self._is_committing = True
            self._context.run_blocking(lambda: self._attempt(requests), lambda _, error: self._ended(requests, error))
        else:
            self._on_committed(self._queue.complete_checkpoint)

    def _attempt(self, requests: list[CommitRequest[Any]]) -> None:
        """On a thread of its own."""
        try:
            self._committer.commit(requests)
        finally:
            with self._lock:
                self._is_committing = False
                is_closed = self._is_closed
            if is_closed:
                self._committer.close()

    def _ended(self, requests: list[CommitRequest[Any]], error: BaseException | None) -> None:
        try:
            self._context.execute(lambda: self._settle(requests, error), "a commit has ended")
        except MailboxClosed:
            log.debug("%s has ended before its commit did", label_of(self._context))

    def _settle(self, requests: list[CommitRequest[Any]], error: BaseException | None) -> None:
        self._is_busy = False
        if error is not None:
            self._fail(error)
            return
        if self._give is not None:
            self._committed.settle(requests)
        for outcome, number in self._queue.settle(requests).items():
            self._context.metrics.count(_METRICS[outcome], number)
        self._tell(requests)
        put_off = [each for each in requests if each.outcome is CommitOutcome.RETRY_LATER]
        if not put_off:
            self._go_on()
            return
        self._is_busy = True
        pause = pause_ms(max(each.attempt for each in put_off) + 1)
        self._context.call_later(pause, self._try_again, "the next attempt of a commit", even_after_data=True)

    def _try_again(self) -> None:
        self._is_busy = False
        self._go_on()

    def _tell(self, requests: list[CommitRequest[Any]]) -> None:
        for each in requests:
            if each.outcome is CommitOutcome.GIVEN_UP:
                log.error(
                    "%s: a commit of checkpoint %d is given up, its rows are lost: %s",
                    label_of(self._context),
                    each.checkpoint_id,
                    each.reason,
                )
            elif each.outcome is CommitOutcome.RETRY_LATER:
                self._check_attempts(each)

    def _check_attempts(self, request: CommitRequest[Any]) -> None:
        if request.attempt < self._context.commit_retries:
            log.info("%s: a commit is put off: %s", label_of(self._context), request.reason)
            return
        self._fail(
            ConnectorError(
                f"a commit of checkpoint {request.checkpoint_id} was put off {request.attempt + 1} times, the last "
                f"time because {request.reason}; see to it that the system answers, or raise "
                "'sink.committer.retries'"
            )
        )
