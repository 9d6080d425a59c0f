"""PyFlink's classes of types, and settings that it has as classes: what they say and when they are equal."""

from __future__ import annotations

import pickle

import pytest

import flinkray
from flinkray.errors import ConfigurationError, InvalidProgramError
from flinkray.pyflink.common import Configuration, ExecutionConfig, RestartStrategies, Row, Types
from flinkray.pyflink.common.serialization import RowFieldExtractorSchema
from flinkray.pyflink.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from flinkray.pyflink.datastream import (
    CheckpointConfig,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    PredefinedOptions,
    StreamExecutionEnvironment,
)
from tests.support.api import FakeExecutor

STRING, INT = Types.STRING(), Types.INT()


@pytest.mark.parametrize(
    ("made", "same", "text"),
    [
        (STRING, BasicTypeInfo(BasicType.STRING), "String"),
        (INT, BasicTypeInfo.INT_TYPE_INFO(), "Integer"),
        (Types.INSTANT(), BasicTypeInfo.INSTANT_TYPE_INFO(), "Instant"),
        (Types.SQL_DATE(), DateTypeInfo(), "DateTypeInfo"),
        (SqlTimeTypeInfo.TIME(), TimeTypeInfo(), "TimeTypeInfo"),
        (Types.SQL_TIMESTAMP(), TimestampTypeInfo(), "TimestampTypeInfo"),
        (Types.PICKLED_BYTE_ARRAY(), PickledBytesTypeInfo(), "PickledByteArrayTypeInfo"),
        (Types.LIST(INT), ListTypeInfo(INT), "ListTypeInfo<Integer>"),
        (Types.PRIMITIVE_ARRAY(INT), PrimitiveArrayTypeInfo(INT), "PrimitiveArrayTypeInfo<Integer>"),
        (Types.BASIC_ARRAY(INT), BasicArrayTypeInfo(INT), "BasicArrayTypeInfo<Integer>"),
        (Types.OBJECT_ARRAY(INT), ObjectArrayTypeInfo(INT), "ObjectArrayTypeInfo<Integer>"),
        (Types.MAP(STRING, INT), MapTypeInfo(STRING, INT), "MapTypeInfo<String, Integer>"),
        (Types.TUPLE([STRING, INT]), TupleTypeInfo([STRING, INT]), "TupleTypeInfo(String, Integer)"),
        (Types.ROW([STRING, INT]), RowTypeInfo([STRING, INT]), "RowTypeInfo(String, Integer)"),
        (Types.ROW_NAMED(["a"], [INT]), RowTypeInfo([INT], ["a"]), "RowTypeInfo(a: Integer)"),
        (ExternalTypeInfo(INT), ExternalTypeInfo(Types.INT()), "ExternalTypeInfo<Integer>"),
    ],
)
def test_a_type_is_equal_to_one_of_its_class_and_shows_itself_as_in_pyflink(
    made: TypeInformation, same: TypeInformation, text: str
) -> None:
    assert isinstance(made, TypeInformation)
    assert made == same == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(same)
    assert str(made) == repr(made) == text
    assert made != Types.BOOLEAN()


def test_types_of_rows_are_equal_whatever_their_names() -> None:
    named = Types.ROW_NAMED(["a", "b"], [STRING, INT])
    assert named == Types.ROW([STRING, INT])
    assert named != Types.ROW([STRING, STRING])
    assert (named.get_field_names(), named.get_field_types()) == (["a", "b"], [STRING, INT])
    assert (named.get_field_index("b"), Types.ROW([INT]).get_field_index("f0")) == (1, -1)
    assert Types.ROW([INT]).get_field_names() == ["f0"]
    assert Types.TUPLE([INT]).get_field_types() == [INT]


def test_types_are_flinkrays() -> None:
    assert flinkray.Types.INT() == INT
    assert [flinkray.Types.INT()] == [INT]
    assert Types.LIST(STRING).arrow_type == flinkray.Types.LIST(flinkray.Types.STRING()).arrow_type
    assert LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE).arrow_type == DateTypeInfo().arrow_type


def test_strategies_are_of_classes_and_equal_by_their_settings(executor: FakeExecutor) -> None:
    assert executor is not None
    env = StreamExecutionEnvironment.get_execution_environment()
    for made in (
        RestartStrategies.no_restart(),
        RestartStrategies.fall_back_restart(),
        RestartStrategies.fixed_delay_restart(4, 10_000),
        RestartStrategies.failure_rate_restart(5, 10_000, 5_000),
    ):
        env.set_restart_strategy(made)
        assert env.get_restart_strategy() == made
        assert isinstance(env.get_restart_strategy(), type(made))
    fixed = RestartStrategies.FixedDelayRestartStrategyConfiguration(4, 10_000)
    assert (fixed.get_restart_attempts(), fixed.get_delay_between_attempts_interval()) == (4, 10_000)
    rate = RestartStrategies.FailureRateRestartStrategyConfiguration(5, 10_000, 5_000)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (5, 10_000)
    assert rate.get_delay_between_attempts_interval() == 5_000
    assert fixed == RestartStrategies.fixed_delay_restart(4, 10_000)
    assert fixed != RestartStrategies.no_restart()


def test_storages_write_what_they_say_into_a_configuration() -> None:
    storage = FileSystemCheckpointStorage("file:///checkpoints/", 2048)
    assert (storage.get_checkpoint_path(), storage.get_min_file_size_threshold()) == ("file:///checkpoints", 2048)
    configuration = Configuration()
    storage.apply_to(configuration)
    assert dict(configuration) == {
        "execution.checkpointing.data-inline-threshold": 2048,
        "execution.checkpointing.dir": "file:///checkpoints",
    }
    plain = FileSystemCheckpointStorage("/there", write_buffer_size=9)
    assert (plain.get_min_file_size_threshold(), plain.get_write_buffer_size()) == (20_480, 20_480)
    assert plain.get_savepoint_path() is None
    with pytest.raises(ConfigurationError, match="at most 1048576 bytes"):
        FileSystemCheckpointStorage("/there", 2**21)
    memory = JobManagerCheckpointStorage(max_state_size=50_000)
    assert (memory.directory, memory.get_max_state_size(), memory.get_checkpoint_path()) == ("", 50_000, None)
    assert JobManagerCheckpointStorage().get_max_state_size() == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE
    assert JobManagerCheckpointStorage("/there/").directory == "/there"


def test_a_rocksdb_backend_keeps_what_programs_set() -> None:
    backend = EmbeddedRocksDBStateBackend()
    assert (backend.get_predefined_options(), backend.get_options()) == (PredefinedOptions.DEFAULT, None)
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_number_of_transfer_threads(8)
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert backend.get_number_of_transfer_threads() == 8
    with pytest.raises(ConfigurationError, match="at least 1 thread"):
        backend.set_number_of_transfer_threads(0)
    with pytest.raises(InvalidProgramError, match="a class of Java"):
        backend.set_options("org.apache.flink.DefaultConfigurableOptionsFactory")


FLAGS: list[tuple[str, str, str, bool]] = [
    ("enable_closure_cleaner", "disable_closure_cleaner", "is_closure_cleaner_enabled", True),
    ("enable_force_kryo", "disable_force_kryo", "is_force_kryo_enabled", False),
    ("enable_force_avro", "disable_force_avro", "is_force_avro_enabled", False),
    ("disable_generic_types", "enable_generic_types", "has_generic_types_disabled", False),
    ("enable_auto_generated_uids", "disable_auto_generated_uids", "has_auto_generated_uids_enabled", True),
]


@pytest.mark.parametrize(("on", "off", "shown", "default"), FLAGS)
def test_an_execution_config_gives_back_what_was_set(on: str, off: str, shown: str, default: bool) -> None:
    config = ExecutionConfig(Configuration())
    assert getattr(config, shown)() is default
    assert getattr(getattr(config, on)(), shown)() is True
    assert getattr(getattr(config, off)(), shown)() is False


def test_execution_configs_are_equal_by_what_was_set() -> None:
    first, second = ExecutionConfig(Configuration()), ExecutionConfig(Configuration())
    assert first == second
    assert hash(first) == hash(second)
    first.set_parallelism(3).set_task_cancellation_interval(1_000)
    assert first != second
    assert second.set_parallelism(3).set_task_cancellation_interval(1_000) == first
    assert first.get_task_cancellation_interval() == 1_000
    assert first.set_use_snapshot_compression(True).is_use_snapshot_compression()


def test_a_program_without_uids_is_refused_where_none_are_to_be_made(executor: FakeExecutor) -> None:
    assert executor is not None
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_config().disable_auto_generated_uids()
    env.from_collection([1]).uid("numbers").print()
    with pytest.raises(InvalidProgramError, match=r"'Sink: Print to Std. Out' has no uid\(\)"):
        env.execute()
    env.from_collection([1]).uid("numbers").print().uid("printed")
    env.execute()


def test_a_field_of_a_row_is_written_as_bytes() -> None:
    schema = RowFieldExtractorSchema(1)
    values = [Row("k", "v"), Row("k", 42), Row("k", b"\x00"), Row("k", None), None]
    assert [schema.serialize(value) for value in values] == [b"v", b"42", b"\x00", b"", b""]
    assert schema == RowFieldExtractorSchema(1)
    assert hash(schema) != hash(RowFieldExtractorSchema(2))
    with pytest.raises(ValueError, match="Field index must be non-negative"):
        RowFieldExtractorSchema(-1)


def test_an_environment_without_checkpoints_has_no_interval(executor: FakeExecutor) -> None:
    assert executor is not None
    env = StreamExecutionEnvironment.get_execution_environment()
    config = env.get_checkpoint_config()
    assert isinstance(config, CheckpointConfig)
    assert (env.get_checkpoint_interval(), config.get_checkpoint_interval()) == (-1, -1)
    config.set_checkpoint_interval(1_000)
    assert env.get_checkpoint_interval() == 1_000
    config.set_checkpoint_storage(FileSystemCheckpointStorage("/there", 7))
    assert (config.directory, config.inline_state_bytes) == ("/there", 7)
