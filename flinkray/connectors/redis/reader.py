"""Reads streams on a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from flinkray.batches.batch import Batch
from flinkray.connectors.fetcher import AWAY_S, Fetched, FetchingReader, Patience, PausingFetcher, few
from flinkray.connectors.formats.message_format import Decoded, decode_rows, first_refused
from flinkray.connectors.redis.clients import RedisError, client, explained, is_transient, refuse, shown
from flinkray.connectors.redis.entries import VALUE_FIELD, decode_fields
from flinkray.connectors.redis.enumerator import RedisSplit
from flinkray.connectors.redis.settings import RedisSourceSettings
from flinkray.connectors.source import SourceReaderContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import RecordError
from flinkray.types.records import RecordType

log = logging.getLogger(__name__)

METADATA = {"stream": pa.string(), "id": pa.string()}
"""What is known of an entry besides its fields."""
_ENTRIES = 10_000
_WAIT_MS = 100
"""How long the server waits for entries if there are none."""
_RETRY_S = 1.0

Entry = tuple[bytes, dict[bytes, bytes]]


class RedisReader(FetchingReader[RedisSplit]):
    """Reads the streams of a subtask."""

    def __init__(self, context: SourceReaderContext, settings: RedisSourceSettings, rows: RecordType) -> None:
        where = subtask_label(context)
        fetcher = _RedisFetcher(settings, rows, where, Patience(context.count))
        super().__init__(context, fetcher, f"redis of {where}")


class _RedisFetcher(PausingFetcher[RedisSplit]):
    def __init__(self, settings: RedisSourceSettings, rows: RecordType, where: str, patience: Patience) -> None:
        super().__init__()
        self._settings = settings
        self._type = rows
        self._where = where
        self._patience = patience
        self._client: Any = None

    def open(self) -> None:
        self._client = client(self._settings.url)

    def close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                self._client.close()

    def add_splits(self, splits: Sequence[RedisSplit]) -> Iterator[Fetched[RedisSplit]]:
        for split in splits:
            if split.is_begun and self._settings.fails_if_trimmed:
                self._refuse_trimmed(split)
            self._splits[split.stream] = split
            yield from self._end_if_reached(split)

    def fetch(self) -> Iterator[Fetched[RedisSplit]]:
        wanted = {name: split.last_id for name, split in self._splits.items() if name not in self._paused}
        try:
            found = self._client.xread(wanted, count=_ENTRIES, block=_WAIT_MS) or []
        except Exception as error:
            self._wait_or_refuse(error)
            return
        self._patience.answered()
        for name, entries in found:
            yield from self._fetched(self._splits[name.decode()], entries)

    def _fetched(self, split: RedisSplit, entries: list[Entry]) -> Iterator[Fetched[RedisSplit]]:
        last = entries[-1][0].decode()
        if split.stop_id is not None and _order(last) > _order(split.stop_id):
            entries = [entry for entry in entries if _order(entry[0].decode()) <= _order(split.stop_id)]
        following = replace(split, last_id=last, is_begun=True)
        # A deleted entry is read as one without fields.
        present = [entry for entry in entries if entry[1]]
        batch = self._rows(split.stream, present) if present else None
        self._splits[split.stream] = following
        yield Fetched(following, batch)
        yield from self._end_if_reached(following)

    def _end_if_reached(self, split: RedisSplit) -> Iterator[Fetched[RedisSplit]]:
        if split.stop_id is not None and _order(split.last_id) >= _order(split.stop_id):
            del self._splits[split.stream]
            yield Fetched(split, is_end=True)

    def _rows(self, stream: str, entries: list[Entry]) -> Batch:
        settings = self._settings
        try:
            decoded = self._decoded(entries)
        except ValueError as error:
            bad, reason = first_refused(entries, self._decoded)
            raise RecordError(
                f"{self._where}: entry {bad[0].decode()} of stream {stream!r} cannot be read: {reason or error}. Read "
                "fields as text or bytes, and convert them behind the source"
            ) from error
        if decoded.rows is not None:
            entries = [entries[index] for index in decoded.rows.tolist()]
        texts = pa.array([entry_id.decode() for entry_id, _ in entries], pa.string())
        metadata = {"stream": pa.repeat(pa.scalar(stream), len(entries)), "id": texts}
        columns = [*(metadata[name] for name in settings.metadata), *decoded.data.columns]
        times = pa.array([int(entry_id.partition(b"-")[0]) for entry_id, _ in entries], pa.int64())
        data = pa.RecordBatch.from_arrays(columns, schema=self._type.schema)
        return Batch(data, self._type.kind, times, kinds=decoded.kinds)

    def _decoded(self, entries: Sequence[Entry]) -> Decoded:
        settings = self._settings
        if settings.value_format is None:
            assert settings.fields is not None
            return Decoded(decode_fields([fields for _, fields in entries], settings.fields), None)
        values = [fields.get(VALUE_FIELD.encode(), b"") for _, fields in entries]
        return decode_rows(settings.value_format, pa.array(values, pa.large_binary()))

    # -- failures

    def _wait_or_refuse(self, error: Exception) -> None:
        places = few(f"{name!r} behind entry {split.last_id}" for name, split in self._splits.items())
        what = f"cannot read streams of {shown(self._settings.url)} ({places})"
        if not is_transient(error):
            refuse(error, self._where, what)
        if not self._patience.asks_again():
            refuse(error, self._where, f"{what}, asked again for {AWAY_S:.0f} s")
        log.warning("%s: %s: %s; trying again", self._where, what, explained(error))
        time.sleep(_RETRY_S)  # the thread has nothing else to do meanwhile

    def _refuse_trimmed(self, split: RedisSplit) -> None:
        """Raises where entries behind the one that was read last may have been deleted."""
        try:
            last = self._client.xrange(split.stream, split.last_id, split.last_id)
            following = self._client.xrange(split.stream, f"({split.last_id}", count=1)
        except Exception as error:
            refuse(error, self._where, f"cannot read stream {split.stream!r} of {shown(self._settings.url)}")
        if not last and following:
            raise RedisError(
                f"{self._where}: entry {split.last_id} of stream {split.stream!r}, behind which to read on, is not "
                "there any more, and so entries after it may be missing. Keep more of them (MAXLEN) than come while a "
                "job stands still; or let RedisSource(trimmed='skip') read on"
            )


def _order(entry_id: str) -> tuple[int, int]:
    """Ids in the order of their entries."""
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)
