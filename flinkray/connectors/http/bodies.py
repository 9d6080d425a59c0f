"""What came in a request's body: the messages in it, by what its content type says that it is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.connectors.formats.changes.canal_json import CanalJsonFormat, MaxwellJsonFormat
from flinkray.connectors.formats.changes.debezium_json import DebeziumJsonFormat, OggJsonFormat
from flinkray.connectors.formats.csv import CsvFormat
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.message_format import Decoded, MessageFormat, decode_each, decode_rows

Split = Callable[[bytes], pa.Array]
"""Makes messages (large_binary) of a body."""

_OF_JSON = (JsonFormat, DebeziumJsonFormat, OggJsonFormat, CanalJsonFormat, MaxwellJsonFormat)
_JSON = ("application/json",)
_JSON_LINES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines", "application/json-lines")
_TEXT = ("text/csv", "text/plain")
_BYTES = ("application/octet-stream",)


class UnknownContentType(Exception):
    """The content type is none that the format's messages come in; says which ones are."""


def split_of(message_format: MessageFormat, content_type: str) -> Split:
    """What makes messages of bodies of a content type.

    Raises:
        UnknownContentType: the format's messages do not come so.
    """
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    taken = _taken(message_format)
    if kind in taken:
        found = _SPLITS[kind]
    elif kind.endswith("+json") and _JSON[0] in taken:
        found = json_values
    else:
        raise UnknownContentType(f"Content-Type is {kind or 'missing'!r}; send one of {', '.join(taken)}")
    charset = parameters.partition("charset=")[2].strip(' "')
    if charset not in ("", "utf-8", "utf8", "us-ascii"):
        raise UnknownContentType(f"the charset is {charset!r}; send UTF-8")
    return found


def _taken(message_format: MessageFormat) -> tuple[str, ...]:
    if isinstance(message_format, _OF_JSON):
        return _JSON + _JSON_LINES
    return _TEXT if isinstance(message_format, CsvFormat) else _JSON + _JSON_LINES + _TEXT + _BYTES


def json_values(body: bytes) -> pa.Array:
    """The elements of an array, or the one value that there is.

    Raises:
        ValueError: the array ends too early, or is none.
    """
    body = body.strip()
    if not body.startswith(b"["):
        return _messages([body] if body else [])
    try:
        return _messages([bytes(each) for each in msgspec.json.decode(body, type=list[msgspec.Raw])])
    except msgspec.MsgspecError as error:
        raise ValueError(f"no JSON: {error}") from error


def lines(body: bytes) -> pa.Array:
    """Lines that are not empty, without their line breaks."""
    found = pc.list_flatten(pc.split_pattern(_messages([body]), b"\n"))
    if b"\r" in body:
        found = pc.replace_substring_regex(found, b"\r$", b"")
    return found.filter(pc.greater(pc.binary_length(found), 0))


def _whole(body: bytes) -> pa.Array:
    return _messages([body])


def _messages(values: list[bytes]) -> pa.Array:
    return pa.array(values, pa.large_binary())


_SPLITS: dict[str, Split] = {
    **dict.fromkeys(_JSON, json_values),
    **dict.fromkeys(_JSON_LINES + _TEXT, lines),
    **dict.fromkeys(_BYTES, _whole),
}


def decoded_body(message_format: MessageFormat, messages: pa.Array) -> Decoded:
    """The rows of messages, of which there are some.

    Raises:
        ValueError: one cannot be read; says which one.
    """
    try:
        return decode_rows(message_format, messages)
    except ValueError:
        failures = decode_each(message_format, messages).failures
        if not failures:  # alone each can be read
            raise
        raise ValueError(f"row {failures[0].index + 1} of {len(messages)}: {failures[0].reason}") from None
