"""Adds files to a table, with the transaction identifier of the sink and checkpoint that they are of."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from flinkray.connectors.delta.data_files import DeltaFile
from flinkray.connectors.delta.tables import DeltaPlace, deltalake, file_system, open_table
from flinkray.connectors.files.storage import explained
from flinkray.connectors.files.writing.commits import delete_file
from flinkray.connectors.lake.commits import CommitConflictError, LakeCommitter
from flinkray.errors import ConnectorError
from flinkray.extras import import_package

log = logging.getLogger(__name__)


class DeltaCommitter(LakeCommitter):
    """Commits to a table of Delta Lake.

    Args:
        compact_after: small files are compacted after so many commits; None: never.
    """

    def __init__(self, place: DeltaPlace, compact_after: int | None) -> None:
        self.name = place.uri
        self._place = place
        self._compact_after = compact_after
        self._commits = 0
        """Since files were compacted last, or the committer began."""
        self._table: Any = None

    def last_checkpoint(self, sink_id: str) -> int | None:
        if self._table is None:
            self._table = open_table(self._place)
        else:
            self._table.update_incremental()
        version: int | None = self._table.transaction_version(sink_id)
        return version

    def append(self, sink_id: str, checkpoint_id: int, files: Sequence[DeltaFile]) -> None:
        package = deltalake()
        add = import_package("deltalake.transaction", "a table of Delta Lake").AddAction
        try:
            # A commit that another one overtakes is repeated, unless that one had the same transaction identifier.
            self._table.create_write_transaction(
                [
                    add(each.path, each.size, each.partition_values, each.modified_ms, True, each.statistics)
                    for each in files
                ],
                mode="append",
                schema=self._table.schema(),
                partition_by=list(self._table.metadata().partition_columns),
                commit_properties=package.CommitProperties(
                    app_transactions=[package.Transaction(sink_id, checkpoint_id)]
                ),
            )
        except package.exceptions.CommitFailedError as error:
            raise CommitConflictError(str(error)) from error
        except package.exceptions.DeltaError as error:
            raise ConnectorError(
                f"the files of checkpoint {checkpoint_id} cannot be added to {self._place.uri}: {explained(error)}"
            ) from error
        self._commits += 1
        if self._compact_after is not None and self._commits >= self._compact_after:
            self._compact()

    def delete(self, files: Sequence[DeltaFile]) -> None:
        system = file_system(self._place)
        for each in files:
            delete_file(system, each.path)

    def _compact(self) -> None:
        self._commits = 0
        try:
            self._table.update_incremental()
            figures = self._table.optimize.compact()
            log.info("%s: %s", self._place.uri, figures)
        except deltalake().exceptions.DeltaError as error:  # the rows are there all the same
            log.warning("%s could not be compacted, which is tried again later: %s", self._place.uri, error)
