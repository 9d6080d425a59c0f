"""Two inputs into one user function: CoMapFunction, CoFlatMapFunction, CoProcessFunction and the keyed one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.operators.functions.process import UserFunctionOperator
from flinkray.batches.batch import Batch
from flinkray.functions.interfaces import Function, as_callable
from flinkray.transformations.operator_factories import CoFlatMapFactory, CoMapFactory, CoProcessFactory
from graphs.job_graph import OperatorCode


class _TwoInputOperator(UserFunctionOperator):
    """Base: which call serves which input. State and timers are those of the key, whichever input it comes from."""

    _calls: tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]
    """`call(value, ctx)` gives what `ResultCollector.collect` takes."""

    @property
    def number_of_inputs(self) -> int:
        return 2

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._call_per_row(batch, input_index, self._calls[input_index], self._element)


class CoRowOperator(_TwoInputOperator):
    """A CoMapFunction (one result per row) or a CoFlatMapFunction (any number); they get the row's event time."""

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, CoMapFactory | CoFlatMapFactory)
        super().__init__(factory.function, factory.output_type)
        if isinstance(factory, CoMapFactory):
            self._calls = _of_one(factory.function, "map1"), _of_one(factory.function, "map2")
        else:
            self._calls = _of_many(factory.function, "flat_map1"), _of_many(factory.function, "flat_map2")


def _of_one(function: Function, method: str) -> Callable[[Any, Any], Any]:
    call = as_callable(function, method)
    return lambda value, _ctx: (call(value),)


def _of_many(function: Function, method: str) -> Callable[[Any, Any], Any]:
    call = as_callable(function, method)
    return lambda value, _ctx: call(value)


class CoProcessOperator(_TwoInputOperator):
    """A CoProcessFunction or KeyedCoProcessFunction."""

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, CoProcessFactory)
        super().__init__(factory.function, factory.output_type)
        self._calls = (
            as_callable(factory.function, "process_element1"),
            as_callable(factory.function, "process_element2"),
        )
