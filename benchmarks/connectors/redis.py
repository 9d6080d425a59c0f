"""Redis: streams read and written."""

from __future__ import annotations

import functools
from typing import Any

from benchmarks.connectors.way import Way, orders, read, write
from flinkray import RedisSink, RedisSource

_AT_ONCE = 10_000


def _client(address: str) -> Any:
    import redis

    return redis.Redis.from_url(address)


@functools.cache
def _fields(rows: int) -> list[dict[str, Any]]:
    return orders(rows).to_pylist()


def _add(address: str, place: str, rows: list[dict[str, Any]]) -> None:
    client = _client(address)
    for start in range(0, len(rows), _AT_ONCE):
        with client.pipeline(transaction=True) as pipeline:
            for row in rows[start : start + _AT_ONCE]:
                pipeline.xadd(place, row)
            pipeline.execute()
    client.close()


class RedisWay(Way):
    server = "redis"

    @property
    def address(self) -> str:
        return str(self.server_of_it.url)


class RedisRead(RedisWay):
    name = "redis-read"
    work = "a stream of Redis to columns"
    client_is = "XREAD COUNT 10000 of redis-py"

    def prepare(self, place: str, rows: int) -> None:
        _add(self.address, place, _fields(rows))

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        client, seen, last = _client(address), 0, b"0"
        while seen < rows:
            ((_, entries),) = client.xread({place: last}, count=_AT_ONCE)
            seen, last = seen + len(entries), entries[-1][0]
        client.close()

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        columns = {"id": int, "customer": int, "price": float, "word": str}
        read(RedisSource(address, place, columns, stop="latest"), rows)


class RedisWrite(RedisWay):
    name = "redis-write"
    work = "rows to a stream of Redis, exactly once by a script"
    client_is = "XADD of redis-py in transactions of 10000"

    def prepare(self, place: str, rows: int) -> None: ...

    @staticmethod
    def make(rows: int) -> None:
        _fields(rows)

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        _add(address, place, _fields(rows))

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        write(orders(rows), RedisSink(address, place))
