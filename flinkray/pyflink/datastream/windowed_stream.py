"""Windows of `pyflink.datastream.data_stream`."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

from flinkray.pyflink.common.typeinfo import TypeInformation
from flinkray.pyflink.datastream.data_stream import DataStream, KeyedStream, declared
from flinkray.streams import all_windowed_stream, windowed_stream
from flinkray.streams.window_operations import WindowOperations
from flinkray.types.records import OutputTag
from flinkray.windows.aggregates import Aggregate

if TYPE_CHECKING:
    from flinkray.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["AllWindowedStream", "WindowedStream"]


class _Windows(WindowOperations):
    """Mixed into flinkray's windows: PyFlink's argument names, and its rule for types."""

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._input.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        return self._input.get_type()

    def allowed_lateness(self, time_ms: Any) -> Self:
        return super().allowed_lateness(time_ms)

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        return super().side_output_late_data(output_tag)

    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream:
        """The result has the stream's own type, or with a window function the declared one."""
        type_ = output_type if window_function is None else declared(output_type)
        return DataStream.of(super().reduce(reduce_function, window_function, type_))

    def aggregate(
        self,
        aggregate_function: Any = None,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
        **aggregates: Any,
    ) -> DataStream:
        type_ = None if aggregates else declared(output_type)
        results = super().aggregate(aggregate_function, window_function, accumulator_type, type_, **aggregates)
        return DataStream.of(results)

    @property
    def _input(self) -> DataStream:
        assert isinstance(self._stream, DataStream)
        return self._stream


class WindowedStream(_Windows, windowed_stream.WindowedStream):
    """Made by `KeyedStream.window` and `count_window`."""

    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream:
        return DataStream.of(super().process(process_window_function, declared(output_type)))

    def apply(self, window_function: Any, output_type: Any = None) -> DataStream:
        return DataStream.of(super().apply(window_function, declared(output_type)))

    def _built_in(self, aggregates: dict[str, Aggregate]) -> DataStream:
        """flinkray's aggregates, which PyFlink does not have: their rows have the keys as columns."""
        assert isinstance(self._stream, KeyedStream)
        windows = copy(self)
        windows._stream = keyed = self._stream._with_inferred_keys()
        windows._key = keyed._key_selector_of_stream
        return DataStream.of(windowed_stream.WindowedStream._built_in(windows, aggregates))


class AllWindowedStream(_Windows, all_windowed_stream.AllWindowedStream):
    """Made by `DataStream.window_all`."""

    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream:
        return DataStream.of(super().process(process_window_function, declared(output_type)))

    def apply(self, window_function: Any, output_type: Any = None) -> DataStream:
        return DataStream.of(super().apply(window_function, declared(output_type)))
