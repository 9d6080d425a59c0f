"""StreamExecutionEnvironment: where programs begin, and how they are run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from flinkray.batches.normalization import normalized_record_type
from flinkray.config.configuration import Configuration
from flinkray.config.option import ConfigOption
from flinkray.config.options import (
    ATTACHED,
    CHECKPOINT_DIRECTORY,
    HIGH_AVAILABILITY_DIRECTORY,
    PARALLELISM,
    PIPELINE_NAME,
    PYTHON_PATH,
    SAVEPOINT_DIRECTORY,
    SAVEPOINT_PATH,
    TARGET,
)
from flinkray.config.python_options import PYTHON_ARCHIVES, PYTHON_REQUIREMENTS
from flinkray.config.sources import load_configuration
from flinkray.config.table_options import DEFAULT_PARALLELISM
from flinkray.connectors.collection.source import ArrowSource, CollectionSource, PandasSource
from flinkray.connectors.functions.source import GeneratorFunctionSource
from flinkray.connectors.sequence.source import SequenceSource
from flinkray.connectors.source import Source
from flinkray.connectors.spark.source import SparkSource, SparkStreamSource
from flinkray.errors import ConfigurationError, FlinkrayError, InvalidProgramError, JobExecutionError
from flinkray.execution import JobClient, JobExecutionResult, Pipeline, PipelineExecutor
from flinkray.filesystems import absolute, check_directory, check_uri, is_uri
from flinkray.functions.cached_files import pack
from flinkray.functions.checks import check_returns
from flinkray.functions.interfaces import SourceFunction
from flinkray.functions.program_files import ARCHIVES, pack_program_files
from flinkray.functions.python_path import own_directories
from flinkray.functions.type_hints import record_type
from flinkray.plugins import BRIDGES, EXECUTORS, PLANNERS, load_plugin
from flinkray.progress import PROGRAM_USE, wait_for_result
from flinkray.streams.checks.functions import check_watermark_strategy
from flinkray.streams.checks.known_types import UNKNOWN, KnownType
from flinkray.streams.data_stream import DataStream
from flinkray.streams.settings.environment_settings import EnvironmentSettings
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import SourceFactory
from flinkray.transformations.preparation import prepared
from flinkray.transformations.sink_topologies import expanded
from flinkray.transformations.transformation import PhysicalTransformation, Transformation
from flinkray.types.type_info import OBJECT_TYPE

if TYPE_CHECKING:
    from flinkray.streams.table_environment import StreamTableEnvironment

_PATH_OPTIONS = (CHECKPOINT_DIRECTORY, SAVEPOINT_DIRECTORY, SAVEPOINT_PATH, HIGH_AVAILABILITY_DIRECTORY)
"""Options that other processes read as paths, so that they are made absolute."""


class JobListener:
    """Is told of the jobs of an environment, in the thread that runs the program. Override what is needed."""

    def on_job_submitted(self, client: JobClient | None, error: BaseException | None) -> None:
        """A job was accepted (`client`), or could not be submitted (`error`)."""

    def on_job_executed(self, result: JobExecutionResult | None, error: BaseException | None) -> None:
        """`execute` saw the job end well (`result`), or fail (`error`)."""


class StreamExecutionEnvironment(EnvironmentSettings):
    """Records a program, and runs it. Make one with `get_execution_environment`.

    Settings made in code win over `FLINKRAY_<KEY>` environment variables, these over the YAML file
    `$FLINKRAY_CONF_DIR/config.yaml`, and that over the defaults.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self._transformations: list[Transformation] = []
        self._cached_files: dict[str, str] = {}
        self._listeners: list[JobListener] = list(self._default_listeners)

    _default_listeners: ClassVar[list[JobListener]] = []
    """What each environment of this process tells of its jobs, as a front end sets it."""

    @classmethod
    def get_execution_environment(cls, config: Configuration | Mapping[str, object] | None = None) -> Self:
        """An environment with these settings, and those of the environment variables and the file below them."""
        code = config if isinstance(config, Configuration) else Configuration(config)
        return cls(code.with_fallback(load_configuration()))

    def register_cached_file(self, file_path: str | Path, name: str, executable: bool = False) -> None:
        """Ships a file or directory of the driver to the tasks: `runtime_context.get_cached_file(name)` gives the path
        of a copy, which all tasks of a node share, and must not change.

        It is read when the program is submitted, and goes to each process of the job once: what is very large belongs
        in storage that every node reaches.

        Args:
            executable: taken for PyFlink's programs; files keep their permissions.
        """
        path = Path(file_path).absolute()
        if not path.exists():
            raise InvalidProgramError(f"cached file {name!r}: there is no {path}")
        if self._cached_files.get(name, str(path)) != str(path):
            raise InvalidProgramError(f"cached file {name!r} is already registered as {self._cached_files[name]}")
        self._cached_files[name] = str(path)

    def register_job_listener(self, listener: JobListener) -> None:
        """Tells `listener` of each job that this environment submits."""
        self._listeners.append(listener)

    # -- sources

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: Any = None,
    ) -> DataStream:
        """A stream of a source's rows.

        Args:
            type_info: the type of its rows where the source does not know it, as `output_type=`.
        """
        if not isinstance(source, Source):
            raise InvalidProgramError(f"from_source takes a Source, not {source!r}; add_source takes functions")
        declared = source.output_type if type_info is None else record_type(type_info)
        known = KnownType.of(None if declared is None else normalized_record_type(declared))
        check_watermark_strategy(watermark_strategy, known)
        # Not registered: as in Flink, a source that nothing reads from is no part of the program.
        transformation = PhysicalTransformation(
            name=f"Source: {source_name}",
            factory=SourceFactory(source, watermark_strategy),
            parallelism=None if source.is_parallel else 1,
        )
        return DataStream(self, transformation, known)

    def from_collection(
        self, collection: Iterable[Any], type_info: Any = None, watermark_strategy: WatermarkStrategy | None = None
    ) -> DataStream:
        """The values of a Python collection, in order, in one subtask. If a `Row` among them is no insert
        (`Row.of_kind`), they are a changelog."""
        return self._bounded(CollectionSource(collection, type_info), watermark_strategy, "Collection")

    def from_sequence(
        self, start: int, end: int, watermark_strategy: WatermarkStrategy | None = None, name: str = "Sequence"
    ) -> DataStream:
        """The whole numbers from `start` to `end`, both included, in one ascending range per subtask."""
        return self._bounded(SequenceSource(start, end), watermark_strategy, name)

    def from_arrow(
        self, table: Any, watermark_strategy: WatermarkStrategy | None = None, name: str = "Arrow"
    ) -> DataStream:
        """The rows of a pa.Table, RecordBatch, RecordBatchReader (read here, to its end), or of anything else with the
        Arrow stream interface (Polars, DuckDB). They are shipped with the program: for large data use files."""
        return self._bounded(ArrowSource(table), watermark_strategy, name)

    def from_pandas(
        self, frame: Any, watermark_strategy: WatermarkStrategy | None = None, name: str = "Pandas"
    ) -> DataStream:
        """The rows of a DataFrame, without its index (`frame.reset_index()` makes it columns)."""
        return self._bounded(PandasSource(frame), watermark_strategy, name)

    def from_spark(
        self,
        df: Any,
        order_by: str | Sequence[str] | None = None,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str = "spark",
    ) -> DataStream:
        """The rows of a Spark DataFrame, which Spark computes when the program starts.

        Args:
            order_by: column or columns by which Spark sorts the rows first, so that event time proceeds evenly.
        """
        return self._bounded(SparkSource(df, order_by), watermark_strategy, name)

    def from_spark_stream(
        self,
        df: Any,
        staging_directory: str,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str = "spark stream",
        *,
        checkpoint_location: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        output_mode: str = "append",
        query_name: str | None = None,
        max_unread_batches: int = 8,
        ends_with_query: bool = False,
    ) -> DataStream:
        """The rows of a streaming Spark DataFrame, whose query starts when the program does; each micro-batch once.

        Args:
            staging_directory: shared by Spark, the driver and the job's slots; Spark writes its micro-batches there.

        The other arguments, and what is raised, are those of `SparkStreamSource`.
        """
        source = SparkStreamSource(
            df,
            staging_directory,
            checkpoint_location,
            trigger,
            output_mode,
            query_name,
            max_unread_batches,
            ends_with_query,
        )
        return self._bounded(source, watermark_strategy, name)

    def from_ray_dataset(
        self, dataset: Any, watermark_strategy: WatermarkStrategy | None = None, name: str = "ray dataset"
    ) -> DataStream:
        """The rows of a ray.data.Dataset, which Ray Data computes when the program starts, in the Dataset's order.

        Raises:
            MissingDependencyError: Ray Data cannot be imported; says what to install.
        """
        source: Source = load_plugin(BRIDGES, "ray-dataset")().source(dataset)
        return self._bounded(source, watermark_strategy, name)

    def add_source(
        self,
        source_function: SourceFunction | Callable[..., Any],
        source_name: str = "Custom Source",
        type_info: Any = None,
        watermark_strategy: WatermarkStrategy | None = None,
        is_changelog: bool = False,
    ) -> DataStream:
        """The values that a generator function yields (or a SourceFunction collects), on a thread of its own, so it may
        block. In one subtask, unless `set_parallelism` says more: then each subtask calls it, and it may take a
        `flinkray.functions.interfaces.SourceContext` to tell which it is. After a failure it starts over.

        Args:
            is_changelog: whether it gives `Row`s that update or delete others (`Row.of_kind`).
        """
        source = GeneratorFunctionSource(source_function, type_info, is_changelog)
        check_returns(source_function, "run")
        return self._bounded(source, watermark_strategy, source_name).set_parallelism(1)

    def _bounded(self, source: Source, strategy: WatermarkStrategy | None, name: str) -> DataStream:
        return self.from_source(source, strategy or WatermarkStrategy.no_watermarks(), name)

    @cached_property
    def tables(self) -> StreamTableEnvironment:
        """Catalogs of tables, and statements of SQL over them: `env.tables.execute_sql("SHOW TABLES").print()`."""
        from flinkray.streams.table_environment import StreamTableEnvironment  # few programs need it

        return StreamTableEnvironment(self)

    def sql(self, query: str, /, **streams: Any) -> DataStream:
        """The rows of a query of Flink SQL over streams, which it calls by name, in braces or not:
        `env.sql("SELECT item, cents / 100.0 AS price FROM {orders} WHERE cents > 0", orders=orders)`. Names that are
        not given are those of tables in `env.tables`.

        Windows are over the timestamp column that a stream's event times come from (`with_rowtime` names another one).

        Args:
            streams: streams of this environment; DataFrames and tables, as `from_pandas` and `from_arrow` take them.
        Raises:
            SqlError: the query is wrong, or cannot be executed yet; shows where.
            InvalidProgramError: the types of a stream's columns are not known.
        """
        return self.tables.to_changelog_stream(self.tables.over(query, **streams))

    def explain_sql(self, query: str, /, **streams: Any) -> str:
        """The plan of a query as text, a line for each of its steps, whether or not it can be executed.

        Arguments and errors are those of `sql`.
        """
        return self.tables.over(query, **streams).optimized_plan()

    # -- running

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs the program recorded so far, and waits for its end (`execution.attached` = false: only submits it, and
        gives a result that holds the job id alone).

        Raises:
            InvalidProgramError: there is nothing to execute, or the program cannot be compiled.
            JobExecutionError: the job failed; `__cause__` is the first failure.
        """
        if self._configuration.get(ATTACHED):
            return self._execute_and_wait(job_name)
        client = self._submit(job_name)
        result = JobExecutionResult(client.job_id, self._job_name(job_name), 0, {})
        self._notify_executed(result, None)
        return result

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Submits the program recorded so far. Close the client when you are done with the job.

        The environment is empty afterwards, as in Flink: a second call runs what was added since. Streams stay usable.
        """
        return self._submit(job_name)

    def _submit(self, job_name: str | None) -> JobClient:
        try:
            return self._submit_recorded(self._job_name(job_name))
        finally:
            self._transformations.clear()

    def _submit_alone(self, transformations: Sequence[Transformation], job_name: str) -> JobClient:
        """Submits these transformations, and nothing that was recorded beside them."""
        with self._only(transformations):
            configured = self._configuration.is_set(PIPELINE_NAME)
            return self._submit_recorded(self._job_name(None if configured else job_name))

    def _plan_alone(self, transformations: Sequence[Transformation]) -> str:
        """The job graph of these transformations as text."""
        with self._only(transformations):
            return self.get_execution_plan()

    @contextlib.contextmanager
    def _only(self, transformations: Sequence[Transformation]) -> Iterator[None]:
        recorded, self._transformations = self._transformations, list(transformations)
        configured, parallelism = self._configuration, self._configuration.get(DEFAULT_PARALLELISM)
        if parallelism > 0:
            self._configuration = configured.copy().set(PARALLELISM, parallelism)
        try:
            yield
        finally:
            self._transformations, self._configuration = recorded, configured

    def _unset(self, key: str) -> None:
        """Gives an option its default."""
        self._configuration.unset(key)

    def _submit_recorded(self, name: str) -> JobClient:
        try:
            executor = self._executor()
            client = executor.execute(self._pipeline(name, should_prepare=executor.needs_preparation))
        except Exception as error:
            for listener in self._listeners:
                listener.on_job_submitted(None, error)
            if isinstance(error, FlinkrayError):
                raise
            raise JobExecutionError(f"job {name!r} could not be submitted: {error}") from error
        for listener in self._listeners:
            listener.on_job_submitted(client, None)
        return client

    def get_execution_plan(self, graph: str = "job", format: str = "text") -> str:
        """The program recorded so far as a graph, without running it.

        Args:
            graph: "stream" (operators), "job" (chains), or "execution" (subtasks).
            format: "text", or "mermaid" (a drawing).
        """
        plan = load_plugin(PLANNERS, "default")
        text: str = plan(self._pipeline(self._job_name(None), should_prepare=False), graph, format)
        return text

    def _execute_and_wait(self, job_name: str | None) -> JobExecutionResult:
        """Runs the program as `execute` does, and waits whatever `execution.attached` says."""
        client = self._submit(job_name)
        try:
            result = wait_for_result(client, self._job_name(job_name))
        except FlinkrayError as error:
            self._notify_executed(None, error)
            raise
        finally:
            client.close()
        self._notify_executed(result, None)
        return result

    def _notify_executed(self, result: JobExecutionResult | None, error: BaseException | None) -> None:
        for listener in self._listeners:
            listener.on_job_executed(result, error)

    def _register(self, transformation: Transformation) -> None:
        """Makes an operator part of the program; streams call it."""
        self._transformations.append(transformation)
        PROGRAM_USE.record()

    def _job_name(self, job_name: str | None) -> str:
        return job_name or self._configuration.get(PIPELINE_NAME)

    def _executor(self) -> PipelineExecutor:
        target = self._configuration.get(TARGET)
        try:
            executor: PipelineExecutor = load_plugin(EXECUTORS, target)()
        except ConfigurationError as error:
            raise ConfigurationError(f"option {TARGET.key!r} is {target!r}: {error}") from error
        return executor

    def _pipeline(self, name: str, *, should_prepare: bool) -> Pipeline:
        PROGRAM_USE.use()
        if not self._transformations:
            raise InvalidProgramError(
                f"nothing to execute: the program {name!r} is empty (perhaps it has run already: execute() takes what "
                "was added since the last call); add a source, and a sink such as print()"
            )
        recorded = expanded(self._transformations, self._apply_to_rows, self._apply_to_committables)
        configuration = _with_absolute_paths(self._configuration)
        if should_prepare and configuration.get(PYTHON_REQUIREMENTS):
            from flinkray.functions.requirements import with_requirements  # few programs need what it imports

            configuration = with_requirements(configuration)
        return Pipeline(
            name=name,
            transformations=prepared(recorded) if should_prepare else recorded,
            configuration=configuration,
            cached_files=self._packed_files() if should_prepare else {},
        )

    def _apply_to_rows(
        self, topology: Callable[[Any], Any], given: Transformation, known: KnownType = UNKNOWN
    ) -> tuple[Transformation | None, list[Transformation]]:
        """What a function makes of the stream of a transformation, and the operators that it adds to the program."""
        with self._only(()):
            result = topology(DataStream(self, given, known))
            return result._transformation if isinstance(result, DataStream) else None, self._transformations

    def _apply_to_committables(
        self, topology: Callable[[Any], Any], given: Transformation
    ) -> tuple[Transformation | None, list[Transformation]]:
        return self._apply_to_rows(topology, given, KnownType.of(OBJECT_TYPE))

    def _packed_files(self) -> dict[str, bytes]:
        packed = pack_program_files(self._configuration)
        for name, path in self._cached_files.items():
            if f"{ARCHIVES}{name}" in packed:
                raise InvalidProgramError(
                    f"cached file {name!r} ({path}): an archive of {PYTHON_ARCHIVES.key} has that name too, and "
                    "get_cached_file would not know which is meant: give one of them another"
                )
            packed[name] = pack(Path(path))
        return packed


def _with_absolute_paths(configuration: Configuration) -> Configuration:
    """A copy with absolute paths, which mean the same in processes with other working directories."""
    settled = configuration.copy()
    if not configuration.get(PYTHON_PATH):
        settled.set(PYTHON_PATH, own_directories())
    for option in _PATH_OPTIONS:
        if configuration.get(option):
            settled.set(option, absolute(configuration.get(option)))
            _check_path(option, settled)
    return settled


def _check_path(option: ConfigOption[str], configuration: Configuration) -> None:
    """Refuses a path that can never be used: a cluster that cannot reach it would wait for it to come back."""
    where = configuration.get(option)
    try:
        if option is not SAVEPOINT_PATH:
            check_directory(where, is_here=configuration.get(TARGET) == "local")
        elif is_uri(where):
            check_uri(where)
    except InvalidProgramError as error:
        raise InvalidProgramError(f"option {option.key}: {error}") from error
