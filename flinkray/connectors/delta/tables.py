"""Tables by their place."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyarrow import fs

from flinkray import filesystems
from flinkray.connectors.files.storage import explained
from flinkray.errors import ConnectorError, InvalidProgramError
from flinkray.extras import import_package


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


def create_table(place: DeltaPlace, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Creates the table, unless it is there.

    Raises:
        InvalidProgramError: it is there with other partitions, or no table can have these columns.
    """
    package = deltalake()
    try:
        wanted = package.Schema.from_arrow(schema)
        package.DeltaTable.create(
            place.uri,
            schema=wanted,
            mode="ignore",
            partition_by=list(partition_by),
            storage_options=place.options,
        )
    except (TypeError, ValueError, package.exceptions.DeltaError) as error:
        raise InvalidProgramError(f"cannot create a Delta table at {place.uri}: {error}") from error
    found = open_table(place).metadata().partition_columns
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
