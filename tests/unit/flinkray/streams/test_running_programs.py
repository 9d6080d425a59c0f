"""How programs are prepared, handed over and waited for, and how their results come."""

# ruff: noqa: ARG001, ARG005  (stand-ins take what the real ones take)

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import flinkray.connectors.spark.source
import flinkray.streams.environment
import flinkray.streams.results
from flinkray import (
    ConfigurationError,
    DiscardSink,
    InvalidProgramError,
    JobExecutionError,
    JobListener,
    StreamExecutionEnvironment,
    TypeMismatchError,
)
from flinkray.config.options import ATTACHED, TARGET
from flinkray.connectors.sink import Sink, SinkWriter
from flinkray.connectors.source import Boundedness, Source
from flinkray.execution import JobProgress, JobStatus
from flinkray.progress import ProgressLine
from flinkray.testing import run_locally
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import SinkFactory, SourceFactory
from flinkray.transformations.preparation import prepared
from flinkray.transformations.transformation import PhysicalTransformation, Transformation
from tests.support.api import FakeExecutor, batch_of

Env = StreamExecutionEnvironment


# -- running


def test_an_empty_program_is_an_error(env: Env) -> None:
    env.from_collection([1])
    with pytest.raises(InvalidProgramError, match="nothing to execute"):
        env.execute()
    with pytest.raises(InvalidProgramError, match="nothing to execute"):
        env.get_execution_plan()


def test_execute_waits_closes_and_empties_the_program(env: Env, executor: FakeExecutor) -> None:
    executor.timeouts = 2
    stream = env.from_collection([1]).map(str)
    stream.print()
    result = env.execute("first")
    assert (result.job_name, result.get_accumulator_result("rows")) == ("first", 2)
    assert executor.clients[-1].calls == ["result", "result", "result", "close"]
    stream.sink_to(DiscardSink())
    env.execute()
    assert [t.name for t in executor.pipeline.transformations] == ["Sink: Unnamed"]


def test_a_failed_job_raises_and_is_closed(env: Env, executor: FakeExecutor) -> None:
    executor.job_error = JobExecutionError("boom")
    env.from_collection([1]).print()
    with pytest.raises(JobExecutionError, match="boom"):
        env.execute()
    assert executor.clients[-1].calls[-1] == "close"


def test_detached_execution_only_submits(env: Env, executor: FakeExecutor) -> None:
    env.configure({ATTACHED.key: False})
    env.from_collection([1]).print()
    result = env.execute("job")
    assert (result.job_id, result.accumulators) == ("job-1", {})
    assert executor.clients[-1].calls == []


def test_an_unknown_target_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLINKRAY_CONF_DIR", raising=False)
    env = Env.get_execution_environment({TARGET.key: "locall"})
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"'execution.target' is 'locall': .*did you mean 'local'"):
        env.execute()


class Listener(JobListener):
    def __init__(self) -> None:
        self.heard: list[tuple[str, Any, Any]] = []

    def on_job_submitted(self, client: Any, error: Any) -> None:
        self.heard.append(("submitted", client, error))

    def on_job_executed(self, result: Any, error: Any) -> None:
        self.heard.append(("executed", result, error))


def test_a_listener_hears_of_submission_and_end(env: Env, executor: FakeExecutor) -> None:
    listener = Listener()
    env.register_job_listener(listener)
    env.from_collection([1]).print()
    result = env.execute()
    assert listener.heard == [("submitted", executor.clients[-1], None), ("executed", result, None)]


def test_a_listener_hears_of_failures(env: Env, executor: FakeExecutor) -> None:
    listener = Listener()
    env.register_job_listener(listener)
    executor.submit_error = ConnectionError("no cluster")
    env.from_collection([1]).print()
    with pytest.raises(JobExecutionError, match="job 'sums' could not be submitted: no cluster") as caught:
        env.execute("sums")
    assert caught.value.__cause__ is executor.submit_error
    executor.submit_error, executor.job_error = None, JobExecutionError("boom")
    env.from_collection([1]).print()
    with pytest.raises(JobExecutionError):
        env.execute()
    assert [(what, thing is None, type(error)) for what, thing, error in listener.heard] == [
        ("submitted", True, ConnectionError),
        ("submitted", False, type(None)),
        ("executed", True, JobExecutionError),
    ]


def test_a_program_error_is_raised_as_it_is(env: Env, executor: FakeExecutor) -> None:
    executor.submit_error = InvalidProgramError("two operators with one uid")
    env.from_collection([1]).print()
    with pytest.raises(InvalidProgramError, match="one uid"):
        env.execute()


def test_the_plan_is_the_planners_and_keeps_the_program(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def plan(pipeline: Any, graph: str, format: str) -> str:
        seen.append((pipeline.transformations[0].name, graph, format))
        return "the plan"

    monkeypatch.setattr(flinkray.streams.environment, "load_plugin", lambda group, name: plan)
    env.from_collection([1]).print()
    assert env.get_execution_plan() == env.get_execution_plan("stream", "mermaid") == "the plan"
    assert seen == [("Sink: Print to Std. Out", "job", "text"), ("Sink: Print to Std. Out", "stream", "mermaid")]


# -- preparation


class Prepared(Source):
    """Counts how often it was prepared; what is shipped is a source of its own."""

    def __init__(self, times: list[str], is_prepared: bool = False) -> None:
        self.times = times
        self.is_prepared = is_prepared

    boundedness = Boundedness.BOUNDED  # type: ignore[assignment]

    def prepare(self) -> Source:
        self.times.append("source")
        return Prepared(self.times, is_prepared=True)

    def create_enumerator(self, context: Any, restored: Any = None) -> Any: ...

    def create_reader(self, context: Any) -> Any: ...


class PreparedSink(Sink):
    def __init__(self, times: list[str], is_prepared: bool = False) -> None:
        self.times = times
        self.is_prepared = is_prepared

    def prepare(self) -> Sink:
        self.times.append("sink")
        return PreparedSink(self.times, is_prepared=True)

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        raise AssertionError


def all_of(transformations: tuple[Transformation, ...]) -> list[Transformation]:
    found: dict[int, Transformation] = {}
    stack = list(transformations)
    while stack:
        each = stack.pop()
        if id(each) not in found:
            found[id(each)] = each
            stack.extend(each.inputs)
    return list(found.values())


def test_sources_and_sinks_are_prepared_once_per_submission_on_a_copy(env: Env, executor: FakeExecutor) -> None:
    times: list[str] = []
    source = env.from_source(Prepared(times), WatermarkStrategy.no_watermarks(), "x")
    left, right = source.rebalance().map(str), source.key_by(str).map(str)
    left.union(right).sink_to(PreparedSink(times))
    env.execute()
    assert sorted(times) == ["sink", "source"]
    shipped = all_of(executor.pipeline.transformations)
    factories = [t.factory for t in shipped if isinstance(t, PhysicalTransformation)]
    sources = [factory.source for factory in factories if isinstance(factory, SourceFactory)]
    sinks = [factory.sink for factory in factories if isinstance(factory, SinkFactory)]
    assert [source.is_prepared for source in (*sources, *sinks)] == [True, True]  # type: ignore[attr-defined]
    assert source._transformation.factory.source.is_prepared is False  # type: ignore[attr-defined]
    left.print()
    env.execute()
    assert times.count("source") == 2


def test_a_copy_keeps_ids_and_settings(env: Env) -> None:
    stream = env.from_collection([1]).map(str).uid("u").set_parallelism(2).rebalance().map(str)
    (copy,) = prepared((stream._transformation,))
    originals = {t.id: t for t in all_of((stream._transformation,))}
    copies = {t.id: t for t in all_of((copy,))}
    assert copies.keys() == originals.keys()
    assert all(copies[key] is not originals[key] for key in copies)
    assert [(t.uid, t.parallelism) for t in copies.values()] == [(t.uid, t.parallelism) for t in originals.values()]


def test_a_long_program_does_not_meet_the_recursion_limit(env: Env) -> None:
    stream = env.from_collection([1])
    for _ in range(3000):
        stream = stream.rebalance()
    assert len(all_of(prepared((stream._transformation,)))) == 3001


# -- results


def test_execute_and_collect_gives_values_and_closes_at_the_end(env: Env, executor: FakeExecutor) -> None:
    executor.batches = [batch_of(1, 2), batch_of(3)]
    rows = env.from_collection([1]).execute_and_collect("job")
    assert list(rows) == [1, 2, 3]
    assert executor.clients[-1].calls == ["result", "close"]
    rows.close()
    assert executor.clients[-1].calls == ["result", "close"]
    assert next(rows, None) is None


def test_leaving_a_collection_early_cancels_the_job(env: Env, executor: FakeExecutor) -> None:
    executor.batches = [batch_of(1, 2), batch_of(3)]
    with env.from_collection([1]).execute_and_collect() as rows:
        assert next(rows) == 1
    assert executor.clients[-1].calls == ["cancel", "close"]
    assert list(rows) == []
    assert env.from_collection([1]).execute_and_collect(limit=2) == [1, 2]
    assert executor.clients[-1].calls == ["cancel", "close"]


def test_a_limit_that_is_no_number_of_records_is_refused_before_the_program_runs(
    env: Env, executor: FakeExecutor
) -> None:
    for limit in (-1, "3"):
        with pytest.raises(InvalidProgramError, match=rf"a number of records, not {limit!r}"):
            env.from_collection([1]).execute_and_collect(limit=limit)  # type: ignore[arg-type]
    assert not executor.clients


def test_dropping_a_collection_cancels_the_job(env: Env, executor: FakeExecutor) -> None:
    executor.batches = [batch_of(1, 2)]
    for _ in env.from_collection([1]).execute_and_collect():
        break
    assert executor.clients[-1].calls == ["cancel", "close"]


def test_the_failure_of_a_job_ends_its_collection(env: Env, executor: FakeExecutor) -> None:
    executor.batches, executor.job_error = [batch_of(1)], JobExecutionError("boom")
    for collect in (lambda s: list(s.execute_and_collect()), lambda s: s.to_arrow(), lambda s: s.to_pandas()):
        with pytest.raises(JobExecutionError, match="boom"):
            collect(env.from_collection([1]))
        assert executor.clients[-1].calls[-1] == "close"


def test_tables_put_batches_together_and_widen(env: Env, executor: FakeExecutor) -> None:
    executor.batches = [batch_of(("a", 1)), batch_of(("b", 1.5))]
    stream = env.from_collection([1])
    assert stream.to_arrow().to_pydict() == {"f0": ["a", "b"], "f1": [1.0, 1.5]}
    assert stream.to_pandas()["f1"].tolist() == [1.0, 1.5]
    executor.batches = [batch_of(1), batch_of("x")]
    with pytest.raises(TypeMismatchError, match="set output_type="):
        stream.to_arrow()


def test_an_empty_result_has_the_columns_that_are_known(env: Env) -> None:
    stream = env.from_collection([("a", 1)])
    assert stream.to_arrow().schema == pa.schema([("f0", pa.string()), ("f1", pa.int64())])
    assert stream.select("f0", x=1).to_arrow().schema.names == ["f0", "x"]
    assert stream.map(lambda row: row).to_arrow().num_columns == 0


def test_objects_come_back_in_a_data_frame(env: Env, executor: FakeExecutor) -> None:
    executor.batches = [batch_of({1, 2}, {3})]
    assert env.from_collection([1]).to_pandas()["value"].tolist() == [{1, 2}, {3}]


def test_spark_and_ray_data_are_reached_through_bridges(
    env: Env, executor: FakeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    class Bridge:
        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)

        def source(self, data: Any, order_by: Any = None) -> Source:
            made.append((data, order_by))
            return Prepared([])

        def sink(self, output_type: Any = None) -> Any:
            return PreparedSink([]), lambda result: ("finished", result.job_name)

    def load(group: str, name: str) -> Any:
        return executor if group == "flinkray.executors" else Bridge

    for module in (flinkray.streams.environment, flinkray.streams.results, flinkray.connectors.spark.source):
        monkeypatch.setattr(module, "load_plugin", load)
    env.configure({ATTACHED.key: False})  # results are waited for all the same
    assert env.from_spark("df", order_by="t").to_spark("session", "a") == ("finished", "a")
    assert env.from_ray_dataset("ds").to_ray_dataset("b") == ("finished", "b")
    assert made == [(), ("df", "t"), ("session",), (), ("ds", None), ()]


# -- progress


def test_the_progress_line_shows_rate_and_watermark() -> None:
    now = [0.0]
    line = ProgressLine("count", lambda: now[0])
    now[0] = 2.0
    text = line.text(JobProgress(JobStatus.RUNNING, 1000, 10, 1_357_041_600_000))
    assert text == "count  RUNNING  0:02  in 1,000 (500/s)  out 10  watermark 2013-01-01 12:00:00"
    now[0] = 64.0
    assert line.text(JobProgress(JobStatus.FINISHED, 1000, 10, 2**63 - 1)).startswith(
        "count  FINISHED  1:04  in 1,000 (0/s)"
    )


def test_an_environment_is_not_dragged_along_by_functions(env: Env) -> None:
    stream = env.from_collection([1])
    assert pickle.dumps(stream._transformation.factory)  # type: ignore[attr-defined]


def test_run_locally_runs_in_this_process_and_leaves_the_target(
    executor: FakeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets: list[str] = []
    monkeypatch.setattr(
        flinkray.streams.environment, "load_plugin", lambda group, name: targets.append(name) or executor
    )
    env = Env.get_execution_environment({TARGET.key: "ray-session"})
    env.from_collection([1]).print()
    assert run_locally(env, "job").job_name == "job"
    assert targets == ["local"]
    assert env.configuration.get(TARGET) == "ray-session"
