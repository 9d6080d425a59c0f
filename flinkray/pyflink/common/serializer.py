"""`pyflink.common.serializer`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

T = TypeVar("T")

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]


class TypeSerializer(ABC, Generic[T]):
    """Base of serializers, for programs that name one: windows travel pickled, whatever serializer their assigner
    gives."""

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO) -> None: ...

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> T: ...


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """Writes and reads nothing."""

    def serialize(self, element: bytes, stream: BinaryIO) -> None:
        pass

    def deserialize(self, stream: BinaryIO) -> bytes:
        return b""
