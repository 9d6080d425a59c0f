"""`http`: rows as requests to a service, and a service that is asked for rows by key; `webhook`: requests as rows."""

from __future__ import annotations

from typing import Any, Literal, NoReturn, cast

import pyarrow as pa

from flinkray.connectors.http.lookup import HttpTable
from flinkray.connectors.http.sink import HttpSink
from flinkray.connectors.http.target import BODIES, Body
from flinkray.connectors.http.webhook import WebhookSource
from flinkray.connectors.lookup import LookupTable
from flinkray.connectors.request_buffer import RequestLimits
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Boundedness, Source, SourceReaderContext, SplitEnumeratorContext
from flinkray.errors import InvalidProgramError
from flinkray.tables.connectors.contract import Connector, TableSource, physical_columns
from flinkray.tables.connectors.formats import is_changelog, message_format, schema_of, skips_bad_messages
from flinkray.tables.connectors.options import ConnectorOptions, lookup_cache, size_in_bytes
from flinkray.tables.plans.tables import Table
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.records import Kind, RecordType

_TIMEOUT_MS = 30_000
_ANSWER_TIMEOUT_MS = 60_000
_ONE_MIB = 1 << 20
_METHODS = ("POST", "PUT", "PATCH")


class _LookedUp(Source):
    """The rows of a table that is only asked for some by key: a program that reads them is refused.

    Args:
        refusal: says so.
    """

    def __init__(self, schema: pa.Schema, refusal: InvalidProgramError) -> None:
        self._schema = schema
        self._refusal = refusal

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType:
        return RecordType(Kind.ROW, self._schema)

    def prepare(self) -> NoReturn:
        raise self._refusal

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> NoReturn:
        raise self._refusal

    def create_reader(self, context: SourceReaderContext) -> NoReturn:
        raise self._refusal


def _looked_up(table: Table, options: ConnectorOptions) -> TableSource:
    _lookup(table, options)  # all options are those of a table that is looked up in
    refusal = options.fail(
        "rows are written, and looked up in a join FOR SYSTEM_TIME AS OF a processing time; the table cannot be read"
    )
    return TableSource(_LookedUp(schema_of(physical_columns(table)), refusal))


def _sink(table: Table, options: ConnectorOptions) -> Sink:
    if is_changelog(options, "format"):
        raise options.fail("rows are only added, so 'format' is none of changes")
    body = cast(Body, options.one_of("sink.body", BODIES, "lines"))
    method = cast(Literal["POST", "PUT", "PATCH"], options.one_of("sink.method", _METHODS, "POST"))
    refused = cast(Literal["fail", "skip"], options.one_of("sink.refused", ("fail", "skip"), "fail"))
    return HttpSink(
        options.required("url"),
        message_format(options, "format", physical_columns(table)),
        body=body,
        method=method,
        headers=options.with_prefix("header."),
        timeout=options.millis("request.timeout", _TIMEOUT_MS) or 0,
        refused=refused,
        limits=_limits(options),
    )


def _limits(options: ConnectorOptions) -> RequestLimits | None:
    """What is said of how rows are gathered, by Flink's names for asynchronous sinks; None: nothing."""
    said: dict[str, Any] = {
        "max_rows": options.whole_number("sink.batch.max-size"),
        "max_bytes": options.read("sink.flush-buffer.size", size_in_bytes),
        "max_in_flight": options.whole_number("sink.requests.max-inflight"),
        "max_buffered_rows": options.whole_number("sink.requests.max-buffered"),
        "max_time_in_buffer_ms": options.millis("sink.flush-buffer.timeout"),
        "max_attempts": options.whole_number("sink.max-attempts"),
    }
    given = {name: value for name, value in said.items() if value is not None}
    return RequestLimits(**given) if given else None


def _lookup(table: Table, options: ConnectorOptions) -> LookupTable:
    options.one_of("format", ("json",), "json")
    return HttpTable(
        options.required("url"),
        schema_of(physical_columns(table)),
        options.with_prefix("header."),
        options.millis("request.timeout", _TIMEOUT_MS) or 0,
        lookup_cache(options),
    )


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    columns = physical_columns(table)
    port = options.whole_number("port")
    if port is None:
        raise options.fail("option 'port' is missing")
    if skips_bad_messages(options, "format"):
        raise options.fail("rows that cannot be read are not left out: who sends them gets the answer 400")
    answer = cast(Literal["checkpoint", "received"], options.one_of("answer", ("checkpoint", "received"), "checkpoint"))
    source = WebhookSource(
        port,
        message_format(options, "format", columns),
        answer=answer,
        host=options.text("host", "127.0.0.1"),
        path=options.text("path", "/"),
        token=options.text("token") or None,
        max_bytes=options.read("max-body-size", size_in_bytes, _ONE_MIB),
        max_waiting_rows=options.whole_number("max-waiting-rows", 10_000) or 0,
        answer_timeout=options.millis("answer.timeout", _ANSWER_TIMEOUT_MS) or 0,
    )
    return TableSource(source)


def _changes(_table: Table, options: ConnectorOptions) -> Changes:
    return Changes(updates=True, deletes=True) if is_changelog(options, "format") else INSERTS


HTTP = Connector(_looked_up, _sink, lookup=_lookup)
WEBHOOK = Connector(_source, changes=_changes)
