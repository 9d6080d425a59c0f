"""The sink that writes rows to the standard output of the process that the task runs in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.types.changelogs import ChangelogMode
from flinkray.types.rows import ROW_KINDS, changelog_text


def printed_values(batch: Batch) -> list[Any]:
    """What is printed for each row: its value, and in a changelog `+I(...)`, `-U(...)`, `+U(...)` or `-D(...)`."""
    if batch.kinds is None:
        return decode(batch)
    kinds = [ROW_KINDS[kind] for kind in batch.kinds.to_pylist()]
    return list(map(changelog_text, kinds, decode(batch)))


class PrintSink(Sink):
    """Each value on a line of the worker's standard output, after Flink: "identifier:subtask> value".

    The subtask, counted from 1, is left out where there is only one, and the identifier where it is empty. Rows of a
    changelog begin with what they do: `-U(word='a', n=1)`.

    Args:
        identifier: what each line begins with.
        is_error_stream: write to standard error instead.
        texts: gives what to print for each row of a batch.
    """

    def __init__(
        self,
        identifier: str = "",
        is_error_stream: bool = False,
        texts: Callable[[Batch], Iterable[object]] = printed_values,
    ) -> None:
        self._identifier = identifier
        self._is_error_stream = is_error_stream
        self._texts = texts

    @property
    def accepts(self) -> ChangelogMode:
        return ChangelogMode.ALL

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        subtask = str(context.subtask_index + 1) if context.parallelism > 1 else ""
        prefix = ":".join(part for part in (self._identifier, subtask) if part)
        return _PrintWriter(f"{prefix}> " if prefix else "", self._is_error_stream, self._texts)


class _PrintWriter(SinkWriter):
    """Writes the lines of a batch at once."""

    def __init__(self, prefix: str, is_error_stream: bool, texts: Callable[[Batch], Iterable[object]]) -> None:
        self._prefix = prefix
        self._is_error_stream = is_error_stream
        self._texts = texts

    def write(self, batch: Batch) -> None:
        # One write per batch, so that lines of several subtasks of a process do not mix.
        lines = "".join(f"{self._prefix}{value}\n" for value in self._texts(batch))
        stream = sys.stderr if self._is_error_stream else sys.stdout
        stream.write(lines)
        stream.flush()

    def close(self) -> None: ...
