"""Rules of the operators that sinks add to a program."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from flinkray import (
    DataStream,
    DiscardSink,
    InvalidProgramError,
    Sink,
    StreamExecutionEnvironment,
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreWriteTopology,
)
from flinkray.transformations.operator_factories import GlobalCommitterFactory, SinkFactory
from flinkray.transformations.preparation import prepared
from flinkray.transformations.transformation import PhysicalTransformation


class Lake(DiscardSink, SupportsPreWriteTopology, SupportsPostCommitTopology):
    commits_globally = True
    uid = "merged"

    def prepare(self) -> Sink:
        return Lake()

    def add_pre_write_topology(self, rows: DataStream) -> Any:
        return rows.map(lambda n: n).name("sorted")

    def add_post_commit_topology(self, committables: DataStream) -> None:
        merged = committables.map(lambda each: each).name("merged").set_parallelism(1)
        if self.uid:
            merged.uid(self.uid)
        merged.sink_to(_Inner()).name("inner")


class Merged(Lake, SupportsPreCommitTopology):
    """Changes what is committed, too."""

    def prepare(self) -> Sink:
        return copy.copy(self)

    def add_pre_commit_topology(self, committables: DataStream) -> Any:
        return committables.map(lambda each: each).name("put together").union(committables)


class MergedByEach(Merged):
    commits_globally = False


class Forgotten(Merged):
    def add_pre_commit_topology(self, committables: DataStream) -> Any:
        return StreamExecutionEnvironment.get_execution_environment().from_sequence(1, 2)


class Endless(DiscardSink, SupportsPreWriteTopology):
    def add_pre_write_topology(self, rows: DataStream) -> Any:
        rows.sink_to(Endless())
        return rows


class Undecided(DiscardSink):
    def prepare(self) -> Sink:
        return Lake()


class _Inner(DiscardSink, SupportsPreWriteTopology):
    """A sink that a sink adds."""

    def add_pre_write_topology(self, rows: DataStream) -> Any:
        return rows.map(lambda n: n).name("counted")


def expanded(sink: Sink, **settings: Any) -> tuple[PhysicalTransformation, ...]:
    environment = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 4})
    added = environment.from_sequence(1, 3).sink_to(sink).name("lake")
    for setting, value in settings.items():
        getattr(added, setting)(value)
    recorded = list(environment._transformations)
    plans = [environment.get_execution_plan() for _ in range(2)]
    assert plans[0] == plans[1]
    assert environment._transformations == recorded, "what sinks add is no part of the program"
    found = environment._pipeline("job", should_prepare=False).transformations
    return tuple(each for each in found if isinstance(each, PhysicalTransformation))


def test_what_a_sink_adds_has_the_settings_of_the_sink_where_it_says_nothing_and_names_and_uids_behind_its() -> None:
    found = expanded(Lake(), uid="lake", set_parallelism=2, slot_sharing_group="lakes")
    shown = {each.name: (each.uid, each.parallelism, each.slot_sharing_group) for each in found}
    assert shown == {
        "Sink: lake: Global Committer": ("lake: Global Committer", 1, "lakes"),
        "Sink: lake: sorted": (None, 2, "lakes"),
        "Sink: lake: merged": ("lake: merged", 1, "lakes"),
        "Sink: lake: Sink: inner": (None, 2, "lakes"),
        "Sink: lake: Sink: inner: counted": (None, 2, "lakes"),
    }


def test_a_global_committer_has_the_sink_as_its_writers_have_it() -> None:
    copies = prepared(expanded(Lake(), uid="lake"))
    (committer,) = [each for each in copies if isinstance(each, PhysicalTransformation) and "Global" in each.name]
    (writers,) = committer.input_transformations[0].inputs
    assert isinstance(committer.factory, GlobalCommitterFactory)
    assert isinstance(writers, PhysicalTransformation)
    assert isinstance(writers.factory, SinkFactory)
    assert committer.factory.sink is writers.factory.sink
    assert (committer.factory.gives_committables, writers.factory.gives_committables) == (True, False)


@pytest.mark.parametrize(
    ("sink", "committer", "parallelism"), [(Merged(), "Global Committer", 1), (MergedByEach(), "Committer", 2)]
)
def test_operators_between_writers_and_committers_have_a_committer_behind_them(
    sink: Sink, committer: str, parallelism: int
) -> None:
    found = {each.name: each for each in prepared(expanded(sink, uid="lake", set_parallelism=2))}
    last, between = found[f"Sink: lake: {committer}"], found["Sink: lake: put together"]
    (writers,) = between.input_transformations
    assert (last.uid, last.parallelism, between.parallelism) == (f"lake: {committer}", parallelism, 2)
    assert isinstance(last.factory, GlobalCommitterFactory)
    assert isinstance(writers, PhysicalTransformation)
    assert isinstance(writers.factory, SinkFactory)
    assert last.factory.sink is writers.factory.sink
    assert (last.factory.takes_messages, last.factory.gives_committables) == (True, True)
    assert (writers.factory.gives_prepared, writers.factory.gives_committables) == (True, False)


class Nothing(Lake):
    def add_pre_write_topology(self, rows: DataStream) -> Any:
        return None


def test_what_cannot_be_added_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidProgramError, match=r"operator 'merged' with uid 'merged', .*; give the sink a uid"):
        expanded(Lake())
    with pytest.raises(InvalidProgramError, match="Endless adds a sink that adds a sink"):
        expanded(Endless())
    with pytest.raises(InvalidProgramError, match=r"Undecided\.prepare\(\) gives a sink with another commits_globally"):
        prepared(expanded(Undecided()))
    with pytest.raises(InvalidProgramError, match=r"Nothing\.add_pre_write_topology returns no DataStream"):
        expanded(Nothing(), uid="lake")
    with pytest.raises(
        InvalidProgramError, match=r"Forgotten\.add_pre_commit_topology returns no DataStream that comes"
    ):
        expanded(Forgotten(), uid="lake")
