"""`pyflink.table.table_schema`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.table.types import DataType
from flinkray.tables.api.data_types import DataTypes, logical_type
from flinkray.tables.api.schemas import ResolvedSchema
from flinkray.tables.types.logical import RowField

__all__ = ["TableSchema"]

__getattr__ = imported(__name__)


class TableSchema(ResolvedSchema):
    """Names and types of columns, from before there was `Schema`."""

    def __init__(self, field_names: Sequence[str] = (), data_types: Sequence[Any] = ()) -> None:
        pairs = zip(field_names, data_types, strict=True)
        super().__init__(DataTypes.ROW([RowField(name, logical_type(kind)) for name, kind in pairs]))

    @staticmethod
    def builder() -> TableSchema.Builder:
        return TableSchema.Builder()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResolvedSchema) and self.row_type.fields == other.row_type.fields

    def __hash__(self) -> int:
        return hash(self.row_type.fields)

    def copy(self) -> TableSchema:
        return TableSchema(self.row_type.names, self.row_type.types)

    def __repr__(self) -> str:
        return "".join(["root\n", *(f" |-- {field.name}: {field.type}\n" for field in self.row_type.fields)])

    __str__ = __repr__

    def to_row_data_type(self) -> DataType:  # type: ignore[override]
        return DataType(self.row_type)

    class Builder:
        """Adds columns; each method gives the builder."""

        def __init__(self) -> None:
            self._fields: list[tuple[str, Any]] = []

        def field(self, name: str, data_type: Any) -> TableSchema.Builder:
            self._fields.append((name, data_type))
            return self

        def build(self) -> TableSchema:
            return TableSchema([name for name, _ in self._fields], [kind for _, kind in self._fields])
