"""Keyed state against a model: backends for tests, random operations, and what a state holds."""

from __future__ import annotations

import copy
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.protocol.elements import CheckpointOptions
from actors.state.backends import create_keyed_state
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.keyed.options import StateOptions
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray.functions.interfaces import AggregateFunction
from flinkray.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from graphs.key_groups import key_group_range
from tests.support.operators import FakeContext, ManualClock

MAX_PARALLELISM = 16
BACKENDS = ("hashmap", "rocksdb")
CHECKPOINT = CheckpointOptions(directory="memory:///chk", shared_directory="memory:///shared")
SAVEPOINT = CheckpointOptions(is_savepoint=True, directory="memory:///savepoint")


def group_of(key: Any) -> int:
    """Some key group, the same for the same key in every process."""
    return zlib.crc32(repr(key).encode()) % MAX_PARALLELISM


def owner_of(key: Any, parallelism: int) -> int:
    return next(i for i in range(parallelism) if group_of(key) in key_group_range(i, parallelism, MAX_PARALLELISM))


class Mean(AggregateFunction):
    """Changes its accumulator in place, as many functions do."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, int]:
        return accumulator[0], accumulator[1]


class BackendFactory:
    """Makes backends, and closes them at the end of a test."""

    def __init__(self, directory: Path, clock: ManualClock) -> None:
        self.directory = directory
        self.clock = clock
        self.made: list[KeyedStateBackend] = []

    def make(
        self,
        name: str,
        subtask_index: int = 0,
        parallelism: int = 1,
        prefix: str = "",
        is_incremental: bool = True,
        memory_bytes: int = 4 << 20,
    ) -> KeyedStateBackend:
        context = FakeContext(
            operator_name="dedupe",
            subtask_index=subtask_index,
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            clock=self.clock,
            state_options=StateOptions(name, is_incremental, str(self.directory), memory_bytes),
        )
        backend = create_keyed_state(context, prefix)
        self.made.append(backend)
        return backend

    def close(self) -> None:
        for backend in self.made:
            backend.close()


def snapshot_of(
    backend: KeyedStateBackend, options: CheckpointOptions = CHECKPOINT, checkpoint_id: int | None = None
) -> OperatorSnapshot:
    return OperatorSnapshot(backend.snapshot(options, checkpoint_id))


class AllKinds:
    """A state of each kind in a backend."""

    def __init__(self, backend: KeyedStateBackend, typed: bool = False) -> None:
        self.backend = backend
        int_type = int if typed else None
        self.value = backend.get_state(ValueStateDescriptor("value"))
        self.list = backend.get_list_state(ListStateDescriptor("list", int_type))
        self.map = backend.get_map_state(MapStateDescriptor("map"))
        self.reducing = backend.get_reducing_state(
            ReducingStateDescriptor("reducing", int_type, function=lambda a, b: a + b)
        )
        self.aggregating = backend.get_aggregating_state(AggregatingStateDescriptor("aggregating", function=Mean()))

    def read(self, key: Any) -> dict[str, Any]:
        """Everything of one key."""
        self.backend.set_current_key(key, group_of(key))
        return {
            "value": copy.deepcopy(self.value.value()),
            "list": copy.deepcopy(list(self.list.get())),
            "map": copy.deepcopy(dict(self.map.items())),
            "reducing": self.reducing.get(),
            "aggregating": self.aggregating.get(),
        }


def empty() -> dict[str, Any]:
    return {"value": None, "list": [], "map": {}, "reducing": None, "aggregating": None}


class RandomOperations:
    """Does the same to states and to a model: a dict of what `AllKinds.read` gives per key."""

    def __init__(self, random: random.Random, keys: list[Any]) -> None:
        self.random = random
        self.keys = keys
        self.model: dict[Any, dict[str, Any]] = {key: empty() for key in keys}

    def step(self, states_of: Callable[[Any], AllKinds]) -> None:
        rng = self.random
        key = rng.choice(self.keys)
        states, model = states_of(key), self.model[key]
        states.backend.set_current_key(key, group_of(key))
        number = rng.randrange(100)
        match rng.randrange(16):
            case 0:
                states.value.update([number])
                model["value"] = [number]
            case 1 | 2:  # changes the value in place
                value = states.value.value()
                if value is not None:
                    value.append(number)
                    states.value.update(value)
                    model["value"].append(number)
            case 3:
                states.value.clear()
                model["value"] = None
            case 4 | 5:
                states.list.add(number)
                model["list"].append(number)
            case 6:
                added = [number] * rng.randrange(4)
                states.list.update(added)
                model["list"] = added
            case 7:
                states.list.clear()
                model["list"] = []
            case 8 | 9:
                entry = rng.choice(["a", "b", 1, (1, "x"), None])
                states.map.put(entry, [number])
                model["map"][entry] = [number]
            case 10:  # changes a value of the map in place
                for entry, value in list(states.map.items()):
                    value.append(number)
                    states.map.put(entry, value)
                    model["map"][entry].append(number)
            case 11:
                states.map.remove("a")
                model["map"].pop("a", None)
            case 12:
                states.map.clear()
                model["map"] = {}
            case 13:
                states.reducing.add(number)
                model["reducing"] = number + (model["reducing"] or 0)
            case 14:
                states.aggregating.add(number)
                total, count = model["aggregating"] or (0, 0)
                model["aggregating"] = total + number, count + 1
            case 15:
                states.aggregating.clear()
                model["aggregating"] = None

    def check(self, states_of: Callable[[Any], AllKinds], expected: dict[Any, dict[str, Any]] | None = None) -> None:
        for key, model in (self.model if expected is None else expected).items():
            assert states_of(key).read(key) == model, f"key {key!r}"
