"""Spark jobs that write the rows of a DataFrame to blocks, and that read blocks as a DataFrame.

Both are `mapInArrow` functions in Spark's Python workers, so that rows are Arrow between Spark's JVM and the store, and
never pandas. Sessions on Ray and all others use the same functions, with different stores.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from actors.blocks.store import Block, BlockStore, coalesce
from actors.spark.types import cast_batch, spark_schema

BatchFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_REPORT = "partition long, ordinal long, block_id string, row_count long, nbytes long, checksum long"

# The most rows of a batch on the way into Spark's JVM, which holds the batch on its heap.
_ROWS_PER_BATCH = 65_536


def write_blocks(dataframe: DataFrame, schema: pa.Schema, store: BlockStore) -> list[Block]:
    """Runs the DataFrame, and puts its rows into `store` with exactly `schema`.

    Returns:
        The blocks in the DataFrame's order: by partition, and within a partition in the order of rows.
    """
    reports = numbered(dataframe).mapInArrow(_writer(store, schema), _REPORT).collect()
    reports.sort(key=lambda report: (report.partition, report.ordinal))
    blocks = [Block(report.block_id, report.row_count, report.nbytes, report.checksum) for report in reports]
    # Attempts that failed, or that another attempt was faster than, may have left blocks that are in no report.
    store.retain([block.block_id for block in blocks])
    return blocks


def numbered(dataframe: DataFrame) -> DataFrame:
    """The same rows with columns called `c0`, `c1`, ...

    `mapInArrow` looks each column up by its name, and Spark reads a name as an expression: dots as fields, `*` as all
    columns, backticks as quotes, and it tells no names apart that differ in case alone. Positions are none of that.
    """
    return dataframe.toDF(*(f"c{position}" for position in range(len(dataframe.columns))))


def read_blocks(spark: SparkSession, store: BlockStore, block_ids: Sequence[str], schema: pa.Schema) -> DataFrame:
    """A DataFrame of the rows of blocks, in that order, with one partition per block. Lazy: it reads the store later.

    Raises:
        InvalidProgramError: a column has a type that Spark does not have.
    """
    types, target = spark_schema(schema)
    if not block_ids:
        return spark.createDataFrame([], types)
    count = len(block_ids)
    # `range` cuts 0 ... count - 1 into `count` partitions of one number each, in order, without Python rows.
    numbers = spark.range(0, count, 1, numPartitions=count)
    return numbers.mapInArrow(_reader(store, list(block_ids), target), _nullable(types))


def _writer(store: BlockStore, schema: pa.Schema) -> BatchFunction:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        partition = 0 if task is None else task.partitionId()
        attempt = 0 if task is None else task.taskAttemptId()
        for ordinal, rows in enumerate(coalesce(cast_batch(batch, schema) for batch in batches)):
            block = Block.of(f"{partition:06d}-{ordinal:06d}-{attempt}", rows)
            store.put(block.block_id, rows)
            report = [partition, ordinal, block.block_id, block.rows, block.nbytes, block.checksum]
            names = ["partition", "ordinal", "block_id", "row_count", "nbytes", "checksum"]
            yield pa.RecordBatch.from_arrays(list(map(_one_value, report)), names=names)

    return write


def _one_value(value: int | str) -> pa.Array:
    """An array of one value, made without `pa.array`, which imports pandas: 30 MiB in each Python worker of Spark's."""
    if isinstance(value, int):
        number = value.to_bytes(8, sys.byteorder, signed=True)
        return pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(number)])
    text = value.encode()
    offsets = struct.pack("=2i", 0, len(text))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _reader(store: BlockStore, block_ids: list[str], schema: pa.Schema) -> BatchFunction:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = store.get(block_ids[number])
                for offset in range(0, rows.num_rows, _ROWS_PER_BATCH):
                    yield cast_batch(_arranged(rows.slice(offset, _ROWS_PER_BATCH), schema), schema)

    return read


def _arranged(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the columns of `schema` in their order: blocks of one stream may have another order, or lack
    some."""
    if rows.schema.names == schema.names:
        return rows
    columns = {
        field.name: rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    }
    return pa.RecordBatch.from_pydict(columns)


def _nullable(types: StructType) -> StructType:
    """The types with all columns nullable, as blocks of one stream may differ in that."""
    return StructType([type(field)(field.name, field.dataType, True) for field in types])
