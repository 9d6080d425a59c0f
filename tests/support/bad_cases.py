"""What goes wrong with connectors, as the page about it lists it: a table per connector, a row per case.

The first column of a row names the case, the second has in backticks what its error says, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from flinkray import ConnectorError, FlinkrayError, Sink, Source
from flinkray.batches.batch import Batch
from flinkray.connectors.committer import CommitOutcome
from flinkray.connectors.source import ReaderStatus
from tests.support.api import Assignments, FakeSubtaskContext
from tests.support.commits import requests_of
from tests.support.operators import as_batch
from tests.support.waiting import eventually

PAGE = Path(__file__).resolve().parents[2] / "docs" / "connectors" / "errors.md"

Cases = Mapping[str, Callable[[], Any]]


def listed() -> dict[str, dict[str, list[str]]]:
    """Section -> case -> what is said of it."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif section and line.startswith("| ") and not line.startswith(("| what ", "|---")):
            name, seen, _ = (cell.strip() for cell in line.strip("| ").split(" | "))
            found.setdefault(section, {})[name] = re.findall(r"`([^`]+)`", seen)
    return found


def check(section: str, cases: Cases) -> None:
    """Has each case of a section raise an error of ours, which says what the page says; none is missing."""
    expected = listed()[section]
    assert sorted(cases) == sorted(expected)
    wrong = {}
    for name, run in cases.items():
        try:
            with pytest.raises(FlinkrayError) as caught:
                run()
        except BaseException as failure:
            raise AssertionError(f"{section}: {name}") from failure
        text = str(caught.value)
        pattern = ".*".join(map(re.escape, expected[name]))
        if re.search(pattern, text, re.DOTALL) is None or "Traceback" in text or not expected[name]:
            wrong[name] = text
    assert wrong == {}, wrong


# -- what a task does with a connector, without a job


def enumerated(source: Source) -> Assignments:
    """A source's enumerator is started."""
    context = Assignments()
    enumerator = source.create_enumerator(context)
    with contextlib.closing(enumerator):
        enumerator.start()
    return context


def polled(source: Source, splits: Sequence[Any]) -> Any:
    """The first batch that a reader gives of these splits."""
    reader = source.create_reader(FakeSubtaskContext())
    with contextlib.closing(reader):
        reader.add_splits(splits)
        reader.start()
        return eventually(reader.poll, lambda given: given is not ReaderStatus.NOTHING_AVAILABLE, deadline_s=60)


class WriterContext(FakeSubtaskContext):
    """Of a writer whose requests are sent one after another by the thread that asks for them, without pauses."""

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None

    def gauge_function(self, name: str, read: Callable[[], float | None]) -> None: ...

    def run_async(
        self, begin: Callable[[], Coroutine[Any, Any, Any]], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        result, failure = None, None
        try:
            result = self._run(begin())
        except Exception as error:
            failure = error
        done(result, failure)

    def end_async(self, last: Coroutine[Any, Any, None]) -> None:
        self._run(last)
        assert self._loop is not None
        self._loop.close()

    def yield_to_mailbox(self) -> None:
        self.advance(min(when for when, _ in self.timers))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        self._loop = self._loop or asyncio.new_event_loop()
        return self._loop.run_until_complete(work)


@contextlib.contextmanager
def writer_of(sink: Sink) -> Iterator[Any]:
    with contextlib.closing(sink.prepare().create_writer(WriterContext())) as writer:
        yield writer


def written(sink: Sink, rows: Any) -> None:
    """Rows go through a writer and its flush."""
    with writer_of(sink) as writer:
        writer.write(_batch(rows))
        writer.flush(False)


def committed(sink: Sink, rows: Any) -> None:
    """Rows are written, and committed as if the attempt were the last one."""
    sink = sink.prepare()
    committer = sink.create_global_committer() if sink.commits_globally else sink.create_committer()
    assert committer is not None
    with contextlib.closing(committer), contextlib.closing(sink.create_writer(WriterContext())) as writer:
        writer.write(_batch(rows))
        writer.flush(False)
        requests = requests_of(writer.prepare_commit(1))
        committer.commit(requests)
        for request in requests:
            if request.outcome is CommitOutcome.RETRY_LATER:
                raise ConnectorError(request.reason)


def _batch(rows: Any) -> Batch:
    return rows if isinstance(rows, Batch) else as_batch(rows)
