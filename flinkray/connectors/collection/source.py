"""Sources of rows that the driver has, and that are shipped with the program: collections, tables, DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.normalization import normalized_table
from flinkray.batches.row_codec import RowEncoder
from flinkray.batches.sizes import data_bytes
from flinkray.connectors.lookup import LookupTable, RowsLookup
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.split_list import SplitListEnumerator, SplitListReader, batch_rows
from flinkray.errors import InvalidProgramError
from flinkray.functions.type_hints import record_type
from flinkray.types.records import Kind, RecordType
from flinkray.types.rows import Row, RowKind

_SPLITS_PER_SUBTASK = 4
"""The number of splits per subtask: more than one, so that a slow subtask reads fewer; few, since each is asked for
when the one before has been read."""
_ROWS_PER_CHUNK = 1024
"""Tables of smaller chunks are combined, since each chunk would become a batch of its own."""
_NO_COLUMNS = "the {} rows of the source have no columns; a stream's rows need at least one"


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows `start` to `stop` (excluded) of a table; a reader goes on at `start`."""

    split_id: str
    start: int
    stop: int


class TableSource(Source):
    """The rows of a table that is shipped with the source.

    Args:
        kinds: what each row does, if they are a changelog.
    """

    _kinds: pa.Array | None = None

    def __init__(self, table: pa.Table, kind: Kind = Kind.ROW, kinds: pa.Array | None = None) -> None:
        if table.num_rows and not table.num_columns:
            raise InvalidProgramError(_NO_COLUMNS.format(table.num_rows))
        # Metadata such as pandas' would travel with every batch and mean nothing there.
        self._table = _in_few_chunks(normalized_table(table.replace_schema_metadata(None)))
        self._kind = kind
        self._kinds = kinds

    def __getstate__(self) -> dict[str, Any]:
        """The table in Arrow's IPC format: a pickle by Arrow itself would hold all buffers that its slices are slices
        of."""
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, self._table.schema) as writer:
            writer.write_table(self._table)
        return {**self.__dict__, "_table": stream.getvalue()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _table=pa.ipc.open_stream(state["_table"]).read_all())

    @property
    def rows(self) -> pa.Table:
        """All rows."""
        return self._table

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType | None:
        return RecordType(self._kind, self._table.schema)

    @property
    def is_changelog(self) -> bool:
        return self._kinds is not None

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return SplitListEnumerator(context, self._splits(context.parallelism) if restored is None else restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _TableReader(context, self._table, self._kind, self._kinds)

    def _splits(self, parallelism: int) -> list[RowRange]:
        """Short ranges in order, so that time proceeds evenly over the subtasks where the table is sorted by time."""
        rows = self._table.num_rows
        length = max(1, -(-rows // (1 if parallelism == 1 else _SPLITS_PER_SUBTASK * parallelism)))
        return [RowRange(str(start), start, min(start + length, rows)) for start in range(0, rows, length)]


def lookup_of_source(source: TableSource) -> LookupTable | None:
    """The rows as what can be asked for them by key; None: they are a changelog."""
    return None if source.is_changelog else RowsLookup(_Rows(source))


class _Rows:
    """Gives the rows of a source, which knows how to travel."""

    def __init__(self, source: TableSource) -> None:
        self._source = source

    def __call__(self) -> pa.Table:
        return self._source.rows


class _TableReader(SplitListReader[RowRange]):
    """Reads ranges of rows of the table."""

    def __init__(self, context: SourceReaderContext, table: pa.Table, kind: Kind, kinds: pa.Array | None) -> None:
        super().__init__(context)
        self._table = table
        self._kind = kind
        self._kinds = kinds
        self._batch_rows = batch_rows(context, data_bytes(table) / max(1, table.num_rows))

    def read_split(self, split: RowRange) -> Iterator[tuple[Batch | None, RowRange]]:
        rows = self._table.slice(split.start, split.stop - split.start)
        for data in rows.to_batches(max_chunksize=self._batch_rows):
            if data.num_rows:
                kinds = None if self._kinds is None else self._kinds.slice(split.start, data.num_rows)
                split = replace(split, start=split.start + data.num_rows)
                yield Batch(data, self._kind, kinds=kinds), split


class CollectionSource(TableSource):
    """The values of a Python collection, in order, in one subtask. A changelog, if a `Row` is no insert."""

    def __init__(self, values: Iterable[Any], type_info: Any = None, *, argument: str = "type_info") -> None:
        """`argument` is what the caller's own argument for the type is called, which errors name."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InvalidProgramError(f"a collection of values is needed, such as a list, not {values!r}")
        rows = list(values)
        declared = None if type_info is None else record_type(type_info)
        if not rows and declared is None:
            raise InvalidProgramError(f"an empty collection says nothing about its type; set {argument}=")
        if declared is not None and not rows:
            super().__init__(declared.schema.empty_table(), declared.kind)
            return
        is_changelog = any(isinstance(row, Row) and row.get_row_kind() is not RowKind.INSERT for row in rows)
        encoder = RowEncoder("Source: Collection", "1 of 1", declared, argument, gives_changelog=is_changelog)
        batch = encoder.encode(rows, None)
        super().__init__(pa.Table.from_batches([batch.data]), batch.kind, batch.kinds)

    @property
    def is_parallel(self) -> bool:
        return False


class ArrowSource(TableSource):
    """The rows of a pa.Table, RecordBatch, RecordBatchReader, or anything with the Arrow stream interface."""

    def __init__(self, data: Any) -> None:
        super().__init__(_as_table(data))


class PandasSource(TableSource):
    """The rows of a DataFrame, without its index."""

    def __init__(self, frame: Any) -> None:
        names = [name for name in getattr(frame, "columns", ()) if not isinstance(name, str)]
        if names:
            raise InvalidProgramError(f"a stream's columns have text as names; this DataFrame has {names[0]!r}")
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise InvalidProgramError(f"cannot turn {type(frame).__name__} into columns: {error}") from error
        if len(frame) and not table.num_columns:
            raise InvalidProgramError(f"{_NO_COLUMNS.format(len(frame))}; frame.reset_index() makes one of its index")
        super().__init__(table)


def _in_few_chunks(table: pa.Table) -> pa.Table:
    most = max((column.num_chunks for column in table.columns), default=0)
    return table.combine_chunks() if most > 1 and table.num_rows < most * _ROWS_PER_CHUNK else table


def streamed_table(data: Any) -> pa.Table:
    """The rows of an object with the Arrow stream interface; those of a pandas DataFrame without its index."""
    table = pa.table(data)
    if isinstance(data, pa.Table):
        return table
    index = (table.schema.pandas_metadata or {}).get("index_columns", ())
    return table.drop_columns([name for name in index if isinstance(name, str)])


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if hasattr(data, "__arrow_c_stream__"):
        return streamed_table(data)
    raise InvalidProgramError(
        f"from_arrow takes a pa.Table, RecordBatch or RecordBatchReader, or an object with the Arrow stream interface, "
        f"not {type(data).__name__}"
    )
