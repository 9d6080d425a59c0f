"""Projections, filters and constants as operators of expressions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from flinkray.connectors.collection.source import ArrowSource
from flinkray.tables.lowering.contract import Lowering, Unexecutable
from flinkray.tables.lowering.times import is_of_stream, without_unread_rowtime
from flinkray.tables.plans.explain import expression_text
from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Constant,
    Plan,
    columns_of,
    equal,
    has_subquery,
)
from flinkray.tables.plans.nodes import Filter, Project, Scan, Values, WatermarkAssigner
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import INT, LogicalType, RowType
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import CalcFactory, SourceFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation, own_parallelism

_ROW = "row"
"""The column with the number of each row of VALUES whose values are computed."""


def with_names(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with other names of its columns."""
    return plan if plan.row_type.names == names else Project(plan, columns_of_rows(plan.row_type), tuple(names))


def columns_of_rows(rows: RowType) -> tuple[BoundExpression, ...]:
    """The columns as expressions."""
    return tuple(Column(kind, place) for place, kind in enumerate(rows.types))


def calc(plan: Plan, lowering: Lowering, before: bool) -> Transformation:
    """One operator for a projection, the filter below it, and the columns of a table below that."""
    names, projections, predicate = plan.row_type.names, columns_of_rows(plan.row_type), None
    below = plan
    if isinstance(below, Project):
        projections, below = below.expressions, below.input
    if isinstance(below, Filter):
        if has_subquery(below.condition):
            raise Unexecutable(below)
        predicate, below = below.condition, below.input
        before = True  # the row as it was may have passed where the new one does not
    if isinstance(below, WatermarkAssigner) and is_of_stream(below):
        below = below.input
    rows = below.row_type
    source = lowering.scanned(below, before) if isinstance(below, Scan) else lowering.of(below, before)
    read = columns_of(*projections, *(() if predicate is None else (predicate,)))
    source = without_unread_rowtime(source, {rows.names[each] for each in read})
    columns = tuple(zip(rows.names, rows.types, strict=True))
    return added(source, CalcFactory(columns, tuple(zip(names, projections, strict=True)), predicate))


def added(source: Transformation, factory: CalcFactory) -> Transformation:
    """A Calc of its input's parallelism, so that the changes of one row stay in order."""
    names = [name for name, _ in factory.columns]
    selected = ", ".join(f"{expression_text(each, names)} AS {name}" for name, each in factory.projections)
    condition = "" if factory.predicate is None else f" WHERE {expression_text(factory.predicate, names)}"
    return PhysicalTransformation(
        name="Calc",
        description=f"SELECT {selected}{condition}",
        factory=factory,
        input_transformations=(source,),
        parallelism=own_parallelism(source),
    )


def values(plan: Values) -> Transformation:
    """Constants become a table, which is shipped with the program; what is computed, a Calc over the rows' numbers."""
    rows, types = plan.columns, plan.columns.types
    data = {_ROW: pa.array(range(len(plan.rows)), pa.int32())}
    columns: list[tuple[str, LogicalType]] = [(_ROW, INT.not_null())]
    projections: list[BoundExpression] = []
    for place, kind in enumerate(types):
        values = [row[place] for row in plan.rows]
        constants = [each.value for each in values if isinstance(each, Constant)]
        if len(constants) < len(values):
            projections.append(_by_row(values, kind))
            continue
        projections.append(Column(kind, len(columns)))
        columns.append((f"column {place}", kind))
        data[f"column {place}"] = pa.array(constants, to_arrow(kind))
    source = PhysicalTransformation(
        name="Source: Values",
        factory=SourceFactory(ArrowSource(pa.table(data)), WatermarkStrategy.no_watermarks()),
        parallelism=1,
    )
    if not types:
        return source
    return added(source, CalcFactory(tuple(columns), tuple(zip(rows.names, projections, strict=True))))


def _by_row(values: Sequence[BoundExpression], kind: LogicalType) -> BoundExpression:
    """The value of each row, by the row's number."""
    if len(values) == 1:
        return values[0]
    row = Column(INT.not_null(), 0)
    cases = [(equal(row, Constant(INT.not_null(), place)), value) for place, value in enumerate(values)]
    return Call(kind, "CASE", tuple(each for case in cases for each in case))
