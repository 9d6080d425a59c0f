"""The contract of message formats: rows as messages of bytes, as logs, queues and topics hold them, and back.

A format works on whole batches. What it cannot read it refuses; `decode_each` then finds the messages that it is for.
Messages of a changelog format give any number of rows each, which have kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from flinkray.batches.batch import inserts
from flinkray.errors import InvalidProgramError
from flinkray.types.records import Kind, RecordType

_BAD_VALUES = ("fail", "null")
"""What may become of a value that is not of the type of its column."""
_SHOWN_BYTES = 200

M = TypeVar("M")


class MessageFormat(ABC):
    """Turns messages into rows, and rows into messages. Picklable; it has no state that a checkpoint would need."""

    is_changelog: ClassVar[bool] = False
    """Whether it is a ChangelogFormat, whose rows have kinds."""

    @property
    @abstractmethod
    def record_type(self) -> RecordType:
        """The type of the rows that `decode` gives."""

    @abstractmethod
    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        """A row for each message, in order, with the columns of `record_type`.

        Args:
            messages: large_binary, no nulls.
        Raises:
            ValueError: one of them cannot be read; which one need not be said.
        """

    def decode_several(self, messages: pa.Array) -> tuple[pa.RecordBatch, npt.NDArray[np.int64] | None]:
        """The rows of all messages, of which each may give several or none; takes and raises what `decode` does.

        Returns:
            The rows, and for each the index of its message; None: each message gives one.
        """
        return self.decode(messages), None

    @abstractmethod
    def encode(self, data: pa.RecordBatch) -> pa.Array:
        """A message for each row, in order: large_binary, no nulls.

        Raises:
            ValueError: a row cannot be written; says its column and value.
        """


class Changes(Struct, frozen=True):
    """The rows of a changelog that some messages give."""

    data: pa.RecordBatch
    kinds: pa.Array
    """What each row does: the value of its `RowKind` (int8, no nulls)."""
    messages: npt.NDArray[np.int64]
    """For each row the index of its message, in order."""


class ChangelogFormat(MessageFormat):
    """A message format whose messages are changes: each gives no row, one or several, which have kinds."""

    is_changelog = True

    @abstractmethod
    def decode_changes(self, messages: pa.Array) -> Changes:
        """The rows of all messages in order, with the columns of `record_type`; takes and raises what `decode` does."""

    @abstractmethod
    def encode_changes(self, data: pa.RecordBatch, kinds: pa.Array) -> pa.Array:
        """A message for each row, in order: large_binary, no nulls. Raises what `encode` does.

        Args:
            kinds: what each row does, as in `Changes`.
        """

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        """The rows of inserts; ValueError where a message is anything else, as what asks for rows alone would take a
        deletion for an insert."""
        changes = self.decode_changes(messages)
        if np.asarray(changes.kinds).any() or not np.array_equal(changes.messages, np.arange(len(messages))):
            raise ValueError("a message is a change that is no insert, and rows without kinds are asked for")
        return changes.data

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        """Messages of inserts."""
        return self.encode_changes(data, inserts(data.num_rows))


def encode_rows(message_format: MessageFormat, data: pa.RecordBatch, kinds: pa.Array | None) -> pa.Array:
    """A message for each row; it has the row's kind only where the format has a place for it.

    Args:
        kinds: what each row does; None: all are inserts.

    Raises:
        ValueError: a row cannot be written.
    """
    if kinds is not None and isinstance(message_format, ChangelogFormat):
        return message_format.encode_changes(data, kinds)
    return message_format.encode(data)


class Undecodable(Struct, frozen=True):
    """A message that a format could not read."""

    index: int
    """Its place among the messages that were to be decoded."""
    reason: str


class Decoded(Struct, frozen=True):
    """What became of some messages."""

    data: pa.RecordBatch
    rows: npt.NDArray[np.int64] | None
    """For each row the index of its message; None: each message gave one."""
    failures: Sequence[Undecodable] = ()
    kinds: pa.Array | None = None
    """What each row does in a changelog, as `Changes` has it; None: the format has no kinds."""


def decode_rows(message_format: MessageFormat, messages: pa.Array, one_each: bool = False) -> Decoded:
    """The rows of messages that can all be read, with their kinds if the format has such. Takes and raises what
    `MessageFormat.decode` does.

    Args:
        one_each: whether a message that gives several rows, or none, is one that cannot be read.
    """
    if one_each:
        return Decoded(message_format.decode(messages), None)
    if isinstance(message_format, ChangelogFormat):
        changes = message_format.decode_changes(messages)
        return Decoded(changes.data, changes.messages, kinds=changes.kinds)
    return Decoded(*message_format.decode_several(messages))


class UnreadableError(ValueError):
    """Some messages cannot be read, for one and the same reason.

    Args:
        is_wrong: which of all.
    """

    def __init__(self, reason: str, is_wrong: npt.NDArray[np.bool_]) -> None:
        super().__init__(reason)
        self.is_wrong = is_wrong


def first_refused(messages: Sequence[M], decode: Callable[[Sequence[M]], object]) -> tuple[M, str]:
    """Of messages that are refused together the first that is refused alone, with the reason.

    Args:
        decode: reads some of them; raises ValueError where one cannot be read.
    """
    while len(messages) > 1:
        half = messages[: len(messages) // 2]
        try:
            decode(half)
        except ValueError:
            messages = half
        else:
            messages = messages[len(half) :]
    try:
        decode(messages)
    except ValueError as error:
        return messages[0], str(error)
    return messages[0], ""


def check_bad_values(given: str, format_name: str) -> None:
    """Refuses what the argument `bad_values` of a format does not take."""
    if given not in _BAD_VALUES:
        raise ValueError(f"{format_name}(bad_values=...) is {' or '.join(map(repr, _BAD_VALUES))}, not {given!r}")


def in_halves(
    messages: pa.Array, decode: Callable[[pa.Array], pa.RecordBatch], decode_one: Callable[[bytes], pa.RecordBatch]
) -> pa.RecordBatch:
    """The rows of messages that `decode` may refuse: halves of what is refused are tried, down to single messages.

    Args:
        decode: a row for each message; ValueError where one is refused.
        decode_one: the row of a message that is refused alone; raises ValueError, too.
    """
    try:
        return decode(messages)
    except ValueError:
        if len(messages) == 0:
            raise
        if len(messages) == 1:
            return decode_one(messages[0].as_py())
    half = len(messages) // 2
    parts = [in_halves(part, decode, decode_one) for part in (messages[:half], messages[half:])]
    return pa.concat_batches(parts)


def decode_each(message_format: MessageFormat, messages: pa.Array, one_each: bool = False) -> Decoded:
    """Decodes the messages that can be; a null, which is no message, gives no row and is no failure.

    Where a batch is refused its halves are tried, so that a few bad messages among many cost a few batches more.

    Args:
        one_each: as in `decode_rows`.
    """
    messages = messages.cast(pa.large_binary())
    present: npt.NDArray[np.int64] | None = None
    if messages.null_count:
        present = np.flatnonzero(messages.is_valid().to_numpy(zero_copy_only=False))
        messages = messages.drop_null()
    parts: list[Decoded] = []
    failures: list[Undecodable] = []
    _decode(message_format, messages, 0, parts, failures, one_each)
    data = _joined(message_format, [part.data for part in parts])
    kinds: pa.Array | None = None
    rows = np.concatenate([part.rows for part in parts if part.rows is not None] or [np.empty(0, np.int64)])
    if message_format.is_changelog:
        kinds = pa.concat_arrays([part.kinds for part in parts]) if parts else inserts(0)
    elif not failures and np.array_equal(rows, np.arange(len(messages))):
        return Decoded(data, present)
    if present is not None:
        rows = present[rows]
        failures = [Undecodable(int(present[each.index]), each.reason) for each in failures]
    return Decoded(data, rows, failures, kinds)


def _decode(
    message_format: MessageFormat,
    messages: pa.Array,
    first: int,
    parts: list[Decoded],
    failures: list[Undecodable],
    one_each: bool,
) -> None:
    if not len(messages):
        return
    try:
        decoded = decode_rows(message_format, messages, one_each)
        rows = np.arange(len(messages)) if decoded.rows is None else decoded.rows
        parts.append(Decoded(decoded.data, first + rows, kinds=decoded.kinds))
    except ValueError as error:
        if len(messages) == 1:
            failures.append(Undecodable(first, str(error)))
            return
        is_of_rows = message_format.is_changelog  # it may count those in its messages
        if isinstance(error, UnreadableError) and not is_of_rows and len(error.is_wrong) == len(messages):
            _decode_others(message_format, messages, first, parts, failures, one_each, error)
            return
        half = len(messages) // 2
        _decode(message_format, messages[:half], first, parts, failures, one_each)
        _decode(message_format, messages[half:], first + half, parts, failures, one_each)


def _decode_others(
    message_format: MessageFormat,
    messages: pa.Array,
    first: int,
    parts: list[Decoded],
    failures: list[Undecodable],
    one_each: bool,
    error: UnreadableError,
) -> None:
    """Decodes the messages that the error is not for."""
    others = np.flatnonzero(~error.is_wrong)
    readable: list[Decoded] = []
    found = [Undecodable(first + int(index), str(error)) for index in np.flatnonzero(error.is_wrong)]
    others_failures: list[Undecodable] = []
    _decode(message_format, messages.take(pa.array(others)), 0, readable, others_failures, one_each)
    parts += [Decoded(part.data, first + others[part.rows], kinds=part.kinds) for part in readable]
    found += [Undecodable(first + int(others[each.index]), each.reason) for each in others_failures]
    failures += sorted(found, key=lambda each: each.index)


def _joined(message_format: MessageFormat, parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    schema = message_format.record_type.schema
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return pa.concat_batches(parts)


def written_columns(data: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns that messages are written with: those of the schema, in its order and types.

    Raises:
        ValueError: one is not there, or has a value that its type does not hold.
    """
    columns = []
    for field in schema:
        index = data.schema.get_field_index(field.name)
        if index < 0:
            raise ValueError(f"there is no column {field.name!r}; columns: {', '.join(data.schema.names)}")
        try:
            columns.append(data.column(index).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueError(f"column {field.name!r} of {data.column(index).type} as {field.type}: {error}") from error
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_arrays(columns, schema=nullable)


def decimal_texts(decimals: pa.Array) -> pa.Array:
    """Decimals as text without exponents, which Arrow writes where they are small: `0.0000000000`, not `0E-10`."""
    texts = decimals.cast(pa.string())
    kind = decimals.type
    if not pc.any(pc.match_substring(texts, "E")).as_py():
        return texts
    if kind.scale < 0 or not (pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind)):
        return pa.array([None if each is None else f"{each:f}" for each in decimals.to_pylist()], pa.string())
    whole_type = (pa.decimal128 if pa.types.is_decimal128(kind) else pa.decimal256)(kind.precision, 0)
    digits = decimals.view(whole_type).cast(pa.string())
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), kind.scale + 1, "0")
    whole = pc.utf8_slice_codeunits(padded, 0, -kind.scale)
    return pc.binary_join_element_wise(sign, whole, ".", pc.utf8_slice_codeunits(padded, -kind.scale), "")


def java_numbers(texts: pa.Array) -> pa.Array:
    """Texts of numbers with the names that Java, and so Flink, has for those that are none."""
    if not pc.any(pc.match_substring_regex(texts, "n")).as_py():
        return texts
    return pc.replace_substring(pc.replace_substring(texts, "nan", "NaN"), "inf", "Infinity")


def shown(message: bytes) -> str:
    """A message as errors show it: its beginning."""
    return repr(message if len(message) <= _SHOWN_BYTES else message[:_SHOWN_BYTES] + b"...")


def rows_type(schema: pa.Schema) -> RecordType:
    """Rows with these columns."""
    return RecordType(Kind.ROW, schema)


def with_metadata(rows: RecordType, names: Sequence[str], known: Mapping[str, pa.DataType], source: str) -> RecordType:
    """The type of a source's rows: the columns that are known of messages besides, and then those that are in them.

    Args:
        rows: the type of what is in messages.
        names: the columns that are asked for, of `known`.
        source: its class, for errors.
    Raises:
        InvalidProgramError: there is no such column, or two would have one name.
    """
    for name in names:
        if name not in known:
            raise InvalidProgramError(f"{source}(metadata=...) knows {', '.join(known)}, not {name!r}")
        if name in rows.schema.names:
            raise InvalidProgramError(f"{source} would make two columns named {name!r}; name that of messages anew")
    if len(set(names)) < len(names):
        raise InvalidProgramError(f"{source}(metadata=...) names a column twice: {', '.join(names)}")
    return rows_type(pa.schema([*((name, known[name]) for name in names), *rows.schema])) if names else rows
