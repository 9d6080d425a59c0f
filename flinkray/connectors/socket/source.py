"""Lines of text from a TCP connection as a source."""

from __future__ import annotations

import codecs
import contextlib
import logging
import math
import socket
import threading
import time
from contextvars import copy_context
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.batch import Batch
from flinkray.connectors.files.formats import TEXT_SCHEMA
from flinkray.connectors.handover import Handover
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
from flinkray.errors import FlinkrayError, InvalidProgramError, RecordError, operator_label
from flinkray.types.records import Kind, RecordType

log = logging.getLogger(__name__)

_RECEIVE_BYTES = 1 << 20
_AHEAD_BYTES = 4 << 20
"""The most bytes that may wait for the task; beyond that the peer has to wait."""
_LONGEST_LINE_BYTES = 64 << 20
"""A peer that never sends the delimiter would otherwise fill the memory."""
_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = 1.0
"""Between two attempts to connect, as in Flink."""
_END_SECONDS = 1.0
"""How long closing waits for the thread: looking up a name is the only thing that cannot be interrupted."""


class SocketSource(Source):
    """The lines that a server sends, as bare strings, until it closes the connection (Flink's socketTextStream).

    At most once: a socket cannot be read again. After a failure the source connects anew; what it had read is lost
    where no checkpoint covers its effect, and so is what it had received and not passed on. For tests and for looking
    at a stream; where each line counts, put a log that can be read again in between.

    One subtask. A line break ("\\r\\n" as well, with the default delimiter) is no part of the line. What follows the
    last delimiter is a line too when the server closes in good order, and is dropped when the connection breaks.
    Bytes that are not of the encoding become U+FFFD, as in Flink.

    Args:
        host, port: of the server; this source is the client (try it with `nc -lk 9999`).
        delimiter: what ends a line.
        max_retry_seconds: how long to go on trying to connect, once a second, at the start and after the server has
            closed; then the start is an error, and a closed connection the end of the input. 0: once, and a
            connection that is closed is the end. Negative: for ever.
        encoding: any that Python knows.
    """

    may_end = True

    def __init__(
        self, host: str, port: int, delimiter: str = "\n", max_retry_seconds: float = 0, encoding: str = "utf-8"
    ) -> None:
        if not isinstance(host, str) or not host:
            raise InvalidProgramError(f"SocketSource(host=...) takes a name or an address, not {host!r}")
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65_536:
            raise InvalidProgramError(f"SocketSource(port=...) takes a number from 1 to 65535, not {port!r}")
        if not isinstance(delimiter, str) or not delimiter:
            raise InvalidProgramError(f"SocketSource(delimiter=...) takes at least one character, not {delimiter!r}")
        try:
            "".encode(encoding)  # knows text from other codecs
            self.encoding = codecs.lookup(encoding).name
        except LookupError as error:
            raise InvalidProgramError(f"SocketSource(encoding=...): {error}") from error
        self.host = host
        self.port = port
        self.delimiter = delimiter
        self.max_retry_seconds = max_retry_seconds

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType:
        return RecordType(Kind.SCALAR, TEXT_SCHEMA)

    @property
    def is_parallel(self) -> bool:
        return False

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return SplitListEnumerator(context, ())

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _SocketReader(context, self)


class LineSplitter:
    """Cuts what arrives into lines, whole chunks at a time; keeps what no delimiter has ended yet.

    Args:
        where: the source, for errors.
    """

    def __init__(self, delimiter: str, encoding: str, where: str) -> None:
        self._delimiter = delimiter.encode()
        self._where = where
        # Arrow's text is UTF-8, so only other encodings are decoded on the way.
        self._decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)(errors="replace")
        self._pending = bytearray()

    def add(self, data: bytes) -> pa.Array | None:
        """The lines that `data` completes, as strings; None where it completes none.

        Raises:
            RecordError: a line is longer than 64 MiB.
        """
        known = len(self._pending)
        self._pending += data if self._decoder is None else self._decoder.decode(data).encode()
        # A delimiter may have begun with the bytes before.
        if self._pending.find(self._delimiter, max(0, known - len(self._delimiter) + 1)) < 0:
            if len(self._pending) > _LONGEST_LINE_BYTES:
                raise RecordError(
                    f"{self._where}: a line is longer than {_LONGEST_LINE_BYTES} bytes; is "
                    f"{self._delimiter.decode()!r} the delimiter that the server sends?"
                )
            return None
        parts = pc.list_flatten(
            pc.split_pattern(pa.array([bytes(self._pending)], pa.large_binary()), pattern=self._delimiter)
        )
        self._pending = bytearray(parts[-1].as_py())
        return self._text(parts.slice(0, len(parts) - 1))

    def end(self) -> pa.Array | None:
        """The rest as the last line, once the server has closed; None: there is none. The splitter then begins anew."""
        if self._decoder is not None:
            self._pending += self._decoder.decode(b"", final=True).encode()
        rest = bytes(self._pending)
        self.clear()
        return self._text(pa.array([rest], pa.large_binary())) if rest else None

    def clear(self) -> None:
        """Forgets an unfinished line."""
        self._pending.clear()
        if self._decoder is not None:
            self._decoder.reset()

    def _text(self, lines: pa.Array) -> pa.Array:
        try:
            text = lines.cast(pa.string())
        except pa.ArrowInvalid:  # some line is not UTF-8: rare, so it may cost
            text = pa.array([line.decode("utf-8", "replace") for line in lines.to_pylist()], pa.string())
        if self._delimiter != b"\n":
            return text
        ends_with_return = pc.ends_with(text, "\r")
        if not pc.any(ends_with_return).as_py():
            return text
        return pc.if_else(ends_with_return, pc.utf8_slice_codeunits(text, 0, -1), text)


class _SocketReader(SourceReader):
    """The task's side: takes what the thread has received."""

    def __init__(self, context: SourceReaderContext, source: SocketSource) -> None:
        self._context = context
        self._where = f"{operator_label(context.operator_name)} (socket {source.host}:{source.port})"
        self._handover: Handover[pa.RecordBatch] = Handover(_AHEAD_BYTES, context.notify_available)
        self._client = _Client(source, self._handover, self._where)
        self._rest: pa.RecordBatch | None = None
        self._has_warned = False

    def start(self) -> None:
        self._client.start()

    def poll(self) -> SourceBatch | ReaderStatus:
        if self._rest is None:
            # Asked before, since the thread may fail and finish in between, and its error comes with the next look.
            is_drained = self._handover.is_drained
            taken = self._handover.take_nowait(_RECEIVE_BYTES)
            if not taken:
                return ReaderStatus.END_OF_INPUT if is_drained else ReaderStatus.NOTHING_AVAILABLE
            self._rest = taken[0] if len(taken) == 1 else pa.concat_batches(taken)
        rows, limit = self._rest, self._context.batch_rows
        self._rest = rows.slice(limit) if rows.num_rows > limit else None
        return SourceBatch(Batch(rows.slice(0, limit), Kind.SCALAR), "socket")

    def add_splits(self, splits: Any) -> None: ...

    def notify_no_more_splits(self) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        if not self._has_warned:
            self._has_warned = True
            log.warning("%s: at most once, lines that were read before a failure are not read again", self._where)
        return []

    def close(self) -> None:
        self._client.close()


class _Client:
    """The thread that connects, receives and hands over lines."""

    def __init__(self, source: SocketSource, handover: Handover[pa.RecordBatch], where: str) -> None:
        self._source = source
        self._handover = handover
        self._where = where
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=where, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, whatever it waits for."""
        self._closed.set()
        self._handover.close()
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it is not connected, or ended already
                    self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    # -- the thread

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._serve()
        except BaseException as caught:  # the task must learn of every way in which the thread ends
            error = caught
        self._handover.finish(None if self._closed.is_set() else error)

    def _serve(self) -> None:
        """Receives from one connection after the other, as long as there is one."""
        splitter = LineSplitter(self._source.delimiter, self._source.encoding, self._where)
        connection, refusal = self._connect()
        if connection is None and not self._closed.is_set():
            raise FlinkrayError(
                f"{self._where}: cannot connect ({refusal}). Start the server before the job (to try: nc -lk "
                f"{self._source.port}), make host and port reachable from where the subtask runs, which on a cluster "
                "is not where the program was started ('localhost' is then the worker), or set max_retry_seconds="
            ) from refusal
        while connection is not None:
            with connection:
                self._receive(connection, splitter)
            if self._source.max_retry_seconds == 0 or self._closed.wait(_RETRY_SECONDS):
                return
            connection, refusal = self._connect()
        log.info("%s: the server has closed the connection and is not back (%s): end of input", self._where, refusal)

    def _connect(self) -> tuple[socket.socket | None, OSError | None]:
        """A connection, or why there is none within the time for retries."""
        patience = self._source.max_retry_seconds
        deadline = math.inf if patience < 0 else time.monotonic() + patience
        refusal: OSError | None = None
        while not self._closed.is_set():
            try:
                return self._connect_once(), None
            except OSError as error:
                refusal = error
            if time.monotonic() >= deadline:
                break
            self._closed.wait(_RETRY_SECONDS)
        return None, refusal

    def _connect_once(self) -> socket.socket:
        """Tries every address of the name."""
        refusal = OSError("the name has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self._source.host, self._source.port, type=socket.SOCK_STREAM
        ):
            attempt = socket.socket(family, kind, protocol)
            try:
                with self._lock:
                    if self._closed.is_set():
                        raise OSError("closed")
                    self._socket = attempt  # from here on closing interrupts it
                attempt.settimeout(_CONNECT_SECONDS)
                attempt.connect(address)
                attempt.settimeout(None)
                # Tells of a server that is gone without a word, for which nothing else would ever arrive.
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                return attempt
            except OSError as error:
                attempt.close()
                refusal = error
        raise refusal

    def _receive(self, connection: socket.socket, splitter: LineSplitter) -> None:
        """Hands lines over until the server closes."""
        try:
            while data := connection.recv(_RECEIVE_BYTES):
                if not self._offer(splitter.add(data)):
                    return
        except OSError as error:
            splitter.clear()
            if self._closed.is_set():
                return
            if self._source.max_retry_seconds == 0:
                raise FlinkrayError(
                    f"{self._where}: the connection broke ({error}); set max_retry_seconds= to connect again"
                ) from error
            log.warning("%s: the connection broke (%s); connecting again", self._where, error)
        else:
            self._offer(splitter.end())

    def _offer(self, lines: pa.Array | None) -> bool:
        """Hands the lines over, if there are any. False: nobody wants them any more."""
        if lines is None:
            return not self._closed.is_set()
        return self._handover.offer(pa.RecordBatch.from_arrays([lines], schema=TEXT_SCHEMA), lines.nbytes)
