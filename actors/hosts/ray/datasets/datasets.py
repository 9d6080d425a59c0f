"""Ray Data's Datasets as sources and sinks of jobs, behind the plug-in name "ray-dataset".

Ray Data computes a Dataset when the job is submitted, and its rows are put into blocks that the job's readers fetch.
Rows come back as blocks that become the tables of a new Dataset. Both ways they stay in Ray's object store, even if the
job itself runs in the driver's process.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import ray

from actors.blocks.driver import DriverSink, DriverSource
from actors.blocks.sink import BlockSink, committed, common_schema
from actors.blocks.source import BlockSource
from actors.blocks.store import BLOCK_BYTES, Block, coalesce
from actors.hosts.ray.cluster import ensure_ray
from actors.hosts.ray.datasets.block_store import RayBlockStore
from actors.hosts.ray.datasets.dataset_columns import plain_schema, with_schema
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import (
    Boundedness,
    Source,
)
from flinkray.errors import InvalidProgramError, MissingDependencyError
from flinkray.types.records import Kind, RecordType

# How much one Ray task reads: Datasets may have hundreds of tiny blocks, and each task may take a process of its own.
_GROUP_BYTES = 4 * BLOCK_BYTES


class RayDatasetBridge:
    """Datasets as sources, and sinks that become Datasets. Only the driver uses it."""

    def source(self, dataset: Any) -> Source:
        """A source of the Dataset's rows, in their order. Ray Data runs the Dataset at each submission of the job.

        Raises:
            InvalidProgramError: the argument is no Dataset.
        """
        if not isinstance(dataset, _ray_data().Dataset):
            raise InvalidProgramError(f"from_ray_dataset takes a ray.data.Dataset, not {dataset!r}")
        return RayDatasetSource(dataset)

    def sink(self, output_type: RecordType | None = None) -> tuple[Sink, Callable[[Any], Any]]:
        """A sink, and a function that gives its rows as a Dataset once the job has finished.

        Without rows the Dataset has the columns of `output_type`, or none.
        """
        _ray_data()  # so that a missing package is reported before the job runs, not after it
        sink = _DatasetSink()

        def finish(_result: Any = None) -> Any:
            if sink.store is None:
                raise InvalidProgramError("this sink was not part of the job that was run")
            return _dataset(sink.store, output_type)

        return sink, finish


class RayDatasetSource(DriverSource):
    """A Dataset in the driver; the BlockSource that `prepare` returns is shipped in its place."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._type: RecordType | None = None

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType | None:
        """The type of rows; None if Ray Data would have to run the Dataset to know it."""
        if self._type is None:
            schema = self._dataset.schema(fetch_if_missing=False)
            columns = None if schema is None else schema.base_schema
            if isinstance(columns, pa.Schema):
                self._type = RecordType(Kind.ROW, plain_schema(columns))
        return self._type

    def prepare(self) -> Source:
        """Runs the Dataset, and puts its rows into a store that outlives this process."""
        ensure_ray()
        dataset = self._dataset.materialize()
        tables = dataset.to_arrow_refs()
        schema = plain_schema(_arrow_schema(dataset, tables))
        store = RayBlockStore.create(outlives_driver=True)
        try:
            groups = _groups(tables, _GROUP_BYTES * max(1, len(tables)) // max(1, dataset.size_bytes()))
            writing = [_write.remote(schema, store, number, *group) for number, group in enumerate(groups)]
            blocks = [block for written in ray.get(writing) for block in written]
        except BaseException:
            store.close()
            raise
        return BlockSource(store, blocks, RecordType(Kind.ROW, schema), is_ordered=True)


class _DatasetSink(DriverSink):
    """A sink in the driver; the BlockSink that `prepare` returns is shipped in its place."""

    def __init__(self) -> None:
        self.store: RayBlockStore | None = None
        """The store of the latest submission, which is freed with this object or when its rows have become a
        Dataset."""

    def prepare(self) -> Sink:
        ensure_ray()
        self.store = RayBlockStore.create(outlives_driver=False)
        weakref.finalize(self, self.store.close)
        return BlockSink(self.store)


def _arrow_schema(dataset: Any, tables: Sequence[Any]) -> pa.Schema:
    """The schema of a materialized Dataset, from its metadata or, if its blocks are pandas', from its rows as
    tables."""
    for data in (dataset, _ray_data().from_arrow_refs(list(tables))):
        schema = data.schema()
        if schema is None:
            return pa.schema([])
        if isinstance(schema.base_schema, pa.Schema):
            return schema.base_schema
    raise InvalidProgramError(f"from_ray_dataset: the columns of {dataset!r} have no Arrow types")


def _groups(references: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Splits references into groups of `size` neighbours."""
    step = max(1, size)
    return [references[start : start + step] for start in range(0, len(references), step)]


@ray.remote
def _write(schema: pa.Schema, store: RayBlockStore, number: int, *tables: pa.Table) -> list[Block]:
    """Puts the rows of neighbouring tables into the store, in blocks of the size that readers expect."""
    batches = (batch for table in tables for batch in with_schema(table, schema).to_batches())
    blocks = []
    for part, batch in enumerate(coalesce(batches)):
        block = Block.of(f"{number:06d}-{part:06d}", batch)
        store.put(block.block_id, batch)
        blocks.append(block)
    return blocks


def _dataset(store: RayBlockStore, output_type: RecordType | None) -> Any:
    data = _ray_data()
    blocks = [block for committable in committed(store) for block in committable.blocks]
    schema = common_schema(blocks, output_type)
    if not blocks:
        return data.from_arrow(schema.empty_table())
    groups = _groups([store.reference(block.block_id) for block in blocks], _GROUP_BYTES // BLOCK_BYTES)
    tables = [_table.remote(schema, *group) for group in groups]
    dataset = data.from_arrow_refs(tables)  # waits for the tables
    store.close()
    return dataset


@ray.remote
def _table(schema: pa.Schema, *blocks: pa.RecordBatch) -> pa.Table:
    """The rows of neighbouring blocks as one table, which belongs to the driver."""
    return pa.concat_tables([with_schema(pa.Table.from_batches([block]), schema) for block in blocks])


def _ray_data() -> Any:
    try:
        import ray.data
    except ImportError as error:
        raise MissingDependencyError(
            f"Ray Data cannot be imported ({error}): install it with pip install 'flinkray[ray-data]'"
        ) from error
    return ray.data
