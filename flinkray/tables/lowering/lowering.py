"""Logical plans as transformations of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from flinkray.connectors.collection.source import ArrowSource
from flinkray.tables.plans.explain import expression_text
from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Constant,
    OuterColumn,
    Plan,
    Subquery,
    equal,
    expressions_of,
    walk,
)
from flinkray.tables.plans.nodes import Filter, Project, Scan, SetOperation, Values
from flinkray.tables.plans.tables import TablePath
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import INT, LogicalType, RowType
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import CalcFactory, SourceFactory
from flinkray.transformations.transformation import (
    PhysicalTransformation,
    Transformation,
    UnionTransformation,
    own_parallelism,
)

_ROW = "row"
"""The column with the number of each row of VALUES whose values are computed."""


class Unexecutable(Exception):
    """A node of a plan that nothing executes yet."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        super().__init__(type(plan).__name__)


def lowered(plan: Plan, streams: Mapping[TablePath, Transformation]) -> Transformation:
    """The transformation whose rows are those of a plan, in the columns of `result_schema`.

    Args:
        streams: of the tables that the plan reads; they have the columns of the table by its names.
    Raises:
        Unexecutable: a node of the plan cannot be executed yet.
    """
    if any(isinstance(each, OuterColumn | Subquery) for found in expressions_of(plan) for each in walk(found)):
        raise Unexecutable(plan)
    match plan:
        case Scan() | Filter() | Project():
            return _calc(plan, streams)
        case Values():
            return _values(plan)
        case SetOperation(kind="UNION", all=True, left=left, right=right, columns=columns):
            inputs = tuple(lowered(_with_names(each, columns.names), streams) for each in (left, right))
            return UnionTransformation(name="Union", union_inputs=inputs)
    raise Unexecutable(plan)


def result_schema(rows: RowType) -> pa.Schema:
    """The schema of the batches of a plan. As the columns of all streams, they may be null."""
    return pa.schema([pa.field(name, to_arrow(kind)) for name, kind in zip(rows.names, rows.types, strict=True)])


def _with_names(plan: Plan, names: Sequence[str]) -> Plan:
    return plan if plan.row_type.names == names else Project(plan, _columns(plan.row_type), tuple(names))


def _columns(rows: RowType) -> tuple[BoundExpression, ...]:
    return tuple(Column(kind, place) for place, kind in enumerate(rows.types))


def _calc(plan: Plan, streams: Mapping[TablePath, Transformation]) -> Transformation:
    """One operator for a projection, the filter below it, and the columns of a table below that."""
    names, projections, predicate = plan.row_type.names, _columns(plan.row_type), None
    below = plan
    if isinstance(below, Project):
        projections, below = below.expressions, below.input
    if isinstance(below, Filter):
        predicate, below = below.condition, below.input
    if isinstance(below, Scan) and below.hints:
        raise Unexecutable(below)
    rows = below.row_type
    source = streams[below.table.path] if isinstance(below, Scan) else lowered(below, streams)
    columns = tuple(zip(rows.names, rows.types, strict=True))
    return _added(source, CalcFactory(columns, tuple(zip(names, projections, strict=True)), predicate))


def _added(source: Transformation, factory: CalcFactory) -> Transformation:
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


# -- VALUES


def _values(plan: Values) -> Transformation:
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
    return _added(source, CalcFactory(tuple(columns), tuple(zip(rows.names, projections, strict=True))))


def _by_row(values: Sequence[BoundExpression], kind: LogicalType) -> BoundExpression:
    """The value of each row, by the row's number."""
    if len(values) == 1:
        return values[0]
    row = Column(INT.not_null(), 0)
    cases = [(equal(row, Constant(INT.not_null(), place)), value) for place, value in enumerate(values)]
    return Call(kind, "CASE", tuple(each for case in cases for each in case))
