"""Names of classes in what is persisted, and the tables that say what they stand for."""

from __future__ import annotations

import ast
import datetime
import importlib.util
import inspect
import io
import pickle
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import flinkray
from actors import persistent_names as names_of_actors
from actors.coordinators.split_assignments import SplitAssignments
from actors.high_availability.stored_jobs import StoredJob
from actors.protocol.checkpoint_handles import FileState, SharedFile
from flinkray import Batch, JobStatus, Kind, Row, Window
from flinkray import persistent_names as names_of_flinkray
from flinkray.batches import pickling
from flinkray.connectors.files.writing.commits import FileCommittable
from flinkray.connectors.sequence.source import NumberRange
from flinkray.persistence import (
    UnknownNameError,
    UnnamedClassWarning,
    dumps,
    has_modules,
    has_paths,
    load,
    loads,
    named,
)
from flinkray.tables.plans.expressions import BoundExpression
from flinkray.tables.types.logical import LogicalType
from flinkray.transformations.operator_factories import ChainingStrategy, ChangelogRole, OperatorFactory, TableFactory
from flinkray.transformations.partitioning import Partitioner
from flinkray.transformations.table_window_factories import WindowRowsFactory
from graphs import job_graph
from graphs import persistent_names as names_of_graphs
from tests.support.pickled_names import globals_in

TABLES = {"flinkray": names_of_flinkray, "graphs": names_of_graphs, "actors": names_of_actors}
ALL = [(package, name, target) for package, table in TABLES.items() for name, target in table.NAMES.items()]


class Own:
    """A class of the user's."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.content == self.content


# -- the tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("package", "name", "target"), ALL, ids=[f"{package}/{name}" for package, name, _ in ALL])
def test_a_name_stands_for_something_that_is_there(package: str, name: str, target: str) -> None:
    module, qualname = target.split(":")
    assert module.split(".")[0] == package
    if module.startswith("actors.hosts.ray."):  # which needs Ray
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        assert qualname in {getattr(each, "name", "") for each in ast.parse(Path(spec.origin).read_text()).body}
        return
    assert callable(named(f"{package}/{name}"))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_nothing_has_two_names_and_versions_have_no_gaps(table: ModuleType) -> None:
    assert len(set(table.NAMES.values())) == len(table.NAMES)
    for name in table.NAMES:
        qualname, _, version = name.partition("@")
        assert version == "1" or f"{qualname}@{int(version) - 1}" in table.NAMES, name


@pytest.mark.parametrize("package", TABLES)
def test_what_is_at_a_former_path_is_what_its_name_stands_for_or_nothing(package: str) -> None:
    for path, name in TABLES[package].FORMER.items():
        module, qualname = path.split(":")
        try:
            there = getattr(import_module(module), qualname, None)
        except ImportError:
            there = None
        assert there in (None, named(f"{package}/{name}"))


def test_all_that_a_job_graph_is_made_of_has_a_name() -> None:
    of_graphs = [each for each in vars(job_graph).values() if isinstance(each, type)]
    bases = (OperatorFactory, TableFactory, WindowRowsFactory, Partitioner)
    made_of = (*(each for base in bases for each in base.__subclasses__()), *of_graphs)
    ours = [each for each in made_of if each.__module__.split(".")[0] in TABLES and each not in bases]
    assert [each for each in ours if paths_in(dumps(each, may_have_paths=True))] == []


def paths_in(pickled: bytes) -> set[tuple[str, str]]:
    """Of what is not the user's, but for `named`."""
    found, _ = globals_in(pickled)
    return {each for each in found if each[0].split(".")[0] in TABLES} - {(named.__module__, "named")}


def test_what_named_classes_are_declared_to_hold_has_a_name() -> None:
    named_classes = [named(f"{package}/{name}") for package, name, target in ALL if ".hosts.ray." not in target]
    found = set().union(*map(declared_in, named_classes)) - {
        Batch,  # which a function of that name makes
        OperatorFactory,
        Partitioner,
        ChainingStrategy,  # of all factories of a class, as is
        ChangelogRole,
        FileState,  # in metadata, which is JSON; pickled are parts of harnesses, which have no files
        SharedFile,
        BoundExpression,  # what is made are its subclasses
        LogicalType,
    }
    assert [each for each in found if paths_in(dumps(each, may_have_paths=True))] == []


def declared_in(value: Any) -> set[type]:
    """The classes of ours that fields are declared with, but for interfaces."""
    if not isinstance(value, type):
        return set()
    try:
        hints = get_type_hints(value)
    except NameError:  # of what is imported for types only
        return set()
    classes = {each for hint in hints.values() for each in classes_in(hint)}
    ours = {each for each in classes if each.__module__.split(".")[0] in TABLES}
    return {each for each in ours if not (inspect.isabstract(each) or getattr(each, "_is_protocol", False))}


def classes_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and get_origin(hint) is None:
        yield hint
    for argument in get_args(hint):
        yield from classes_in(argument)


# -- writing and reading -----------------------------------------------------------------------------------------------

VALUES = {
    "dataclass": FileCommittable("a", "b"),
    "rows": Row(a=1, b=[Row(2), Window(0, 5)]),
    "enum": {Kind.ROW: NumberRange("1", 2, 3)},
    "public": JobStatus.FINISHED,
    "struct": StoredJob("1", "job", 5, 1, "master", "session"),  # type: ignore[arg-type]
    "classes": [FileCommittable, FileCommittable],
    "own": Own((Row(a=1), datetime.date(2024, 2, 29))),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("write", [dumps, pickling.dumps], ids=["plain", "anything"])
def test_classes_of_ours_are_written_by_name_and_read_back(write: Any, value: Any) -> None:
    written = write(value)
    assert paths_in(written) == set()
    assert loads(written) == value
    assert load(io.BytesIO(written)) == value


def test_names_do_not_look_like_paths() -> None:
    assert not has_paths(dumps([Row(a=FileCommittable("a", "b")), Window]))
    assert has_paths(pickle.dumps(FileCommittable("a", "b")))
    assert has_paths(pickle.dumps(StoredJob))


def test_modules_of_the_users_are_not_taken_for_ours_whatever_their_names() -> None:
    assert has_modules(pickle.dumps(FileCommittable("a", "b")))
    assert not has_modules(dumps([Row(a=FileCommittable("a", "b")), Window]))
    of_a_module_below = pickle.dumps(paths_in)
    assert has_paths(of_a_module_below)
    assert not has_modules(of_a_module_below)


def test_a_row_is_named_by_every_pickler() -> None:
    assert paths_in(pickle.dumps([Row(a=1), Row(2)])) == set()


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_was_written_by_path_can_be_read(value: Any) -> None:
    assert loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    ("path", "now"),
    [
        ("flinkray.connectors.file_commits FileCommittable", FileCommittable),
        ("flinkray.windowing Window", Window),
        ("flinkray.types Kind", Kind),
        ("actors.high_availability.stored_jobs StoredJob", StoredJob),
    ],
)
def test_a_former_path_is_read_as_what_is_there_now(path: str, now: Any) -> None:
    assert loads(by_path(path)) is now
    stream = io.BytesIO(b"before" + by_path(path) + by_path(path))
    stream.seek(6)
    assert [load(stream), load(stream)] == [now, now]


def by_path(path: str) -> bytes:
    module, _, name = path.partition(" ")
    return b"".join((pickle.PROTO, b"\x02", pickle.GLOBAL, f"{module}\n{name}\n".encode(), pickle.STOP))


@pytest.mark.parametrize("is_program", [False, True])
@pytest.mark.parametrize("write", [dumps, pickling.dumps], ids=["plain", "anything"])
def test_a_class_of_ours_without_a_name_is_told_of_but_in_the_users_code(write: Any, is_program: bool) -> None:
    if is_program:
        assert isinstance(loads(write(SplitAssignments(), may_have_paths=True)), SplitAssignments)
        return
    with pytest.warns(UnnamedClassWarning, match=r"SplitAssignments is kept in a checkpoint, and has no name"):
        written = write(SplitAssignments())
    assert has_paths(written)
    assert isinstance(loads(written), SplitAssignments)


def test_what_users_import_is_known_by_that_name() -> None:
    assert globals_in(dumps(Window))[1] == {"flinkray/Window@1"}
    assert named("flinkray/Window@1") is flinkray.Window


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "flinkray/FileCommittable@7",
            r"'flinkray/FileCommittable@7', .*; it knows FileCommittable@1: .* newer version",
        ),
        (
            "flinkray/Fancy@1",
            r"'flinkray/Fancy@1', which this version of flinkray does not know: it was written by a newer",
        ),
        ("actors/Window@1", r"'actors/Window@1'"),
        ("flinkray/Window@2", r"'flinkray/Window@2'"),
        ("os/system@1", r"'os/system@1'"),
    ],
)
def test_an_unknown_name_is_an_error_that_says_it_and_what_to_do(name: str, says: str) -> None:
    written = pickle.dumps(NamedSo(name))
    with pytest.raises(UnknownNameError, match=says):
        loads(written)


class NamedSo:
    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> Any:
        return named, (self._name,)


@pytest.mark.parametrize("path", ["flinkray.windowing Gone", "actors.elements Barrier", "flinkray.types Nothing"])
def test_an_unknown_path_is_an_error_that_says_it_and_what_to_do(path: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"it holds {path.replace(' ', '.')}, .* another version"):
        loads(by_path(path))


def test_a_class_of_the_users_that_is_gone_is_told_of_as_pickle_does() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        loads(by_path("nowhere Gone"))
