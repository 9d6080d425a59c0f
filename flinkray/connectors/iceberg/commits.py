"""Adds files to a table, in a snapshot whose summary names the sink and checkpoint that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinkray.connectors.iceberg.data_files import IcebergFile, delete_file
from flinkray.connectors.iceberg.tables import IcebergPlace, load_table, open_catalog, opened, pyiceberg
from flinkray.connectors.lake.commits import CommitConflictError, LakeCommitter
from flinkray.errors import FlinkrayError

SINK_ID, CHECKPOINT_ID = "flinkray.sink-id", "flinkray.checkpoint-id"


class IcebergCommitter(LakeCommitter):
    """Commits to a table of Iceberg, as Flink's sink for it does."""

    def __init__(self, place: IcebergPlace) -> None:
        self.name = str(place)
        self._place = place
        self._catalog: Any = None
        self._table: Any = None

    def last_checkpoint(self, sink_id: str) -> int | None:
        if self._catalog is None:
            self._catalog = open_catalog(self._place)
        self._table = load_table(self._catalog, self._place)
        by_id = {each.snapshot_id: each for each in self._table.snapshots()}
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
            if summary.get(SINK_ID) == sink_id:
                return int(summary[CHECKPOINT_ID])
            snapshot = by_id.get(snapshot.parent_snapshot_id)
        return None

    def append(self, sink_id: str, checkpoint_id: int, files: Sequence[IcebergFile]) -> None:
        errors = pyiceberg("exceptions")
        self._check_table(files)
        # Left to itself the package repeats a commit that another overtakes without a look at what that one was.
        metadata = self._table.metadata
        properties = {**metadata.properties, "commit.retry.num-retries": "0"}
        self._table.metadata = metadata.model_copy(update={"properties": properties})
        marks = {SINK_ID: sink_id, CHECKPOINT_ID: str(checkpoint_id)}
        try:
            with (
                self._table.transaction() as transaction,
                transaction.update_snapshot(snapshot_properties=marks).merge_append() as snapshot,
            ):
                for file in files:
                    snapshot.append_data_file(_data_file(file))
        except (errors.CommitFailedException, errors.CommitStateUnknownException, OSError) as error:
            raise CommitConflictError(str(error)) from error

    def delete(self, files: Sequence[IcebergFile]) -> None:
        with opened(self._place) as table:
            for file in files:
                delete_file(table.io, file.path)

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()

    def _check_table(self, files: Sequence[IcebergFile]) -> None:
        now = self._table.spec().spec_id
        table_id = str(self._table.metadata.table_uuid)
        for file in files:
            if file.table_id not in ("", table_id):
                raise FlinkrayError(
                    f"{self._place}: the table has been replaced by another one while {file.path} was written for it; "
                    "bring it back (register its metadata file), or start the job anew without that checkpoint"
                )
            if file.spec_id != now:
                raise FlinkrayError(
                    f"{self._place}: its partitioning has been changed while {file.path} was written, and PyIceberg "
                    "adds files of the newest one only; change it back, stop the job with a savepoint, and change it "
                    "then"
                )


def _data_file(file: IcebergFile) -> Any:
    manifest = pyiceberg("manifest")
    found = manifest.DataFile.from_args(
        content=manifest.DataFileContent.DATA,
        file_path=file.path,
        file_format=manifest.FileFormat.PARQUET,
        partition=pyiceberg("typedef").Record(*file.partition),
        file_size_in_bytes=file.size,
        **file.metrics,
    )
    found.spec_id = file.spec_id
    return found
