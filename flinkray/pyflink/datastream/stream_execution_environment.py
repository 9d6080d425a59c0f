"""`pyflink.datastream.stream_execution_environment`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Self

from flinkray.config import configuration as config
from flinkray.connectors.functions.source import GeneratorFunctionSource
from flinkray.connectors.source import Source
from flinkray.errors import InvalidProgramError
from flinkray.execution import Pipeline
from flinkray.pyflink.archives import NO_JAVA, leave_out
from flinkray.pyflink.common.configuration import Configuration
from flinkray.pyflink.common.execution_config import ExecutionConfig
from flinkray.pyflink.common.job_client import JobClient
from flinkray.pyflink.common.restart_strategy import RestartStrategyConfiguration, restart_strategy_of
from flinkray.pyflink.datastream.checkpoint_config import CheckpointConfig
from flinkray.pyflink.datastream.connector_functions import StandsForSource
from flinkray.pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from flinkray.pyflink.datastream.data_stream import DataStream, declared
from flinkray.pyflink.datastream.execution_plan import json_plan, operators_of
from flinkray.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from flinkray.pyflink.datastream.time_characteristic import TimeCharacteristic
from flinkray.pyflink.datastream.timestamp_assigners import in_whole_millis
from flinkray.pyflink.imported_names import imported
from flinkray.state.checkpoint_config import CheckpointingMode
from flinkray.streams import environment
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.transformation import ResourceSpec

__all__ = ["StreamExecutionEnvironment"]

__getattr__ = imported(__name__)

_LOG = logging.getLogger(__name__)

_WATERMARKS_MS = 200
"""Flink's interval of watermarks in event time."""


class StreamExecutionEnvironment(environment.StreamExecutionEnvironment):
    """flinkray's, whose streams have PyFlink's types, with a client that gives futures."""

    def __init__(self, configuration: config.Configuration) -> None:
        super().__init__(configuration)
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._execution_config = ExecutionConfig(self._configuration)
        self._checkpoint_config = CheckpointConfig(self._configuration)
        self._changelog_backend: bool | None = None
        self._time_characteristic = TimeCharacteristic.EventTime

    @classmethod
    def get_execution_environment(
        cls, configuration: config.Configuration | Mapping[str, object] | None = None
    ) -> Self:
        return super().get_execution_environment(_taken(configuration))

    def configure(self, configuration: config.Configuration | Mapping[str, object]) -> Self:
        return super().configure(_taken(configuration))

    def get_config(self) -> ExecutionConfig:
        return self._execution_config

    # -- sources

    def from_source(
        self, source: Source, watermark_strategy: WatermarkStrategy, source_name: str, type_info: Any = None
    ) -> DataStream:
        return DataStream.of(super().from_source(source, in_whole_millis(watermark_strategy), source_name, type_info))

    def from_collection(
        self, collection: Iterable[Any], type_info: Any = None, watermark_strategy: WatermarkStrategy | None = None
    ) -> DataStream:
        """The values of a collection, in order; without a type as the Python objects that they are."""
        strategy = None if watermark_strategy is None else in_whole_millis(watermark_strategy)
        return DataStream.of(super().from_collection(collection, declared(type_info), strategy))

    def add_source(
        self,
        source_func: Any,
        source_name: str = "Custom Source",
        type_info: Any = None,
        watermark_strategy: WatermarkStrategy | None = None,
        is_changelog: bool = False,
    ) -> DataStream:
        """Takes what stands for a connector, such as a FlinkKafkaConsumer; a SourceFunction in Python or a generator
        function as flinkray does (PyFlink takes Java's)."""
        if isinstance(source_func, StandsForSource):
            strategy = watermark_strategy or WatermarkStrategy.no_watermarks()
            return self.from_source(source_func.to_source(), strategy, source_name, type_info)
        source = GeneratorFunctionSource(source_func, declared(type_info), is_changelog)
        stream = self.from_source(source, watermark_strategy or WatermarkStrategy.no_watermarks(), source_name)
        return stream.set_parallelism(1)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """The lines of a file, or of all files in a directory and below it, as before PyFlink 2."""
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(charset_name), file_path).build()
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Custom File Source")

    def create_input(self, input_format: object, type_info: Any = None) -> DataStream:
        """Takes an AvroInputFormat, and none of Java's."""
        if not isinstance(input_format, StandsForSource):
            raise InvalidProgramError(f"create_input: {NO_JAVA}; FileSource reads files")
        source, strategy = input_format.to_source(), WatermarkStrategy.no_watermarks()
        return self.from_source(source, strategy, "Custom File Source", type_info)

    # -- running

    # PyFlink's client has methods of the same names that do not wait.
    def execute_async(self, job_name: str | None = None) -> JobClient:  # type: ignore[override]
        """Submits the program recorded so far."""
        return JobClient(self._submit(job_name))

    def get_execution_plan(self, graph: str | None = None, format: str = "text") -> str:
        """The operators as JSON, as PyFlink gives them; with `graph` a plan of flinkray's (see there)."""
        if graph is not None:
            return super().get_execution_plan(graph, format)
        return json_plan(self._pipeline(self._job_name(None), should_prepare=False), self.get_parallelism())

    def _pipeline(self, name: str, *, should_prepare: bool) -> Pipeline:
        pipeline = super()._pipeline(name, should_prepare=should_prepare)
        if not self._execution_config.has_auto_generated_uids_enabled():
            for operator in operators_of(pipeline):
                if operator.uid is None:
                    raise InvalidProgramError(
                        f"operator {operator.name!r} has no uid(), and the program's config has "
                        "disable_auto_generated_uids()"
                    )
        return pipeline

    def close(self) -> None:
        """Does nothing: nothing is left open between jobs."""

    # -- settings

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between the starts of checkpoints; -1: there are none."""
        return self.checkpoint_config.get_checkpoint_interval()

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        return restart_strategy_of(super().get_restart_strategy())

    def get_max_parallelism(self) -> int:
        """-1: settled from the parallelism when the program is compiled."""
        return super().get_max_parallelism() or -1

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """As before PyFlink 2: programs in processing time have no watermarks.

        Raises:
            InvalidProgramError: it is IngestionTime, or no TimeCharacteristic.
        """
        if not isinstance(characteristic, TimeCharacteristic):
            raise InvalidProgramError(
                f"{characteristic!r} is no TimeCharacteristic, such as TimeCharacteristic.EventTime"
            )
        if characteristic is TimeCharacteristic.IngestionTime:
            raise InvalidProgramError(
                "IngestionTime cannot be used: give rows the time at which they come, with "
                "WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(...)"
            )
        in_event_time = characteristic is TimeCharacteristic.EventTime
        self._execution_config.set_auto_watermark_interval(_WATERMARKS_MS if in_event_time else 0)
        self._time_characteristic = characteristic

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        return self._time_characteristic

    def set_buffer_timeout(self, timeout_millis: Any) -> Self:
        return super().set_buffer_timeout(timeout_millis)

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self.checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        return self.checkpoint_config.is_force_unaligned_checkpoints()

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        return self.is_chaining_enabled()

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """None where nothing was said."""
        return self._changelog_backend

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        if enabled:
            raise InvalidProgramError(
                "there is no changelog state backend; EmbeddedRocksDBStateBackend(True) uploads only what is new"
            )
        self._changelog_backend = False
        return self

    def get_default_local_parallelism(self) -> int:
        return self.get_parallelism()

    def set_default_local_parallelism(self, parallelism: int) -> None:
        self.set_parallelism(parallelism)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Says what the slots of a group need; operators then name it."""
        self._slot_sharing_groups[slot_sharing_group.name] = slot_sharing_group
        return self

    def _claim_resources(self, group: str | SlotSharingGroup) -> ResourceSpec | None:
        """What the first operator of the group that asks is to bring with it; None for those after it."""
        if isinstance(group, SlotSharingGroup):
            group.resources()  # refuses what slots do not have, also where the first operator has claimed the group
            self._slot_sharing_groups.setdefault(group.name, group)
        name = group if isinstance(group, str) else group.name
        registered = self._slot_sharing_groups.get(name)
        if registered is None or registered.resources() == ResourceSpec():
            return None
        self._slot_sharing_groups[name] = SlotSharingGroup(name)
        return registered.resources()

    # -- what functions need

    def add_jars(self, *jars_path: str) -> None:
        """Archives of what is built in here are left out, with a line in the log.

        Raises:
            InvalidProgramError: another one is among them.
        """
        leave_out(jars_path, "add_jars")

    def add_classpaths(self, *classpaths: str) -> None:
        """As `add_jars`."""
        leave_out(classpaths, "add_classpaths")


def _taken(configuration: config.Configuration | Mapping[str, object] | None) -> config.Configuration:
    """The settings of a program: keys of PyFlink's that are no options here do not end it."""
    taken = configuration if isinstance(configuration, Configuration) else Configuration(configuration)
    for sentence in taken.unknown_options():
        _LOG.warning(sentence)
    return taken
