"""Random jobs with operators of every kind, and what they must commit, computed by plain loops over the same rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flinkray import (
    AsyncDataStream,
    CollectList,
    ContinuousEventTimeTrigger,
    Count,
    CountDistinct,
    CountEvictor,
    CountTrigger,
    DataGenSource,
    DataStream,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    Max,
    Min,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Sum,
    TimeEvictor,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    col,
)
from flinkray.cep import CEP, Pattern
from flinkray.transformations.transformation import PhysicalTransformation
from tests.support.exactly_once import DISORDER_MS, STEP_MS, ExactlyOnceJob, _starts
from tests.support.operator_functions import (
    AFTER_ALL_MS,
    BUCKET_MS,
    LATE,
    ODD,
    RULES,
    Buckets,
    CountedRules,
    EachRule,
    Firings,
    Latest,
    Looked,
    Numbered,
    Pairs,
    Totals,
    add_up,
    contents,
    copies,
    difference,
    each_value,
    reduced,
    split_parities,
    summary,
    tripled,
    tripled_by_blocking,
)

OPERATOR_KINDS = (
    "session_columnar",
    "session_dynamic",
    "session_reduce",
    "session_process",
    "sliding_columnar",
    "sliding_general",
    "counting_trigger",
    "purging_trigger",
    "converging",
    "window_state",
    "late_rows",
    "late_columnar",
    "count_window",
    "sliding_count_window",
    "evictor",
    "global_evictor",
    "delta_trigger",
    "running",
    "all_windows",
    "interval_join",
    "interval_function",
    "pattern",
    "session_join",
    "session_co_group",
    "connected",
    "keyed_broadcast",
    "broadcast",
    "buckets",
    "async_function",
    "async_in_order",
    "side_outputs",
)
SCALABLE_KINDS = tuple(kind for kind in OPERATOR_KINDS if kind != "broadcast")
"""Those whose result does not depend on the parallelism."""

Row = tuple[int, int, int]
"""key, value, time"""

# Rows until event time leaps, and by how much, so that sessions end.
LEAP_ROWS = 40
LEAP_MS = 400


@dataclass
class OperatorJob(ExactlyOnceJob):
    """Of one of OPERATOR_KINDS."""

    skew_ms: int = 0
    """That every other row is ahead of the others in event time: of two subtasks that share a source, all of one's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # Another parallelism chains other operators, whose ids would be other ones then.
        for number, transformation in enumerate(self.environment._transformations):
            if isinstance(transformation, PhysicalTransformation):
                transformation.uid = f"operator {number}"

    def _options(self) -> dict[str, Any]:
        chance = self._random
        backend = {
            "state.backend.type": chance.choice(["hashmap", "rocksdb"]),
            "execution.checkpointing.incremental": chance.random() < 0.5,
        }
        return {**super()._options(), **backend, **self.options}

    # -- sources

    def _events(
        self, salt: int = 0, most_rows: int = 400, bound_ms: int = DISORDER_MS, is_ordered: bool = False
    ) -> tuple[DataStream, list[Row]]:
        """Rows (key, value, time), and the same as plain values.

        Args:
            bound_ms: of the watermark; rows are late where it is below DISORDER_MS.
            is_ordered: the rows of each key arrive in this order; else they arrive in any.
        """
        count = min(self.rows, most_rows)
        keys, skew_ms = self.keys, 0 if is_ordered else self.skew_ms
        fields = {
            "key": lambda n: (n * 7 + salt) % keys,
            "value": lambda n: n + salt,
            "time": lambda n: (
                n * STEP_MS + n // LEAP_ROWS * LEAP_MS + n % 2 * skew_ms + (n * 7919 + salt) % DISORDER_MS
            ),
        }
        source = DataGenSource(fields, rows=count, rows_per_second=count / self._random.choice([0.4, 1.5]))
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(bound_ms).with_timestamp_assigner("time")
        stream = self.environment.from_source(source, strategy, f"source {salt}").uid(f"source {salt}")
        numbers = np.arange(count, dtype=np.int64)
        rows = list(zip(*(fields[name](numbers).tolist() for name in fields), strict=True))
        if is_ordered:
            return stream.set_parallelism(1), rows
        return self._shuffled(stream), rows

    # -- sessions

    def _session_columnar(self) -> DataStream:
        stream, rows = self._events()
        gap = self._gap()
        self.expected = Counter(
            (key, start, end, len(group), sum(_values(group)), min(_values(group)), max(_values(group)))
            for key, start, end, group in _sessions(rows, lambda _: gap)
        )
        windows = stream.key_by("key").window(EventTimeSessionWindows.with_gap(gap))
        return windows.aggregate(n=Count(), total=Sum("value"), low=Min("value"), high=Max("value"))

    def _session_dynamic(self) -> DataStream:
        stream, rows = self._events()
        self._expect_summaries(_sessions(rows, lambda row: 30 + row[1] % 7 * 25))
        assigner = EventTimeSessionWindows.with_dynamic_gap(lambda row: 30 + row.value % 7 * 25)
        windows = stream.key_by("key").window(assigner)
        if self._random.random() < 0.5:
            return windows.aggregate(n=Count(), total=Sum("value"))
        return windows.process(summary)

    def _session_reduce(self) -> DataStream:
        stream, rows = self._events()
        gap = self._gap()
        self._expect_summaries(_sessions(rows, lambda _: gap))
        counted = stream.map(lambda row: {"key": row.key, "n": 1, "total": row.value})
        return counted.key_by("key").window(EventTimeSessionWindows.with_gap(gap)).reduce(add_up, reduced)

    def _session_process(self) -> DataStream:
        stream, rows = self._events()
        gap = self._gap()
        self._expect_summaries(_sessions(rows, lambda _: gap))
        return stream.key_by("key").window(EventTimeSessionWindows.with_gap(gap)).process(summary)

    def _gap(self) -> int:
        return self._random.choice([15, 75, 250])

    # -- aligned windows

    def _sliding_columnar(self) -> DataStream:
        stream, rows = self._events()
        size, slide = self._random.choice([(100, 50), (600, 200), (100, 30)])
        self.expected = Counter(
            (key, start, end, max(_values(group)), len({value % 3 for value in _values(group)}))
            for key, start, end, group in _aligned(rows, size, slide)
        )
        thirds = stream.map(lambda row: {"key": row.key, "value": row.value, "third": row.value % 3})
        windows = thirds.key_by("key").window(SlidingEventTimeWindows.of(size, slide))
        return windows.aggregate(high=Max("value"), thirds=CountDistinct("third"))

    def _sliding_general(self) -> DataStream:
        stream, rows = self._events()
        size, slide = self._random.choice([(100, 50), (600, 200), (100, 30)])
        groups = _aligned(rows, size, slide)
        windows = stream.key_by("key").window(SlidingEventTimeWindows.of(size, slide))
        if self._random.random() < 0.5:
            self._expect_summaries(groups)
            return windows.process(summary)
        self.expected = Counter((len(group), sum(_values(group))) for _, _, _, group in groups)
        return windows.aggregate(Totals())

    def _all_windows(self) -> DataStream:
        stream, rows = self._events()
        gap = self._random.choice([5, 60, 300])
        everything = _sessions([(0, value, time) for _, value, time in rows], lambda _: gap)
        self.expected = Counter((start, end, len(group), sum(_values(group))) for _, start, end, group in everything)
        windows = stream.window_all(EventTimeSessionWindows.with_gap(gap))
        return windows.aggregate(n=Count(), total=Sum("value"))

    # -- triggers, evictors, rows that are late

    def _counting_trigger(self) -> DataStream:
        """Every so-manieth row of a window gives how many it has by then."""
        stream, rows = self._events()
        size, every = self._random.choice([100, 500]), self._random.choice([1, 2, 5])
        is_purging = self._random.random() < 0.5
        for key, start, end, group in _aligned(rows, size, size):
            counts = range(every, len(group) + 1, every)
            self.expected.update((key, start, end, every if is_purging else count) for count in counts)
        trigger = CountTrigger.of(every)
        windows = stream.key_by("key").window(TumblingEventTimeWindows.of(size))
        return windows.trigger(PurgingTrigger.of(trigger) if is_purging else trigger).aggregate(n=Count())

    def _purging_trigger(self) -> DataStream:
        """Firings come as they like, and give each row once."""
        stream, rows = self._events()
        self.expected = Counter((key, value) for key, value, _ in rows)
        nested = self._random.choice([CountTrigger.of(1), ContinuousEventTimeTrigger.of(70), EventTimeTrigger.create()])
        windows = stream.key_by("key").window(self._some_windows()).trigger(PurgingTrigger.of(nested))
        return windows.process(each_value)

    def _converging(self) -> DataStream:
        """Results come early, in time and late; the last ones have all rows."""
        stream, rows = self._events(bound_ms=self._random.choice([0, 20, DISORDER_MS]))
        gap = self._gap()
        size, slide = self._random.choice([(300, 300), (200, 100)])
        merges = self._random.random() < 0.5
        self._expect_summaries(_sessions(rows, lambda _: gap) if merges else _aligned(rows, size, slide))
        assigner = EventTimeSessionWindows.with_gap(gap) if merges else SlidingEventTimeWindows.of(size, slide)
        windows = stream.key_by("key").window(assigner).allowed_lateness(AFTER_ALL_MS // 2)
        trigger = self._random.choice([None, None, ContinuousEventTimeTrigger.of(70), CountTrigger.of(1)])
        if trigger is not None:
            windows = windows.trigger(trigger)
        if self._random.random() < 0.5:
            results = windows.aggregate(n=Count(), total=Sum("value")).map(tuple)
        else:
            results = windows.process(summary)
        return results.key_by(lambda row: row[0]).process(Latest(merges))

    def _window_state(self) -> DataStream:
        stream, rows = self._events()
        for key, group in _grouped(rows).items():
            in_order = sorted(_aligned(group, 300, 300), key=lambda window: window[1])
            for number, (_, start, _, rows_of_it) in enumerate(in_order):
                self.expected[key, start, 0, number, len(rows_of_it)] += 1
        windows = stream.key_by("key").window(TumblingEventTimeWindows.of(300))
        return windows.allowed_lateness(self._random.choice([0, 1_000])).process(Firings())

    def _delta_trigger(self) -> DataStream:
        """A key's values rise: a firing has all up to the first that is too far from the one that fired last."""
        stream, rows = self._events(is_ordered=True)
        for key, values in _by_key(rows).items():
            last, start = values[0], 0
            for number, value in enumerate(values):
                if value - last > 30:
                    self.expected[key, _text(values[start : number + 1])] += 1
                    last, start = value, number + 1
        trigger = PurgingTrigger.of(DeltaTrigger.of(30, lambda old, new: float(new.value - old.value)))
        return stream.key_by("key").window(GlobalWindows.create()).trigger(trigger).process(contents)

    def _running(self) -> DataStream:
        stream, rows = self._events(is_ordered=True)
        for key, values in _by_key(rows).items():
            self.expected.update(
                (key, number, sum(values[:number]), max(values[:number])) for number in range(1, len(values) + 1)
            )
        return stream.key_by("key").aggregate(n=Count(), total=Sum("value"), high=Max("value"))

    def _late_rows(self) -> DataStream:
        """Each row is in a window's only firing, or is late."""
        stream, rows = self._events(bound_ms=self._random.choice([0, 20]))
        self.expected = Counter((key, value) for key, value, _ in rows)
        windows = stream.key_by("key").window(self._some_windows()).side_output_late_data(LATE)
        if self._random.random() < 0.5:
            windows = windows.allowed_lateness(30).trigger(PurgingTrigger.of(EventTimeTrigger.create()))
        result = windows.process(each_value)
        return result.union(result.get_side_output(LATE).map(lambda row: (row.key, row.value)))

    def _late_columnar(self) -> DataStream:
        stream, rows = self._events(bound_ms=self._random.choice([0, 20]))
        self.expected = Counter((key, value) for key, value, _ in rows)
        windows = stream.key_by("key").window(self._some_windows()).side_output_late_data(LATE)
        result = windows.aggregate(values=CollectList("value"))
        late = result.get_side_output(LATE).map(lambda row: (row.key, row.value))
        return result.flat_map(lambda row: [(row.key, value) for value in row.values]).union(late)

    def _some_windows(self) -> Any:
        if self._random.random() < 0.5:
            return TumblingEventTimeWindows.of(self._random.choice([50, 300]))
        return EventTimeSessionWindows.with_gap(self._gap())

    def _count_window(self) -> DataStream:
        size = self._random.choice([1, 3, 10])
        return self._counted(size, size)

    def _sliding_count_window(self) -> DataStream:
        return self._counted(*self._random.choice([(4, 2), (5, 3), (2, 3)]))

    def _counted(self, size: int, slide: int) -> DataStream:
        stream, rows = self._events(is_ordered=True)
        is_columnar = self._random.random() < 0.5
        for key, values in _by_key(rows).items():
            for start in range(0, len(values) - size + 1, slide):
                group = values[start : start + size]
                self.expected[(key, None, None, size, sum(group)) if is_columnar else (key, _text(group))] += 1
        windows = stream.key_by("key").count_window(size, None if slide == size else slide)
        return windows.aggregate(n=Count(), total=Sum("value")) if is_columnar else windows.process(contents)

    def _evictor(self) -> DataStream:
        stream, rows = self._events(is_ordered=True)
        evictors: list[tuple[Any, Callable[[list[Row]], Iterable[Row]]]] = [
            (CountEvictor.of(3), lambda group: group[-3:]),
            (TimeEvictor.of(40), lambda group: [row for row in group if row[2] > max(each[2] for each in group) - 40]),
            (DeltaEvictor.of(9, difference), lambda group: [row for row in group if abs(row[1] - group[-1][1]) < 9]),
            (CountEvictor.of(1, True), lambda group: group),
        ]
        evictor, kept = self._random.choice(evictors)
        self.expected = Counter((key, _text(_values(kept(group)))) for key, _, _, group in _aligned(rows, 300, 300))
        return stream.key_by("key").window(TumblingEventTimeWindows.of(300)).evictor(evictor).process(contents)

    def _global_evictor(self) -> DataStream:
        """Every so-manieth row of a key gives the last ones."""
        stream, rows = self._events(is_ordered=True)
        every, last = self._random.choice([(2, 5), (5, 2), (3, 3)])
        is_columnar = self._random.random() < 0.5
        for key, values in _by_key(rows).items():
            for end in range(every, len(values) + 1, every):
                group = values[max(0, end - last) : end]
                whole = (key, None, None, len(group), sum(group))
                self.expected[whole if is_columnar else (key, _text(group))] += 1
        windows = stream.key_by("key").window(GlobalWindows.create()).trigger(CountTrigger.of(every))
        windows = windows.evictor(CountEvictor.of(last))
        return windows.aggregate(n=Count(), total=Sum("value")) if is_columnar else windows.process(contents)

    # -- two streams

    def _interval_join(self) -> DataStream:
        pairs, joined = self._interval()
        self.expected = Counter((*one, *other[1:]) for one, other in pairs)
        return joined.join()

    def _interval_function(self) -> DataStream:
        pairs, joined = self._interval()
        self.expected = Counter((one[1], other[1], max(one[2], other[2])) for one, other in pairs)
        return joined.process(lambda one, other, ctx: [(one.value, other.value, ctx.get_timestamp())])

    def _interval(self) -> tuple[list[tuple[Row, Row]], Any]:
        lower, upper = self._random.choice([(-150, 200), (0, 400), (-300, -20), (30, 30)])
        one, left = self._events(most_rows=200)
        other, right = self._events(3, most_rows=150)
        pairs = [(a, b) for a in left for b in right if a[0] == b[0] and lower <= b[2] - a[2] <= upper]
        return pairs, one.key_by("key").interval_join(other.key_by("key")).between(lower, upper)

    def _pattern(self) -> DataStream:
        stream, rows = self._events(is_ordered=True)
        pattern = Pattern.begin("a").where(col("value") % 4 == 1).followed_by("b").where(lambda row: row.value % 3 == 0)
        for group in _grouped(rows).values():
            ordered = sorted(group, key=lambda row: row[2])
            for place, (key, value, time) in enumerate(ordered):
                ends = (each for each in ordered[place + 1 :] if each[1] % 3 == 0)
                _, last, end = next(ends, (0, 0, time + 300))
                if value % 4 == 1 and end < time + 300:
                    self.expected[key, value, last, end] += 1
        matches = CEP.pattern(stream.key_by("key"), pattern.within(300))
        return matches.process(
            lambda match, ctx: [(match["a"][0].key, match["a"][0].value, match["b"][0].value, ctx.timestamp())]
        )

    def _session_join(self) -> DataStream:
        windows, groups = self._sessions_of_two(self._two_streams("join"))
        pairs = [(one, other) for left, right in groups for one in left for other in right]
        if self._random.random() < 0.5:
            self.expected = Counter((*one, *other[1:]) for one, other in pairs)
            return windows.apply()
        self.expected = Counter((one[1], other[1]) for one, other in pairs)
        return windows.apply(lambda one, other: (one.value, other.value))

    def _session_co_group(self) -> DataStream:
        windows, groups = self._sessions_of_two(self._two_streams("co_group"))
        self.expected = Counter(
            (len(left), len(right), sum(_values(left)), sum(_values(right))) for left, right in groups
        )
        return windows.apply(_co_grouped)

    def _two_streams(self, operation: str) -> tuple[Any, list[Row], list[Row]]:
        one, left = self._events(most_rows=150)
        other, right = self._events(3, most_rows=100)
        return getattr(one, operation)(other).where("key").equal_to("key"), left, right

    def _sessions_of_two(self, streams: tuple[Any, list[Row], list[Row]]) -> tuple[Any, list[tuple[Any, Any]]]:
        pair, left, right = streams
        gap = self._random.choice([5, 25, 75])
        sides = {(row, 0) for row in left} | {(row, 1) for row in right}
        sessions = _sessions([(key, (value, side), time) for (key, value, time), side in sides], lambda _: gap)
        groups = [
            tuple([(key, value, time) for key, (value, of), time in group if of == side] for side in (0, 1))
            for _, _, _, group in sessions
        ]
        return pair.window(EventTimeSessionWindows.with_gap(gap)), groups  # type: ignore[return-value]

    def _connected(self) -> DataStream:
        one, left = self._events(most_rows=100)
        other, right = self._events(3, most_rows=60)
        self.expected = Counter((a[1], b[1]) for a in left for b in right if a[0] == b[0])
        return one.connect(other).key_by("key", "key").process(Pairs())

    def _keyed_broadcast(self) -> DataStream:
        stream, rows = self._events(most_rows=150)
        rules, rule_rows = self._events(3, most_rows=15)
        self.expected = Counter((row[1], rule[1]) for row in rows for rule in rule_rows)
        return stream.key_by("key").connect(rules.broadcast(RULES)).process(EachRule())

    def _broadcast(self) -> DataStream:
        stream, rows = self._events()
        rules, rule_rows = self._events(3, most_rows=25, is_ordered=True)
        self.expected = Counter((-1, value) for _, value, _ in rows)
        for number, (_, value, _) in enumerate(rule_rows):
            self.expected[number, value] += self.parallelism
        return stream.connect(rules.broadcast(RULES)).process(CountedRules())

    # -- functions

    def _buckets(self) -> DataStream:
        stream, rows = self._events()
        for key, group in _grouped(rows).items():
            seen: list[int] = []
            buckets: dict[int, list[int]] = defaultdict(list)
            for _, value, time in group:
                buckets[time // BUCKET_MS * BUCKET_MS + BUCKET_MS - 1].append(value)
            for fired, (end, values) in enumerate(sorted(buckets.items()), 1):
                seen += values
                row = (key, end, sum(values), fired, len(seen), sum(seen), max(seen), _text(sorted(values)))
                self.expected[row] += 1
        return stream.key_by("key").process(Buckets())

    def _async_function(self) -> DataStream:
        stream, rows = self._events(most_rows=200)
        self.expected = Counter((key, value) for key, value, _ in rows for _ in range(copies(value)))
        wait = self._random.choice([AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
        return wait(stream, Looked(), 50_000, self._random.choice([1, 4, 100]))

    def _async_in_order(self) -> DataStream:
        stream, rows = self._events(most_rows=200, is_ordered=True)
        for key, values in _by_key(rows).items():
            self.expected.update((key, number, value * 3) for number, value in enumerate(values))
        function = self._random.choice([tripled, tripled_by_blocking])
        looked_up = stream.async_map(function, self._random.choice([1, 4, 100])).set_parallelism(1)
        return looked_up.key_by(lambda row: row[0]).process(Numbered())

    def _side_outputs(self) -> DataStream:
        stream, rows = self._events()
        self.expected = Counter((key, -value if value % 2 else value) for key, value, _ in rows)
        even = stream.process(lambda value, _: [split_parities(value)])
        odd = even.get_side_output(ODD)
        return even.union(self._shuffled(odd).map(lambda row: (row[0], -row[1])))

    def _expect_summaries(self, groups: Iterable[tuple[int, int, int, list[Row]]]) -> None:
        self.expected = Counter((key, start, end, len(group), sum(_values(group))) for key, start, end, group in groups)


# -- the same by plain loops


def _values(rows: Iterable[Any]) -> list[int]:
    return [row[1] for row in rows]


def _text(values: Iterable[int]) -> str:
    return " ".join(map(str, values))


def _grouped(rows: Iterable[Any]) -> dict[int, list[Any]]:
    groups: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        groups[row[0]].append(row)
    return groups


def _by_key(rows: Iterable[Row]) -> dict[int, list[int]]:
    return {key: _values(group) for key, group in _grouped(rows).items()}


def _aligned(rows: Iterable[Row], size: int, slide: int) -> list[tuple[int, int, int, list[Row]]]:
    """(key, start, end, rows as they came)"""
    windows: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        for start in _starts(row[2], size, slide):
            windows[row[0], start].append(row)
    return [(key, start, start + size, group) for (key, start), group in windows.items()]


def _sessions(rows: Iterable[Any], gap: Callable[[Any], int]) -> list[tuple[int, int, int, list[Any]]]:
    """(key, start, end, rows): those that overlap or touch, from a row's time until its gap is over."""
    sessions = []
    for key, group in _grouped(rows).items():
        open_rows: list[Any] = []
        start = end = 0
        for row in sorted(group, key=lambda each: each[2]):
            if open_rows and row[2] > end:
                sessions.append((key, start, end, open_rows))
                open_rows = []
            start, end = (start, max(end, row[2] + gap(row))) if open_rows else (row[2], row[2] + gap(row))
            open_rows.append(row)
        sessions.append((key, start, end, open_rows))
    return sessions


def _co_grouped(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    left, right = [row.value for row in first], [row.value for row in second]
    return [(len(left), len(right), sum(left), sum(right))]
