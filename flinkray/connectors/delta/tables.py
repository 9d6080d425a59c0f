"""Tables by their place."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyarrow import fs

from flinkray import filesystems
from flinkray.connectors.files.storage import explained
from flinkray.errors import ConnectorError, InvalidProgramError
from flinkray.extras import import_package

_CONSTRAINT = "delta.constraints."
_COMPUTED = ("delta.invariants", "delta.generationExpression", "delta.identity.")
"""Beginnings of what a column says that other writers hold rows against, or fill."""


class DeltaPlace(Struct, frozen=True):
    """Where a table is.

    Args:
        uri: an absolute local path, or a URI.
        storage_options: keys, regions and the like, as the package takes them.
    """

    uri: str
    storage_options: tuple[tuple[str, str], ...] = ()

    @property
    def options(self) -> dict[str, str] | None:
        """The storage options as the package takes them."""
        return dict(self.storage_options) or None

    def __repr__(self) -> str:
        return self.uri  # the options may be secret


def place_of(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None) -> DeltaPlace:
    """The place, which means the same in every process."""
    text = os.fspath(uri)
    return DeltaPlace(
        text.rstrip("/") if filesystems.is_uri(text) else filesystems.absolute(text),
        tuple(sorted((storage_options or {}).items())),
    )


def deltalake() -> Any:
    """The package."""
    return import_package("deltalake", "a table of Delta Lake")


def open_table(place: DeltaPlace, version: int | None = None) -> Any:
    """The table as it is now, or was at a version.

    Raises:
        InvalidProgramError: there is none, or it is of a kind that cannot be read or written.
    """
    errors = import_package("deltalake.exceptions", "a table of Delta Lake")
    try:
        table = deltalake().DeltaTable(place.uri, version=version, storage_options=place.options)
    except errors.TableNotFoundError as error:
        raise InvalidProgramError(
            f"there is no Delta table at {place.uri}; create it, or let DeltaSink(schema=...) do so"
        ) from error
    except (errors.DeltaError, OSError) as error:
        if version is None or isinstance(error, OSError):
            raise ConnectorError(f"the Delta table at {place.uri} cannot be opened: {explained(error)}") from error
        raise InvalidProgramError(f"{place.uri} has no version {version} (any more): {error}") from error
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        raise InvalidProgramError(
            f"{place.uri} maps columns to other names in its files (delta.columnMapping.mode), which is neither read "
            "nor written here; copy it to a table without"
        )
    return table


class WatchedTable:
    """A table that others write as well, looked at again and again.

    The package reads only what a log has gained, and does not notice another table in the place of the one it knows.
    """

    def __init__(self, place: DeltaPlace) -> None:
        self._place = place
        self._system = file_system(place)
        self._table: Any = None
        self._seen: tuple[int | None, int | None] | None = None

    def now(self) -> Any:
        """The table as it is now."""
        if self._table is None or self._newest() != self._seen:
            self._table = open_table(self._place)
        else:
            self._table.update_incremental()
        self._seen = self._newest()
        return self._table

    def _newest(self) -> tuple[int | None, int | None]:
        """Time and size of the newest known version's file, which nobody changes; None: it is not there."""
        info = self._system.get_file_info(f"_delta_log/{self._table.version():020}.json")
        return info.mtime_ns, info.size


def table_of(place: DeltaPlace, version: int | None, timestamp: datetime | None) -> Any:
    """The table at a version, or as it was at a point in time; None of both: as it is now.

    Raises:
        InvalidProgramError: there is no such table or version.
    """
    table = open_table(place, version)
    if timestamp is not None:
        committed = partial(_committed_at, file_system(place))
        found = bisect_right(range(table.version() + 1), timestamp, key=committed) - 1
        if found < 0 or committed(found) == _GONE:
            raise InvalidProgramError(f"{place.uri} has no version of {timestamp.isoformat()} or before (any more)")
        table.load_as_version(found)
    return table


_GONE = datetime.min.replace(tzinfo=UTC)
"""When a version was committed whose file in the log is there no more."""


def _committed_at(system: fs.FileSystem, version: int) -> datetime:
    """When a version was committed, in milliseconds: by its file, or by what it says itself if that is earlier.

    A writer notes the time, which `history()` gives, before it writes the file; and files of a copy are younger.
    """
    name = f"_delta_log/{version:020}.json"
    written = system.get_file_info(name).mtime
    if written is None:
        return _GONE
    with system.open_input_stream(name) as stream:
        lines = [json.loads(line) for line in stream.read().splitlines() if b'"commitInfo"' in line]
    noted = [(line.get("commitInfo") or {}).get("timestamp") for line in lines]
    times = [datetime.fromtimestamp(each / 1_000, UTC) for each in noted if isinstance(each, int)]
    by_file: datetime = written.replace(microsecond=written.microsecond // 1_000 * 1_000)
    return min([by_file, *times])


def check_writable(table: Any, place: DeltaPlace) -> None:
    """Refuses a table whose rows a writer has to check or complete, or whose files would have no columns.

    Raises:
        InvalidProgramError: it is one; says what of it.
    """
    metadata = table.metadata()
    found = [f"{name} = {text!r}" for name, text in metadata.configuration.items() if name.startswith(_CONSTRAINT)]
    for field in _fields(json.loads(table.schema().to_json())):
        found += [
            f"{name} of column {field['name']!r}" for name in field.get("metadata", ()) if name.startswith(_COMPUTED)
        ]
    if found:
        raise InvalidProgramError(
            f"{place.uri} says what its rows have to be or get ({', '.join(found)}), which a sink does not see to; "
            "drop that, or write to a table without, from which another engine takes the rows"
        )
    _check_stored(len(table.schema().fields) - len(metadata.partition_columns), place)


def _check_stored(columns: int, place: DeltaPlace) -> None:
    if columns <= 0:
        raise InvalidProgramError(
            f"{place.uri} is partitioned by all of its columns, so that its files would have none and no rows; leave "
            "one out of partition_by="
        )


def _fields(kind: Any) -> Iterator[Any]:
    """The fields of a type in the log's JSON, and those in them."""
    if isinstance(kind, dict):
        if "name" in kind and "type" in kind:
            yield kind
        for part in kind.values():
            yield from _fields(part)
    elif isinstance(kind, list):
        for part in kind:
            yield from _fields(part)


def delta_schema(fields: Iterable[pa.Field]) -> Any:
    """Columns as the package has them.

    Raises:
        TypeError: no table can have one of them; names it.
    """
    package = deltalake()
    for field in fields:
        try:
            package.Schema.from_arrow(pa.schema([field]))
        except Exception as error:  # the package raises it as it is, with frames of its own in the text
            raise TypeError(
                f"column {field.name!r} is {field.type}, which a Delta table cannot have "
                f"({str(error).splitlines()[0]}); cast it, to text for example"
            ) from error
    return package.Schema.from_arrow(pa.schema(list(fields)))


def create_table(place: DeltaPlace, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Creates the table, unless it is there.

    Raises:
        InvalidProgramError: it is there with other partitions, or no table can have these columns.
    """
    package = deltalake()
    _check_stored(len(schema) - len(partition_by), place)
    try:
        wanted = delta_schema(schema)
        package.DeltaTable.create(
            place.uri,
            schema=wanted,
            mode="ignore",
            partition_by=list(partition_by),
            storage_options=place.options,
        )
    except (TypeError, ValueError, package.exceptions.DeltaError) as error:
        raise InvalidProgramError(f"cannot create a Delta table at {place.uri}: {error}") from error
    table = open_table(place)
    check_writable(table, place)
    found = table.metadata().partition_columns
    if list(found) != list(partition_by):
        raise InvalidProgramError(
            f"the table at {place.uri} is partitioned by {list(found)}, and partition_by= says {list(partition_by)}; "
            "leave that out, or write to another table"
        )


def columns_of(table: Any) -> pa.Schema:
    """The table's columns, with those that it is partitioned by."""
    return pa.schema(table.schema().to_arrow())


def file_system(place: DeltaPlace) -> fs.FileSystem:
    """The files of the table, by their paths in it."""
    if not filesystems.is_uri(place.uri):
        return fs.SubTreeFileSystem(place.uri, fs.LocalFileSystem())
    handler = import_package("deltalake.fs", "a table of Delta Lake").DeltaStorageHandler
    return fs.PyFileSystem(handler(place.uri, place.options))
