"""Reads streams on a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from flinkray.batches.batch import Batch
from flinkray.connectors.fetcher import AWAY_S, Fetched, FetchingReader, Patience, PausingFetcher, few
from flinkray.connectors.formats.message_format import Decoded, decode_rows, first_refused
from flinkray.connectors.redis.clients import RedisError, client, explained, is_transient, redis, refuse, shown
from flinkray.connectors.redis.entries import VALUE_FIELD, decode_fields
from flinkray.connectors.redis.removals import StreamCounts, advanced, look_at
from flinkray.connectors.redis.settings import RedisSourceSettings
from flinkray.connectors.redis.splits import RedisSplit, order_of
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
_KEEP_MORE = (
    "Keep more of them (MAXLEN) than come while a job stands still or is slower; or let RedisSource(trimmed='skip') "
    "read on"
)

Entry = tuple[bytes, dict[bytes, bytes]]
_CountsAndEntries = tuple[dict[str, StreamCounts | None], list[tuple[bytes, list[Entry]]]]


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
        self._counts = True
        """The server is asked what it counts."""

    def open(self) -> None:
        self._client = client(self._settings.url)

    def close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                self._client.close()

    def add_splits(self, splits: Sequence[RedisSplit]) -> Iterator[Fetched[RedisSplit]]:
        for split in splits:
            if split.is_begun and split.number is None and self._settings.fails_if_trimmed:
                self._refuse_trimmed(split)
            self._splits[split.stream] = split
            yield from self._end_if_reached(split)

    def fetch(self) -> Iterator[Fetched[RedisSplit]]:
        wanted = {name: split.last_id for name, split in self._splits.items() if name not in self._paused}
        try:
            counts, found = self._read_and_count(wanted) if self._counts else self._read_only(wanted)
            if self._counts and not found:
                self._read(wanted, 1)  # waits
        except Exception as error:
            self._wait_or_refuse(error)
            return
        self._patience.answered()
        for name, count in counts.items():
            yield from (
                self._not_counted(self._splits[name]) if count is None else self._compared(self._splits[name], count)
            )
        for key, entries in found:
            stream = key.decode()
            yield from self._fetched(self._splits[stream], entries, counts.get(stream))
        for stream in wanted.keys() - {key.decode() for key, _ in found}:
            yield from self._end_if_nothing_is_left(self._splits[stream])

    def _read(self, wanted: Mapping[str, str], most: int) -> list[tuple[bytes, list[Entry]]]:
        return self._client.xread(wanted, count=most, block=_WAIT_MS) or []

    def _read_only(self, wanted: Mapping[str, str]) -> _CountsAndEntries:
        return dict.fromkeys(wanted), self._read(wanted, _ENTRIES)

    def _read_and_count(self, wanted: Mapping[str, str]) -> _CountsAndEntries:
        """Entries, and by stream that is there what the server counts at the same moment; None: it does not count."""
        asked = self._client.pipeline(transaction=True)
        for name in wanted:
            asked.xinfo_stream(name)
        asked.xread(wanted, count=_ENTRIES)
        try:
            *infos, found = asked.execute(raise_on_error=False)
        except redis().ResponseError as error:
            if is_transient(error):
                raise
            # A user without XINFO, or a proxy without transactions. What else is wrong is said by reading alone.
            self._counts = False
            log.info("%s: removed entries are not noticed while it reads: %s", self._where, explained(error))
            return self._read_only(wanted)
        if isinstance(found, Exception):
            raise found
        known = {name: info for name, info in zip(wanted, infos, strict=True) if not isinstance(info, Exception)}
        return {name: StreamCounts.of(info) for name, info in known.items()}, found or []

    def _not_counted(self, split: RedisSplit) -> Iterator[Fetched[RedisSplit]]:
        """A server that counted before, which made it needless to look for the last entry, does not any more."""
        if split.number is not None:
            if split.is_begun and self._settings.fails_if_trimmed:
                self._refuse_trimmed(split)
            self._splits[split.stream] = replace(split, number=None)
            yield Fetched(self._splits[split.stream])

    def _compared(self, split: RedisSplit, counts: StreamCounts) -> Iterator[Fetched[RedisSplit]]:
        """Raises, or says in the log, that entries were removed before they were read."""
        look = look_at(split, counts)
        if look.is_another:
            log.warning(
                "%s: stream %r has fewer entries than were read from it: it was deleted and made anew, or a replica "
                "took over that had not had all of them. Entries may be missing",
                self._where,
                split.stream,
            )
        if look.unread or look.is_uncertain:
            missing = "entries" if look.is_uncertain else "1 entry" if look.unread == 1 else f"{look.unread} entries"
            certainty = "may have been" if look.is_uncertain else "were"
            place = f"of stream {split.stream!r} behind {split.last_id}"
            what = f"{missing} {place} {certainty} removed before they were read"
            if self._settings.fails_if_trimmed:
                raise RedisError(f"{self._where}: {what}. {_KEEP_MORE}")
            log.warning("%s: %s", self._where, what)
        if look.split != split:
            self._splits[split.stream] = look.split
            yield Fetched(look.split)

    def _fetched(
        self, split: RedisSplit, entries: list[Entry], counts: StreamCounts | None
    ) -> Iterator[Fetched[RedisSplit]]:
        last = entries[-1][0].decode()
        if split.stop_id is not None and order_of(last) > order_of(split.stop_id):
            entries = [entry for entry in entries if order_of(entry[0].decode()) <= order_of(split.stop_id)]
        following = advanced(split, last, len(entries), counts)
        # A deleted entry is read as one without fields.
        present = [entry for entry in entries if entry[1]]
        batch = self._rows(split.stream, present) if present else None
        self._splits[split.stream] = following
        yield Fetched(following, batch)
        yield from self._end_if_reached(following)

    def _end_if_nothing_is_left(self, split: RedisSplit) -> Iterator[Fetched[RedisSplit]]:
        """The entry at which a split is to end was there once: where nothing comes any more, it was removed."""
        if split.stop_id is not None:
            del self._splits[split.stream]
            yield Fetched(split, is_end=True)

    def _end_if_reached(self, split: RedisSplit) -> Iterator[Fetched[RedisSplit]]:
        if split.stop_id is not None and order_of(split.last_id) >= order_of(split.stop_id):
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
                f"there any more, and so entries after it may be missing. {_KEEP_MORE}"
            )
