"""`pyflink.common.typeinfo`."""

from __future__ import annotations

import pyarrow as pa

from flinkray.types.object_type import PICKLED
from flinkray.types.records import Kind, RecordType
from flinkray.types.type_info import DECIMAL_TYPE, TypeInformation, Types

__all__ = ["TypeInformation", "Types"]

_SCALARS = {
    type_.arrow_type: type_
    for type_ in (
        Types.STRING(),
        Types.BOOLEAN(),
        Types.BYTE(),
        Types.SHORT(),
        Types.INT(),
        Types.LONG(),
        Types.FLOAT(),
        Types.DOUBLE(),
        Types.BIG_INT(),
        Types.INSTANT(),
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
    )
} | {
    DECIMAL_TYPE: Types.BIG_DEC(),
    PICKLED: Types.PICKLED_BYTE_ARRAY(),
    pa.binary(): Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


def type_information(record_type: RecordType | None) -> TypeInformation:
    """The type as one of `Types`; of what has no declared type PICKLED_BYTE_ARRAY."""
    if record_type is None or record_type.kind is Kind.OBJECT:
        return Types.PICKLED_BYTE_ARRAY()
    types = [_of_arrow(field.type) for field in record_type.schema]
    if record_type.kind is Kind.SCALAR:
        return types[0]
    if record_type.kind is Kind.TUPLE:
        return Types.TUPLE(types)
    return Types.ROW_NAMED(record_type.schema.names, types)


def _of_arrow(arrow_type: pa.DataType) -> TypeInformation:
    if arrow_type in _SCALARS:
        return _SCALARS[arrow_type]
    if pa.types.is_list(arrow_type):
        return Types.LIST(_of_arrow(arrow_type.value_type))
    if pa.types.is_map(arrow_type):
        return Types.MAP(_of_arrow(arrow_type.key_type), _of_arrow(arrow_type.item_type))
    if pa.types.is_struct(arrow_type):
        return Types.ROW_NAMED([field.name for field in arrow_type], [_of_arrow(field.type) for field in arrow_type])
    return TypeInformation(str(arrow_type), Kind.SCALAR, arrow_type)
