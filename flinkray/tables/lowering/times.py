"""Rowtime attributes as event times and watermarks; of a stream, the column that event times come from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import structs

from flinkray.expressions.tree import Column
from flinkray.tables.functions.times import SOURCE_WATERMARK
from flinkray.tables.lowering.contract import Lowering, Unexecutable
from flinkray.tables.plans.explain import expression_text
from flinkray.tables.plans.expressions import BoundExpression, Call, Plan, columns_of, is_deterministic, with_columns
from flinkray.tables.plans.expressions import Column as PlanColumn
from flinkray.tables.plans.nodes import WatermarkAssigner
from flinkray.tables.plans.tables import TableColumn, WatermarkStrategy
from flinkray.tables.plans.window_columns import TIME_REMEDY
from flinkray.tables.types.logical import (
    BOOLEAN,
    TIMESTAMP,
    LogicalType,
    RowType,
    TimeAttribute,
    TimestampType,
    is_rowtime,
)
from flinkray.transformations.operator_factories import (
    CalcFactory,
    FilterFactory,
    OperatorFactory,
    RowtimeFactory,
    SourceFactory,
    TimestampsAndWatermarksFactory,
    WhereFactory,
)
from flinkray.transformations.table_factories import NormalizeFactory
from flinkray.transformations.table_window_factories import LocalTimeFactory, WatermarkAssignerFactory
from flinkray.transformations.transformation import (
    PartitionTransformation,
    PhysicalTransformation,
    Transformation,
    UnionTransformation,
    own_parallelism,
)
from flinkray.types.records import Millis

STREAM_WATERMARK = "STREAM_WATERMARK"
"""What a plan has for the watermarks of a stream whose event times are its rowtime attribute."""


def is_of_stream(plan: Plan) -> bool:
    """Whether event times and watermarks are there already, so that nothing has to be done."""
    return isinstance(plan, WatermarkAssigner) and _is_call_of(plan.watermark, STREAM_WATERMARK)


def _is_call_of(expression: BoundExpression, name: str) -> bool:
    return isinstance(expression, Call) and expression.function == name


def watermarks(plan: WatermarkAssigner, lowering: Lowering, before: bool) -> Transformation:
    """Event times from a column, and watermarks from an expression, or those that come."""
    source = lowering.of(plan.input, before)
    rows = plan.input.row_type
    if is_of_stream(plan):
        return source
    if lowering.options.is_batch:  # of one column's watermarks rows would be late in windows of another
        return with_event_times(source, rows.names[plan.column], 0, drops=False, may_be_null=True)
    if _is_call_of(plan.watermark, SOURCE_WATERMARK):
        return with_event_times(source, rows.names[plan.column], 0, drops=False)
    columns = tuple(zip(rows.names, rows.types, strict=True))
    timeout = lowering.options.idle_timeout_ms or None
    factory = WatermarkAssignerFactory(columns, rows.names[plan.column], plan.watermark, timeout)
    if _made_by_split(source, factory):
        return with_event_times(source, factory.column, 0, drops=False)
    text = expression_text(plan.watermark, rows.names)
    return beside(source, "WatermarkAssigner", f"watermark of {factory.column}: {text}", factory)


def _made_by_split(rows: Transformation, factory: WatermarkAssignerFactory) -> bool:
    """Has the source of a table make the watermarks, of each split, as its rows are read beside those of others. False:
    it makes none, or they cannot be made of its columns alone."""
    watermark = factory.watermark
    columns = factory.columns
    while isinstance(rows, PartitionTransformation) or (
        isinstance(rows, PhysicalTransformation) and isinstance(rows.factory, CalcFactory | NormalizeFactory)
    ):
        # Behind an exchange by key, as before what makes whole changelogs, rows of other splits would be late.
        if isinstance(rows, PhysicalTransformation) and isinstance(rows.factory, CalcFactory):
            if rows.factory.predicate is not None:
                return False
            # By name, as what makes whole changelogs has the columns of the key besides those that are read.
            named = dict(rows.factory.projections)
            computed = [named[name] for name, _ in columns]
            watermark, columns = with_columns(watermark, computed.__getitem__), rows.factory.columns
        rows = rows.inputs[0]
    if not isinstance(rows, PhysicalTransformation) or not isinstance(rows.factory, SourceFactory):
        return False
    # A source that no table's connector has made says nothing of what it computes; others may read it, too.
    if not (rows.computes and rows.factory.source.has_times_by_split):
        return False
    if not is_deterministic(watermark):
        return False  # computed once more it would be another one than that of the column
    # Plans that read other columns of the table have the same watermarks, so that they read it together.
    read = sorted(columns_of(watermark))
    places = {number: PlanColumn(columns[number][1], place) for place, number in enumerate(read)}
    own = structs.replace(
        factory,
        columns=tuple(columns[number] for number in read),
        watermark=with_columns(watermark, places.__getitem__),
    )
    if rows.factory.watermark is None:
        rows.factory = structs.replace(rows.factory, watermark=own)
    return rows.factory.watermark == own


def without_unread_rowtime(stream: Transformation, read: Collection[str]) -> Transformation:
    """The stream before a column was made of its event times, where nobody reads that."""
    match stream:
        case PhysicalTransformation(factory=RowtimeFactory(column=column, is_added=True)) if column not in read:
            return stream.inputs[0]
    return stream


def with_event_times(
    rows: Transformation, column: str, shift_ms: int, *, drops: bool, may_be_null: bool = False
) -> Transformation:
    """The rows with event times from a column, which they may then do without: those that they came with may be others,
    or none."""
    shift = f" {shift_ms:+} ms" if shift_ms else ""
    factory = RowtimeFactory(column, shift_ms=Millis(shift_ms), drops=drops, may_be_null=may_be_null)
    return beside(rows, "Rowtime", f"event time: {column}{shift}", factory)


def in_local_time(rows: Transformation, time_zone: str) -> Transformation:
    """The rows with event time as clocks in the time zone show it."""
    factory = LocalTimeFactory(time_zone)
    return beside(rows, "LocalTime", f"event time as clocks in {time_zone} show it", factory)


def in_instants(rows: Transformation, time_zone: str) -> Transformation:
    """What has been computed of `in_local_time`, with its event time made instants again."""
    factory = LocalTimeFactory(time_zone, is_back=True)
    return beside(rows, "Instants", f"event time as instants, from clocks in {time_zone}", factory)


def beside(rows: Transformation, name: str, description: str, factory: OperatorFactory) -> Transformation:
    """An operator of its input's parallelism, so that rows stay in order."""
    return PhysicalTransformation(
        name=name,
        description=description,
        factory=factory,
        input_transformations=(rows,),
        parallelism=own_parallelism(rows),
    )


def check_time(plan: Plan, what: str, time: int, lowering: Lowering) -> None:
    """
    Raises:
        Unexecutable: on a stream a column of the input is no time attribute, so that nothing says when its rows are
            there. In batch mode they are when all have come.
    """
    rows = plan.inputs[0].row_type
    kind = rows.types[time]
    if not lowering.options.is_batch and isinstance(kind, TimestampType) and kind.attribute is None:
        name = rows.names[time]
        shown = "this" if name.startswith("$") else repr(name)
        raise Unexecutable(plan, f"on a stream {what} a time attribute, and {shown} is {kind}; {TIME_REMEDY}")


def has_time(time: BoundExpression, lowering: Lowering) -> BoundExpression | None:
    """In batch mode the condition that a row has a time; None: it always has one. A row without one is in no window."""
    kind = time.type
    if not lowering.options.is_batch or not kind.nullable or is_proctime(kind):
        return None
    return Call(BOOLEAN.not_null(), "IS NOT NULL", (time,))


def is_proctime(kind: LogicalType) -> bool:
    """Whether it is the type of a time attribute of the clock."""
    return isinstance(kind, TimestampType) and kind.attribute is TimeAttribute.PROCTIME


# -- the rowtime attribute of a stream


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
