"""One commit to a table per checkpoint, by which the table knows that it has that checkpoint's files."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from flinkray.connectors.committer import CommitRequest, Committer
from flinkray.connectors.files.storage import explained


class LakeFiles(Struct, frozen=True):
    """The complete files of one subtask and checkpoint, as the table's format describes them; and by which name the
    table knows the sink that wrote them."""

    sink_id: str
    files: tuple[Any, ...]


class CommitConflictError(Exception):
    """Nothing was committed, or nobody knows whether it was, since others commit too: the next attempt looks."""


class LakeCommitter(Committer):
    """Adds files to a table, those of all subtasks and one checkpoint in one commit, which leaves a mark in the table.

    A sink's checkpoints are committed in order, so a mark says that all up to it are there. After a failure another
    committer looks for it; and where one that was given up commits at the same time, one of the two has a conflict,
    and finds the other's mark when it tries again.
    """

    name: str
    """Of the table, for errors."""

    @abstractmethod
    def last_checkpoint(self, sink_id: str) -> int | None:
        """The newest checkpoint of that sink whose files the table has, as it is now; None: none."""

    @abstractmethod
    def append(self, sink_id: str, checkpoint_id: int, files: Sequence[Any]) -> None:
        """Adds files to the table as `last_checkpoint` saw it, or to one that others have added to since, and marks it.

        Raises:
            CommitConflictError: another has committed what this one must not go over; above all a mark of this sink.
        """

    @abstractmethod
    def delete(self, files: Sequence[Any]) -> None:
        """Deletes files that the table does not have."""

    def commit(self, requests: Sequence[CommitRequest[LakeFiles]]) -> None:
        by_sink: dict[str, list[CommitRequest[LakeFiles]]] = defaultdict(list)
        for request in requests:
            by_sink[request.committable.sink_id].append(request)
        for sink_id, group in by_sink.items():
            self._commit(sink_id, group)

    def abort(self, committables: Sequence[LakeFiles]) -> None:
        self.delete([file for each in committables for file in each.files])

    def _commit(self, sink_id: str, requests: list[CommitRequest[LakeFiles]]) -> None:
        checkpoint_id = requests[0].checkpoint_id
        try:
            last = self.last_checkpoint(sink_id)
            if last is None or last < checkpoint_id:
                files = [file for request in requests for file in request.committable.files]
                self.append(sink_id, checkpoint_id, files)
                return
        except (CommitConflictError, OSError) as error:
            for request in requests:
                request.retry_later(f"{self.name} does not take the files: {explained(error)}")
            return
        for request in requests:
            request.already_committed()
