"""`Types`: PyFlink's way of naming types, over Arrow's. An Arrow type or a Python type does in its place everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from flinkray.types.object_type import PICKLED
from flinkray.types.records import SCALAR_COLUMN, Kind, RecordType, tuple_columns


@dataclass(frozen=True, slots=True)
class TypeInformation:
    """A type made with `Types`: of a stream's records, or of a field within them."""

    name: str
    kind: Kind
    arrow_type: pa.DataType
    """The type as a field: scalars as they are, tuples and rows as a struct."""
    contains_object: bool = False
    """Is that of pickled objects, so that a record travels pickled as a whole."""

    @property
    def record_type(self) -> RecordType:
        """The type of a stream of such records."""
        if self.contains_object:
            return OBJECT_TYPE
        if self.kind is Kind.SCALAR:
            return RecordType(Kind.SCALAR, pa.schema([(SCALAR_COLUMN, self.arrow_type)]))
        return RecordType(self.kind, pa.schema([field.remove_metadata() for field in self.arrow_type]))

    def __str__(self) -> str:
        return self.name


OBJECT_TYPE = RecordType(Kind.OBJECT, pa.schema([(SCALAR_COLUMN, pa.binary())]))
"""Values that Arrow cannot hold, pickled."""

DECIMAL_TYPE = pa.decimal128(38, 18)
"""The type of decimals without a declared precision: Flink's and Spark's default for big decimals."""


ROW_METADATA = {b"flinkray": b"row"}
"""Metadata of the first field of a struct that comes back as a Row within another value, and not as a dict or tuple."""


def _scalar(name: str, arrow_type: pa.DataType) -> TypeInformation:
    return TypeInformation(name, Kind.SCALAR, arrow_type)


def _struct(name: str, kind: Kind, names: Sequence[str], types: Sequence[TypeInformation]) -> TypeInformation:
    fields = ", ".join(f"{field}: {type_}" for field, type_ in zip(names, types, strict=True))
    columns = [pa.field(field, type_.arrow_type) for field, type_ in zip(names, types, strict=True)]
    if kind is Kind.ROW and columns:
        columns[0] = columns[0].with_metadata(ROW_METADATA)
    return TypeInformation(f"{name}({fields})", kind, pa.struct(columns))


class Types:
    """Makes type descriptions (PyFlink's names). Integers keep their width: LONG is int64, INT int32, SHORT int16."""

    @staticmethod
    def STRING() -> TypeInformation:
        """Text."""
        return _scalar("STRING", pa.string())

    @staticmethod
    def CHAR() -> TypeInformation:
        """One character, as text."""
        return _scalar("CHAR", pa.string())

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True or False."""
        return _scalar("BOOLEAN", pa.bool_())

    @staticmethod
    def BYTE() -> TypeInformation:
        """Integers of 8 bits."""
        return _scalar("BYTE", pa.int8())

    @staticmethod
    def SHORT() -> TypeInformation:
        """Integers of 16 bits."""
        return _scalar("SHORT", pa.int16())

    @staticmethod
    def INT() -> TypeInformation:
        """Integers of 32 bits."""
        return _scalar("INT", pa.int32())

    @staticmethod
    def LONG() -> TypeInformation:
        """Integers of 64 bits: Python's int."""
        return _scalar("LONG", pa.int64())

    @staticmethod
    def FLOAT() -> TypeInformation:
        """32 bits, as in PyFlink; Python's own float is DOUBLE."""
        return _scalar("FLOAT", pa.float32())

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """Floats of 64 bits: Python's float."""
        return _scalar("DOUBLE", pa.float64())

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """Integers of up to 38 digits."""
        return _scalar("BIG_INT", pa.decimal128(38, 0))

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """Decimals with 38 digits, 18 of them after the point."""
        return _scalar("BIG_DEC", DECIMAL_TYPE)

    @staticmethod
    def INSTANT() -> TypeInformation:
        """A point in time: an aware datetime in UTC, to the microsecond."""
        return _scalar("INSTANT", pa.timestamp("us", tz="UTC"))

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """A date."""
        return _scalar("SQL_DATE", pa.date32())

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """A time of day without zone, to the microsecond."""
        return _scalar("SQL_TIME", pa.time64("us"))

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """A datetime without zone, to the microsecond."""
        return _scalar("SQL_TIMESTAMP", pa.timestamp("us"))

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any Python object, pickled."""
        return TypeInformation("PICKLED_BYTE_ARRAY", Kind.OBJECT, PICKLED, contains_object=True)

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> TypeInformation:
        """Rows with columns f0, f1, ..."""
        return _struct("ROW", Kind.ROW, tuple_columns(len(field_types)), field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> TypeInformation:
        """Rows with named columns."""
        if len(field_names) != len(field_types):
            raise ValueError(f"ROW_NAMED got {len(field_names)} names and {len(field_types)} types")
        return _struct("ROW_NAMED", Kind.ROW, field_names, field_types)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TypeInformation:
        """Tuples, with columns f0, f1, ..."""
        return _struct("TUPLE", Kind.TUPLE, tuple_columns(len(field_types)), field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Lists of numbers or booleans; bytes where the elements are BYTE."""
        is_bytes = element_type.arrow_type == pa.int8()
        arrow_type = pa.binary() if is_bytes else pa.list_(element_type.arrow_type)
        return _scalar(f"PRIMITIVE_ARRAY({element_type})", arrow_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Lists, whose elements may be null."""
        return _scalar(f"BASIC_ARRAY({element_type})", pa.list_(element_type.arrow_type))

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Lists, whose elements may be null."""
        return _scalar(f"OBJECT_ARRAY({element_type})", pa.list_(element_type.arrow_type))

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """Lists."""
        return _scalar(f"LIST({element_type_info})", pa.list_(element_type_info.arrow_type))

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """Dicts."""
        arrow_type = pa.map_(key_type_info.arrow_type, value_type_info.arrow_type)
        return _scalar(f"MAP({key_type_info}, {value_type_info})", arrow_type)
