"""Every operator with keyed state tells its backends which checkpoint is taken, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import actors.operators
from actors.operators.contract.operator import Operator
from actors.operators.functions import process, reduce
from actors.operators.registry import create_operator
from actors.operators.windows.choice import create_window_operator
from actors.operators.windows.general import operator as window_general
from actors.operators.windows.user_functions import calls as window_calls
from actors.protocol.elements import CheckpointOptions
from actors.state import backends
from actors.state.backends import create_keyed_state
from actors.state.keyed.options import StateOptions
from flinkray.functions.interfaces import (
    CoFlatMapFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ReduceFunction,
)
from flinkray.state.descriptors import ValueStateDescriptor
from flinkray.transformations.operator_factories import (
    CoFlatMapFactory,
    CoMapFactory,
    CoProcessFactory,
    OperatorFactory,
    ProcessFactory,
    ReduceFactory,
    WindowFactory,
)
from flinkray.types.keys import ColumnKey
from flinkray.windows.assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from flinkray.windows.triggers import EventTimeTrigger, PurgingTrigger
from tests.support.operators import OperatorHarness, code
from tests.support.state import RecordingStateWriter, write_snapshot

KEY = ColumnKey(("key",))
WINDOW = TumblingEventTimeWindows.of(10)
INCREMENTAL = CheckpointOptions(directory="memory:///chk", shared_directory="memory:///shared")
MODULES = (process, reduce, window_calls, window_general)
VALUE = ValueStateDescriptor("seen")


class Remember(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(VALUE)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.update(value.key)


class RememberBoth(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(VALUE)

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.seen.update(value.key)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.seen.update(value.key)


class ReduceAll(ReduceFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(VALUE)

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.seen.update(value2.key)
        return value2


class MapBoth(CoMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(VALUE)

    def map1(self, value: Any) -> Any:
        self.seen.update(value.key)

    def map2(self, value: Any) -> Any:
        self.seen.update(value.key)


class FlatMapBoth(CoFlatMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(VALUE)

    def flat_map1(self, value: Any) -> Any:
        self.seen.update(value.key)

    def flat_map2(self, value: Any) -> Any:
        self.seen.update(value.key)


def remember_in_windows(key: Any, context: Any, _elements: Any) -> list[Any]:
    for store in (context.global_state(), context.window_state()):
        store.get_state(VALUE).update(key)
    return []


def remember_in_sessions(key: Any, context: Any, _elements: Any) -> list[Any]:
    context.global_state().get_state(VALUE).update(key)
    return []


def chained(factory: OperatorFactory, *keys: ColumnKey) -> Callable[[], Operator]:
    return lambda: create_operator([code(factory, *keys)], ["op"])


OPERATORS: dict[str, Callable[[], Operator]] = {
    "process": chained(ProcessFactory(Remember()), KEY),
    "reduce": chained(ReduceFactory(ReduceAll()), KEY),
    "co-process": chained(CoProcessFactory(RememberBoth()), KEY, KEY),
    "co-map": chained(CoMapFactory(MapBoth()), KEY, KEY),
    "co-flat-map": chained(CoFlatMapFactory(FlatMapBoth()), KEY, KEY),
    "windows": lambda: create_window_operator(code(WindowFactory(WINDOW, process=remember_in_windows))),
    "sessions": lambda: create_window_operator(
        code(WindowFactory(EventTimeSessionWindows.with_gap(5), process=remember_in_sessions))
    ),
    "windows of any kind": lambda: create_window_operator(
        code(WindowFactory(WINDOW, process=remember_in_windows, trigger=PurgingTrigger.of(EventTimeTrigger.create())))
    ),
}


def harness_of(name: str, directory: Path) -> OperatorHarness:
    operator = OPERATORS[name]()
    options = StateOptions("rocksdb", local_directory=str(directory))
    return OperatorHarness(operator, keys=[KEY] * operator.number_of_inputs, state_options=options)


def test_all_modules_whose_operators_have_keyed_state_are_tested_here() -> None:
    sources = Path(actors.operators.__path__[0]).rglob("*.py")
    assert {source for source in sources if "create_keyed_state" in source.read_text()} == {
        Path(module.__file__) for module in MODULES
    }


@pytest.mark.parametrize("name", OPERATORS)
def test_the_next_checkpoint_uploads_no_file_of_one_that_is_complete(name: str, tmp_path: Path) -> None:
    with harness_of(name, tmp_path) as harness:
        harness.push({"key": [1, 2, 3, 1, 2, 3]}, [1, 2, 3, 4, 5, 6])
        harness.watermark(9)
        first, second = RecordingStateWriter(), RecordingStateWriter()
        write_snapshot(harness.snapshot(1, INCREMENTAL), first)
        harness.operator.notify_checkpoint_complete(1)
        write_snapshot(harness.snapshot(2, INCREMENTAL), second)
    assert first.uploaded
    assert not set(first.uploaded) & set(second.uploaded)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_backend_of_an_operator_hears_of_each_checkpoint(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[list[tuple[str, int | None]]] = []

    def recorded(context: Any, prefix: str = "") -> Any:
        backend = create_keyed_state(context, prefix)
        calls: list[tuple[str, int | None]] = []
        heard.append(calls)
        for notice in ("notify_checkpoint_complete", "notify_checkpoint_aborted"):
            monkeypatch.setattr(backend, notice, lambda number, notice=notice: calls.append((notice, number)))

        def snapshot(_options: CheckpointOptions, number: int | None = None) -> list[Any]:
            calls.append(("snapshot", number))
            return []

        monkeypatch.setattr(backend, "snapshot", snapshot)
        return backend

    for module in (backends, *MODULES):  # those that import it late have it of `backends`
        if hasattr(module, "create_keyed_state"):
            monkeypatch.setattr(module, "create_keyed_state", recorded)
    with harness_of(name, tmp_path) as harness:
        harness.snapshot(7, INCREMENTAL)
        harness.operator.notify_checkpoint_aborted(7)
        harness.snapshot(8, INCREMENTAL)
        harness.operator.notify_checkpoint_complete(8)
    assert len(heard) == {"windows": 2, "windows of any kind": 3}.get(name, 1)
    for calls in heard:
        assert calls == [
            ("snapshot", 7),
            ("notify_checkpoint_aborted", 7),
            ("snapshot", 8),
            ("notify_checkpoint_complete", 8),
        ]
