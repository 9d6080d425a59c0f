"""What a source tells its enumerator and readers."""

from __future__ import annotations

from msgspec import Struct

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.nats.clients import NatsServer


class NatsSourceSettings(Struct, frozen=True, kw_only=True):
    """`NatsSource` says what each is."""

    server: NatsServer
    stream: str
    subjects: tuple[str, ...]
    value_format: MessageFormat
    metadata: tuple[str, ...]
    start: str | int
    """"earliest", "latest", a sequence, or a time as RFC 3339 has it."""
    stop: str | int | None
    fails_if_gone: bool
