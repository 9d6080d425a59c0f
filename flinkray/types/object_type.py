"""The Arrow type of a column of Python objects of any and of changing types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class ObjectType(pa.ExtensionType):  # type: ignore[misc]
    """Python objects, which come out as they went in (`flinkray.batches.object_columns` makes and reads the columns).

    Args:
        storage: int64 or text where all objects of the column are such; else binary, which holds pickles.
    """

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "flinkray.object")  # the name is part of the state format

    def __hash__(self) -> int:
        return hash((type(self), self.storage_type))  # Arrow's class has none

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectType, (self.storage_type,)  # the class has a name in what is kept; Arrow's own way names a method

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> ObjectType:
        return cls(storage_type)


PICKLED = ObjectType(pa.binary())

# Arrow then reads such columns as what they are. A process imports this module before it reads any.
pa.register_extension_type(PICKLED)
