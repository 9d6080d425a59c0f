"""From descriptions to operators: the one table that says which operator runs which operator factory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actors.operators.aggregates.running_operator import RunningAggregateOperator, RunningColumnOperator
from actors.operators.contract.operator import Operator
from actors.operators.expressions.changelog_operators import AsChangelogOperator, KindsAsColumnOperator
from actors.operators.expressions.column_operators import DropOperator, ProjectOperator, RenameOperator, WhereOperator
from actors.operators.functions.batch_functions import MapBatchesOperator
from actors.operators.functions.iteration_head import IterationInputOperator
from actors.operators.functions.multiple_input import MultipleInputOperator
from actors.operators.functions.reduce import ReduceOperator
from actors.operators.functions.row_functions import FusedRowOperator
from flinkray.transformations import operator_factories as factories
from flinkray.transformations import table_window_factories as windows
from graphs.job_graph import OperatorCode

# Operators with heavy imports of their own (connectors, windows) are imported when a job first uses them, so that a
# slot starts quickly.


def _source(code: OperatorCode) -> Operator:
    assert isinstance(code.factory, factories.SourceFactory)
    if code.factory.watermark is not None:
        from actors.operators.tables.windows.watermarks import SourceOfTableOperator

        return SourceOfTableOperator(code)
    from actors.operators.sources.operator import SourceOperator

    return SourceOperator(code)


def _sink(code: OperatorCode) -> Operator:
    from actors.operators.sinks.operator import SinkOperator

    return SinkOperator(code)


def _timestamps(code: OperatorCode) -> Operator:
    from actors.operators.time.timestamps import TimestampsAndWatermarksOperator

    return TimestampsAndWatermarksOperator(code)


def _process(code: OperatorCode) -> Operator:
    from actors.operators.functions.process import ProcessOperator

    return ProcessOperator(code)


def _co_row(code: OperatorCode) -> Operator:
    from actors.operators.functions.co_process import CoRowOperator

    return CoRowOperator(code)


def _co_process(code: OperatorCode) -> Operator:
    from actors.operators.functions.co_process import CoProcessOperator

    return CoProcessOperator(code)


def _broadcast_process(code: OperatorCode) -> Operator:
    from actors.operators.functions.broadcast_process import BroadcastProcessOperator

    return BroadcastProcessOperator(code)


def _window(code: OperatorCode) -> Operator:
    from actors.operators.windows.choice import create_window_operator

    return create_window_operator(code)


def _local_window_aggregate(code: OperatorCode) -> Operator:
    from actors.operators.windows.aligned.local_operator import LocalWindowAggregateOperator

    assert isinstance(code.factory, factories.LocalWindowAggregateFactory)
    return LocalWindowAggregateOperator(code.factory)


def _co_group(code: OperatorCode) -> Operator:
    from actors.operators.joins.window_operator import create_co_group_operator

    return create_co_group_operator(code)


def _interval_join(code: OperatorCode) -> Operator:
    from actors.operators.joins.interval_operator import IntervalJoinOperator

    return IntervalJoinOperator(code)


def _pattern(code: OperatorCode) -> Operator:
    from actors.operators.patterns.operator import PatternOperator

    return PatternOperator(code)


def _async(code: OperatorCode) -> Operator:
    from actors.operators.asynchronous.operator import AsyncWaitOperator

    return AsyncWaitOperator(code)


def _calc(code: OperatorCode) -> Operator:
    from actors.operators.calc.operator import CalcOperator

    assert isinstance(code.factory, factories.CalcFactory)
    return CalcOperator(code.factory)


def _rowtime(code: OperatorCode) -> Operator:
    from actors.operators.time.rowtime import RowtimeOperator

    assert isinstance(code.factory, factories.RowtimeFactory)
    return RowtimeOperator(code.factory)


def _watermark_assigner(code: OperatorCode) -> Operator:
    from actors.operators.tables.windows.watermarks import WatermarkAssignerOperator

    assert isinstance(code.factory, windows.WatermarkAssignerFactory)
    return WatermarkAssignerOperator(code.factory)


def _window_table_function(code: OperatorCode) -> Operator:
    from actors.operators.tables.windows.table_function import WindowTableFunctionOperator

    assert isinstance(code.factory, windows.WindowTableFunctionFactory)
    return WindowTableFunctionOperator(code.factory)


def _local_time(code: OperatorCode) -> Operator:
    from actors.operators.tables.windows.local_time import LocalTimeOperator

    assert isinstance(code.factory, windows.LocalTimeFactory)
    return LocalTimeOperator(code.factory)


def _global_committer(code: OperatorCode) -> Operator:
    from actors.operators.sinks.global_committer import GlobalCommitterOperator

    assert isinstance(code.factory, factories.GlobalCommitterFactory)
    return GlobalCommitterOperator(code.factory)


def _decode(code: OperatorCode) -> Operator:
    from actors.operators.functions.message_formats import DecodeOperator

    assert isinstance(code.factory, factories.DecodeFactory)
    return DecodeOperator(code.factory)


def _encode(code: OperatorCode) -> Operator:
    from actors.operators.functions.message_formats import EncodeOperator

    assert isinstance(code.factory, factories.EncodeFactory)
    return EncodeOperator(code.factory)


def _of_factory(operator: Callable[[Any], Operator]) -> Callable[[OperatorCode], Operator]:
    """Makes an operator that needs nothing but its factory (its keys reach it through the context)."""
    return lambda code: operator(code.factory)


_OPERATORS: dict[type[factories.OperatorFactory], Callable[[OperatorCode], Operator]] = {
    factories.SourceFactory: _source,
    factories.SinkFactory: _sink,
    factories.GlobalCommitterFactory: _global_committer,
    factories.TimestampsAndWatermarksFactory: _timestamps,
    factories.MapBatchesFactory: _of_factory(MapBatchesOperator),
    factories.ProjectFactory: _of_factory(ProjectOperator),
    factories.DropFactory: _of_factory(DropOperator),
    factories.RenameFactory: _of_factory(RenameOperator),
    factories.WhereFactory: _of_factory(WhereOperator),
    factories.CalcFactory: _calc,
    factories.RowtimeFactory: _rowtime,
    windows.WatermarkAssignerFactory: _watermark_assigner,
    windows.WindowTableFunctionFactory: _window_table_function,
    windows.LocalTimeFactory: _local_time,
    factories.AsChangelogFactory: _of_factory(AsChangelogOperator),
    factories.KindsAsColumnFactory: _of_factory(KindsAsColumnOperator),
    factories.DecodeFactory: _decode,
    factories.EncodeFactory: _encode,
    factories.RunningAggregateFactory: _of_factory(RunningAggregateOperator),
    factories.RunningColumnFactory: _of_factory(RunningColumnOperator),
    factories.ReduceFactory: _of_factory(ReduceOperator),
    factories.AsyncFactory: _async,
    factories.ProcessFactory: _process,
    factories.CoMapFactory: _co_row,
    factories.CoFlatMapFactory: _co_row,
    factories.CoProcessFactory: _co_process,
    factories.BroadcastProcessFactory: _broadcast_process,
    factories.WindowFactory: _window,
    factories.LocalWindowAggregateFactory: _local_window_aggregate,
    factories.WindowCoGroupFactory: _co_group,
    factories.IntervalJoinFactory: _interval_join,
    factories.PatternFactory: _pattern,
    factories.IterationInputFactory: _of_factory(IterationInputOperator),
    factories.MultipleInputFactory: _of_factory(MultipleInputOperator),
}


def create_operator(codes: Sequence[OperatorCode], names: Sequence[str]) -> Operator:
    """The operator that runs these descriptions: one, or several neighbouring row functions fused into one.

    Args:
        names: the operators' names, for errors.
    """
    if all(code.factory.is_row_function for code in codes):
        return FusedRowOperator([code.factory for code in codes], names)
    if len(codes) != 1:
        raise ValueError(f"only row functions can be fused, not {', '.join(names)}")
    factory = codes[0].factory
    if isinstance(factory, factories.TableFactory):
        from actors.operators.table_registry import create_table_operator

        return create_table_operator(factory)
    create = _OPERATORS.get(type(factory))
    if create is None:
        raise TypeError(f"no operator is registered for {type(factory).__name__} ({names[0]!r})")
    return create(codes[0])
