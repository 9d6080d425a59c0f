"""Constructors of arrays, maps and rows, and functions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinkray.tables.functions.parameters import ANYTHING, ARRAY_, AS_INT, BOOLEAN_, MAP_, TEXT, always, meeting
from flinkray.tables.functions.signatures import Function, Nullability, Parameter, ResultOf, TypedCall
from flinkray.tables.types.casts import can_cast_implicitly
from flinkray.tables.types.common import common_type
from flinkray.tables.types.logical import (
    ARRAY,
    BOOLEAN,
    INT,
    MAP,
    ROW,
    STRING,
    CollectionType,
    LogicalType,
    MapType,
    RowType,
    TypeRoot,
)

_COLLECTION = Parameter("an array, map or multiset", frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET}))
_INDEXED = Parameter("an array, map or row", frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW}))
_ALIKE_ARRAY = Parameter("an array of the same elements", frozenset({TypeRoot.ARRAY}), common="arrays")
_ALIKE_MAP = Parameter("a map of the same keys and values", frozenset({TypeRoot.MAP}), common="maps")


def _element(array: LogicalType) -> LogicalType:
    assert isinstance(array, CollectionType)
    return array.element


def _array(call: TypedCall) -> LogicalType:
    return ARRAY(meeting(call.types))


def _map(call: TypedCall) -> LogicalType:
    return MAP(meeting(call.types[::2]), meeting(call.types[1::2]))


def _row(call: TypedCall) -> LogicalType:
    return ROW(*((f"EXPR${place}", one) for place, one in enumerate(call.types)))


def _item(call: TypedCall) -> LogicalType:
    """An element may not be there, so that it may be NULL; a field of a row always is."""
    container, key = call.arguments
    match container.type:
        case MapType(key=key_type, value=value):
            if common_type([key_type, key.type]) is None:
                raise ValueError(f"the keys are {key_type}, and not {key.type}")
            return value.as_nullable()
        case RowType(fields=fields) as row:
            for place, field in enumerate(fields, 1):
                if key.literal in (field.name, place):
                    return field.type.with_nullability(field.type.nullable or row.nullable)
            raise ValueError(f"the row has the fields {', '.join(row.names)}, and no {key.literal!r}")
    if key.type.root not in AS_INT.roots:
        raise ValueError(f"an array is indexed by a whole number, and not by {key.type}")
    if isinstance(key.literal, int) and key.literal < 1:
        raise ValueError(f"the first element of an array is [1], and there is no [{key.literal}]")
    return _element(container.type).as_nullable()


def _of_element(call: TypedCall) -> LogicalType:
    element = _element(call.types[0])
    return element.with_nullability(element.nullable or call.types[0].nullable)


def _with_element(call: TypedCall) -> LogicalType:
    """An array that an element is added to, or taken from."""
    return ARRAY(meeting([_element(call.types[0]), call.types[1]]))


def _same_array(call: TypedCall) -> LogicalType:
    return call.types[0]


def _without_element(call: TypedCall) -> LogicalType:
    _check_element(call)
    return call.types[0]


def _common_array(call: TypedCall) -> LogicalType:
    return meeting(call.types)


def _check_element(call: TypedCall) -> None:
    element, wanted = _element(call.types[0]), call.types[1]
    if not can_cast_implicitly(wanted, element.as_nullable()):
        raise ValueError(f"the elements are {element}, and not {wanted}")


def _has_element(result: LogicalType, is_strict: bool) -> ResultOf:
    def checked(call: TypedCall) -> LogicalType:
        _check_element(call)
        return result.with_nullability(any(one.nullable for one in call.types[: 2 if is_strict else 1]))

    return checked


def _keys(call: TypedCall) -> LogicalType:
    assert isinstance(call.types[0], MapType)
    return ARRAY(call.types[0].key)


def _values(call: TypedCall) -> LogicalType:
    assert isinstance(call.types[0], MapType)
    return ARRAY(call.types[0].value)


def _entries(call: TypedCall) -> LogicalType:
    assert isinstance(call.types[0], MapType)
    return ARRAY(ROW(("key", call.types[0].key), ("value", call.types[0].value)))


def _from_arrays(call: TypedCall) -> LogicalType:
    return MAP(_element(call.types[0]), _element(call.types[1]))


def _alternating(names: Sequence[str]) -> Callable[[int], tuple[Parameter, ...] | None]:
    """Parameters of a constructor: values of each name meet in a common type."""
    parameters = tuple(Parameter("a value", ANYTHING.roots, common=name) for name in names)

    def varying(count: int) -> tuple[Parameter, ...] | None:
        return parameters * (count // len(names)) if count and count % len(names) == 0 else None

    return varying


COLLECTION_FUNCTIONS = (
    Function("ARRAY", (ANYTHING,), _array, Nullability.NEVER, varying=_alternating(["elements"])),
    Function("MAP", (ANYTHING, ANYTHING), _map, Nullability.NEVER, varying=_alternating(["keys", "values"])),
    Function("ROW", (ANYTHING,), _row, Nullability.NEVER, varying=lambda count: (ANYTHING,) * count),
    Function("ITEM", (_INDEXED, ANYTHING), _item, Nullability.AS_INFERRED),
    Function("CARDINALITY", (_COLLECTION,), always(INT)),
    Function("ELEMENT", (ARRAY_,), _of_element, Nullability.AS_INFERRED),
    Function("ARRAY_CONTAINS", (ARRAY_, ANYTHING), _has_element(BOOLEAN, is_strict=False), Nullability.AS_INFERRED),
    Function("ARRAY_POSITION", (ARRAY_, ANYTHING), _has_element(INT, is_strict=True)),
    Function("ARRAY_APPEND", (ARRAY_, ANYTHING), _with_element),
    Function("ARRAY_PREPEND", (ARRAY_, ANYTHING), _with_element),
    Function("ARRAY_REMOVE", (ARRAY_, ANYTHING), _without_element, Nullability.AS_INFERRED),
    Function("ARRAY_DISTINCT", (ARRAY_,), _same_array),
    Function("ARRAY_REVERSE", (ARRAY_,), _same_array),
    Function("ARRAY_SLICE", (ARRAY_, AS_INT, AS_INT), _same_array, optional=1),
    Function("ARRAY_SORT", (ARRAY_, BOOLEAN_, BOOLEAN_), _same_array, optional=2),
    Function("ARRAY_UNION", (_ALIKE_ARRAY, _ALIKE_ARRAY), _common_array),
    Function("ARRAY_CONCAT", (_ALIKE_ARRAY,), _common_array, repeats=1),
    Function("ARRAY_INTERSECT", (_ALIKE_ARRAY, _ALIKE_ARRAY), _common_array),
    Function("ARRAY_EXCEPT", (_ALIKE_ARRAY, _ALIKE_ARRAY), _common_array),
    Function("ARRAY_MAX", (ARRAY_,), _of_element, Nullability.ALWAYS),
    Function("ARRAY_MIN", (ARRAY_,), _of_element, Nullability.ALWAYS),
    Function("ARRAY_JOIN", (ARRAY_, TEXT, TEXT), always(STRING), optional=1),
    Function("MAP_KEYS", (MAP_,), _keys),
    Function("MAP_VALUES", (MAP_,), _values),
    Function("MAP_ENTRIES", (MAP_,), _entries),
    Function("MAP_FROM_ARRAYS", (ARRAY_, ARRAY_), _from_arrays),
    Function("MAP_UNION", (_ALIKE_MAP,), _common_array, repeats=1),
)
