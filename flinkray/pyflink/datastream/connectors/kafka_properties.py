"""Properties of Java's Kafka clients, and of Flink's connector, as what flinkray's client takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from flinkray.connectors.kafka.java_properties import as_librdkafkas
from flinkray.errors import InvalidProgramError

_MEANINGLESS = frozenset(
    {
        "key.deserializer",
        "value.deserializer",
        "key.serializer",
        "value.serializer",
        "enable.auto.commit",
        "auto.offset.reset",
        "commit.offsets.on.checkpoint",
        "register.consumer.metrics",
    }
)
"""What the runtime decides itself."""


class ClientProperties(Struct, frozen=True):
    """What was said; `others` are options of librdkafka, most of which have Java's names."""

    servers: str
    group_id: str | None
    isolation: Literal["read_committed", "read_uncommitted"]
    discovery_interval_ms: int | None
    others: Mapping[str, Any]


def client_properties(properties: Mapping[str, str]) -> ClientProperties:
    """
    Raises:
        InvalidProgramError: no servers are given, or the login is one that only Java has.
    """
    left = {key: value for key, value in properties.items() if key not in _MEANINGLESS}
    servers = left.pop("bootstrap.servers", "")
    if not servers:
        raise InvalidProgramError("servers are needed: set_bootstrap_servers('host:9092')")
    # Java's consumer reads what is not committed unless told otherwise.
    isolation = left.pop("isolation.level", "read_uncommitted")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise InvalidProgramError(f"isolation.level is read_committed or read_uncommitted, not {isolation!r}")
    interval = int(left.pop("partition.discovery.interval.ms", "300000"))
    left = as_librdkafkas(left)
    group_id = left.pop("group.id", None)
    return ClientProperties(
        servers,
        group_id,
        "read_committed" if isolation == "read_committed" else "read_uncommitted",
        interval if interval > 0 else None,
        left,
    )
