"""Whole jobs on changelogs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    Batch,
    Boundedness,
    ChangelogMode,
    FlinkrayError,
    JobExecutionError,
    Kind,
    Row,
    RowKind,
    Sink,
    SinkWriter,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitListEnumerator,
    SplitListReader,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
    col,
)
from flinkray.connectors.collection.source import RowRange
from flinkray.pyflink.datastream import StreamExecutionEnvironment as PyFlinkEnvironment
from tests.support.changelogs import random_changes
from tests.support.jobs import environment

_, BEFORE, AFTER, DELETE = RowKind


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment({"flinkray.batch.target-rows": 16})


def by_key(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.k].append(row)
    return found


class TableSink(Sink):
    """Keeps a table in a dict of this process, by upserts."""

    @property
    def accepts(self) -> ChangelogMode:
        return ChangelogMode.UPSERT

    @property
    def key_columns(self) -> tuple[str, ...]:
        return ("k",)

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return TableWriter()


class TableWriter(SinkWriter):
    def write(self, batch: Batch) -> None:
        assert batch.kinds is not None
        for row, kind in zip(batch.data.to_pylist(), batch.kinds.to_pylist(), strict=True):
            assert kind != BEFORE.value
            if kind == DELETE.value:
                del written[row["k"]]
            else:
                written[row["k"]] = row["n"]

    def close(self) -> None: ...


written: dict[str, int] = {}


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_changes_of_a_row_come_in_their_order_and_with_their_kinds(env: StreamExecutionEnvironment, mode: str) -> None:
    env._configuration.set("execution.runtime-mode", mode)
    rows, table = random_changes(7, 200)
    stream = (
        env.from_collection(rows)
        .key_by("k")
        .map(lambda row: Row(k=row.k, n=row.n))
        .filter(lambda row: row.n >= 0)
        .key_by(lambda row: row.k)
        .with_columns(m=col("n") + 1)
        .key_by("k")
        .async_map(lambda row: row)
    )
    collected = list(stream.drop("m").execute_and_collect())
    assert by_key(collected) == by_key(rows)
    written.clear()
    stream.sink_to(TableSink())
    env.execute()
    assert written == table


def test_an_upsert_sink_of_another_parallelism_gets_the_rows_of_a_key_in_order(
    env: StreamExecutionEnvironment,
) -> None:
    rows, table = random_changes(3, 300)
    written.clear()
    env.from_collection(rows).sink_to(TableSink())
    env.execute()
    assert written == table


def test_a_changelog_becomes_a_stream_of_inserts_and_back(env: StreamExecutionEnvironment) -> None:
    rows, _ = random_changes(11, 100)
    inserts = env.from_collection(rows).kinds_as_column("op")
    table = inserts.to_arrow()
    assert table.column("op").to_pylist() == [str(row.get_row_kind()) for row in rows]
    assert list(env.from_arrow(table).set_parallelism(1).as_changelog("op").execute_and_collect()) == rows
    counted = inserts.key_by("op").sum("n").map(lambda row: row.op)
    assert set(counted.execute_and_collect()) == {"+I", "-U", "+U", "-D"}


def test_a_changelog_is_printed_with_what_rows_do(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = env.from_collection([Row.of_kind(kind, k="a", n=kind.value) for kind in RowKind])
    changes.print().set_parallelism(1)
    env.execute()
    assert capsys.readouterr().out.split("\n")[:4] == [
        "+I(k='a', n=0)",
        "-U(k='a', n=1)",
        "+U(k='a', n=2)",
        "-D(k='a', n=3)",
    ]


def test_inserts_among_a_changelog_are_printed_as_such(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.set_parallelism(1)
    changes = env.from_collection([Row.of_kind(DELETE, k="a", n=1)])
    inserts = env.from_collection([Row(k="b", n=2)])
    changes.union(inserts).map(lambda row: (row.k, row.n)).print()
    inserts.print()
    env.execute()
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "+I('b', 2)", "-D('a', 1)", "Row(k='b', n=2)"]


def test_pyflinks_programs_print_kinds_as_they_do_there(capsys: pytest.CaptureFixture[str]) -> None:
    env = PyFlinkEnvironment.get_execution_environment()
    env._configuration.set("execution.target", "local")
    env.set_parallelism(1)
    rows = [Row.of_kind(AFTER, "a", 1), Row("b", 2)]
    env.from_collection(rows, type_info=Types.ROW([Types.STRING(), Types.INT()])).print()
    env.execute()
    assert capsys.readouterr().out == "+U[a,1]\n+I[b,2]\n"


# -- sources -----------------------------------------------------------------------------------------------------


def generated() -> Iterator[Row]:
    yield Row(k="a", n=1)
    yield Row.of_kind(DELETE, k="a", n=1)


def test_a_function_gives_a_changelog_if_it_is_said_to(env: StreamExecutionEnvironment) -> None:
    assert list(env.add_source(generated, is_changelog=True).execute_and_collect()) == list(generated())
    with pytest.raises(JobExecutionError, match=r"-D\(k='a', n=1\) is no \+I row.*is_changelog=True"):
        list(env.add_source(generated).execute_and_collect())


class KindsSource(Source):
    """A source of the user's own, of one row."""

    def __init__(self, is_changelog: bool, kinds: pa.Array) -> None:
        self._is_changelog = is_changelog
        self._kinds = kinds

    @property
    def is_changelog(self) -> bool:
        return self._is_changelog

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitListEnumerator:
        return SplitListEnumerator(context, [RowRange("one", 0, 1)] if restored is None else restored)

    def create_reader(self, context: SourceReaderContext) -> Any:
        return KindsReader(context, self._kinds)


class KindsReader(SplitListReader[RowRange]):
    def __init__(self, context: SourceReaderContext, kinds: pa.Array) -> None:
        super().__init__(context)
        self._kinds = kinds

    def read_split(self, split: RowRange) -> Iterator[tuple[Batch, RowRange]]:
        yield Batch(pa.record_batch({"k": ["a"]}), Kind.ROW, kinds=self._kinds), RowRange("one", 1, 1)


DELETED = pa.array([3], pa.int8())


def given_by(env: StreamExecutionEnvironment, source: Source) -> list[Any]:
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kinds").set_parallelism(1)
    return list(stream.execute_and_collect())


def test_a_source_must_say_that_its_rows_have_kinds(env: StreamExecutionEnvironment) -> None:
    assert given_by(env, KindsSource(True, DELETED)) == [Row.of_kind(DELETE, k="a")]
    with pytest.raises(JobExecutionError, match=r"'Source: kinds.*KindsSource gives rows with kinds.*is_changelog"):
        given_by(env, KindsSource(False, DELETED))


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (pa.array([3]), "of type int64"),
        (pa.array([None], pa.int8()), "1 of them null"),
        (pa.array([3, 3], pa.int8()), "2 kinds .* for 1 rows"),
        (pa.array([4], pa.int8()), "a row of kind 4"),
        (pa.array([-1], pa.int8()), "a row of kind -1"),
    ],
)
def test_what_a_source_gives_as_kinds_must_be_such(
    env: StreamExecutionEnvironment, kinds: pa.Array, message: str
) -> None:
    with pytest.raises(JobExecutionError, match=message):
        given_by(env, KindsSource(True, kinds))


@pytest.mark.parametrize("method", ["to_arrow", "to_pandas"])
def test_a_table_cannot_be_made_of_a_changelog_without_its_kinds(env: StreamExecutionEnvironment, method: str) -> None:
    changes = env.from_collection(list(generated()))
    with pytest.raises(FlinkrayError, match=r"takes inserts only.*from_changelog_stream.*kinds_as_column"):
        getattr(changes, method)()
    assert len(getattr(changes.kinds_as_column(), method)()) == 2
