"""PyFlink's module names, and the arguments in which its classes differ."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from typing import Any

import pytest

import flinkray
import flinkray.pyflink
from flinkray.environment import StreamExecutionEnvironment
from flinkray.errors import ConfigurationError
from flinkray.keys import FunctionKey
from flinkray.pyflink.common import Configuration, Duration, Time, TimestampAssigner, Types, WatermarkStrategy
from flinkray.pyflink.datastream import (
    KeyedProcessFunction,
    ProcessWindowFunction,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowFunction,
)
from flinkray.pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from flinkray.pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkray.state import TtlUpdateType

MODULES = [name for _, name, _ in pkgutil.walk_packages(flinkray.pyflink.__path__, "flinkray.pyflink.")]


@pytest.mark.parametrize("name", MODULES)
def test_every_module_has_what_it_offers(name: str) -> None:
    module = importlib.import_module(name)
    offered = getattr(module, "__all__", [])
    assert offered == sorted(set(offered))
    assert [each for each in offered if not hasattr(module, each)] == []


def test_state_descriptors_take_pyflinks_arguments() -> None:
    ttl = StateTtlConfig.new_builder(Time.seconds(1)).update_ttl_on_read_and_write().build()
    assert (ttl.ttl_ms, ttl.update_type) == (1000, TtlUpdateType.ON_READ_AND_WRITE)
    descriptors = [
        ValueStateDescriptor("v", Types.LONG()),
        ListStateDescriptor("l", Types.LONG()),
        MapStateDescriptor("m", Types.STRING(), Types.LONG()),
        ReducingStateDescriptor("r", max, Types.LONG()),
        AggregatingStateDescriptor("a", None, Types.LONG()),  # type: ignore[arg-type]
    ]
    for descriptor in descriptors:
        descriptor.enable_time_to_live(ttl)
        same = pickle.loads(pickle.dumps(descriptor))
        assert (same.name, same.value_type, same.ttl) == (descriptor.name, Types.LONG(), ttl)
        assert isinstance(descriptor, flinkray.state.StateDescriptor)
    assert descriptors[2].key_type == Types.STRING()  # type: ignore[attr-defined]
    assert descriptors[3].function is max  # type: ignore[attr-defined]


def test_functions_may_be_annotated_as_in_pyflink() -> None:
    class Counting(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):  # type: ignore[misc]
        def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Any) -> Any: ...  # type: ignore[name-defined]

    class Applying(WindowFunction[tuple, tuple, str, TimeWindow]):  # type: ignore[misc]
        def apply(self, key: str, window: TimeWindow, inputs: Any) -> Any: ...

    class Keyed(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any: ...

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any: ...

    assert isinstance(Counting(), flinkray.ProcessWindowFunction)
    assert isinstance(Applying(), flinkray.WindowFunction)
    assert isinstance(Keyed(), flinkray.KeyedProcessFunction)


def test_a_program_is_written_as_in_pyflink(env: StreamExecutionEnvironment) -> None:
    class Second(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value[1])

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(Second())
    stream = env.from_collection(collection=[("a", 1)], type_info=Types.TUPLE([Types.STRING(), Types.LONG()]))
    keyed = stream.assign_timestamps_and_watermarks(strategy).key_by(lambda i: i[0], Types.STRING())
    assert isinstance(keyed._key, FunctionKey)
    assert keyed._key.key_type is not None
    summed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(5))).reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert summed.record_type == stream.record_type


def test_a_configuration_takes_options_by_type_and_refuses_unknown_ones() -> None:
    configuration = Configuration().set_string("execution.target", "local").set_integer("parallelism.default", 2)
    assert dict(configuration) == {"execution.target": "local", "parallelism.default": 2}
    with pytest.raises(ConfigurationError, match="unknown option"):
        configuration.set_boolean("python.fn-execution.streaming", True)


def test_text_files_are_read_by_the_builder(tmp_path: Any) -> None:
    (tmp_path / "words").write_text("a\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "words"))
    assert str(source.process_static_file_set().build().output_type) == "scalar<value: string>"
    with pytest.raises(ValueError, match="UTF-8"):
        StreamFormat.text_line_format("latin-1")
