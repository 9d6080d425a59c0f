"""Queries over a table `t`, run by their operators alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from actors.operators.registry import create_operator
from flinkray.batches.batch import Batch
from flinkray.connectors.collection.source import ArrowSource
from flinkray.tables.lowering.queries import planned
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import CalcFactory, SourceFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation, UnionTransformation
from flinkray.types.records import Kind, RecordType
from tests.support.operators import OperatorHarness, code


def transformation_of(sql: str, schema: pa.Schema) -> tuple[Transformation, RecordType]:
    """The lowered query, over a source without rows."""
    strategy = WatermarkStrategy.no_watermarks()
    source = PhysicalTransformation(name="t", factory=SourceFactory(ArrowSource(schema.empty_table()), strategy))
    return planned(sql, {"t": (source, RecordType(Kind.ROW, schema))})


def calc(sql: str, schema: pa.Schema) -> OperatorHarness:
    """The one operator of a query."""
    transformation, _ = transformation_of(sql, schema)
    assert isinstance(transformation, PhysicalTransformation)
    assert isinstance(transformation.factory, CalcFactory)
    assert transformation.inputs[0].name == "t"
    return OperatorHarness(create_operator([code(transformation.factory)], ["calc"]))


def results(sql: str, rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows of a query, each batch of which has the type that the query was said to have."""
    transformation, record_type = transformation_of(sql, rows.schema)
    found = _batches(transformation, rows)
    for data in found:
        assert data.schema.equals(record_type.schema)
    return [tuple(row.values()) for data in found for row in data.to_pylist()]


def _batches(transformation: Transformation, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    if isinstance(transformation, UnionTransformation):
        return [data for each in transformation.inputs for data in _batches(each, rows)]
    assert isinstance(transformation, PhysicalTransformation)
    factory = transformation.factory
    if transformation.name == "t":
        return [rows]
    if isinstance(factory, SourceFactory):
        assert isinstance(factory.source, ArrowSource)
        values: list[pa.RecordBatch] = factory.source._table.to_batches()
        return values
    with OperatorHarness(create_operator([code(factory)], ["calc"])) as harness:
        for data in _batches(transformation.inputs[0], rows):
            harness.push(Batch(data))
    return [batch.data for batch in harness.output.batches]
