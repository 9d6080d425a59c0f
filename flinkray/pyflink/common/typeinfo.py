"""`pyflink.common.typeinfo`: flinkray's types, as the classes and with the texts that PyFlink has.

Types are equal where they describe the same values, whatever made them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flinkray.batches.conversions import converting
from flinkray.types import type_info as types_of_flinkray
from flinkray.types.object_type import PICKLED
from flinkray.types.records import Kind, RecordType, tuple_columns
from flinkray.types.type_info import DECIMAL_TYPE
from flinkray.types.value_types import is_row_struct, is_tuple_struct

__all__ = ["TypeInformation", "Types"]


class TypeInformation(types_of_flinkray.TypeInformation):
    """Base of all types."""

    __slots__ = ("_made_with",)
    _made_with: tuple[Any, ...]
    """The arguments that make an equal one."""

    def __init__(self, made: types_of_flinkray.TypeInformation, *arguments: Any) -> None:
        super().__init__(made.name, made.kind, made.arrow_type, made.contains_object)
        object.__setattr__(self, "_made_with", arguments)

    @property
    def record_type(self) -> RecordType:
        return converting(super().record_type)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_with

    def __eq__(self, other: object) -> bool:
        return isinstance(other, types_of_flinkray.TypeInformation) and self._identity() == _identity(other)

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> Any:
        return self.name

    def __str__(self) -> str:
        return repr(self)


def _identity(type_: types_of_flinkray.TypeInformation) -> Any:
    return type_._identity() if isinstance(type_, TypeInformation) else type_.name


class BasicType(enum.Enum):
    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class BasicTypeInfo(TypeInformation):
    """Numbers, text and booleans; made with `Types`."""

    __slots__ = ()

    def __init__(self, basic_type: BasicType) -> None:
        super().__init__(getattr(types_of_flinkray.Types, basic_type.name)(), basic_type)

    def __repr__(self) -> str:
        return BasicType[self.name].value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo):
    __slots__ = ()


class SqlTimeTypeInfo(TypeInformation):
    """Dates and times; made with `Types`."""

    __slots__ = ()

    @staticmethod
    def DATE() -> DateTypeInfo:
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(types_of_flinkray.Types.SQL_DATE())

    def __repr__(self) -> str:
        return "DateTypeInfo"


class TimeTypeInfo(TypeInformation):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(types_of_flinkray.Types.SQL_TIME())

    def __repr__(self) -> str:
        return "TimeTypeInfo"


class TimestampTypeInfo(TypeInformation):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(types_of_flinkray.Types.SQL_TIMESTAMP())

    def __repr__(self) -> str:
        return "TimestampTypeInfo"


class LocalTimeTypeInfo(TypeInformation):
    """Dates and times without zone: the same values as those of `SqlTimeTypeInfo`."""

    __slots__ = ()

    class TimeType(enum.Enum):
        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: TimeType) -> None:
        types = (
            types_of_flinkray.Types.SQL_DATE(),
            types_of_flinkray.Types.SQL_TIME(),
            types_of_flinkray.Types.SQL_TIMESTAMP(),
        )
        super().__init__(types[time_type.value], time_type)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._made_with[0].name}>"


class PickledBytesTypeInfo(TypeInformation):
    """Any Python objects."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(types_of_flinkray.Types.PICKLED_BYTE_ARRAY())

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class _OfElements(TypeInformation):
    """Base of lists and arrays."""

    __slots__ = ()
    _maker = ""

    def __init__(self, element_type: types_of_flinkray.TypeInformation) -> None:
        super().__init__(getattr(types_of_flinkray.Types, self._maker)(element_type), element_type)

    def _identity(self) -> Any:
        return type(self).__name__, _identity(self._made_with[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._made_with[0]}>"


class PrimitiveArrayTypeInfo(_OfElements):
    __slots__ = ()
    _maker = "PRIMITIVE_ARRAY"


class BasicArrayTypeInfo(_OfElements):
    __slots__ = ()
    _maker = "BASIC_ARRAY"


class ObjectArrayTypeInfo(_OfElements):
    __slots__ = ()
    _maker = "OBJECT_ARRAY"


class ListTypeInfo(_OfElements):
    __slots__ = ()
    _maker = "LIST"

    @property
    def elem_type(self) -> types_of_flinkray.TypeInformation:
        found: types_of_flinkray.TypeInformation = self._made_with[0]
        return found


class MapTypeInfo(TypeInformation):
    __slots__ = ()

    def __init__(
        self, key_type_info: types_of_flinkray.TypeInformation, value_type_info: types_of_flinkray.TypeInformation
    ) -> None:
        super().__init__(types_of_flinkray.Types.MAP(key_type_info, value_type_info), key_type_info, value_type_info)

    def _identity(self) -> Any:
        return ("map", *map(_identity, self._made_with))

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._made_with[0]}, {self._made_with[1]}>"


class RowTypeInfo(TypeInformation):
    """Rows. Two types of rows are equal where their fields' types are, whatever their names."""

    __slots__ = ()

    def __init__(
        self, field_types: Sequence[types_of_flinkray.TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        types = list(field_types)
        names = None if field_names is None else list(field_names)
        made = types_of_flinkray.Types.ROW(types) if names is None else types_of_flinkray.Types.ROW_NAMED(names, types)
        super().__init__(made, types, names)

    def get_field_names(self) -> list[str]:
        types, names = self._made_with
        return tuple_columns(len(types)) if names is None else list(names)

    def get_field_types(self) -> list[types_of_flinkray.TypeInformation]:
        return list(self._made_with[0])

    def get_field_index(self, field_name: str) -> int:
        """-1: its fields have no names.

        Raises:
            ValueError: it has no such field.
        """
        names: list[str] | None = self._made_with[1]
        return -1 if names is None else names.index(field_name)

    def _identity(self) -> Any:
        return ("row", *map(_identity, self._made_with[0]))

    def __repr__(self) -> str:
        types, names = self._made_with
        texts = map(str, types) if names is None else map("{}: {}".format, names, types)
        return f"RowTypeInfo({', '.join(texts)})"


class TupleTypeInfo(TypeInformation):
    __slots__ = ()

    def __init__(self, field_types: Sequence[types_of_flinkray.TypeInformation]) -> None:
        super().__init__(types_of_flinkray.Types.TUPLE(field_types), list(field_types))

    def get_field_types(self) -> list[types_of_flinkray.TypeInformation]:
        return list(self._made_with[0])

    def _identity(self) -> Any:
        return ("tuple", *map(_identity, self._made_with[0]))

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._made_with[0]))})"


class ExternalTypeInfo(TypeInformation):
    """A type as sources of tables have it: the type itself."""

    __slots__ = ()

    def __init__(self, type_info: types_of_flinkray.TypeInformation) -> None:
        super().__init__(type_info, type_info)

    def _identity(self) -> Any:
        return "external", _identity(self._made_with[0])

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._made_with[0]}>"


class ArrowTypeInfo(TypeInformation):
    """A type of Arrow's that PyFlink has no name for."""

    __slots__ = ()

    def __init__(self, arrow_type: pa.DataType) -> None:
        super().__init__(types_of_flinkray.TypeInformation(str(arrow_type), Kind.SCALAR, arrow_type), arrow_type)

    def __repr__(self) -> str:
        return self.name


class Types(types_of_flinkray.Types):
    """Makes types."""

    STRING = staticmethod(BasicTypeInfo.STRING_TYPE_INFO)
    BYTE = staticmethod(BasicTypeInfo.BYTE_TYPE_INFO)
    BOOLEAN = staticmethod(BasicTypeInfo.BOOLEAN_TYPE_INFO)
    SHORT = staticmethod(BasicTypeInfo.SHORT_TYPE_INFO)
    INT = staticmethod(BasicTypeInfo.INT_TYPE_INFO)
    LONG = staticmethod(BasicTypeInfo.LONG_TYPE_INFO)
    FLOAT = staticmethod(BasicTypeInfo.FLOAT_TYPE_INFO)
    DOUBLE = staticmethod(BasicTypeInfo.DOUBLE_TYPE_INFO)
    CHAR = staticmethod(BasicTypeInfo.CHAR_TYPE_INFO)
    BIG_INT = staticmethod(BasicTypeInfo.BIG_INT_TYPE_INFO)
    BIG_DEC = staticmethod(BasicTypeInfo.BIG_DEC_TYPE_INFO)
    INSTANT = staticmethod(BasicTypeInfo.INSTANT_TYPE_INFO)
    SQL_DATE = staticmethod(SqlTimeTypeInfo.DATE)
    SQL_TIME = staticmethod(SqlTimeTypeInfo.TIME)
    SQL_TIMESTAMP = staticmethod(SqlTimeTypeInfo.TIMESTAMP)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> PickledBytesTypeInfo:
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[types_of_flinkray.TypeInformation]) -> RowTypeInfo:
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[types_of_flinkray.TypeInformation]) -> RowTypeInfo:
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[types_of_flinkray.TypeInformation]) -> TupleTypeInfo:
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: types_of_flinkray.TypeInformation) -> PrimitiveArrayTypeInfo:
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: types_of_flinkray.TypeInformation) -> BasicArrayTypeInfo:
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: types_of_flinkray.TypeInformation) -> ObjectArrayTypeInfo:
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(
        key_type_info: types_of_flinkray.TypeInformation, value_type_info: types_of_flinkray.TypeInformation
    ) -> MapTypeInfo:
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: types_of_flinkray.TypeInformation) -> ListTypeInfo:
        return ListTypeInfo(element_type_info)


_SCALARS: dict[pa.DataType, TypeInformation] = {
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
    if pa.types.is_struct(arrow_type) and is_tuple_struct(arrow_type) and not is_row_struct(arrow_type):
        return Types.TUPLE([_of_arrow(field.type) for field in arrow_type])
    if pa.types.is_struct(arrow_type):
        return Types.ROW_NAMED([field.name for field in arrow_type], [_of_arrow(field.type) for field in arrow_type])
    return ArrowTypeInfo(arrow_type)
