"""What a KafkaSource is to do, as its enumerator and its readers are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.kafka.offsets import KafkaOffsets


class KafkaSourceSettings(Struct, frozen=True):
    """The arguments of a KafkaSource, checked."""

    servers: str
    topics: str | tuple[str, ...]
    """A regular expression, or names."""
    value_format: MessageFormat
    metadata: tuple[str, ...]
    start: KafkaOffsets
    stop: KafkaOffsets | None
    group_id: str | None
    isolation: str
    bad_messages: Literal["fail", "skip"]
    discovery_interval_ms: int | None
    client_options: Mapping[str, Any]
    key: tuple[str, ...] = ()
    """The columns that come from the key."""
    key_format: MessageFormat | None = None
    """None: keys are not read."""
    upsert: bool = False
    key_prefix: str = ""
    """What the columns of the key begin with, and have not in the key itself."""
    metadata_columns: tuple[str, ...] = ()
    """The names of the columns of `metadata`, where they are others."""
    bad_keys: Literal["fail", "skip"] | None = None
    """None: as `bad_messages`."""

    @property
    def is_changelog(self) -> bool:
        """Whether rows have kinds."""
        return self.upsert or self.value_format.is_changelog

    @property
    def is_bounded(self) -> bool:
        """Whether the source ends by itself."""
        return self.stop is not None
