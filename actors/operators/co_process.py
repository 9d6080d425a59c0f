"""Two inputs into one user function: CoMapFunction, CoFlatMapFunction, CoProcessFunction and the keyed one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from actors.operators.process import UserFunctionOperator
from flinkray.batch import Batch
from flinkray.functions import Function, as_callable
from flinkray.operator_factories import CoFlatMapFactory, CoMapFactory, CoProcessFactory
from flinkray.types import RecordType
from graphs.job_graph import OperatorCode


class _TwoInputOperator(UserFunctionOperator):
    """Base: which method serves which input. State and timers are those of the key, whichever input it comes from."""

    def __init__(self, function: Function, output_type: RecordType | None, methods: tuple[str, str]) -> None:
        super().__init__(function, output_type)
        self._methods = [as_callable(function, method) for method in methods]
        self._takers: list[Callable[[Any, int | None], None]] = [self._take_first, self._take_second]

    @property
    def number_of_inputs(self) -> int:
        return 2

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._call_per_row(batch, input_index, self._takers[input_index])

    def _take_first(self, value: Any, timestamp: int | None) -> None:
        self._take(0, value, timestamp)

    def _take_second(self, value: Any, timestamp: int | None) -> None:
        self._take(1, value, timestamp)

    @abstractmethod
    def _take(self, index: int, value: Any, timestamp: int | None) -> None:
        """A row of the input `index`."""


class CoRowOperator(_TwoInputOperator):
    """A CoMapFunction (one result per row) or a CoFlatMapFunction (any number); they get the row's event time."""

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, CoMapFactory | CoFlatMapFactory)
        self._is_map = isinstance(factory, CoMapFactory)
        methods = ("map1", "map2") if self._is_map else ("flat_map1", "flat_map2")
        super().__init__(factory.function, factory.output_type, methods)

    def _take(self, index: int, value: Any, timestamp: int | None) -> None:
        result = self._methods[index](value)
        if self._is_map:
            self._results.add(result, timestamp)
        else:
            self._results.collect(result, timestamp)


class CoProcessOperator(_TwoInputOperator):
    """A CoProcessFunction or KeyedCoProcessFunction."""

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, CoProcessFactory)
        super().__init__(factory.function, factory.output_type, ("process_element1", "process_element2"))

    def _take(self, index: int, value: Any, timestamp: int | None) -> None:
        self._results.collect(self._methods[index](value, self._element), timestamp)
