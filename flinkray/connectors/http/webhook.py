"""Requests that others make as a source of rows."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pyarrow as pa

from flinkray.batches.batch import Batch, concat
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.http.bodies import Split, UnknownContentType, decoded_body, split_of
from flinkray.connectors.http.clients import aiohttp, is_shown
from flinkray.connectors.http.intake import Answer, BodyBytes, Intake
from flinkray.connectors.http.server import HttpServer, check_server, web
from flinkray.connectors.source import (
    Boundedness,
    ReaderStatus,
    Source,
    SourceBatch,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.split_list import SplitListEnumerator
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import ConnectorError, InvalidProgramError
from flinkray.time.durations import Duration, to_millis
from flinkray.types.records import RecordType

log = logging.getLogger(__name__)

_NAME = "WebhookSource"
_BODY_S = 30.0
"""A client that promises a body and does not send it must not keep its connection for ever."""
_AGAIN_S = "1"
"""What `Retry-After` says."""
_WARN_EVERY_S = 60.0


class WebhookSource(Source):
    """The rows that others POST to a server which this source is. Comes with `flinkray[http]`.

    A body is a JSON object, a JSON array of them, or lines of them (application/x-ndjson); with `CsvFormat` lines of
    text/csv, with other formats also text/plain, a message per line, and application/octet-stream, one message. All
    rows of a request are taken, or none. Rows have the time at which they came as event time.

    What the answer 200 promises:

    - answer="checkpoint": the rows are in a complete checkpoint. At least once, if clients send again what they got no
      200 for. Answers take as long as checkpoints, so many requests should be under way.
    - answer="received": the rows have come. At most once: those that no checkpoint has are lost with the task.

    Other answers: 400 (a row cannot be read), 401 (no token), 404, 405, 408 (the body does not come), 413 (too large),
    415 (content type), and 503 with `Retry-After`, where too many rows wait, bodies of more than 64 MiB are being read,
    no checkpoint completes in time, or the job stops.

    One subtask listens, on the machine that it runs on.

    Args:
        port: where it listens; 0: any free port, which the log tells.
        value_format: how messages are read. A ChangelogFormat makes a changelog.
        answer: "checkpoint" or "received".
        host: the address that it listens on: "127.0.0.1" hears this machine alone, "0.0.0.0" all that reach it.
        path: of requests.
        token: what they have to show, as `Authorization: Bearer <token>` or `X-Token: <token>`; shown nowhere. None:
            nothing, and then requests of pages in browsers are refused.
        max_bytes: of a body.
        max_waiting_rows: how many rows may wait for the task, or for their checkpoint; those for the task have 64 MiB
            at most.
        answer_timeout: how long a request waits for its checkpoint at most; should be longer than the interval of
            checkpoints and what one takes, as rows that the task has by then stay in the stream.
    """

    def __init__(
        self,
        port: int,
        value_format: MessageFormat,
        answer: Literal["checkpoint", "received"] = "checkpoint",
        host: str = "127.0.0.1",
        path: str = "/",
        token: str | None = None,
        max_bytes: int = 1 << 20,
        max_waiting_rows: int = 10_000,
        answer_timeout: Duration = "60 s",
    ) -> None:
        if answer not in ("checkpoint", "received"):
            raise InvalidProgramError(f"{_NAME}(answer=...) is 'checkpoint' or 'received', not {answer!r}")
        answer_timeout_ms = to_millis(answer_timeout, "answer_timeout")
        limits = {"max_bytes": max_bytes, "max_waiting_rows": max_waiting_rows, "answer_timeout": answer_timeout_ms}
        check_server(host, port, path, token, limits, _NAME)
        self.port = port
        self.value_format = value_format
        self.waits_for_checkpoints = answer == "checkpoint"
        self.host = host
        self.path = path
        self.token = token
        self.max_bytes = max_bytes
        self.max_waiting_rows = max_waiting_rows
        self.answer_timeout_ms = answer_timeout_ms

    def __repr__(self) -> str:
        return f"{_NAME}({self.host!r}, {self.port}, {self.path!r})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType:
        return self.value_format.record_type

    @property
    def is_parallel(self) -> bool:
        return False

    @property
    def is_changelog(self) -> bool:
        return self.value_format.is_changelog

    def prepare(self) -> WebhookSource:
        aiohttp()  # an error names the extra before anything is started
        return self

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return SplitListEnumerator(context, ())

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return WebhookReader(context, self)


class WebhookReader(SourceReader):
    """The task's side: takes what has come, and lets requests be answered.

    Raises:
        InvalidProgramError: answers wait for checkpoints, and the job has none.
    """

    def __init__(self, context: SourceReaderContext, source: WebhookSource) -> None:
        self._context = context
        where = subtask_label(context)
        if source.waits_for_checkpoints and not context.has_checkpoints:
            raise InvalidProgramError(
                f"{where}: {_NAME} answers when a checkpoint is complete, and the job takes none: set "
                "execution.checkpointing.interval, or answer='received'"
            )
        self._intake = Intake(source.max_waiting_rows, source.waits_for_checkpoints)
        self._handler = _Handler(context, source, self._intake, where)
        is_first = context.attempt_number == 0
        self.server = HttpServer(
            self._handler.handle, source.host, source.port, where, _NAME, is_first, context.notify_available
        )

    def start(self) -> None:
        self.server.start()

    def poll(self) -> SourceBatch | ReaderStatus:
        if self.server.failure is not None:
            raise self.server.failure
        taken = self._intake.take(self._context.batch_rows)
        return SourceBatch(concat(taken), "webhook") if taken else ReaderStatus.NOTHING_AVAILABLE

    def add_splits(self, splits: Any) -> None: ...

    def notify_no_more_splits(self) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        self._intake.barrier(checkpoint_id)
        return []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._intake.complete(checkpoint_id)

    def pending_rows(self) -> int:
        return self._intake.rows

    def close(self) -> None:
        self._intake.close()
        self.server.close()
        self._handler.close()


class _Refused(Exception):
    def __init__(self, status: int, what: str, **headers: str) -> None:
        super().__init__(status, what)
        self.status = status
        self.what = what
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class _Handler:
    """The server's side, on its event loop."""

    def __init__(self, context: SourceReaderContext, source: WebhookSource, intake: Intake, where: str) -> None:
        self._context = context
        self._source = source
        self._intake = intake
        self._bodies = BodyBytes()
        self._where = where
        # A format may ask a registry for a schema: other requests must not wait for that on the loop.
        self._decoding = ThreadPoolExecutor(1, f"{_NAME} decoding")
        self._warned: dict[str, float] = {}
        """From when on each warning is logged again."""
        self._web = web()

    def close(self) -> None:
        self._decoding.shutdown(wait=False, cancel_futures=True)

    async def handle(self, request: Any) -> Any:
        try:
            rows = await self._take(request, self._accepted(request))
        except _Refused as refused:
            self._context.count("requests_refused")
            answer = {"error": refused.what}
            return self._web.json_response(answer, status=refused.status, headers=refused.headers)
        return self._web.json_response({"rows": rows})

    def _accepted(self, request: Any) -> Split:
        """How to read the body of a request whose headers are as they should be."""
        source = self._source
        if request.path != source.path:
            raise _Refused(404, f"rows are taken at {source.path}")
        if request.method != "POST":
            raise _Refused(405, "rows are taken by POST", Allow="POST")
        if not is_shown(source.token, request.headers):
            what = "show the token, as Authorization: Bearer <token> or X-Token: <token>"
            raise _Refused(401, what, WWW_Authenticate="Bearer")
        if source.token is None and "Origin" in request.headers:
            raise _Refused(403, "pages in browsers are not heard: the source has no token")
        try:
            split = split_of(source.value_format, request.headers.get("Content-Type", ""))
        except UnknownContentType as error:
            raise _Refused(415, str(error)) from error
        if (request.content_length or 0) > source.max_bytes:
            raise self._too_large()
        if self._intake.is_full:
            raise _Refused(503, "too many rows wait", Retry_After=_AGAIN_S)
        if not self._bodies.have_room(request.content_length or 0):
            raise self._too_many_bodies()
        return split

    async def _take(self, request: Any, split: Split) -> int:
        """Hands the rows over, and waits until they may be forgotten; gives how many they are."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[bool] = loop.create_future()

        def answer(is_taken: bool) -> None:
            loop.call_soon_threadsafe(_settle, answered, is_taken)

        rows = await self._hand_over(request, split, answer)
        if rows:
            await self._wait(answered, answer)
        return rows

    async def _hand_over(self, request: Any, split: Split, answer: Answer) -> int:
        """How many rows the intake has got. Neither body nor rows are kept here while a checkpoint is waited for."""
        pieces: list[bytes] = []
        try:
            await self._read(request, pieces)
            batch = await self._rows_of(split, b"".join(pieces))
        finally:
            self._bodies.remove(sum(map(len, pieces)))
        if batch is None:
            return 0
        if not self._intake.admit(batch, answer):
            raise _Refused(503, "too many rows wait", Retry_After=_AGAIN_S)
        self._context.notify_available()
        return batch.num_rows

    async def _read(self, request: Any, pieces: list[bytes]) -> None:
        """Adds the body to the pieces, all of which are counted, also where it is refused."""
        most, nbytes = self._source.max_bytes, 0
        try:
            async with asyncio.timeout(_BODY_S):
                while piece := await request.content.read(most + 1):
                    # Of a body that comes in chunks nobody knew the length.
                    if not self._bodies.have_room(len(piece), nbytes):
                        raise self._too_many_bodies()
                    pieces.append(piece)
                    self._bodies.add(len(piece))
                    nbytes += len(piece)
                    if nbytes > most:
                        raise self._too_large()
        except TimeoutError:
            raise _Refused(408, f"the body did not come within {_BODY_S:.0f} s") from None
        except self._web.RequestPayloadError as error:
            raise _Refused(400, f"the body cannot be read: {error}") from error

    async def _rows_of(self, split: Split, body: bytes) -> Batch | None:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._decoding, self._decoded, split, body)
        except (ValueError, pa.ArrowException) as error:
            raise _Refused(400, f"the rows cannot be read: {error}") from error
        except ConnectorError as error:
            self._warn("%s: %s cannot read rows, whose senders are to send them again: %s", error)
            raise _Refused(503, "what the rows are read with cannot be reached", Retry_After=_AGAIN_S) from error

    def _decoded(self, split: Split, body: bytes) -> Batch | None:
        """The rows of a body, if it has any; on the thread that decodes."""
        messages = split(body)
        if not len(messages):
            return None
        decoded = decoded_body(self._source.value_format, messages)
        kind = self._source.value_format.record_type.kind
        batch = Batch(decoded.data, kind, self._context.now_ms(), kinds=decoded.kinds)
        return batch if batch.num_rows else None

    async def _wait(self, answered: asyncio.Future[bool], answer: Answer) -> None:
        timeout_ms = self._source.answer_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                is_taken = await answered
        except TimeoutError:
            if not self._intake.withdraw(answer):
                self._context.count("answers_overdue")
                self._warn(
                    "%s: %s: no checkpoint was complete within %d ms after rows came, and they come twice if they are "
                    "sent again: answer_timeout has to be longer than execution.checkpointing.interval",
                    timeout_ms,
                )
            what = f"no checkpoint was complete within {timeout_ms} ms: send the rows again"
            raise _Refused(503, what, Retry_After=_AGAIN_S) from None
        if not is_taken:
            raise _Refused(503, "the job stops or starts again: send the rows again", Retry_After=_AGAIN_S)

    def _warn(self, text: str, *values: object) -> None:
        """Logs it, once in a while."""
        now = asyncio.get_running_loop().time()
        if now >= self._warned.get(text, now):
            self._warned[text] = now + _WARN_EVERY_S
            log.warning(text, self._where, _NAME, *values)

    def _too_many_bodies(self) -> _Refused:
        return _Refused(503, "too many bytes of other requests are being read", Retry_After=_AGAIN_S)

    def _too_large(self) -> _Refused:
        return _Refused(413, f"a body has at most {self._source.max_bytes} bytes: send fewer rows at a time")


def _settle(answered: asyncio.Future[bool], is_taken: bool) -> None:
    if not answered.done():
        answered.set_result(is_taken)
