"""`DataTypes`: names of column types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from flinkray.pyflink.common.typeinfo import ArrowTypeInfo, TypeInformation, Types

__all__ = ["DataTypes"]


@dataclass(frozen=True)
class RowField:
    """A column: name and type."""

    name: str
    data_type: TypeInformation


class DataTypes:
    """Makes the types of `Types`. Columns may hold nulls, whatever `nullable` says."""

    @staticmethod
    def STRING(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.STRING()

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.STRING()

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.STRING()

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.BOOLEAN()

    @staticmethod
    def TINYINT(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.BYTE()

    @staticmethod
    def SMALLINT(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.SHORT()

    @staticmethod
    def INT(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.INT()

    @staticmethod
    def BIGINT(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.LONG()

    @staticmethod
    def FLOAT(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.FLOAT()

    @staticmethod
    def DOUBLE(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.DOUBLE()

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return ArrowTypeInfo(pa.decimal128(precision, scale))

    @staticmethod
    def DATE(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.SQL_DATE()

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.SQL_TIME()

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.SQL_TIMESTAMP()

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.INSTANT()

    @staticmethod
    def BYTES(nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    def ARRAY(element_type: TypeInformation, nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.LIST(element_type)

    @staticmethod
    def MAP(key_type: TypeInformation, value_type: TypeInformation, nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        return Types.MAP(key_type, value_type)

    @staticmethod
    def FIELD(name: str, data_type: TypeInformation, description: str | None = None) -> RowField:  # noqa: ARG004
        return RowField(name, data_type)

    @staticmethod
    def ROW(row_fields: Sequence[RowField | TypeInformation], nullable: bool = True) -> TypeInformation:  # noqa: ARG004
        """A row type of fields, or of types alone, whose columns are f0, f1, ..."""
        fields = [
            field if isinstance(field, RowField) else RowField(f"f{index}", field)
            for index, field in enumerate(row_fields)
        ]
        return Types.ROW_NAMED([field.name for field in fields], [field.data_type for field in fields])
