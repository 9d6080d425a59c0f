"""Tables of Delta Lake and Iceberg in a directory, as their own packages see them."""

from __future__ import annotations

import importlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkray import DeltaSink, DeltaSource, IcebergSink, IcebergSource, Sink, Source
from tests.support.servers import is_ci


class LakeTable(ABC):
    """A table that need not be there yet."""

    package: str

    def __init__(self, directory: Path) -> None:
        try:
            importlib.import_module(self.package)
        except ImportError as missing:
            if is_ci():
                raise
            pytest.skip(f"needs a package that is not installed: {missing}")
        self.directory = directory

    @abstractmethod
    def sink(self, **arguments: Any) -> Sink:
        """A sink for the table."""

    @abstractmethod
    def source(self, **arguments: Any) -> Source:
        """A source of the table."""

    @abstractmethod
    def read(self) -> pa.Table:
        """All its rows."""

    @abstractmethod
    def append(self, rows: pa.Table) -> None:
        """Another writer adds rows."""

    @abstractmethod
    def delete(self, condition: str) -> None:
        """Another writer deletes rows."""

    @abstractmethod
    def replace(self, rows: pa.Table | None) -> None:
        """Deletes the table, and makes another one with these rows in its place; None: with the same columns."""

    @property
    @abstractmethod
    def versions(self) -> list[int]:
        """Its versions or snapshots with rows, the oldest first."""

    @property
    @abstractmethod
    def changes(self) -> int:
        """How often it has been changed, of which the directory tells."""

    @property
    def data_files(self) -> list[Path]:
        """All data files in its directory, whether the table has them or not."""
        return sorted(self.directory.rglob("*.parquet"))

    def __getstate__(self) -> dict[str, Any]:
        return {"directory": self.directory}  # functions of programs may refer to it

    def close(self) -> None: ...


class DeltaTable(LakeTable):
    package = "deltalake"

    @property
    def uri(self) -> str:
        return str(self.directory / "table")

    def sink(self, **arguments: Any) -> DeltaSink:
        return DeltaSink(self.uri, **arguments)

    def source(self, **arguments: Any) -> DeltaSource:
        return DeltaSource(self.uri, **arguments)

    @property
    def opened(self) -> Any:
        import deltalake

        return deltalake.DeltaTable(self.uri)

    def read(self) -> pa.Table:
        return self.opened.to_pyarrow_table()

    def append(self, rows: pa.Table) -> None:
        import deltalake

        deltalake.write_deltalake(self.uri, rows, mode="append")

    def delete(self, condition: str) -> None:
        self.opened.delete(condition)

    def replace(self, rows: pa.Table | None) -> None:
        made = self.read().slice(0, 0) if rows is None else rows
        shutil.rmtree(self.uri)
        self.append(made)

    @property
    def versions(self) -> list[int]:
        return list(range(1, self.opened.version() + 1))

    @property
    def changes(self) -> int:
        return len(list((self.directory / "table" / "_delta_log").glob("*.json")))


class IcebergTable(LakeTable):
    package = "pyiceberg"

    @property
    def catalog(self) -> dict[str, str]:
        """The properties of its catalog."""
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.directory}/catalog.db",
            "warehouse": f"file://{self.directory}/warehouse",
        }

    def sink(self, **arguments: Any) -> IcebergSink:
        return IcebergSink("shop.orders", self.catalog, **arguments)

    def source(self, **arguments: Any) -> IcebergSource:
        return IcebergSource("shop.orders", self.catalog, **arguments)

    @cached_property
    def _open_catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("default", **self.catalog)

    @property
    def opened(self) -> Any:
        return self._open_catalog.load_table("shop.orders")

    def read(self) -> pa.Table:
        return self.opened.scan().to_arrow()

    def append(self, rows: pa.Table) -> None:
        self.opened.append(rows)

    def delete(self, condition: str) -> None:
        self.opened.delete(condition)

    def replace(self, rows: pa.Table | None) -> None:
        made = self.read() if rows is None else rows
        self._open_catalog.drop_table("shop.orders")
        self._open_catalog.create_table("shop.orders", made.schema)
        if rows is not None:
            self.append(rows)

    @property
    def versions(self) -> list[int]:
        return [each.snapshot_id for each in self.opened.snapshots()]

    @property
    def changes(self) -> int:
        return len(list(self.directory.rglob("*.metadata.json")))

    def close(self) -> None:
        if "_open_catalog" in self.__dict__:
            self._open_catalog.close()


TABLES: dict[str, type[LakeTable]] = {"delta": DeltaTable, "iceberg": IcebergTable}


def tuples(rows: pa.Table, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of some columns, sorted."""
    return sorted(zip(*(rows.column(name).to_pylist() for name in columns), strict=True), key=repr)
