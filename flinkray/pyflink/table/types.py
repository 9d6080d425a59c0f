"""`pyflink.table.types`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from flinkray.pyflink.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from flinkray.tables.api import data_types
from flinkray.tables.api.data_types import logical_type
from flinkray.tables.types import logical
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import LogicalType, TypeRoot
from flinkray.types.rows import Row, RowKind

__all__ = ["DataType", "DataTypes", "Row", "RowField", "RowKind", "RowType"]


class DataType(TypeInformation):
    """A type of tables, which streams take too."""

    __slots__ = ("logical_type",)
    logical_type: LogicalType

    def __init__(self, kind: LogicalType) -> None:
        self._be(kind)

    def _be(self, kind: LogicalType) -> None:
        TypeInformation.__init__(self, _type_information(kind), kind)
        object.__setattr__(self, "logical_type", kind)

    def __repr__(self) -> str:
        return str(self.logical_type)

    def __eq__(self, other: object) -> bool:
        return self.logical_type == (other.logical_type if isinstance(other, DataType) else other)

    def __hash__(self) -> int:
        return hash(self.logical_type)

    def not_null(self) -> Self:
        return type(self)(self.logical_type.not_null())

    def nullable(self) -> Self:
        return type(self)(self.logical_type.as_nullable())

    def bridged_to(self, conversion_cls: str) -> Self:
        """Taken for PyFlink's programs, as is: the class is one of Java's."""
        return self


@dataclass(frozen=True, repr=False)
class RowField:
    """A field of a `RowType`: its name, its `DataType`, and what there is to say of it."""

    name: str
    data_type: Any
    description: str | None = None

    def __post_init__(self) -> None:
        kind = logical_type(self.data_type)
        object.__setattr__(self, "data_type", RowType(kind) if isinstance(kind, logical.RowType) else DataType(kind))

    def __repr__(self) -> str:
        return f"RowField({self.name}, {self.data_type})"

    @property
    def logical_field(self) -> logical.RowField:
        return logical.RowField(self.name, self.data_type.logical_type, self.description)


class RowType(DataType):
    """The type of rows: `RowType([DataTypes.FIELD("a", DataTypes.INT())]).add("b", DataTypes.STRING())`."""

    __slots__ = ()

    def __init__(self, fields: Sequence[Any] | LogicalType = (), nullable: bool = True) -> None:
        super().__init__(fields if isinstance(fields, LogicalType) else _rows(fields, nullable))

    def add(self, field: str | RowField, data_type: Any = None) -> RowType:
        """Adds a field to this very type, which it gives."""
        if isinstance(field, str):
            if data_type is None:
                raise ValueError(f"field {field!r} needs a type: add({field!r}, DataTypes.INT())")
            field = RowField(field, data_type)
        self._be(_rows([*self.fields, field], self.logical_type.nullable))
        return self

    @property
    def fields(self) -> list[RowField]:
        assert isinstance(self.logical_type, logical.RowType)
        return [RowField(each.name, each.type, each.description) for each in self.logical_type.fields]

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    def field_names(self) -> list[str]:
        return self.names

    def field_types(self) -> list[DataType]:
        return [field.data_type for field in self.fields]

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, key: str | int | slice) -> Any:
        """The field of a name or a place; of a slice, a type of its fields."""
        if isinstance(key, slice):
            return RowType(self.fields[key])
        return dict(zip(self.names, self.fields, strict=True))[key] if isinstance(key, str) else self.fields[key]


def _rows(fields: Sequence[Any], nullable: bool) -> logical.RowType:
    return data_types.DataTypes.ROW(
        [each.logical_field if isinstance(each, RowField) else each for each in fields], nullable
    )


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


def _type_information(kind: LogicalType) -> TypeInformation:
    """The type that streams have for it."""
    if isinstance(kind, logical.RowType):
        return Types.ROW_NAMED(list(kind.names), [_type_information(each) for each in kind.types])
    make = _OF_STREAMS.get(kind.root)
    return ArrowTypeInfo(to_arrow(kind)) if make is None else make()


class DataTypes:
    """Makes types by name: those of `flinkray.tables.api.data_types`, as types of streams too."""

    @staticmethod
    def FIELD(name: str, data_type: Any, description: str | None = None) -> RowField:
        return RowField(name, data_type, description)

    @staticmethod
    def ROW(row_fields: Sequence[Any] = (), nullable: bool = True) -> RowType:
        """A row type of fields, or of types alone, whose columns are f0, f1, ..."""
        return RowType(row_fields, nullable)

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

    YEAR = data_types.DataTypes.YEAR
    MONTH = data_types.DataTypes.MONTH
    DAY = data_types.DataTypes.DAY
    HOUR = data_types.DataTypes.HOUR
    MINUTE = data_types.DataTypes.MINUTE
    SECOND = data_types.DataTypes.SECOND

    @staticmethod
    def INTERVAL(
        upper_resolution: data_types.Resolution, lower_resolution: data_types.Resolution | None = None
    ) -> DataType:
        return DataType(data_types.DataTypes.INTERVAL(upper_resolution, lower_resolution))

    TIMESTAMP_WITH_LOCAL_TIME_ZONE = TIMESTAMP_LTZ

    @staticmethod
    def LIST_VIEW(element_type: Any) -> DataType:
        """The type of a ListView in an accumulator, whose own types nobody asks for here."""
        return DataTypes.ARRAY(element_type)

    @staticmethod
    def MAP_VIEW(key_type: Any, value_type: Any) -> DataType:
        """The type of a MapView in an accumulator, whose own types nobody asks for here."""
        return DataTypes.MAP(key_type, value_type)
