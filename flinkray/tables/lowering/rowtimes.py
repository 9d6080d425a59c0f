"""Which column of a stream is its rowtime attribute: the one that event times come from."""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.expressions.tree import Column
from flinkray.tables.lowering.times import STREAM_WATERMARK
from flinkray.tables.plans.expressions import Call
from flinkray.tables.plans.tables import TableColumn, WatermarkStrategy
from flinkray.tables.types.logical import TIMESTAMP, RowType, TimeAttribute, TimestampType, is_rowtime
from flinkray.transformations.operator_factories import (
    FilterFactory,
    RowtimeFactory,
    SourceFactory,
    TimestampsAndWatermarksFactory,
    WhereFactory,
)
from flinkray.transformations.transformation import (
    PartitionTransformation,
    PhysicalTransformation,
    Transformation,
    UnionTransformation,
)


def rowtime_of(stream: Transformation, columns: Sequence[TableColumn]) -> WatermarkStrategy | None:
    """The rowtime attribute of a stream, with the watermarks that it has; None: no column is known to be it, or it is
    no timestamp."""
    name = _column(stream)
    for column in columns:
        if column.name == name and isinstance(column.type, TimestampType):
            return _as_it_comes(name, column.type)
    return None


def own_rowtime(rows: RowType) -> WatermarkStrategy | None:
    """The rowtime attribute of rows, with the watermarks that they have; None: no column is one."""
    for name, kind in zip(rows.names, rows.types, strict=True):
        if isinstance(kind, TimestampType) and is_rowtime(kind):
            return _as_it_comes(name, kind)
    return None


def _as_it_comes(name: str, kind: TimestampType) -> WatermarkStrategy:
    attribute = kind.as_attribute(TimeAttribute.ROWTIME)
    return WatermarkStrategy(name, Call(TIMESTAMP(3), STREAM_WATERMARK), attribute)


def _column(stream: Transformation) -> str | None:
    """The name of the column that event times come from, as far as rows come as they are."""
    match stream:
        case PartitionTransformation():
            return _column(stream.input)
        case UnionTransformation():
            names = set(map(_column, stream.union_inputs))
            return names.pop() if len(names) == 1 else None
        case PhysicalTransformation(factory=RowtimeFactory(column=column, drops=False)):
            return column
        case PhysicalTransformation(factory=WhereFactory() | FilterFactory()):
            return _column(stream.inputs[0])
        case PhysicalTransformation(factory=SourceFactory(watermark_strategy=strategy)):
            return _named(strategy.assigner)
        case PhysicalTransformation(factory=TimestampsAndWatermarksFactory(strategy=strategy)):
            return _column(stream.inputs[0]) if strategy.assigner is None else _named(strategy.assigner)
    return None


def _named(assigner: object) -> str | None:
    if isinstance(assigner, Column):
        return assigner.name
    return assigner if isinstance(assigner, str) else None
