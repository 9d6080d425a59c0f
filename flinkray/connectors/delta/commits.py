"""Adds files to a table, with the transaction identifier of the sink and checkpoint that they are of."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from flinkray.connectors.delta.data_files import DeltaFile
from flinkray.connectors.delta.tables import DeltaPlace, WatchedTable, columns_of, deltalake, file_system
from flinkray.connectors.files.storage import explained
from flinkray.connectors.files.writing.commits import delete_file
from flinkray.connectors.lake.commits import CommitConflictError, LakeCommitter
from flinkray.errors import ConnectorError, FlinkrayError
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
        self._watched: WatchedTable | None = None
        self._table: Any = None

    def last_checkpoint(self, sink_id: str) -> int | None:
        if self._watched is None:
            self._watched = WatchedTable(self._place)
        self._table = self._watched.now()
        version: int | None = self._table.transaction_version(sink_id)
        return version

    def append(self, sink_id: str, checkpoint_id: int, files: Sequence[DeltaFile]) -> None:
        package = deltalake()
        add = import_package("deltalake.transaction", "a table of Delta Lake").AddAction
        check_still_fits(files, self._table, self._place)
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


def check_still_fits(files: Sequence[DeltaFile], table: Any, place: DeltaPlace) -> None:
    """Refuses files of a table that others have made another one of since they were written: the log would take them,
    with rows that lack values or that nobody can read.

    Raises:
        FlinkrayError: there is such a file.
    """
    metadata = table.metadata()
    partitions = set(metadata.partition_columns)
    types = {field.name: str(field.type) for field in columns_of(table)}
    for file in files:
        lost = [f"{name} ({kind})" for name, kind in file.columns if types.get(name) != kind]
        if file.table_id not in ("", metadata.id):
            what = "the table has been replaced by another one"
        elif set(file.partition_values) != partitions:
            what = f"its partitioning has been changed, from {sorted(file.partition_values)} to {sorted(partitions)},"
        elif lost:
            what = f"columns have been taken from it or changed, of {', '.join(lost)},"
        else:
            continue
        raise FlinkrayError(
            f"{place.uri}: {what} while {file.path} was written for it; bring back the table as it was (restore), stop "
            "the job with a savepoint, and change it then"
        )
