"""What is written of rows: commands for a stream or for hashes, and the script that runs them once."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.redis.entries import checked_columns, encode_fields
from flinkray.errors import RecordError

ONCE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
for _, command in ipairs(cmsgpack.unpack(ARGV[1])) do redis.call(unpack(command)) end
redis.call('SET', KEYS[1], '1', 'EX', ARGV[2])
return 1
"""
"""Runs commands unless a mark is there, and sets the mark: a script is one step to everybody else. It is not undone
where a command fails: of a stream the first one does, and hashes may be written again."""

_ARRAY = struct.Struct(">BI")


class RedisTarget(Struct, frozen=True, kw_only=True):
    """Where rows go; `RedisSink` says what each is."""

    stream: str | None
    key_prefix: str | None
    key: tuple[str, ...]
    value_format: MessageFormat | None
    max_length: int | None

    def commands(self, data: pa.RecordBatch, where: str) -> Iterator[list[Any]]:
        """A command for each row, in order.

        Raises:
            RecordError: a value has no form, or a row's key is null.
            UnknownColumnError: rows lack a column of the key.
        """
        checked_columns(data, self.key, where)
        try:
            names, columns = encode_fields(data, self.value_format)
        except ValueError as error:
            raise RecordError(f"{where}: rows cannot be written to Redis: {error}") from error
        values = zip(*columns, strict=True)
        if self.stream is not None:
            start = ["XADD", self.stream, *(("MAXLEN", "~", str(self.max_length)) if self.max_length else ()), "*"]
            for row in values:
                yield start + _fields(names, row)
            return
        for key, row in zip(self._keys(data, where), values, strict=True):
            yield ["HSET", key, *_fields(names, row)]

    def _keys(self, data: pa.RecordBatch, where: str) -> list[str]:
        columns: list[Sequence[Any]] = [data.column(name).to_pylist() for name in self.key]
        keys = []
        for parts in zip(*columns, strict=True):
            if None in parts:
                raise RecordError(f"{where}: a row has no key: {dict(zip(self.key, parts, strict=True))}")
            keys.append(f"{self.key_prefix}{':'.join(map(str, parts))}")
        return keys


def _fields(names: Sequence[bytes], values: Sequence[Any]) -> list[Any]:
    """Names and values in turn, without those that are null."""
    return [part for name, value in zip(names, values, strict=True) if value is not None for part in (name, value)]


def packed(commands: Sequence[Sequence[bytes | str]]) -> bytes:
    """The commands as the MessagePack that scripts read: their library knows no bytes, only texts of any bytes."""
    parts = [_ARRAY.pack(0xDD, len(commands))]
    for command in commands:
        parts.append(_ARRAY.pack(0xDD, len(command)))
        for word in command:
            content = word.encode() if isinstance(word, str) else word
            parts += (_ARRAY.pack(0xDB, len(content)), content)
    return b"".join(parts)
