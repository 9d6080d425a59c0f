"""TableResult: what a statement gives, which may be rows that a job is still computing."""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.frames import as_frame
from flinkray.batches.row_codec import decode
from flinkray.batches.unification import concat_unified
from flinkray.collected_rows import CollectedRows
from flinkray.errors import InvalidProgramError
from flinkray.execution import JobClient
from flinkray.extras import import_package
from flinkray.tables.api.schemas import ResolvedSchema
from flinkray.tables.environment.answers import Answer, PrintStyle, ResultKind
from flinkray.tables.environment.tableau import (
    DEFAULT_WIDTH,
    OPERATION,
    html_table,
    tableau,
    widths_by_content,
    widths_by_types,
)
from flinkray.tables.environment.value_texts import NULL_TEXT, texts_of
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import RowType
from flinkray.tables.types.nested_rows import row_form
from flinkray.types.records import Kind
from flinkray.types.rows import SHORT_STRINGS

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_ROWS = 20
"""Rows that a notebook shows."""


class AnsweredRows(Iterator[Any]):
    """The rows of a statement that started no job, used as those of a job are."""

    def __init__(self, answer: Answer) -> None:
        self._rows = iter(decode(_batch(answer)))

    def __next__(self) -> Any:
        return next(self._rows)

    def next(self) -> Any:
        """PyFlink's name for `next(rows)`."""
        return next(self)

    def close(self) -> None:
        """Leaves the other rows out."""
        self._rows = iter(())

    def __enter__(self) -> AnsweredRows:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class TableResult:
    """The result of a statement: its rows, which can be taken once, and its job where it has one.

    Rows of a query come while its job runs. Leaving them early, by `close` or the end of a `with` block, cancels it.
    """

    def __init__(
        self,
        row_type: RowType,
        rows: CollectedRows | Answer,
        client: JobClient | None = None,
        has_kinds: bool = False,
        width: int = DEFAULT_WIDTH,
        time_zone: str = "UTC",
    ) -> None:
        self._row_type = row_type
        self._rows: CollectedRows | Answer | None = rows
        self._null_text = rows.null_text if isinstance(rows, Answer) else NULL_TEXT
        self._running = weakref.ref(rows) if isinstance(rows, CollectedRows) else None
        """The rows of the job, also after they were given away: who has them may drop them, which ends it."""
        self._kind = rows.kind if isinstance(rows, Answer) else ResultKind.SUCCESS_WITH_CONTENT
        self._client = client
        self._has_kinds = has_kinds
        self._width = width
        self._time_zone = time_zone

    # -- what it is

    def get_result_kind(self) -> ResultKind:
        """Whether the rows mean something, or only say OK."""
        return self._kind

    def get_job_client(self) -> JobClient | None:
        """The job of a query or INSERT; None: the statement started none."""
        return self._client

    @property
    def row_type(self) -> RowType:
        """Names and types of the columns."""
        return self._row_type

    def get_resolved_schema(self) -> ResolvedSchema:
        """Names and types of the columns, by PyFlink's methods."""
        return ResolvedSchema(self._row_type)

    get_table_schema = get_resolved_schema

    @property
    def schema(self) -> pa.Schema:
        """The columns as those of an Arrow table."""
        return stored_schema(self._row_type)

    def wait(self, timeout_ms: int | None = None) -> None:
        """Waits for the job's end, where it has one, and releases it. A query only ends when all of its rows are taken.

        Raises:
            TimeoutError: it has not ended in time, and goes on.
            JobExecutionError: the job failed.
        """
        if self._client is None:
            return
        failures: list[BaseException] = []

        def wait_for(client: JobClient) -> None:
            try:
                client.result()
            except BaseException as error:
                failures.append(error)
            finally:
                client.close()

        thread = threading.Thread(target=wait_for, args=(self._client,), name="wait for a job", daemon=True)
        thread.start()
        thread.join(None if timeout_ms is None else timeout_ms / 1000)
        if thread.is_alive():
            raise TimeoutError(f"the job has not ended within {timeout_ms} ms")
        if failures:
            raise failures[0]

    # -- its rows

    def collect(self) -> CollectedRows | AnsweredRows:
        """The rows as `Row`s, as they come, each with its kind: an iterator that is also a context manager."""
        rows = self._take()
        if isinstance(rows, Answer):
            return AnsweredRows(rows)
        rows.form = row_form(self._row_type)
        return rows

    def to_arrow(self) -> pa.Table:
        """The rows as a table; of a changelog, those that are left at its end. Waits for the end."""
        batches = list(self._batches())
        schema = self.schema
        if not batches:
            return schema.empty_table()
        if any(batch.kinds is not None for batch in batches):
            return _left(batches, schema)
        return concat_unified([pa.Table.from_batches([batch.data]) for batch in batches], "the rows of the result")

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a DataFrame; of a changelog, those that are left at its end. Waits for the end.

        A column of whole numbers with nulls is of pandas' `Int64` and the like, as floats would not hold all of them.
        """
        import_package("pandas", "to_pandas()")  # before all rows have been waited for
        return as_frame(self.to_arrow())

    def print(self, file: TextIO | None = None) -> None:
        """Prints the rows as Flink does, as they come: with what each does in front where the program is streaming."""
        for line in self.lines():
            print(line, file=file or sys.stdout, flush=True)

    def lines(self) -> Iterator[str]:
        """What `print` prints."""
        style = self._rows.style if isinstance(self._rows, Answer) else PrintStyle.TABLE_BY_TYPES
        rows = (row for batch in self._batches() for row in self._texts(batch))
        if style is PrintStyle.RAW:
            return (", ".join(row) for row in rows)
        names = self._row_type.names
        if style is PrintStyle.TABLE:
            found = list(rows)
            return tableau(names, found, widths_by_content(names, found))
        columns = (OPERATION, *names) if self._has_kinds else names
        return tableau(columns, rows, widths_by_types(self._row_type, self._has_kinds, self._width))

    def changes_as_text(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """What each row does, the value of its RowKind, and its values as `print` writes them; as they come."""
        for batch in self._batches():
            kinds = [0] * batch.data.num_rows if batch.kinds is None else batch.kinds.to_pylist()
            columns = zip(batch.data.columns, self._row_type.types, strict=True)
            texts = (texts_of(*each, self._null_text, self._time_zone) for each in columns)
            yield from zip(kinds, zip(*texts, strict=True), strict=True)

    def _texts(self, batch: Batch) -> Iterator[Sequence[str]]:
        columns = zip(batch.data.columns, self._row_type.types, strict=True)
        texts = [texts_of(*each, self._null_text, self._time_zone) for each in columns]
        if self._has_kinds:
            kinds = [0] * batch.data.num_rows if batch.kinds is None else batch.kinds.to_pylist()
            texts.insert(0, [SHORT_STRINGS[kind] for kind in kinds])
        return iter(list(zip(*texts, strict=True)))

    def _batches(self) -> Iterator[Batch]:
        rows = self._take()
        return iter([_batch(rows)]) if isinstance(rows, Answer) else rows.batches()

    def _take(self) -> CollectedRows | Answer:
        rows, self._rows = self._rows, None
        if rows is None:
            raise InvalidProgramError("the rows of this result have been taken; execute the statement again")
        return rows

    # -- as a value of Python

    def close(self) -> None:
        """Cancels the query's job unless it has ended."""
        rows = None if self._running is None else self._running()
        if rows is not None:
            rows.close()

    def __enter__(self) -> TableResult:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<TableResult ({', '.join(map(str, self._row_type.fields))})>"

    def _repr_html_(self) -> str:
        """A table of the first rows, for notebooks; they are taken by it."""
        if self._rows is None:
            return html_table(self._row_type, [], False)
        rows = self._take()
        found: deque[Sequence[str]] = deque()
        batches = iter([_batch(rows)]) if isinstance(rows, Answer) else rows.batches()
        for batch in batches:
            found += self._texts(batch)
            if len(found) > _SHOWN_ROWS:
                break
        if isinstance(rows, CollectedRows):
            rows.close()
        return html_table(self._row_type, list(found)[:_SHOWN_ROWS], self._has_kinds, len(found) > _SHOWN_ROWS)


def _batch(answer: Answer) -> Batch:
    schema = stored_schema(answer.row_type)
    columns = list(zip(*answer.rows, strict=True)) if answer.rows else [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return Batch(pa.RecordBatch.from_arrays(arrays, schema=schema), Kind.ROW)


def _left(batches: Sequence[Batch], schema: pa.Schema) -> pa.Table:
    """The rows that a changelog leaves: each that is taken back takes an equal one away."""
    rows: dict[str, list[dict[str, Any]]] = {}
    order: dict[int, dict[str, Any]] = {}
    for batch in batches:
        kinds = [0] * batch.data.num_rows if batch.kinds is None else batch.kinds.to_pylist()
        for kind, row in zip(kinds, batch.data.to_pylist(), strict=True):
            same = rows.setdefault(repr(row), [])
            if SHORT_STRINGS[kind].startswith("+"):
                same.append(row)
                order[id(row)] = row
            elif same:
                del order[id(same.pop())]
    return pa.Table.from_pylist(list(order.values()), schema)
