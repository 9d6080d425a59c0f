"""Random programs, and what they must give: the same steps run twice, on flinkray and as plain loops over lists."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkray import (
    Configuration,
    Count,
    DataStream,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)


@dataclass
class Branch:
    """A stream under construction, with the rows that it must carry and the subtasks that make them."""

    stream: DataStream
    rows: list[int]
    parallelism: int


@dataclass
class RandomProgram:
    """Built from a seed. `expected` holds, per result name, the rows that the job must give, in any order."""

    seed: int
    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    parallelism: int = 0
    results: dict[str, DataStream] = field(default_factory=dict)
    expected: dict[str, Counter[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.parallelism = self._random.randint(1, 4) if self.target == "local" else 2
        self.batch_rows = self._random.choice([1, 2, 7, 64, 1000])
        self.environment = StreamExecutionEnvironment.get_execution_environment(
            Configuration(
                {
                    "execution.target": self.target,
                    "parallelism.default": self.parallelism,
                    "flinkray.batch.target-rows": self.batch_rows,
                    "execution.buffer-timeout.interval": self._random.choice([0, 5, 100]),
                    "pipeline.operator-chaining.enabled": self._random.random() < 0.8,
                    **self.options,
                }
            )
        )
        branches = [self._source() for _ in range(self._random.randint(1, 3))]
        for _ in range(self._random.randint(1, 7)):
            branches = self._grow(branches)
        merged = self._union(branches)
        self._finish(merged)

    def describe(self) -> str:
        return f"seed {self.seed}, parallelism {self.parallelism}, batches of {self.batch_rows} rows"

    # -- steps ---------------------------------------------------------------------------------------------------

    def _source(self) -> Branch:
        rows = self._random.randint(0, 800)
        if self._random.random() < 0.5:
            values = [self._random.randint(0, 10_000) for _ in range(rows)]
            return Branch(self.environment.from_collection(values, type_info=int), values, 1)
        start = self._random.randint(0, 1000)
        stream = self.environment.from_sequence(start, start + rows)
        return Branch(stream, list(range(start, start + rows + 1)), self.parallelism)

    def _grow(self, branches: list[Branch]) -> list[Branch]:
        index = self._random.randrange(len(branches))
        branch = branches[index]
        choice = self._random.choice(["map", "filter", "flat_map", "partition", "split", "union", "parallelism"])
        if choice == "union":
            return [self._union(branches)]
        if choice == "split" and len(branches) < 4:
            return [*branches, Branch(branch.stream, branch.rows, branch.parallelism)]
        step: Callable[[Branch], Branch] = getattr(self, f"_{choice}", self._map)
        return [*branches[:index], step(branch), *branches[index + 1 :]]

    def _map(self, branch: Branch) -> Branch:
        factor, offset = self._random.randint(1, 3), self._random.randint(0, 9)
        return Branch(
            branch.stream.map(lambda x: (x * factor + offset) % 100_003),
            [(x * factor + offset) % 100_003 for x in branch.rows],
            self.parallelism,
        )

    def _parallelism(self, branch: Branch) -> Branch:
        chosen = self._random.randint(1, self.parallelism)
        stream = branch.stream.map(lambda x: x + 1).set_parallelism(chosen)
        return Branch(stream, [x + 1 for x in branch.rows], chosen)

    def _filter(self, branch: Branch) -> Branch:
        modulus = self._random.randint(2, 5)
        return Branch(
            branch.stream.filter(lambda x: x % modulus != 0),
            [x for x in branch.rows if x % modulus != 0],
            self.parallelism,
        )

    def _flat_map(self, branch: Branch) -> Branch:
        copies = self._random.randint(0, 3)
        return Branch(
            branch.stream.flat_map(lambda x: [x + n for n in range(x % (copies + 1))]),
            [x + n for x in branch.rows for n in range(x % (copies + 1))],
            self.parallelism,
        )

    def _partition(self, branch: Branch) -> Branch:
        name = self._random.choice(["rebalance", "rescale", "shuffle", "global_", "key_by", "broadcast", "custom"])
        copies = 1
        if name == "key_by":
            partitioned: DataStream = branch.stream.key_by(lambda x: x % 11)
        elif name == "custom":
            partitioned = branch.stream.partition_custom(lambda key, channels: key % channels, lambda x: x)
        else:
            partitioned = getattr(branch.stream, name)()
            # Every consumer subtask gets a copy; rows must not explode over several broadcasts.
            copies = self.parallelism if name == "broadcast" else 1
            if len(branch.rows) * copies > 20_000:
                return branch
        return Branch(
            partitioned.map(lambda x: x + 5),
            [x + 5 for x in branch.rows for _ in range(copies)],
            self.parallelism,
        )

    def _union(self, branches: list[Branch]) -> Branch:
        if len(branches) == 1:
            return branches[0]
        first, *others = branches
        return Branch(
            first.stream.union(*(branch.stream for branch in others)),
            [row for branch in branches for row in branch.rows],
            self.parallelism,
        )

    # -- results -------------------------------------------------------------------------------------------------

    def _finish(self, branch: Branch) -> None:
        keys = self._random.randint(1, 20)
        ending = self._random.choice(["rows", "reduce", "window"])
        if ending == "rows":
            self._result("rows", branch.stream.map(lambda x: x), Counter(branch.rows))
        elif ending == "reduce":
            # The order between subtasks is free, but the number and the sum of all results of a key are not:
            # the largest running count of a key is the number of its rows.
            counts = branch.stream.map(lambda x: (x % keys, 1)).key_by(lambda pair: pair[0])
            running = counts.reduce(lambda left, right: (left[0], left[1] + right[1]))
            per_key = Counter(x % keys for x in branch.rows)
            expected = Counter((key, n) for key, total in per_key.items() for n in range(1, total + 1))
            self._result("reduce", running, expected)
        else:
            self._window(branch, keys)

    def _window(self, branch: Branch, keys: int) -> None:
        size = self._random.choice([10, 100, 1000])
        stamped = branch.stream.map(
            lambda x: {"key": x % keys, "value": x, "time": (x * 7919) % 5000}
        ).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(6000).with_timestamp_assigner("time")
        )
        totals = (
            stamped.key_by("key").window(TumblingEventTimeWindows.of(size)).aggregate(n=Count(), total=Sum("value"))
        )
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for x in branch.rows:
            groups[x % keys, (x * 7919) % 5000 // size * size].append(x)
        expected = Counter(
            (key, start, start + size, len(values), sum(values)) for (key, start), values in groups.items()
        )
        self._result("window", totals, expected)

    def _result(self, name: str, stream: DataStream, rows: Counter[Any]) -> None:
        self.results[name] = stream
        self.expected[name] = rows


def final_results(name: str, expected: Counter[Any]) -> Counter[Any]:
    """What batch mode gives of `RandomProgram.expected`: of a reduce only each key's last result, its largest count."""
    if name != "reduce":
        return expected
    last: dict[Any, int] = {}
    for key, count in expected:
        last[key] = max(count, last.get(key, 0))
    return Counter(last.items())


def collected(stream: DataStream) -> Counter[Any]:
    """Runs the job; its rows as plain values."""
    with stream.execute_and_collect() as rows:
        return Counter(tuple(row) if hasattr(row, "as_dict") else row for row in rows)


def small_frames(seed: int) -> dict[str, object]:
    """Options with which, by the seed, batches travel in the object store or inside messages, alone or together."""
    return {
        "flinkray.network.inline-bytes": seed % 2 * 65_536,
        "flinkray.network.frame-bytes": (0, 256, 4 << 20)[seed % 3],
    }
