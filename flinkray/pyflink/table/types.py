"""`pyflink.table.types`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkray.pyflink.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from flinkray.tables.api import data_types
from flinkray.tables.api.data_types import logical_type
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import LogicalType, RowField, RowType, TypeRoot

__all__ = ["DataTypes"]


class DataType(TypeInformation):
    """A type of tables, which streams take too."""

    __slots__ = ("logical_type",)
    logical_type: LogicalType

    def __init__(self, logical: LogicalType) -> None:
        super().__init__(_type_information(logical), logical)
        object.__setattr__(self, "logical_type", logical)

    def __repr__(self) -> str:
        return str(self.logical_type)

    def not_null(self) -> DataType:
        return DataType(self.logical_type.not_null())

    def nullable(self) -> DataType:
        return DataType(self.logical_type.as_nullable())


_OF_STREAMS: dict[TypeRoot, Callable[[], TypeInformation]] = {
    TypeRoot.BOOLEAN: Types.BOOLEAN,
    TypeRoot.TINYINT: Types.BYTE,
    TypeRoot.SMALLINT: Types.SHORT,
    TypeRoot.INTEGER: Types.INT,
    TypeRoot.BIGINT: Types.LONG,
    TypeRoot.FLOAT: Types.FLOAT,
    TypeRoot.DOUBLE: Types.DOUBLE,
    TypeRoot.CHAR: Types.STRING,
    TypeRoot.VARCHAR: Types.STRING,
    TypeRoot.DATE: Types.SQL_DATE,
    TypeRoot.TIME: Types.SQL_TIME,
}


def _type_information(logical: LogicalType) -> TypeInformation:
    """The type that streams have for it."""
    if isinstance(logical, RowType):
        return Types.ROW_NAMED(list(logical.names), [_type_information(each) for each in logical.types])
    make = _OF_STREAMS.get(logical.root)
    return ArrowTypeInfo(to_arrow(logical)) if make is None else make()


class DataTypes:
    """Makes types by name: those of `flinkray.tables.api.data_types`, as types of streams too."""

    @staticmethod
    def FIELD(name: str, data_type: Any, description: str | None = None) -> RowField:
        return RowField(name, logical_type(data_type), description)

    @staticmethod
    def ROW(row_fields: Sequence[Any] = (), nullable: bool = True) -> DataType:
        """A row type of fields, or of types alone, whose columns are f0, f1, ..."""
        return DataType(data_types.DataTypes.ROW(row_fields, nullable))

    @staticmethod
    def NULL() -> DataType:
        return DataType(data_types.DataTypes.NULL())

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.STRING(nullable))

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.CHAR(length, nullable))

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.VARCHAR(length, nullable))

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.BYTES(nullable))

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.BINARY(length, nullable))

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.VARBINARY(length, nullable))

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.BOOLEAN(nullable))

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.TINYINT(nullable))

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.SMALLINT(nullable))

    @staticmethod
    def INT(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.INT(nullable))

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.BIGINT(nullable))

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.FLOAT(nullable))

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.DOUBLE(nullable))

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.DECIMAL(precision, scale, nullable))

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.DATE(nullable))

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.TIME(precision, nullable))

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.TIMESTAMP(precision, nullable))

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.TIMESTAMP_LTZ(precision, nullable))

    @staticmethod
    def ARRAY(element_type: Any, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.ARRAY(element_type, nullable))

    @staticmethod
    def MULTISET(element_type: Any, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.MULTISET(element_type, nullable))

    @staticmethod
    def MAP(key_type: Any, value_type: Any, nullable: bool = True) -> DataType:
        return DataType(data_types.DataTypes.MAP(key_type, value_type, nullable))
