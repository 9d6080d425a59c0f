"""What a source tells its enumerator and readers."""

from __future__ import annotations

import pyarrow as pa
from msgspec import Struct

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.types.records import Kind, RecordType


class RedisSourceSettings(Struct, frozen=True, kw_only=True):
    """`RedisSource` says what each is."""

    url: str
    streams: tuple[str, ...]
    fields: pa.Schema | None
    value_format: MessageFormat | None
    metadata: tuple[str, ...]
    start: str
    is_bounded: bool
    fails_if_trimmed: bool

    @property
    def decoded_type(self) -> RecordType:
        """The type of rows without metadata."""
        if self.value_format is not None:
            return self.value_format.record_type
        assert self.fields is not None
        return RecordType(Kind.ROW, self.fields)
