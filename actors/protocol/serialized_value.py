"""Values that pass through processes which have no use for them, as bytes (Flink's SerializedValue)."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from flinkray.persistence import loads

T = TypeVar("T")


class SerializedValue(Generic[T]):
    """A value that is pickled on its way, and unpickled only where somebody asks for it.

    A process that only hands it on need not import what the value is made of. Within one process it is that very
    value, and nothing is pickled.
    """

    __slots__ = ("_content", "_value")

    def __init__(self, value: T) -> None:
        self._content: bytes | None = None
        """The pickled value; None where `_value` holds the value itself."""
        self._value: Any = value

    def deserialize(self) -> T:
        """The value; raises what unpickling it raises."""
        if self._content is not None:
            self._value = loads(self._content)
            self._content = None
        value: T = self._value
        return value

    def to_bytes(self) -> bytes:
        """The value, pickled."""
        if self._content is not None:
            return self._content
        from flinkray.batches.pickling import dumps  # loads Arrow, for which who only hands it on has no use

        return dumps(self._value, may_have_paths=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return repr(self._value) if self._content is None else f"<serialized, {len(self._content)} bytes>"


def _from_bytes(content: bytes) -> SerializedValue[Any]:
    serialized: SerializedValue[Any] = SerializedValue(None)
    serialized._content = content
    return serialized
