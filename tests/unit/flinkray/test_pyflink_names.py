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
from flinkray.errors import ConfigurationError, InvalidProgramError, JobExecutionError
from flinkray.execution import JobStatus
from flinkray.keys import FunctionKey
from flinkray.pyflink.common import Configuration, Duration, Time, TimestampAssigner, Types, WatermarkStrategy
from flinkray.pyflink.datastream import (
    KeyedProcessFunction,
    ProcessWindowFunction,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowFunction,
)
from flinkray.pyflink.datastream import StreamExecutionEnvironment as PyFlinkEnvironment
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
from tests.support.api import DEADLINE, FakeExecutor, batch_of

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
        configuration.set_boolean("pipeline.operator-chaning", True)
    with pytest.raises(InvalidProgramError, match="jars cannot run here"):
        configuration.set_string("pipeline.jars", "file:///kafka.jar")


def test_options_of_flinks_jvm_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    configuration = Configuration().set_boolean("python.fn-execution.streaming", True)
    assert not configuration.key_set()
    assert "'python.fn-execution.streaming' is about Flink's JVM" in caplog.text


def test_a_configuration_gives_back_what_it_holds_by_type() -> None:
    configuration = Configuration.from_dict({"parallelism.default": "3", "pipeline.operator-chaining.enabled": "false"})
    assert configuration.get_integer("parallelism.default", 1) == 3
    assert configuration.get_string("parallelism.default", None) == "3"
    assert configuration.get_boolean("pipeline.operator-chaining.enabled", True) is False
    assert configuration.get_float("metrics.none", 0.5) == 0.5
    assert configuration.to_dict() == {"parallelism.default": "3", "pipeline.operator-chaining.enabled": "false"}
    assert configuration.remove_config("parallelism.default")
    assert not configuration.contains_key("parallelism.default")
    assert not configuration.remove_config("parallelism.default")
    assert Configuration.parse_list_value("[a, b]") == Configuration.parse_list_value("a;b") == ["a", "b"]


def test_text_files_are_read_by_the_builder(tmp_path: Any) -> None:
    (tmp_path / "words").write_text("a\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "words"))
    assert str(source.process_static_file_set().build().output_type) == "scalar<value: string>"
    with pytest.raises(ValueError, match="UTF-8"):
        StreamFormat.text_line_format("latin-1")


# -- jobs


@pytest.fixture
def pyflink_env(executor: FakeExecutor, monkeypatch: pytest.MonkeyPatch) -> PyFlinkEnvironment:
    assert executor is not None
    monkeypatch.delenv("FLINKRAY_CONF_DIR", raising=False)
    return PyFlinkEnvironment.get_execution_environment()


def test_a_client_answers_with_futures(pyflink_env: PyFlinkEnvironment, executor: FakeExecutor) -> None:
    pyflink_env.from_collection([1]).print()
    client = pyflink_env.execute_async("futures")
    assert client.get_job_id() == "job-1"
    assert client.get_job_status().result(DEADLINE) is JobStatus.RUNNING
    assert client.get_accumulators().result(DEADLINE) == {}
    assert client.trigger_savepoint("/there").result(DEADLINE) == "/there/savepoint-1"
    assert client.stop_with_savepoint(True, "/there").result(DEADLINE) == "/there/savepoint-1"
    assert client.stop_with_savepoint(False, "/there").result(DEADLINE) == "/there/savepoint-1"
    assert client.get_job_execution_result().result(DEADLINE).job_name == "futures"
    assert client.cancel().result(DEADLINE) is None
    assert client.get_job_status().result(DEADLINE) is JobStatus.CANCELED
    client.close()
    calls = ["savepoint /there", "drain /there", "stop /there", "result", "cancel", "close"]
    assert executor.clients[-1].calls == calls


def test_a_future_raises_what_its_call_raised(pyflink_env: PyFlinkEnvironment, executor: FakeExecutor) -> None:
    executor.job_error = JobExecutionError("job 'x' failed")
    pyflink_env.from_collection([1]).print()
    future = pyflink_env.execute_async().get_job_execution_result()
    with pytest.raises(JobExecutionError, match="job 'x' failed"):
        future.result(DEADLINE)
    assert isinstance(future.exception(), JobExecutionError)
    assert future.done()


def test_programs_of_pyflinks_environment_wait_and_collect_as_ever(
    pyflink_env: PyFlinkEnvironment, executor: FakeExecutor
) -> None:
    executor.batches = [batch_of(1, 2)]
    stream = pyflink_env.from_collection([1, 2])
    with stream.execute_and_collect() as rows:
        assert list(rows) == [1, 2]
    stream.print()
    assert pyflink_env.execute("again").job_name == "again"


def test_the_execution_config_writes_into_its_environment(pyflink_env: PyFlinkEnvironment) -> None:
    config = pyflink_env.get_config()
    config.set_parallelism(3).set_max_parallelism(64).set_auto_watermark_interval(50).set_latency_tracking_interval(
        "1 s"
    )
    config.set_global_job_parameters({"limit": 5}).enable_object_reuse()
    assert dict(pyflink_env.configuration) == {
        "metrics.latency.interval": 1_000,
        "parallelism.default": 3,
        "pipeline.auto-watermark-interval": 50,
        "pipeline.global-job-parameters": {"limit": "5"},
        "pipeline.max-parallelism": 64,
        "pipeline.object-reuse": True,
    }
    assert (config.get_parallelism(), config.get_max_parallelism()) == (3, 64)
    assert (config.get_auto_watermark_interval(), config.get_latency_tracking_interval()) == (50, 1_000)
    assert config.is_object_reuse_enabled()
    assert not config.disable_object_reuse().is_object_reuse_enabled()
    config.get_global_job_parameters()["limit"] = "6"
    assert config.get_global_job_parameters() == {"limit": "5"}
