"""PyFlink's module names, and the arguments in which its classes differ."""

from __future__ import annotations

import datetime
import importlib
import json
import pickle
import pkgutil
import re
from decimal import Decimal
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

import flinkray
import flinkray.pyflink
from flinkray.batches.row_codec import RowEncoder, decode
from flinkray.errors import ConfigurationError, InvalidProgramError, JobExecutionError, TypeMismatchError
from flinkray.execution import JobStatus
from flinkray.functions.type_hints import record_type
from flinkray.pyflink.common import (
    Configuration,
    Duration,
    Instant,
    JobClient,
    SimpleStringSchema,
    Time,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from flinkray.pyflink.datastream import (
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    SlotSharingGroup,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowFunction,
    connectors,
)
from flinkray.pyflink.datastream import StreamExecutionEnvironment as PyFlinkEnvironment
from flinkray.pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from flinkray.pyflink.datastream.connectors.number_seq import NumberSequenceSource
from flinkray.pyflink.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from flinkray.pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flinkray.pyflink.datastream.functions import ProcessAllWindowFunction
from flinkray.pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkray.pyflink.message_formats import format_of
from flinkray.pyflink.table import (
    DataTypes,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableDescriptor,
    TableEnvironment,
    TableSchema,
)
from flinkray.pyflink.table.catalog import ObjectIdentifier
from flinkray.pyflink.table.expressions import col
from flinkray.pyflink.table.types import RowField, RowType
from flinkray.pyflink.table.udf import udf
from flinkray.pyflink.texts import line_texts, printed_texts
from flinkray.state.descriptors import TtlUpdateType
from flinkray.streams.environment import StreamExecutionEnvironment
from flinkray.time.durations import to_millis
from flinkray.types.keys import FunctionKey
from flinkray.types.rows import Row
from tests.support.api import DEADLINE, FakeExecutor, batch_of

MODULES = [name for _, name, _ in pkgutil.walk_packages(flinkray.pyflink.__path__, "flinkray.pyflink.")]


@pytest.mark.parametrize(
    "jar",
    [
        "file:///lib/flink-sql-connector-kafka-3.2.0-1.19.jar",
        "file:///lib/kafka-clients-3.3.1.jar",
        "file:///lib/flink-connector-jdbc-3.1.2-1.18.jar",
        "file:///lib/postgresql-42.7.1.jar",
        "file:///lib/flink-sql-connector-postgres-cdc-3.0.1.jar",
        "file:///lib/iceberg-flink-runtime-1.19-1.7.0.jar",
        "file:///lib/flink-sql-parquet-1.19.0.jar",
        "file:///lib/flink-connector-jdbc_2.12-1.14.6.jar",
        "file:///lib/postgresql.jar",
    ],
)
def test_archives_of_what_is_built_in_are_left_out(jar: str, pyflink_env: PyFlinkEnvironment) -> None:
    pyflink_env.add_jars(jar)
    pyflink_env.add_classpaths(jar)
    configuration = Configuration().set_string("pipeline.jars", f"{jar};\n {jar}").set("pipeline.classpaths", "")
    configuration.set("pipeline.jars", [jar]).set_string("pipeline.jars", f"['{jar}', '{jar}']")
    assert dict(configuration) == {}


@pytest.mark.parametrize(
    "jar",
    [
        "mysql-connector-j-8.1.0.jar",
        "flink-connector-jdbc-mysql-4.0.0.jar",
        "kafka.jar",
        "shop-flink-json-functions-1.0.jar",
        "flink-csv-functions.jar",
        "flink-connector-kafka-rules-1.0.jar",
    ],
)
def test_other_archives_are_refused(jar: str, pyflink_env: PyFlinkEnvironment) -> None:
    built_in = "file:///connector-kafka/flink-sql-connector-kafka-3.2.0-1.19.jar"
    path = f"file:///connector-kafka/{jar}"
    for call in (
        lambda: pyflink_env.add_jars(built_in, path),
        lambda: pyflink_env.add_classpaths(path),
        lambda: Configuration().set_string("pipeline.jars", f"{built_in};{path}"),
        lambda: Configuration().set_string("pipeline.jars", f"['{path}', '{built_in}']"),
        lambda: Configuration().set("pipeline.jars", [path, built_in]),
    ):
        with pytest.raises(InvalidProgramError, match=re.escape(f"({path!r}): jars cannot run here")):
            call()


def test_programs_of_older_versions_say_their_time(pyflink_env: PyFlinkEnvironment) -> None:
    characteristic = importlib.import_module("flinkray.pyflink.datastream").TimeCharacteristic
    assert pyflink_env.get_stream_time_characteristic() is characteristic.EventTime
    for each, interval in ((characteristic.ProcessingTime, 0), (characteristic.EventTime, 200)):
        pyflink_env.set_stream_time_characteristic(each)
        assert pyflink_env.get_stream_time_characteristic() is each
        assert pyflink_env.get_config().get_auto_watermark_interval() == interval
    with pytest.raises(InvalidProgramError, match="for_monotonous_timestamps"):
        pyflink_env.set_stream_time_characteristic(characteristic.IngestionTime)
    with pytest.raises(InvalidProgramError, match="'EventTime' is no TimeCharacteristic"):
        pyflink_env.set_stream_time_characteristic("EventTime")
    assert pyflink_env.get_config().get_auto_watermark_interval() == 200


def test_programs_of_older_versions_ask_for_the_only_planner() -> None:
    settings = EnvironmentSettings.new_instance().use_blink_planner().in_batch_mode().use_any_planner().build()
    assert not settings.is_streaming_mode()


def test_a_state_backend_is_named_by_the_class_that_makes_it() -> None:
    for name, backend in (
        ("org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory", "rocksdb"),
        ("org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory", "hashmap"),
    ):
        assert Configuration().set_string("state.backend", name).get_string("state.backend.type", "") == backend
    with pytest.raises(ConfigurationError, match="must be one of hashmap, rocksdb"):
        Configuration().set_string("state.backend", "org.example.MyFactory")


def test_modules_have_names_that_pyflinks_import() -> None:
    for module, name, home in (
        ("datastream.window", "Time", "common"),
        ("datastream.functions", "ValueStateDescriptor", "datastream.state"),
        ("common.serialization", "JsonRowDeserializationSchema", "datastream.formats.json"),
        ("table.table_environment", "AggregateFunction", "table"),
        ("datastream.data_stream", "AggregateFunction", "datastream"),
    ):
        found, original = (importlib.import_module(f"flinkray.pyflink.{each}") for each in (module, home))
        assert getattr(found, name) is getattr(original, name)
        assert not hasattr(found, "NoSuchName")


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
        assert isinstance(descriptor, flinkray.state.descriptors.StateDescriptor)
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

    class Mapping(MapFunction[int, str]):  # type: ignore[misc, type-arg]
        def map(self, value: int) -> str: ...

    for context in (ProcessWindowFunction.Context, ProcessAllWindowFunction.Context[TimeWindow]):
        Counting.process.__annotations__["context"] = context  # as where annotations are no text
        assert isinstance(pickle.loads(cloudpickle.dumps(Counting))(), flinkray.ProcessWindowFunction)
    assert isinstance(Mapping(), flinkray.MapFunction)
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


def test_a_configuration_takes_options_by_type_and_refuses_bad_values() -> None:
    configuration = Configuration().set_string("execution.target", "local").set_integer("parallelism.default", 2)
    assert dict(configuration) == {"execution.target": "local", "parallelism.default": 2}
    with pytest.raises(ConfigurationError, match="expected a whole number"):
        configuration.set_string("parallelism.default", "two")
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
    (tmp_path / "words").write_bytes("é\n\n".encode("latin-1"))
    latin = FileSource.for_record_stream_format(StreamFormat.text_line_format("ISO-8859-1"), str(tmp_path / "words"))
    assert latin.build().read_all().column("value").to_pylist() == ["é", ""]


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


# -- types, and what is printed


def test_annotations_say_nothing_of_types_as_in_pyflink(pyflink_env: PyFlinkEnvironment) -> None:
    def annotated(value: int) -> int:
        return value

    numbers = pyflink_env.from_collection([1, 2], type_info=Types.INT())
    assert numbers.get_type() == Types.INT()
    assert numbers.map(annotated).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert numbers.map(annotated, Types.LONG()).get_type() == Types.LONG()
    assert numbers.filter(lambda _: True).key_by(lambda v: v).reduce(max).get_type() == Types.INT()
    assert pyflink_env.from_collection([1]).get_type() == Types.PICKLED_BYTE_ARRAY()


def test_the_type_of_a_stream_is_given_back_as_it_was_declared(pyflink_env: PyFlinkEnvironment) -> None:
    for type_info in (
        Types.STRING(),
        Types.TUPLE([Types.STRING(), Types.LIST(Types.DOUBLE())]),
        Types.ROW_NAMED(["a", "b"], [Types.SHORT(), Types.MAP(Types.STRING(), Types.BYTE())]),
    ):
        assert pyflink_env.from_collection([], type_info=type_info).get_type() == type_info


@pytest.mark.parametrize(
    ("values", "declared", "lines"),
    [
        ([("a", 1.0, True, None)], [str, float, bool, int], ["(a,1.0,true,null)"]),
        ([Row(a=1, b=None, c=True)], None, ["+I[1,None,True]"]),
        (
            [1e7, 1e-4, 0.001, -1.5, float("inf"), float("nan")],
            None,
            ["1.0E7", "1.0E-4", "0.001", "-1.5", "Infinity", "NaN"],
        ),
        ([["x", "y"], []], None, ["[x, y]", "[]"]),
        ([{1: "x"}], None, ["{1=x}"]),
        ([frozenset({1})], None, ["frozenset({1})"]),
        ([b"\x01\xff"], None, ["[1, -1]"]),
        ([datetime.time(12, 30, 0, 123000)], None, ["12:30:00"]),
    ],
)
def test_values_are_printed_as_pyflink_prints_them(values: list[Any], declared: Any, lines: list[str]) -> None:
    kind = None if declared is None else record_type(declared)
    assert printed_texts(RowEncoder("op", "1 of 1", kind).encode(values, None)) == lines


def test_rows_in_files_are_text_of_java() -> None:
    batch = batch_of(Row(a=1, b=None, c=True, d=2.0))
    assert line_texts(batch) == ["+I[1, null, true, 2.0]"]
    assert printed_texts(batch) == ["+I[1,None,True,2.0]"]
    pickled = Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY()])
    values = [Row(bytearray(b"\x01\xff"), {1: "x"})]
    assert line_texts(RowEncoder("op", "1 of 1", record_type(pickled)).encode(values, None)) == [
        "+I[[1, -1], {1: 'x'}]"
    ]


def test_rows_within_values_come_back_as_rows() -> None:
    point = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])
    declared = Types.TUPLE([Types.STRING(), point, Types.LIST(Types.ROW([Types.INT()]))]).record_type
    encoder = RowEncoder("op", "1 of 1", declared)
    values = [("a", Row(1, "z"), [Row(5)]), ("b", (2, "w"), []), ("c", None, None)]
    back = decode(encoder.encode(values, None))
    assert back == [("a", Row(x=1, y="z"), [Row(f0=5)]), ("b", Row(x=2, y="w"), []), ("c", None, None)]


def test_tuples_and_rows_mix_where_columns_are_declared() -> None:
    encoder = RowEncoder("op", "1 of 1", Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]).record_type)
    batch = encoder.encode([Row(y="a", x=1), (2, "b"), Row(3, "c")], None)
    assert decode(batch) == [Row(x=1, y="a"), Row(x=2, y="b"), Row(x=3, y="c")]
    with pytest.raises(TypeMismatchError, match="does not fit a tuple of 2"):
        encoder.encode([Row(x=1, y="a"), (2, "b", 3)], None)


# -- what cannot be here


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("datastream.connectors.elasticsearch", "Elasticsearch7SinkBuilder", "Elasticsearch's Python client"),
        ("datastream", "CustomStateBackend", "HashMapStateBackend"),
        ("common", "AssignerWithPeriodicWatermarksWrapper", "WatermarkStrategy.for_generator"),
        ("table", "ModuleEntry", "docs/limitations.md"),
        ("table", "BatchTableEnvironment", "EnvironmentSettings.in_batch_mode()"),
        ("table.descriptors", "Kafka", "TableDescriptor.for_connector"),
        ("table.module", "HiveModule", "create_temporary_function"),
        ("java_gateway", "get_gateway", "a Source or Sink of your own"),
        ("util.java_utils", "get_j_env_configuration", "env.configure(Configuration())"),
        ("testing.test_case_utils", "PyFlinkStreamingTestCase", "FLINKRAY_EXECUTION_TARGET=local"),
    ],
)
def test_what_needs_java_fails_with_a_sentence_that_says_what_to_use(module: str, name: str, words: str) -> None:
    with pytest.raises(InvalidProgramError, match=re.escape(words)) as raised:
        getattr(importlib.import_module(f"flinkray.pyflink.{module}"), name)
    assert str(raised.value).startswith(f"{name} cannot be used: ")
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(importlib.import_module(f"flinkray.pyflink.{module}"), "Nothing")  # noqa: B009


def test_what_an_environment_cannot_do_says_what_to_use(pyflink_env: PyFlinkEnvironment) -> None:
    for call, words in (
        (lambda: pyflink_env.add_jars("file:///a.jar"), "add_jars('file:///a.jar'): jars cannot run here"),
        (lambda: pyflink_env.add_classpaths("file:///a"), "add_classpaths('file:///a'): jars cannot run here"),
        (lambda: pyflink_env.add_python_file("gone.py"), "python.files: there is no"),
        (lambda: pyflink_env.set_python_requirements("r.txt"), "set_python_requirements: there is no"),
        (
            lambda: pyflink_env.set_python_requirements("r.txt", "cached"),
            "name each of its wheels with add_python_file",
        ),
        (lambda: pyflink_env.add_python_archive("gone.zip"), "add_python_archive: there is no"),
        (lambda: pyflink_env.set_python_executable("/other/python2.7"), "workers run the Python of the program"),
        (lambda: pyflink_env.enable_changelog_state_backend(True), "EmbeddedRocksDBStateBackend"),
        (lambda: pyflink_env.from_collection([1]).cache(), "FileSink"),
        (lambda: pyflink_env.from_collection([1]).project(0), "tuples of a declared type"),
        (lambda: StreamTableEnvironment.create(pyflink_env).load_module("hive", None), "one module, core"),
        (lambda: TableEnvironment.create(pyflink_env), "those of StreamTableEnvironment.create(env)"),
    ):
        with pytest.raises(InvalidProgramError, match=re.escape(words)):
            call()
    assert pyflink_env.is_changelog_state_backend_enabled() is None
    assert pyflink_env.enable_changelog_state_backend(False).is_changelog_state_backend_enabled() is False


# -- settings


def test_only_the_first_operator_of_a_group_brings_what_its_slot_needs(pyflink_env: PyFlinkEnvironment) -> None:
    builder = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(16)
    group = builder.set_managed_memory_mb(48).build()
    pyflink_env.register_slot_sharing_group(group)
    first = pyflink_env.from_collection([1]).map(str).slot_sharing_group("heavy")
    second = first.map(str).slot_sharing_group(group)
    assert first._operator("").slot_sharing_group == second._operator("").slot_sharing_group == "heavy"
    assert first._operator("").min_resources == flinkray.ResourceSpec(2.0, 64 << 20)
    assert second._operator("").min_resources == flinkray.ResourceSpec()
    other = builder.set_external_resource("gpu", 1.0).build()
    assert other.get_external_resources() == {"gpu": 1.0}
    with pytest.raises(InvalidProgramError, match="no 'gpu'"):
        pyflink_env.from_collection([1]).map(str).slot_sharing_group(other)


@pytest.mark.parametrize(
    "settings",
    [
        {"set_cpu_cores": 1.0},
        {"set_task_heap_memory_mb": 1},
        {"set_managed_memory_mb": 1},
        {"set_cpu_cores": 1.0, "set_task_off_heap_memory_mb": 10},
        {"set_cpu_cores": 1.0, "set_task_heap_memory_mb": 0},
        {"set_cpu_cores": 0.0, "set_task_heap_memory_mb": 1},
    ],
)
def test_a_group_that_needs_anything_needs_cpus_and_task_heap_memory(settings: dict[str, float]) -> None:
    builder = SlotSharingGroup.builder("g")
    for name, value in settings.items():
        getattr(builder, name)(value)
    with pytest.raises(InvalidProgramError, match="slot sharing group 'g': where any resources are set, set_cpu_cores"):
        builder.build()


def test_a_source_has_the_name_that_the_program_gave_it(pyflink_env: PyFlinkEnvironment) -> None:
    stream = pyflink_env.from_collection([1]).name("numbers")
    assert (stream.get_name(), stream.map(str).name("Source: x").get_name()) == ("numbers", "Source: x")


def test_types_of_a_tables_columns_are_those_of_data_types(pyflink_env: PyFlinkEnvironment) -> None:
    schema = StreamTableEnvironment.create(pyflink_env).from_elements([(1, "a")], ["n", "s"]).get_schema()
    assert schema.get_field_data_type("n") == DataTypes.BIGINT()
    assert DataTypes.STRING() == schema.get_field_data_type("s") != DataTypes.BIGINT() != 8
    assert (schema.get_field_name(1), schema.get_field_data_type(1)) == ("s", DataTypes.STRING())
    for none in (schema.get_field_name(2), schema.get_field_data_type(-1), schema.get_field_data_type("z")):
        assert none is None
    with pytest.raises(TypeError, match="by its name, or its place from 0, not by None"):
        schema.get_field_data_type(None)  # type: ignore[arg-type]
    named = TableSchema(["n", "s"], schema.get_field_data_types())
    assert str(named) == "root\n |-- n: BIGINT\n |-- s: STRING\n"
    assert named == schema == named != TableSchema(["n"], [DataTypes.BIGINT()])


def test_a_type_of_rows_is_put_together_field_by_field() -> None:
    fields = [DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.STRING())]
    rows = RowType().add("a", DataTypes.INT()).add(fields[1])
    assert rows == DataTypes.ROW(fields) == RowType(fields) != RowType(fields[:1])
    assert (rows.names, rows.fields, [*rows], len(rows)) == (["a", "b"], fields, fields, 2)
    assert (rows["b"], rows[0], rows[1:]) == (fields[1], fields[0], RowType(fields[1:]))
    assert rows.not_null().field_types() == [DataTypes.INT(), DataTypes.STRING()]
    assert [(field.name, field.data_type) for field in rows] == [("a", DataTypes.INT()), ("b", DataTypes.STRING())]
    assert RowType([RowField("c", rows), RowField("d", DataTypes.INT(), "of d")]).add("e", rows).names == list("cde")
    assert (str(fields[0]), RowField("c", rows).data_type.names) == ("RowField(a, INT)", ["a", "b"])
    for key, error in (("c", KeyError), (2, IndexError), (1.5, TypeError)):
        with pytest.raises(error):
            rows[key]  # type: ignore[index]
    with pytest.raises(ValueError, match="field 'c' needs a type"):
        rows.add("c")


def test_an_insert_tells_the_name_of_its_table_where_it_has_one(pyflink_env: PyFlinkEnvironment) -> None:
    t_env = StreamTableEnvironment.create(pyflink_env)
    sink = TableDescriptor.for_connector("blackhole").schema(Schema.new_builder().column("n", "BIGINT").build()).build()
    t_env.create_temporary_table("gone", sink)
    rows = t_env.from_elements([(1,)], ["n"])
    found = rows.insert_into("gone").get_sink_identifier()
    assert found == ObjectIdentifier.of("default_catalog", "default_database", "gone")
    assert rows.insert_into(sink).get_sink_identifier() is None


@pytest.mark.usefixtures("executor")
def test_the_job_of_a_statement_has_pyflinks_client(pyflink_env: PyFlinkEnvironment) -> None:
    t_env = StreamTableEnvironment.create(pyflink_env)
    created = t_env.execute_sql("CREATE TABLE gone (a BIGINT) WITH ('connector' = 'blackhole')")
    assert created.get_job_client() is None
    for started in (t_env.execute_sql("INSERT INTO gone SELECT 1"), t_env.execute_sql("SELECT 1")):
        client = started.get_job_client()
        assert isinstance(client, JobClient)


def test_a_function_takes_no_name_of_another_one(pyflink_env: PyFlinkEnvironment) -> None:
    t_env = StreamTableEnvironment.create(pyflink_env)
    t_env.create_temporary_function("default_database.plus_one", udf(lambda n: n + 1, result_type=DataTypes.BIGINT()))
    as_text = udf(lambda n: str(n), result_type=DataTypes.STRING())
    for create in (t_env.create_temporary_function, t_env.create_temporary_system_function):
        with pytest.raises(InvalidProgramError, match="there is a function 'PLUS_ONE' already: drop it"):
            create("PLUS_ONE", as_text)
    assert t_env.sql_query("SELECT default_database.plus_one(1) AS n").get_schema().get_field_data_types() == [
        DataTypes.BIGINT()
    ]
    assert t_env.drop_temporary_function("default_database.plus_one")
    t_env.create_temporary_system_function("plus_one", as_text)


def test_event_times_for_a_table_that_nobody_reads_are_not_in_the_plan(pyflink_env: PyFlinkEnvironment) -> None:
    words = pyflink_env.from_collection(["a"], type_info=Types.STRING())
    StreamTableEnvironment.create(pyflink_env).from_data_stream(words, col("word"), col("at").rowtime)
    words.print()
    nodes = json.loads(pyflink_env.get_execution_plan())["nodes"]
    assert [node["pact"] for node in nodes] == ["Data Source", "Data Sink"]


def test_the_plan_is_json_of_operators_and_how_records_travel(pyflink_env: PyFlinkEnvironment) -> None:
    pyflink_env.set_parallelism(2)
    words = pyflink_env.from_collection(["a"], type_info=Types.STRING())
    words.map(str.upper).name("upper").key_by(len).reduce(max).filter(bool).set_parallelism(1).print()
    nodes = json.loads(pyflink_env.get_execution_plan())["nodes"]
    assert [(node["id"], node["pact"], node["parallelism"]) for node in nodes] == [
        (1, "Data Source", 1),
        (2, "Operator", 2),
        (3, "Operator", 2),
        (4, "Operator", 1),
        (5, "Data Sink", 2),
    ]
    assert nodes[1]["type"] == "upper"
    strategies = [node["predecessors"][0]["ship_strategy"] for node in nodes[1:]]
    assert strategies == ["REBALANCE", "HASH", "REBALANCE", "REBALANCE"]


def test_tables_of_made_up_rows_become_streams(pyflink_env: PyFlinkEnvironment) -> None:
    schema = Schema.new_builder().column("n", DataTypes.INT()).column("s", DataTypes.STRING()).build()
    builder = TableDescriptor.for_connector("datagen").schema(schema).option("number-of-rows", "3")
    tables = StreamTableEnvironment.create(stream_execution_environment=pyflink_env)
    tables.create_temporary_table("source", builder.option("fields.n.max", 4).option("fields.n.min", 4).build())
    stream = tables.to_data_stream(tables.from_path("source"))
    assert stream.get_type() == Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])
    with pytest.raises(InvalidProgramError, match=re.escape("no option 'fields.n.maxx'")):
        tables.to_data_stream(tables.from_descriptor(builder.option("fields.n.maxx", "1").build()))


# -- bytes, times


def test_schemas_bring_rows_into_bytes_and_back() -> None:
    row_type = Types.ROW_NAMED(["id", "name", "ok"], [Types.LONG(), Types.STRING(), Types.BOOLEAN()])
    row = Row(id=7, name="a,b", ok=True)
    to_json = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    from_json = JsonRowDeserializationSchema.builder().type_info(row_type).fail_on_missing_field().build()
    assert to_json.serialize(row) == b'{"id":7,"name":"a,b","ok":true}'
    assert from_json.deserialize(to_json.serialize(row)) == row
    with pytest.raises(ValueError, match="there is no 'ok'"):
        from_json.deserialize(b'{"id":1,"name":"x"}')
    lenient = JsonRowDeserializationSchema.builder().type_info(row_type).ignore_parse_errors().build()
    assert lenient.deserialize(b"no json") is None
    to_csv = CsvRowSerializationSchema.Builder(row_type).build()
    from_csv = CsvRowDeserializationSchema.Builder(row_type).build()
    assert to_csv.serialize(row) == b'7,"a,b",true\n'
    assert from_csv.deserialize(b'7,"a,b",true') == row
    assert SimpleStringSchema().deserialize(SimpleStringSchema().serialize("ä")) == "ä"


JSON_TYPE = Types.ROW_NAMED(
    ["n", "at", "t", "r", "d"],
    [Types.INT(), Types.SQL_TIMESTAMP(), Types.SQL_TIME(), Types.ROW_NAMED(["a"], [Types.STRING()]), Types.BIG_DEC()],
)
FLINKS_JSON = b'{"n":1,"at":"2024-01-02T03:04:05.5Z","t":"06:07:08Z","r":{"a":"x"},"d":0.100000000000000005}'


def test_json_has_the_types_of_its_schema_and_times_in_utc_as_in_pyflink() -> None:
    from_json = JsonRowDeserializationSchema.builder().type_info(JSON_TYPE).build()
    to_json = JsonRowSerializationSchema.builder().with_type_info(JSON_TYPE).build()
    row = from_json.deserialize(FLINKS_JSON)
    assert row is not None
    at, time = datetime.datetime(2024, 1, 2, 3, 4, 5, 500_000), datetime.time(6, 7, 8)
    digits = Decimal("0.100000000000000005")
    assert (row.n, row.at, row.t, row.d) == (1, at, time, digits)
    written = to_json.serialize(Row(1, at, time, Row("x"), digits))
    times = b'"at":"2024-01-02T03:04:05.500000Z","t":"06:07:08.000000Z"'
    assert written == b'{"n":1,' + times + b',"r":{"a":"x"},"d":0.100000000000000005}'
    assert from_json.deserialize(written) == row
    assert from_json.deserialize(b"null") is None
    for bad in (b'{"n":"x"}', b'[{"n":1}]', b'{"r":["x"]}'):
        with pytest.raises(ValueError, match=r"no JSON object|changed from"):
            from_json.deserialize(bad)
        lenient = JsonRowDeserializationSchema.builder().type_info(JSON_TYPE).ignore_parse_errors().build()
        assert lenient.deserialize(bad) is None
    with pytest.raises(ValueError, match="x"):
        to_json.serialize(Row("x", None, None, None, None))
    # What reads and writes messages does the same for whole batches.
    batch = format_of(from_json).decode(pa.array([FLINKS_JSON], pa.large_binary()))
    assert batch.schema.equals(JSON_TYPE.record_type.schema)
    assert format_of(to_json).encode(batch)[0].as_py() == to_json.serialize(row)


def test_names_are_imported_from_connectors_as_in_older_versions() -> None:
    assert connectors.NumberSequenceSource is NumberSequenceSource
    assert connectors.StreamFormat is StreamFormat
    with pytest.raises(InvalidProgramError, match=r"RMQSource cannot be used: .* pika"):
        connectors.RMQSource  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        connectors.Nothing  # noqa: B018


def test_times_are_milliseconds_and_instants_are_datetimes() -> None:
    assert Time.minutes(2).to_milliseconds() == 120_000 == to_millis(Time.minutes(2))
    assert str(Time.seconds(1)) == "1000 ms"
    instant = Instant.of_epoch_milli(1_500)
    assert instant == datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, datetime.UTC)
    assert Instant.to_epoch_milli(instant) == 1_500
    assert Instant(1, 500_000_000) == instant
    assert Duration.of_nanos(2_000_000) == Duration.of_millis(2)
