"""Changes in entries of streams, without a server."""

from __future__ import annotations

from flinkray import DebeziumJsonFormat, RedisSource
from flinkray.connectors.fetcher import Patience
from flinkray.connectors.redis.reader import _RedisFetcher


def test_changes_in_entries_are_rows_with_kinds_and_what_their_entry_has() -> None:
    source = RedisSource("redis://host", "s", value_format=DebeziumJsonFormat({"i": int}), metadata=["id"])
    assert source.is_changelog
    assert not RedisSource("redis://host", "s", {"i": int}).is_changelog
    changes = [b'{"op":"u","before":{"i":1},"after":{"i":2}}', b"", b'{"op":"d","before":{"i":2}}']
    entries = [(b"%d-0" % number, {b"value": change}) for number, change in enumerate(changes)]
    fetcher = _RedisFetcher(source._settings, source.output_type, "operator 'source'", Patience(print))
    batch = fetcher._rows("s", entries)
    assert batch.data.to_pylist() == [{"id": "0-0", "i": 1}, {"id": "0-0", "i": 2}, {"id": "2-0", "i": 2}]
    assert batch.row_kinds.to_pylist() == [1, 2, 3]
    assert batch.timestamps is not None
    assert batch.timestamps.to_pylist() == [0, 0, 2]
