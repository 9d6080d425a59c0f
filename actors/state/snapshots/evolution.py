"""What may change about the declared type of a state's values, and how values of the former type become new ones.

After Flink's rules for POJOs and Avro: fields are found by name, so that they may be reordered; those that are new are
null, or what the class says; types may widen where no value changes by it; fields go with permission only.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from actors.state.snapshots.values import is_pickled, value_of_bytes
from flinkray.functions.type_hints import record_type
from flinkray.persistence import Unpickler
from flinkray.types.records import Kind, RecordType
from flinkray.types.rows import Row, row_class
from flinkray.types.value_types import named_fields

_KIND = b"kind"


class TypeChangeError(Exception):
    """Values of the former type cannot become such of the declared one; says why, and what else to do."""


def type_to_bytes(declared: RecordType) -> bytes:
    """A declared type as bytes, for the metadata of a table."""
    return bytes(declared.schema.with_metadata({_KIND: declared.kind.value.encode()}).serialize())


def _type_of_bytes(data: bytes) -> RecordType:
    schema = pa.ipc.read_schema(pa.py_buffer(data))
    return RecordType(Kind(schema.metadata[_KIND].decode()), schema.remove_metadata())


class Evolution:
    """Makes values of the declared type from values of the former one.

    Args:
        former: as `type_to_bytes` gave it.
        spec: the type as the program declares it now: its class, if it is one, is what values are made of.
        may_drop_fields: fields that are not declared any more may go.
        has_only_names: values may be something else than declared, so that only those with names are rows.
    Raises:
        TypeChangeError: they cannot be made; names the field.
    """

    def __init__(self, former: bytes, spec: object, may_drop_fields: bool, has_only_names: bool = False) -> None:
        before, now = _type_of_bytes(former), record_type(spec)
        self._class = spec if isinstance(spec, type) and named_fields(spec) is not None else None
        self._has_only_names = has_only_names
        old, new = _fields(before), _fields(now)
        if before.kind is not now.kind or (old is None) is not (new is None):
            raise TypeChangeError("keep the old type, or give the new state another name")
        self._names: Sequence[str] = []
        """The names of the former fields, in their order."""
        self._converters: dict[str, Callable[[Any], Any] | None] = {}
        """The declared fields in their order, and what makes their values of former ones; None: they are new."""
        self._converter: Callable[[Any], Any] = _same
        if old is None or new is None:
            self._converter = _converter("its value", *(each.schema.field(0).type for each in (before, now)))
            return
        self._names = list(old)
        self._converters = {name: _field_converter(name, old.get(name), field) for name, field in new.items()}
        dropped = [name for name in old if name not in new]
        if dropped and not may_drop_fields:
            raise TypeChangeError(
                f"field {dropped[0]!r} is not in it any more; keep it, or set "
                "execution.state-recovery.allow-removed-fields to drop what it holds"
            )

    @property
    def changes_values(self) -> bool:
        """Whether values become others at all."""
        return bool(self._names) or self._converter is not _same

    def of_bytes(self, data: bytes) -> Any:
        """The value of the declared type for the bytes of one of the former type.

        Raises:
            TypeChangeError: it is none that can be told to be of the former type.
        """
        if self._class is None or not is_pickled(data):
            return self.of(value_of_bytes(data))
        # The class has other fields now, and would not take what was pickled.
        loaded = _ReplacingUnpickler(io.BytesIO(data), self._class).load()
        if isinstance(loaded, _FieldsOfClass):
            return self._object(loaded.by_name(self._names))
        return self.of(value_of_bytes(data))

    def of(self, value: Any) -> Any:
        """The value of the declared type for one of the former type; as it is where it has not that type."""
        if not self._names:
            return value if value is None or self._has_only_names else self._converter(value)
        if isinstance(value, dict):
            return self._converted(value) if self._is_row(value, value) else value
        if isinstance(value, Row) and value._is_named:
            if not self._is_row(value._fields, value):
                return value
            values = self._converted(value.as_dict())
            return row_class(tuple(values))(*values.values())
        if isinstance(value, Row):
            return Row(*self._converted(self._by_position(value)).values())
        if self._class is not None and _is_of_former(value, self._class):
            return self._object({name: getattr(value, name, None) for name in self._names})
        if type(value) in (tuple, list):
            return type(value)(self._converted(self._by_position(value)).values())
        return value

    def _is_row(self, names: Iterable[str], value: Any) -> bool:
        """Whether a value with these names has the former type."""
        if self._has_only_names:
            return set(names) == set(self._names)
        if not set(names).issubset(self._names):
            raise TypeChangeError(f"it holds {value!r}, which has other fields than were declared; keep the old type")
        return True

    def _by_position(self, value: Sequence[Any]) -> dict[str, Any]:
        if self._has_only_names or len(value) != len(self._names):
            raise TypeChangeError(
                f"it holds {value!r}, without names, of which it is not known what is what; keep the old type"
            )
        return dict(zip(self._names, value, strict=True))

    def _converted(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: None if converter is None or (value := fields.get(name)) is None else converter(value)
            for name, converter in self._converters.items()
        }

    def _object(self, fields: Mapping[str, Any]) -> Any:
        """An object of the declared class, whose new fields have what the class gives them, else None."""
        assert self._class is not None
        values = self._converted(fields)
        for name in _fields_with_default(self._class):
            if name not in fields:
                values.pop(name, None)
        later = {name: values.pop(name) for name in _fields_set_later(self._class) if name in values}
        made = self._class(**values)
        for name, value in later.items():
            object.__setattr__(made, name, value)
        return made


class _FieldsOfClass:
    """Stands for an object that is unpickled: what its pickle has of it, whatever its class takes now."""

    _arguments: tuple[Any, ...]
    _state: Any = None

    def __new__(cls, *arguments: Any) -> _FieldsOfClass:
        made = object.__new__(cls)
        made._arguments = arguments
        return made

    def __init__(self, *_arguments: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self._state = state

    def by_name(self, names: Sequence[str]) -> Mapping[str, Any]:
        """The values of the fields, which were called so, in their order."""
        state = self._state
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            state = state[1]  # of a class with slots
        if isinstance(state, dict):
            return state
        values = self._arguments if state is None else state  # of a NamedTuple, or of a frozen class with slots
        if not isinstance(values, tuple | list) or len(values) != len(names):
            raise TypeChangeError("its class is pickled in a way of its own, so keep the old type")
        return dict(zip(names, values, strict=True))


class _ReplacingUnpickler(Unpickler):
    """Makes a `_FieldsOfClass` in place of each object of a class."""

    def __init__(self, stream: io.BytesIO, replaced: type) -> None:
        super().__init__(stream)
        self._replaced = replaced

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return _FieldsOfClass if found is self._replaced else found


def _is_of_former(value: Any, declared: type) -> bool:
    """Whether it is an object of the class as it was: pickles of a program's main module bring their classes along."""
    own = type(value)
    return (own.__module__, own.__qualname__) == (declared.__module__, declared.__qualname__)


def _fields_with_default(python_type: type) -> list[str]:
    if not dataclasses.is_dataclass(python_type):
        return list(getattr(python_type, "_field_defaults", ()))
    missing = dataclasses.MISSING
    return [
        field.name
        for field in dataclasses.fields(python_type)
        if field.default is not missing or field.default_factory is not missing
    ]


def _fields_set_later(python_type: type) -> list[str]:
    """The fields that the class does not take when an object is made."""
    if not dataclasses.is_dataclass(python_type):
        return []
    return [field.name for field in dataclasses.fields(python_type) if not field.init]


def _fields(declared: RecordType) -> dict[str, pa.Field] | None:
    """The fields of rows and tuples by name; None for other values."""
    if declared.kind is not Kind.SCALAR:
        return {field.name: field for field in declared.schema}
    value_type = declared.schema.field(0).type
    return {field.name: field for field in value_type} if pa.types.is_struct(value_type) else None


def _field_converter(name: str, old: pa.Field | None, new: pa.Field) -> Callable[[Any], Any] | None:
    if old is not None:
        return _converter(f"field {name!r}", old.type, new.type)
    if not new.nullable:
        raise TypeChangeError(f"field {name!r} is new and must not be null, which it would be; declare it nullable")
    return None


def _converter(what: str, old: pa.DataType, new: pa.DataType) -> Callable[[Any], Any]:
    """What makes a value of the type `new` of one of the type `old`."""
    if old.equals(new) or _is_wider_integer(old, new) or _is_wider_decimal(old, new) or (old, new) in _SAME_VALUES:
        return _same
    if pa.types.is_integer(old) and old.bit_width <= _WHOLE_BITS.get(new, 0):
        return float
    raise TypeChangeError(
        f"keep the old type, or give the new state another name: {what} was {old} and is {new} now, which may not hold "
        "the same values"
    )


_SAME_VALUES = {
    (pa.float16(), pa.float32()),
    (pa.float16(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.large_string()),
    (pa.binary(), pa.large_binary()),
}
"""Types whose values are the same in Python."""
_WHOLE_BITS = {pa.float32(): 16, pa.float64(): 32}
"""Integers of so many bits are floats of the type, too."""


def _same(value: Any) -> Any:
    return value


def _is_wider_integer(old: pa.DataType, new: pa.DataType) -> bool:
    if not pa.types.is_integer(old) or not pa.types.is_integer(new):
        return False
    is_signed = pa.types.is_signed_integer(old), pa.types.is_signed_integer(new)
    if is_signed[0] == is_signed[1]:
        return bool(old.bit_width <= new.bit_width)
    return is_signed[1] and bool(old.bit_width < new.bit_width)


def _is_wider_decimal(old: pa.DataType, new: pa.DataType) -> bool:
    if not pa.types.is_decimal(old) or not pa.types.is_decimal(new):
        return False
    return bool(old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale)
