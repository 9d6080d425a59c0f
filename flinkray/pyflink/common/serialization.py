"""`pyflink.common.serialization`: values as lines of files, and as bytes.

The schemas are for sources and sinks of one's own: `serialize(value)` gives bytes, `deserialize(message)` the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.texts import line_texts
from flinkray.pyflink.unavailable import unavailable
from flinkray.types.records import SCALAR_COLUMN, Kind, RecordType

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "RowDataBulkWriterFactory",
        "rows are Arrow's here; ParquetBulkWriters.for_row_type() and CsvBulkWriters.for_schema() make files of them",
    ),
)


class SerializationSchema(ABC):
    @abstractmethod
    def serialize(self, value: Any) -> bytes: ...


class DeserializationSchema(ABC):
    @abstractmethod
    def deserialize(self, message: bytes) -> Any: ...


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = charset

    @property
    def is_utf8(self) -> bool:
        return self._charset.upper().replace("_", "-") in ("UTF-8", "UTF8")

    @property
    def record_type(self) -> RecordType:
        return RecordType(Kind.SCALAR, pa.schema([(SCALAR_COLUMN, pa.string())]))

    def serialize(self, value: str) -> bytes:
        return value.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        return message.decode(self._charset)


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Writes and reads bytes as they are."""

    def serialize(self, value: bytes) -> bytes:
        return bytes(value)

    def deserialize(self, message: bytes) -> bytes:
        return message


@dataclass(frozen=True)
class RowFieldExtractorSchema(SerializationSchema):
    """Writes one field of rows: bytes as they are, anything else as text; nothing where the row or its field is None.

    Raises:
        ValueError: the index is below 0.
    """

    field_index: int

    def __post_init__(self) -> None:
        if self.field_index < 0:
            raise ValueError(f"Field index must be non-negative, got {self.field_index}")

    def serialize(self, value: Any) -> bytes:
        found = None if value is None else value[self.field_index]
        if found is None:
            return b""
        return bytes(found) if isinstance(found, bytes | bytearray) else str(found).encode()


@dataclass(frozen=True)
class BulkWriterFactory:
    """A columnar file format, made for example with `ParquetBulkWriters`.

    Args:
        schema: what rows are brought to; None: files have the rows' own types.
        lines: makes lines of text of them, where the format is text.
        records: makes of batches what the files hold, in place of the other two; called with the operator's name.
    """

    format: str
    schema: pa.Schema | None = None
    lines: Callable[[Batch], Batch] | None = None
    records: Callable[[Batch, str], Batch] | None = None


class Encoder:
    """Base of what makes a line of a value."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Lines of UTF-8 text, as PyFlink writes them: `(a,1)`, `+I[a, 1]`."""
        if charset_name.upper().replace("_", "-") not in ("UTF-8", "UTF8"):
            raise ValueError(f"text is written as UTF-8, not {charset_name}")
        return Encoder()

    def encode(self, batch: Batch, _operator: str) -> Batch:
        """A batch of text without nulls, a value per row."""
        column = batch.data.column(0)
        is_text = batch.kind is Kind.SCALAR and pa.types.is_string(column.type) and not column.null_count
        if is_text:
            return batch
        texts = pa.array(line_texts(batch), pa.string())
        return Batch(pa.RecordBatch.from_arrays([texts], names=[SCALAR_COLUMN]), Kind.SCALAR)
