"""Streams of NATS JetStream as a sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flinkray.connectors.committer import Committer
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.nats.clients import NatsServer, nats
from flinkray.connectors.nats.commits import NatsCommitter
from flinkray.connectors.nats.exactly_once import MarkedStream
from flinkray.connectors.nats.messages import NatsTarget
from flinkray.connectors.nats.source import checked_stream
from flinkray.connectors.nats.subjects import checked_subject
from flinkray.connectors.nats.writers import PublishingWriter, RowsWriter
from flinkray.connectors.request_buffer import RequestLimits
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import InvalidProgramError
from flinkray.time.durations import Duration, to_millis

_NAME = "NatsSink"
_LIMITS = RequestLimits(max_rows=2_000, max_in_flight=1, max_time_in_buffer_ms=50)


class NatsSink(Sink):
    """Rows as messages of a stream of NATS JetStream. Comes with `flinkray[nats]`.

    At least once by custom: rows are published as they come, those of a subtask in order unless some have to be sent
    again, and a checkpoint waits for the server's answers. A subject that no stream has is an error.

    Exactly once, the rows between two checkpoints are kept in the later one, and when it is complete, written in atomic
    batches of 999. Each batch ends with a mark, a message without payload at a subject of its own, by which the server
    refuses the batch if it comes again. The stream needs NATS 2.12, `allow_atomic`, `allow_msg_ttl` and a subject for
    marks, and must not delete marks before `marks_kept` is over: one that deletes its oldest messages when it is full
    (max_msgs, max_bytes) has to hold more than comes while a job stands still. A stream that is not so, or has not the
    subject of a row, is an error when the job starts or the row comes; of a server that does not answer, at the commit.

    Args:
        servers: "nats://host:4222", or several of a cluster, with user and password or a token if need be; shown
            nowhere.
        subject: where rows are published.
        value_format: how rows are written.
        subject_column: instead of `subject`: the column with each row's subject, which is not in the payload.
        headers_column: the column with each row's headers, which is not in the payload: maps of text to text, of which
            null values are left out. Names that begin with "Nats-" are the server's own.
        message_id: at least once: the column with an id, by which the server drops a row that comes again within the
            stream's duplicate window.
        stream: exactly once: the name of the stream that has the subjects.
        marks: exactly once: what the subjects of marks begin with, which the stream has to have too: with
            "orders-marks" it needs "orders-marks.>". Readers leave them out by reading other subjects.
        delivery_guarantee: AT_LEAST_ONCE or EXACTLY_ONCE.
        marks_kept: how long a mark is kept: a savepoint may be restored for so long without its rows coming twice;
            None: as long as the stream keeps messages.
        limits: at least once: how many rows are under way before their answers are waited for.
        credentials: the path of a credentials file, on all nodes.
    """

    def __init__(
        self,
        servers: str | Iterable[str],
        subject: str | None,
        value_format: MessageFormat,
        subject_column: str | None = None,
        message_id: str | None = None,
        stream: str | None = None,
        marks: str | None = None,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
        marks_kept: Duration | None = "7 d",
        limits: RequestLimits = _LIMITS,
        credentials: str | None = None,
        headers_column: str | None = None,
    ) -> None:
        if (subject is None) == (subject_column is None):
            raise InvalidProgramError(f"{_NAME} takes either subject= or subject_column=")
        if subject is not None:
            checked_subject(subject, f"{_NAME}(subject=...)", may_be_filter=False)
        if delivery_guarantee is DeliveryGuarantee.NONE:
            raise InvalidProgramError(f"{_NAME}(delivery_guarantee=...) takes AT_LEAST_ONCE or EXACTLY_ONCE")
        is_exact = delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
        if is_exact and (stream is None or marks is None):
            raise InvalidProgramError(f"{_NAME}: exactly once needs stream= and marks=, a subject for its marks")
        if not is_exact and (stream is not None or marks is not None):
            raise InvalidProgramError(f"{_NAME}(stream=..., marks=...) are for DeliveryGuarantee.EXACTLY_ONCE")
        if is_exact and message_id is not None:
            raise InvalidProgramError(f"{_NAME}(message_id=...) is for at least once: exactly once needs no ids")
        self._server = NatsServer((servers,) if isinstance(servers, str) else tuple(servers), credentials)
        self._target = NatsTarget(
            subject=subject,
            subject_column=subject_column,
            value_format=value_format,
            message_id=message_id,
            headers_column=headers_column,
        )
        self._stream = "" if stream is None else checked_stream(stream, _NAME)
        self._marks = "" if marks is None else checked_subject(marks, f"{_NAME}(marks=...)", may_be_filter=False)
        self._delivery_guarantee = delivery_guarantee
        kept_ms = None if marks_kept is None else to_millis(marks_kept, "marks_kept")
        self._marks_kept_s = None if kept_ms is None else max(1, kept_ms // 1_000)
        self._limits = limits

    def __repr__(self) -> str:
        place = self._target.subject or f"column {self._target.subject_column}"
        return f"{_NAME}({str(self._server)!r}, {place!r}, {self._delivery_guarantee.value})"

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return self._delivery_guarantee

    def prepare(self) -> NatsSink:
        nats()  # an error names the extra before anything is started
        return self

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        where = subtask_label(context)
        if self._delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return RowsWriter(self._server, self._marked_stream, self._target, where)
        return PublishingWriter(context, self._limits, self._server, self._target, where)

    def create_committer(self) -> Committer | None:
        if self._delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
            return None
        return NatsCommitter(self._server, self._marked_stream)

    @property
    def _marked_stream(self) -> MarkedStream:
        return MarkedStream(self._stream, self._marks, self._marks_kept_s)
