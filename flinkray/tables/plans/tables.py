"""Tables as a catalog has them and a plan reads them."""

from __future__ import annotations

import enum

from msgspec import Struct

from flinkray.tables.plans.expressions import BoundExpression
from flinkray.tables.types.logical import LogicalType, RowField, RowType, TimestampType
from flinkray.types.changelogs import INSERTS, Changes

TablePath = tuple[str, str, str]
"""Catalog, database and name."""


class ColumnKind(enum.Enum):
    """Where the values of a column come from."""

    PHYSICAL = "physical"
    METADATA = "metadata"
    COMPUTED = "computed"


class TableColumn(Struct, frozen=True):
    """A column of a table."""

    name: str
    type: LogicalType
    kind: ColumnKind = ColumnKind.PHYSICAL
    expression: BoundExpression | None = None
    """Of a computed column, over the physical and metadata columns in their order."""
    metadata_key: str = ""
    is_virtual: bool = False
    comment: str | None = None
    text: str = ""
    """The expression of a computed column, as SQL."""


class WatermarkStrategy(Struct, frozen=True):
    """A table's rowtime attribute, and the expression that gives its watermarks, over all columns of the table."""

    column: str
    expression: BoundExpression
    type: TimestampType
    """The type of the column as the time attribute."""
    text: str = ""
    """The expression as SQL."""


class Table(Struct, frozen=True):
    """A table: what its statement says of it."""

    path: TablePath
    columns: tuple[TableColumn, ...]
    watermark: WatermarkStrategy | None = None
    primary_key: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    changes: Changes = INSERTS
    """What its rows do where it is read."""

    @property
    def stored_columns(self) -> tuple[TableColumn, ...]:
        """Its physical and metadata columns."""
        return tuple(each for each in self.columns if each.kind is not ColumnKind.COMPUTED)

    @property
    def row_type(self) -> RowType:
        """Its columns as queries see them, the time attribute among them."""
        fields = []
        for column in self.columns:
            is_rowtime = self.watermark is not None and self.watermark.column == column.name
            kind = self.watermark.type if self.watermark is not None and is_rowtime else column.type
            fields.append(RowField(column.name, kind))
        return RowType(tuple(fields), nullable=False)

    @property
    def written_row_type(self) -> RowType:
        """The columns that INSERT writes: without computed ones, and metadata that is only read."""
        fields = [RowField(each.name, each.type) for each in self.stored_columns if not each.is_virtual]
        return RowType(tuple(fields), nullable=False)
