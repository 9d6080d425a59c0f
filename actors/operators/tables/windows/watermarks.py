"""Watermarks from an expression of SQL."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from actors.operators.sources.operator import SourceOperator
from actors.operators.time.timestamps import TimestampsAndWatermarksOperator
from flinkray.batches.batch import Batch
from flinkray.tables.plans.expressions import columns_of
from flinkray.tables.types.arrow import to_arrow
from flinkray.time.watermarks import WatermarkGenerator, WatermarkStrategy
from flinkray.transformations.operator_factories import SourceFactory, TimestampsAndWatermarksFactory
from flinkray.transformations.table_window_factories import WatermarkAssignerFactory
from flinkray.types.records import MIN_TIMESTAMP, Timestamp
from graphs.job_graph import OperatorCode


class WatermarkAssignerOperator(TimestampsAndWatermarksOperator):
    """As the operator of streams, with a generator that computes an expression."""

    def __init__(self, factory: WatermarkAssignerFactory) -> None:
        strategy = WatermarkStrategy(
            lambda: HighestOfExpression(factory, self.context.clock.now_ms), factory.column, factory.idle_timeout_ms
        )
        super().__init__(OperatorCode(TimestampsAndWatermarksFactory(strategy), (None,), ()))


class SourceOfTableOperator(SourceOperator):
    """A source with such a generator for each split."""

    def __init__(self, code: OperatorCode) -> None:
        super().__init__(code)
        assert isinstance(code.factory, SourceFactory)
        factory = code.factory.watermark
        assert isinstance(factory, WatermarkAssignerFactory)
        self._strategy = WatermarkStrategy(
            lambda: HighestOfExpression(factory, self.context.clock.now_ms), None, factory.idle_timeout_ms
        )


class HighestOfExpression(WatermarkGenerator):
    """The highest value so far, in milliseconds; rows for which it is NULL have no say (Flink's WatermarkAssigner)."""

    def __init__(self, factory: WatermarkAssignerFactory, now_ms: Callable[[], float]) -> None:
        self._columns = factory.columns
        self._read = sorted(columns_of(factory.watermark))
        self._expression = prepared(factory.watermark, EvaluationContext())
        self._now_ms = now_ms
        self._highest = int(MIN_TIMESTAMP)

    def on_batch(self, batch: Batch, timestamps: pa.Array) -> Timestamp | None:
        read = {}
        for number in self._read:
            name, kind = self._columns[number]
            read[number] = batch.data.column(name).cast(to_arrow(kind))
        context = EvaluationContext(now_micros=int(self._now_ms()) * 1000)
        highest = pc.max(calculate(self._expression, read, batch.num_rows, context))
        if highest.is_valid:
            millis = highest.cast(pa.timestamp("ms", highest.type.tz), safe=False).cast(pa.int64()).as_py()
            self._highest = max(self._highest, millis)
        return None

    def on_periodic_emit(self) -> Timestamp | None:
        return None if self._highest == MIN_TIMESTAMP else Timestamp(self._highest)

    def snapshot_state(self) -> int:
        return self._highest  # not the expression, which the program may change

    def restore_state(self, state: int) -> None:
        self._highest = state
