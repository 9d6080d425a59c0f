"""Values that pass through processes which have no use for them."""

from __future__ import annotations

import pickle
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Sealed(Generic[T]):
    """A value that is unpickled where it is opened: who only hands it on need not load what it is made of.

    Within one process it is that very value, and nothing is pickled.
    """

    __slots__ = ("_content", "_value")

    def __init__(self, value: T) -> None:
        self._content: bytes | None = None
        """The pickled value; None: it is open."""
        self._value: Any = value

    def open(self) -> T:
        """The value; raises what unpickling it raises."""
        if self._content is not None:
            self._value = pickle.loads(self._content)
            self._content = None
        value: T = self._value
        return value

    def content(self) -> bytes:
        """The value, pickled."""
        if self._content is not None:
            return self._content
        from flinkray.batches.pickling import dumps  # loads Arrow, for which who only hands it on has no use

        return dumps(self._value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unopened, (self.content(),)

    def __repr__(self) -> str:
        return repr(self._value) if self._content is None else f"<sealed, {len(self._content)} bytes>"


def _unopened(content: bytes) -> Sealed[Any]:
    sealed: Sealed[Any] = Sealed(None)
    sealed._content = content
    return sealed
