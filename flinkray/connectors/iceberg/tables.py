"""Tables by their name in a catalog."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from flinkray.connectors.files.storage import explained
from flinkray.connectors.iceberg.partitions import partitions_of, wanted_partitions
from flinkray.connectors.lake.columns import plain
from flinkray.errors import ConnectorError, InvalidProgramError
from flinkray.extras import import_package

_SUBJECT = "a table of Iceberg"


class IcebergPlace(Struct, frozen=True):
    """Where a table is.

    Args:
        table: its name with that of its namespace: "shop.orders".
        catalog: the catalog's name.
        properties: of the catalog, as PyIceberg takes them: its type, uri and warehouse, keys and the like.
    """

    table: str
    catalog: str
    properties: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"{self.catalog}.{self.table}"  # the properties may be secret


def place_of(table: str, catalog: Mapping[str, str], catalog_name: str, user: str) -> IcebergPlace:
    """The place.

    Args:
        user: the class that is asked for it, for errors.
    """
    namespace, _, name = table.rpartition(".")
    if not namespace or not name:
        raise InvalidProgramError(f"{user} needs the table's name with its namespace, as 'shop.orders', not {table!r}")
    return IcebergPlace(table, catalog_name, tuple(sorted(catalog.items())))


def pyiceberg(module: str) -> Any:
    """A module of PyIceberg."""
    return import_package(f"pyiceberg.{module}", _SUBJECT)


def unsupported_type() -> type[Exception]:
    """What is raised for a column of a type that no table has."""
    found: type[Exception] = pyiceberg("io.pyarrow").UnsupportedPyArrowTypeException
    return found


def open_catalog(place: IcebergPlace) -> Any:
    """The catalog, which has to be closed.

    Raises:
        ConnectorError: it cannot be reached, or there is none with these properties.
    """
    load = pyiceberg("catalog").load_catalog
    try:
        return load(place.catalog, **dict(place.properties))
    except Exception as error:  # of whatever the catalog is kept in
        raise ConnectorError(
            f"catalog {place.catalog!r} of Iceberg cannot be opened: {explained(error)}; its properties are given as "
            "catalog=, or are in PyIceberg's configuration"
        ) from error


def load_table(catalog: Any, place: IcebergPlace) -> Any:
    """The table as it is now.

    Raises:
        InvalidProgramError: there is none.
    """
    errors = pyiceberg("exceptions")
    try:
        return catalog.load_table(place.table)
    except (errors.NoSuchTableError, errors.NoSuchNamespaceError) as error:
        raise InvalidProgramError(
            f"there is no Iceberg table {place}; create it, or let IcebergSink(schema=...) do so"
        ) from error
    except errors.RESTError as error:
        raise ConnectorError(f"the catalog does not give the table {place}: {explained(error)}") from error


@contextlib.contextmanager
def opened(place: IcebergPlace) -> Iterator[Any]:
    """The table, while its catalog is open; its metadata and files can be used for longer."""
    with contextlib.closing(open_catalog(place)) as catalog:
        yield load_table(catalog, place)


def create_table(place: IcebergPlace, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Creates the table and its namespace, unless they are there.

    Raises:
        InvalidProgramError: it is there with other partitions, or no table can have these columns.
    """
    errors = pyiceberg("exceptions")
    partitions = wanted_partitions(partition_by, schema.names)
    with contextlib.closing(open_catalog(place)) as catalog:
        if not catalog.table_exists(place.table):
            catalog.create_namespace_if_not_exists(place.table.rpartition(".")[0])
            try:
                creation = catalog.create_table_transaction(place.table, schema)
                with creation, creation.update_spec() as spec:
                    for column, transform in partitions:
                        spec.add_field(column, pyiceberg("transforms").parse_transform(transform))
            except (errors.TableAlreadyExistsError, errors.CommitFailedException):
                pass  # somebody else was faster
            except (TypeError, ValueError, errors.ValidationError, unsupported_type()) as error:
                raise InvalidProgramError(f"cannot create the Iceberg table {place}: {error}") from error
        found = partitions_of(load_table(catalog, place).metadata)
    if found != partitions:
        raise InvalidProgramError(
            f"the table {place} is partitioned by {[f'{transform}({column})' for column, transform in found]}, and "
            f"partition_by= says {list(partition_by)}; "
            "leave that out, or write to another table"
        )


def columns_of(schema: Any) -> pa.Schema:
    """The columns of an Iceberg schema, with the ids by which its files know them."""
    found = pyiceberg("io.pyarrow").schema_to_pyarrow(schema, include_field_ids=True)
    return pa.schema([field.with_type(plain(field.type)) for field in found])
