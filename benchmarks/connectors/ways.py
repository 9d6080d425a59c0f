"""All ways by their names."""

from __future__ import annotations

from benchmarks.connectors.kafka import KafkaRead, KafkaWrite
from benchmarks.connectors.nats import NatsRead, NatsWrite
from benchmarks.connectors.postgres import PostgresAppend, PostgresChanges, PostgresRead, PostgresUpsert
from benchmarks.connectors.redis import RedisRead, RedisWrite
from benchmarks.connectors.way import Way

WAYS: dict[str, type[Way]] = {
    way.name: way
    for way in (
        KafkaRead,
        KafkaWrite,
        PostgresRead,
        PostgresAppend,
        PostgresUpsert,
        PostgresChanges,
        RedisRead,
        RedisWrite,
        NatsRead,
        NatsWrite,
    )
}
